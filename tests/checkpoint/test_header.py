"""The header of a shard: bytes to tensors and back."""

from __future__ import annotations

import json
from itertools import accumulate
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remapfs import RemapError
from remapfs.checkpoint.header import LENGTH_BYTES, Tensor, encode_header, parse_header

FILE = "model.safetensors"
GOOD = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}
_SIZES = {"BOOL": 1, "F8_E4M3": 1, "BF16": 2, "F32": 4, "C64": 8, "F4": 0.5}


def parse(header: object, data_size: int = 2) -> object:
    """Parse a header given as a document or as text."""
    text = header if isinstance(header, str) else json.dumps(header)
    return parse_header(text.encode(), FILE, data_size)


def refusal(header: object, data_size: int = 2) -> str:
    """Give the message of a refusal, which has a hint too."""
    with pytest.raises(RemapError) as caught:
        parse(header, data_size)
    assert caught.value.hint
    assert FILE in caught.value.message
    return caught.value.message


_NAMES = st.text(max_size=6).filter(lambda name: name != "__metadata__")
_ENTRIES = st.dictionaries(
    _NAMES,
    st.tuples(
        st.sampled_from(sorted(_SIZES)), st.lists(st.integers(0, 4), max_size=3).map(lambda s: [*s, 2])
    ),
    max_size=6,
)


@settings(deadline=None, max_examples=200)
@given(_ENTRIES, st.none() | st.dictionaries(st.text(max_size=4), st.text(max_size=4)), st.integers(0, 5000))
def test_what_is_written_is_read_back(
    entries: dict[str, tuple[str, list[int]]], metadata: dict[str, str] | None, like: int
) -> None:
    """Any names and metadata; nothing about it is unusual."""
    lengths = [int(prod(shape) * _SIZES[dtype]) for dtype, shape in entries.values()]
    ends = list(accumulate(lengths))
    tensors = [
        Tensor(name, dtype, tuple(shape), end - length, end)
        for (name, (dtype, shape)), end, length in zip(entries.items(), ends, lengths, strict=True)
    ]
    raw = encode_header(metadata, tensors, like)
    length = int.from_bytes(raw[:LENGTH_BYTES], "little")
    assert len(raw) == LENGTH_BYTES + length
    assert length == like or (length > like and (length - like) % 4096 == 0)
    header = parse_header(raw[LENGTH_BYTES:], FILE, ends[-1] if ends else 0)
    assert header.tensors == tuple(sorted(tensors, key=lambda tensor: tensor[3:]))
    assert header.metadata == metadata
    assert (header.length, header.data_start) == (length, LENGTH_BYTES + length)
    assert (header.odd, header.unknown_dtypes) == ((), ())


@pytest.mark.parametrize("text", ["[]", "1", "null", '"x"'])
def test_a_header_is_an_object(text: str) -> None:
    """Whatever else JSON can be is refused."""
    assert refusal(text) == f"{FILE}: its header is not a JSON object"


@pytest.mark.parametrize("text", ["", "{", '{"a":}', "\x00", '{"a":NaN}'])
def test_a_header_is_json(text: str) -> None:
    """With the parser's sentence."""
    assert refusal(text).startswith(f"{FILE}: its header is not JSON: ")


