"""The header of a safetensors file: bytes to tensors and back.

Format facts are from the safetensors README and the reference parser's `SafeTensors::read_metadata`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from remapfs.checkpoint.keys import refuse_duplicates
from remapfs.errors import RemapError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

LENGTH_BYTES = 8
MAX_HEADER = 100_000_000
HUB_MAX_HEADER = 25_000_000
PAGE = 4096
METADATA = "__metadata__"

_BITS = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip

_REDOWNLOAD = "the file is damaged or was written by a broken tool; download or export it again"


class Tensor(NamedTuple):
    """One entry of a header; `begin` and `end` are byte offsets from the start of the shard's data."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def length(self) -> int:
        """The number of bytes."""
        return self.end - self.begin


@dataclass(frozen=True, slots=True)
class Header:
    """What a shard says of itself.

    `length` is that of the JSON with its padding, in bytes: data starts at 8 + length. `metadata` is None
    where the header has none. `tensors` are in the order of (begin, end). `odd` lists what a strict reader
    would refuse and a new header makes moot.
    """

    length: int
    metadata: Mapping[str, str] | None
    tensors: tuple[Tensor, ...]
    odd: tuple[str, ...]
    unknown_dtypes: tuple[str, ...]

    @property
    def data_start(self) -> int:
        """The offset in the file at which tensor data starts."""
        return LENGTH_BYTES + self.length


def parse_header(raw: bytes, file: str, data_size: int) -> Header:
    """Read and validate the JSON of a header (without the 8 length bytes).

    `file` is named in errors; `data_size` is the number of bytes in the file behind the header.
    Raises RemapError for whatever could make a name mean other bytes than its writer meant.
    """
    decoded = _decode(raw, file)
    metadata, odd = _metadata(decoded, file)
    if not raw.startswith(b"{"):
        odd = (*odd, "white space before the header")
    elif not raw.endswith((b"}", b" ")):
        odd = (*odd, "header padded with something else than spaces")
    tensors, unknown = _tensors(decoded, file)
    end = tensors[-1].end if tensors else 0
    if end > data_size:
        last = tensors[-1]
        size = LENGTH_BYTES + len(raw)
        raise RemapError(
            f"{file} is truncated: tensor '{last.name}' ends at byte {size + end:,} "
            f"but the file has {size + data_size:,} bytes ({end - data_size:,} are missing)",
            "an interrupted download? fetch the file again",
        )
    if end < data_size:
        odd = (*odd, f"{data_size - end:,} trailing bytes ignored")
    holes = _holes(tensors, file)
    if holes:
        odd = (*odd, f"{holes:,} bytes between tensors closed up")
    return Header(len(raw), metadata, tensors, odd, unknown)


def encode_header(
    metadata: Mapping[str, str] | None, tensors: Iterable[Tensor], like: int, file: str = "a shard"
) -> bytes:
    """Write a whole header, length bytes included, that replaces one of `like` JSON bytes.

    The tensors' offsets are those of the new file, in order. Where the new JSON fits, the header keeps the
    old length; otherwise it grows by whole pages, so that data keeps its offset modulo 4096.
    Raises RemapError above 100,000,000 bytes, which readers refuse.
    """
    listed = list(tensors)
    middles = {
        (dtype, shape): f':{{"dtype":{_dump(dtype)},"shape":{_dump(shape)},"data_offsets":['
        for dtype, shape in {(tensor[1], tensor[2]) for tensor in listed}
    }
    # All names are looked at together: one by one, that took as long as all the rest.
    quoted = '"{}"'.format if _plain("".join([tensor[0] for tensor in listed])) else _dump
    parts = [] if metadata is None else [f'"{METADATA}":{_dump(dict(metadata))}']
    parts += [
        f"{quoted(name)}{middles[dtype, shape]}{begin},{end}]}}" for name, dtype, shape, begin, end in listed
    ]
    text = ("{" + ",".join(parts) + "}").encode()
    length = like if len(text) <= like else len(text) + (like - len(text)) % PAGE
    if length > MAX_HEADER:
        raise RemapError(
            f"{file}: its new header would have {length:,} bytes; readers refuse more than {MAX_HEADER:,}",
            "use shorter names, or drop tensors that are not needed",
        )
    return length.to_bytes(LENGTH_BYTES, "little") + text.ljust(length)


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _plain(name: str) -> bool:
    return name.isprintable() and '"' not in name and "\\" not in name


