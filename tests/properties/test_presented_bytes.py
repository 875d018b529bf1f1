"""What is read through a plan, for random checkpoints and rules."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from properties.checkpoints import INDEX, Sample, samples
from remapfs import open_file
from remapfs.plan import Literal, dump

if TYPE_CHECKING:
    from remapfs.plan import Plan, VirtualFile

PAGE = 4096
bounded = settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)


def whole(file: VirtualFile) -> bytes:
    """Put a file together from its extents, as simply as possible."""
    return b"".join(
        extent.data
        if isinstance(extent, Literal)
        else Path(extent.source.path).read_bytes()[extent.offset : extent.offset + extent.length]
        for extent in file.extents
    )


def presented_names(plan: Plan) -> dict[str, dict[str, str]]:
    """Map each shard to its presented names, and those to the names on disk."""
    return {
        planned.shard.file.path: {
            **{
                name: tensor.name
                for tensor, name in zip(planned.shard.header.tensors, planned.names, strict=True)
                if name is not None
            },
            **{name: planned.shard.header.tensors[position].name for position, name in planned.aliases},
        }
        for planned in plan.shards
    }


def header_of(content: bytes) -> tuple[int, dict[str, Any]]:
    """Give the length of a header and what it says."""
    length = int.from_bytes(content[:8], "little")
    decoded: dict[str, Any] = json.loads(content[8 : 8 + length])
    return length, decoded


@bounded
@given(samples(), st.data())
def test_any_read_equals_the_concatenation_of_the_extents(sample: Sample, data: st.DataObject) -> None:
    """From any offset, for any size, past the end too."""
    with sample.on_disk() as root:
        for file in sample.plan(root).files:
            content = whole(file)
            assert file.size == len(content)
            near = st.sampled_from([*file.starts, file.size]).flatmap(lambda at: st.integers(at - 3, at + 3))
            for _ in range(4):
                offset = data.draw((near | st.integers(0, file.size + 5)).map(lambda at: max(at, 0)))
                size = data.draw(st.integers(0, 20) | st.integers(0, file.size + 5))
                with open_file(file) as stream:
                    stream.seek(offset)
                    assert stream.read(size) == content[offset : offset + size]


@bounded
@given(samples())
def test_every_shard_opens_strictly_and_holds_the_source_s_tensors(sample: Sample) -> None:
    """The reference parser finds exactly the plan's names, each with the dtype, shape and bytes on disk."""
    with sample.on_disk() as root:
        plan = sample.plan(root)
        files = {file.path: file for file in plan.files}
        for path, names in presented_names(plan).items():
            with open_file(files[path]) as stream:
                found = dict(safetensors.deserialize(stream.read()))  # type: ignore[no-untyped-call]  # in Rust
            assert found.keys() == names.keys()
            for new, old in names.items():
                entry = sample.entries[old]
                assert found[new]["dtype"] == entry.dtype
                assert tuple(found[new]["shape"]) == entry.shape
                assert bytes(found[new]["data"]) == entry.data


@bounded
@given(samples())
def test_data_keeps_its_place_in_a_page(sample: Sample) -> None:
    """The header keeps its length where the new text fits, or else grows by as few whole pages as hold it."""
    with sample.on_disk() as root:
        plan = sample.plan(root)
        files = {file.path: whole(file) for file in plan.files}
        for planned in plan.shards:
            content = files[planned.shard.file.path]
            length, _ = header_of(content)
            text = len(content[8 : 8 + length].rstrip(b" "))
            before = planned.shard.header.length
            pages = 0 if text <= before else -(-(text - before) // PAGE)
            assert length == before + pages * PAGE


@bounded
@given(samples())
def test_metadata_stays_what_it_was(sample: Sample) -> None:
    """Absent, empty or filled: none becomes another."""
    with sample.on_disk() as root:
        files = {file.path: whole(file) for file in sample.plan(root).files}
        for shard in sample.shards:
            assert header_of(files[shard.path])[1].get("__metadata__") == shard.metadata


@bounded
@given(samples())
def test_the_index_says_what_the_headers_say(sample: Sample) -> None:
    """Its names are those in the headers, each with its shard; a size that is counted anew is theirs."""
    with sample.on_disk() as root:
        plan = sample.plan(root)
        files = {file.path: whole(file) for file in plan.files}
        if not sample.indexed:
            assert INDEX not in files
            return
        index = json.loads(files[INDEX])
        headers = {
            name: shard.path
            for shard in sample.shards
            for name in header_of(files[shard.path])[1]
            if name != "__metadata__"
        }
        assert index["weight_map"] == headers
        if any(None in planned.names or planned.aliases for planned in plan.shards):
            sizes = [
                len(sample.entries[old].data)
                for names in presented_names(plan).values()
                for old in names.values()
            ]
            assert index["metadata"]["total_size"] == sum(sizes)
        else:
            assert index["metadata"]["total_size"] == 1


@bounded
@given(samples())
def test_the_same_checkpoint_gives_the_same_plan(sample: Sample) -> None:
    """Read and planned twice, and as another copy elsewhere, its dump is identical."""
    with sample.on_disk() as root, sample.on_disk() as copy:
        first = list(dump(sample.plan(root)))
        assert list(dump(sample.plan(root))) == first
        assert list(dump(sample.plan(copy))) == first