@pytest.mark.parametrize(
    "entry",
    [
        1,
        None,
        [],
        {},
        {"dtype": "U8", "shape": [2]},
        {**GOOD, "dtype": 8},
        {**GOOD, "shape": 2},
        {**GOOD, "shape": "2"},
        {**GOOD, "shape": [-2]},
        {**GOOD, "shape": [2.0]},
        {**GOOD, "shape": [True]},
        {**GOOD, "shape": [[2]]},
        {**GOOD, "data_offsets": [0]},
        {**GOOD, "data_offsets": [0, 2, 4]},
        {**GOOD, "data_offsets": [0.0, 2]},
        {**GOOD, "data_offsets": [2, 0]},
        {**GOOD, "data_offsets": [-2, 0]},
        {**GOOD, "data_offsets": "02"},
    ],
    ids=json.dumps,
)
def test_an_entry_of_another_form_is_refused(entry: object) -> None:
    """The tensor is named and the entry shown."""
    message = refusal({"a.weight": entry})
    assert message.startswith(
        f"{FILE}: the entry of tensor 'a.weight' is not of the form dtype, shape, data_offsets: "
    )
    assert message.endswith(json.dumps(entry))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (
            {"a": {**GOOD, "shape": [3]}},
            "tensor 'a' is U8 [3], which takes 3 bytes, but its data_offsets [0, 2] span 2",
        ),
        ({"a": {**GOOD, "dtype": "F4", "shape": [3]}}, "tensor 'a' is F4 [3]: 12 bits, not whole bytes"),
        (
            {"a": GOOD, "b": {**GOOD, "data_offsets": [1, 3]}},
            "tensors 'a' and 'b' overlap ([0, 2] and [1, 3])",
        ),
        ({"__metadata__": []}, "__metadata__ is not an object of strings"),
        (
            {"__metadata__": {"step": 3}},
            "__metadata__ has 3 for 'step'; the format has only strings",
        ),
    ],
)
def test_what_contradicts_itself_is_refused(header: object, message: str) -> None:
    """Names would mean other bytes than their writer meant."""
    assert refusal(header, 100) == f"{FILE}: {message}"


@pytest.mark.parametrize(
    "text",
    [
        '{"a":%s,"a":%s}',
        '{"a":%s,"\\u0061":%s}',
        '{"__metadata__":{},"a":%s,"b":%s,"__metadata__":{}}',
        '{"__metadata__":{"k":"1","k":"2\\u0020"},"a":%s,"b":%s}',
        '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2],"data_offsets":[0,2]}}',
    ],
)
def test_a_key_that_stands_twice_is_refused(text: str) -> None:
    """Readers disagree on which one counts, even where an escape hides that they are equal."""
    first, second = json.dumps(GOOD), json.dumps({**GOOD, "data_offsets": [2, 4]})
    message = refusal(text % (first, second) if "%s" in text else text, 4)
    assert " twice" in message


def test_a_truncated_file_says_how_much_is_missing() -> None:
    """In bytes of the file, as `ls` shows them."""
    text = json.dumps({"a": {**GOOD, "shape": [5000], "data_offsets": [0, 5000]}})
    size = 8 + len(text)
    assert refusal(text, 1000) == (
        f"{FILE} is truncated: tensor 'a' ends at byte {size + 5000:,} "
        f"but the file has {size + 1000:,} bytes (4,000 are missing)"
    )


@pytest.mark.parametrize(
    ("text", "size", "odd"),
    [
        ('{"a":%s}', 5, "3 trailing bytes ignored"),
        (' {"a":%s}', 2, "white space before the header"),
        ('{"a":%s}\n', 2, "header padded with something else than spaces"),
        ('{"__metadata__":null,"a":%s}', 2, "__metadata__ was null"),
        ('{"a":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}}', 5, "3 bytes between tensors closed up"),
    ],
)
def test_what_a_strict_reader_refuses_is_noted(text: str, size: int, odd: str) -> None:
    """A new header makes it moot."""
    raw = text.replace("%s", json.dumps(GOOD)).encode()
    assert parse_header(raw, FILE, size).odd == (odd,)


def test_a_dtype_that_is_not_known_takes_its_size_from_the_offsets() -> None:
    """The format grows; bytes pass through."""
    header = parse_header(json.dumps({"a": {**GOOD, "dtype": "F7"}}).encode(), FILE, 2)
    assert header.unknown_dtypes == ("F7",)
    assert header.odd == ()


def test_tensors_are_in_the_order_of_their_data() -> None:
    """Empty ones before those that start at the same place."""
    entries = {
        "z": {**GOOD, "data_offsets": [2, 4]},
        "b": GOOD,
        "none": {"dtype": "F32", "shape": [0, 3], "data_offsets": [2, 2]},
    }
    header = parse_header(json.dumps(entries).encode(), FILE, 4)
    assert [tensor.name for tensor in header.tensors] == ["b", "none", "z"]


def test_a_new_header_that_readers_would_refuse_is_refused() -> None:
    """By the file's name."""
    tensor = Tensor("n" * 100_000_001, "U8", (2,), 0, 2)
    with pytest.raises(
        RemapError, match=r"^model.safetensors: its new header would have 100,0\d\d,\d\d\d bytes"
    ):
        encode_header(None, [tensor], 100, FILE)