def _decode(raw: bytes, file: str) -> dict[str, Any]:
    try:
        decoded = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise RemapError(f"{file}: its header is not JSON: {error}", _REDOWNLOAD) from None
    if not isinstance(decoded, dict):
        raise RemapError(f"{file}: its header is not a JSON object", _REDOWNLOAD)
    count = len(decoded) - (METADATA in decoded)
    # The parser keeps the last of two equal keys without a word. Every entry spells "data_offsets" once, so
    # equal counts prove that there are none; an escape could hide one, so then the slow parser decides.
    if (
        raw.count(b'"data_offsets"') != count
        or raw.count(b'"' + METADATA.encode() + b'"') > 1
        or b"\\" in raw
    ):
        refuse_duplicates(raw, file, lambda key: _twice(key, file))
    return decoded


def _twice(key: str, file: str) -> RemapError:
    return RemapError(
        f"{file}: its header has the key '{key}' twice",
        "readers disagree on which one counts, so remapfs will not choose; export the file again",
    )


def _metadata(decoded: dict[str, Any], file: str) -> tuple[dict[str, str] | None, tuple[str, ...]]:
    if METADATA not in decoded:
        return None, ()
    metadata = decoded.pop(METADATA)
    if metadata is None:
        return None, (f"{METADATA} was null",)
    if not isinstance(metadata, dict):
        raise RemapError(f"{file}: {METADATA} is not an object of strings", _REDOWNLOAD)
    for key, value in metadata.items():
        if not isinstance(value, str):
            raise RemapError(
                f"{file}: {METADATA} has {_shown(value, 80)} for '{key}'; the format has only strings",
                "remapfs changes no value; write the file again with the value as a string",
            )
    return metadata, ()


def _tensors(decoded: dict[str, Any], file: str) -> tuple[tuple[Tensor, ...], tuple[str, ...]]:
    tensors: list[Tensor] = []
    append = tensors.append
    # Few distinct (dtype, shape) pairs occur in a checkpoint: each is checked once, and its objects shared.
    known: dict[tuple[Any, ...], tuple[str, tuple[int, ...], int | None]] = {}
    make = tuple.__new__
    for name, entry in decoded.items():
        try:
            dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
            key = (dtype, *shape)
            checked = known.get(key)
            if checked is None:
                checked = known[key] = _check_form(name, dtype, shape, file)
        except (KeyError, TypeError, ValueError):
            raise _bad_entry(file, name, entry) from None
        dtype, shape, length = checked
        if type(begin) is not int or type(end) is not int or not 0 <= begin <= end:
            raise _bad_entry(file, name, entry)
        if length is not None and end - begin != length:
            raise RemapError(
                f"{file}: tensor '{name}' is {dtype} {list(shape)}, which takes {length:,} bytes, "
                f"but its data_offsets [{begin}, {end}] span {end - begin:,}",
                _REDOWNLOAD,
            )
        append(make(Tensor, (name, dtype, shape, begin, end)))
    tensors.sort(key=itemgetter(3, 4))
    unknown = sorted({dtype for dtype, _, length in known.values() if length is None and dtype not in _BITS})
    return tuple(tensors), tuple(unknown)


def _check_form(
    name: str, dtype: object, shape: object, file: str
) -> tuple[str, tuple[int, ...], int | None]:
    if not isinstance(dtype, str) or not isinstance(shape, list):
        raise TypeError
    elements = 1
    for dimension in shape:
        if type(dimension) is not int or dimension < 0:
            raise ValueError
        elements *= dimension
    bits = _BITS.get(dtype)
    if bits is None:
        return dtype, tuple(shape), None
    length, rest = divmod(elements * bits, 8)
    if rest:
        raise RemapError(
            f"{file}: tensor '{name}' is {dtype} {shape}: {elements * bits} bits, not whole bytes",
            _REDOWNLOAD,
        )
    return dtype, tuple(shape), length


def _shown(value: object, most: int) -> str:
    try:
        return json.dumps(value)[:most]
    except RecursionError:
        return "nested too deeply"


def _bad_entry(file: str, name: str, entry: object) -> RemapError:
    return RemapError(
        f"{file}: the entry of tensor '{name}' is not of the form dtype, shape, data_offsets: "
        f"{_shown(entry, 120)}",
        _REDOWNLOAD,
    )


def _holes(tensors: tuple[Tensor, ...], file: str) -> int:
    holes = tensors[0].begin if tensors else 0
    for before, after in pairwise(tensors):
        if after.begin != before.end:
            if after.begin < before.end:
                raise RemapError(
                    f"{file}: tensors '{before.name}' and '{after.name}' overlap "
                    f"([{before.begin}, {before.end}] and [{after.begin}, {after.end}])",
                    _REDOWNLOAD,
                )
            holes += after.begin - before.end
    return holes
