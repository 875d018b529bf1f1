"""Inputs made from kept ones: bits flipped, parts cut, repeated, moved between inputs, odd tokens put in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

CORPUS = Path(__file__).with_name("corpus")
LARGEST = 1 << 16
_TOKENS = (
    b"{}", b"[]", b'""', b"null", b"true", b"-1", b"0", b"1e999", b"NaN", b"18446744073709551615", b"9" * 40,
    b'"__metadata__"', b'"data_offsets"', b"../", b"/", b"\\u0000", b"\\ud800", b"\0", b"\n", b"\x1b[31m",
    b"\xff\xfe", b"\xef\xbb\xbf", "ü".encode(), b"[" * 1200, b'{"a":' * 1200, b"(" * 1200, b"{{prefix}}",
    b"[[rename]]\n", b"[[json]]\n", b"extends = 'rules.toml'\n", b"preset = 'strip-prefix'\n", b"\xff" * 8,
    bytes(40),
)  # fmt: skip


def kept(target: str) -> list[bytes]:
    """Read the inputs that are kept for a target."""
    return [path.read_bytes() for path in sorted((CORPUS / target).iterdir())]


def mutate(chance: random.Random, inputs: Sequence[bytes]) -> bytes:
    """Change one of the inputs in a few places."""
    data = bytearray(chance.choice(inputs))
    for _ in range(chance.randint(1, 6)):
        begin = chance.randint(0, len(data))
        end = min(begin + chance.randint(0, 64), len(data))
        match chance.randrange(8):
            case 0 if data:
                data[begin % len(data)] ^= 1 << chance.randrange(8)
            case 1 if data:
                data[begin % len(data)] = chance.randrange(256)
            case 2:
                del data[begin:]
            case 3:
                del data[begin:end]
            case 4:
                data[begin:begin] = data[begin:end] * chance.randint(1, 20)
            case 5:
                data[begin:end] = chance.choice(_TOKENS)
            case 6:
                other = chance.choice(inputs)
                data[begin:] = other[chance.randint(0, len(other)) :]
            case _:
                other = chance.choice(inputs)
                start = chance.randint(0, len(other))
                data[begin:end] = other[start : start + chance.randint(0, 200)]
    return bytes(data[:LARGEST])
