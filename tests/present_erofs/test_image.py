"""Images as the tests' own reader and erofs-utils read them."""

from __future__ import annotations

import random
import shutil
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from present_erofs.images import ATTRIBUTES, ROOT, UUID, image_bytes, image_of, source_of, written
from properties.checkpoints import Sample, samples
from properties.test_presented_bytes import whole
from remapfs.checkpoint.source import Attributes
from remapfs.plan.extents import Literal, Slice, VirtualFile
from remapfs.plan.tree import Directory
from remapfs.present.erofs.layout import CHUNK

if TYPE_CHECKING:
    from pathlib import Path

    from remapfs.plan.extents import Extent

BLOCK = 4096
needs_fsck = pytest.mark.skipif(shutil.which("fsck.erofs") is None, reason="erofs-utils is not installed")


def random_bytes(size: int, seed: int = 1) -> bytes:
    """Make bytes in which a shifted or repeated part is noticed."""
    return random.Random(seed).randbytes(size)  # noqa: S311  # test data


def tree_of(tmp_path: Path) -> tuple[list[VirtualFile], list[Directory]]:
    """Plan files of every kind, in directories."""
    shard = written(tmp_path / "shard", random_bytes(3 * CHUNK + 1234))
    plain = written(tmp_path / "plain", random_bytes(2 * CHUNK, 2))
    contents: dict[str, list[Extent]] = {
        "config.json": [Literal(b"{}\n")],
        "deep/er/empty": [],
        "deep/er/model.safetensors": [Literal(b"h" * 5096), Slice(shard, 1000, shard.size - 1000)],
        "deep/plain.bin": [Slice(plain, 0, plain.size)],
        "deep/small": [Slice(plain, 5, 70_000)],
        "mixed": [Slice(plain, 0, CHUNK), Literal(b"x" * CHUNK), Slice(shard, 2 * CHUNK, CHUNK + 1234)],
        "name, with \u00e9 and \udcff": [Literal(b"odd")],
    }
    files = [VirtualFile.of(path, extents, ATTRIBUTES) for path, extents in contents.items()]
    folder = Attributes(0o550, 1000, 4_000_000_000, -1_500_000_000)
    return files, [ROOT, Directory("deep", folder), Directory("deep/er", folder)]


def test_every_file_has_its_bytes_and_attributes(tmp_path: Path) -> None:
    """Also times before 1970 and large group ids; inode numbers are the tree's."""
    files, directories = tree_of(tmp_path)
    inodes = image_of(files, directories).inodes
    assert set(inodes) == {file.path for file in files} | {folder.path for folder in directories}
    for file in files:
        inode = inodes[file.path]
        assert inode.data == whole(file)
        assert (inode.mode, inode.links) == (stat.S_IFREG | 0o444, 1)
        assert (inode.uid, inode.gid, inode.mtime_ns) == (12, 34, 1_600_000_000_987_654_321)
    folder = inodes["deep/er"]
    assert (folder.mode, folder.links) == (stat.S_IFDIR | 0o550, 2)
    assert (folder.uid, folder.gid, folder.mtime_ns) == (1000, 4_000_000_000, -1_500_000_000)
    assert sorted(inode.number for inode in inodes.values()) == list(range(1, len(inodes) + 1))


def test_tensors_are_not_in_the_image(tmp_path: Path) -> None:
    """Of a shard of 40 MiB it has the first and the last chunk."""
    shard = written(tmp_path / "shard", bytes(40 << 20))
    file = VirtualFile.of("a", [Literal(b"h" * 999), Slice(shard, 999, shard.size - 1001)], ATTRIBUTES)
    image = image_of([file])
    assert len(image.image) < 2 * CHUNK + 5 * BLOCK
    assert image.inodes["a"].devices.count(1) == (40 << 20) // BLOCK - 2 * CHUNK // BLOCK


def test_a_directory_of_5000_entries_takes_many_blocks() -> None:
    """Sorted over all of them, with `.` and `..` in their places among names that sort before."""
    names = [f"-{number:05}" + "x" * (number % 200) for number in range(5000)]
    files = [VirtualFile.of(f"many/{name}", [Literal(name.encode())], ATTRIBUTES) for name in names]
    image = image_of(files, [ROOT, Directory("many", ROOT.attributes)])
    assert len(image.inodes) == 5002
    assert image.inodes["many"].size > 100 * BLOCK
    assert all(image.inodes[f"many/{name}"].data == name.encode() for name in names)


def test_names_of_every_length_and_a_full_block_fit() -> None:
    """255 bytes is the longest name; a block that is full to its last byte has no padding."""
    # `.` and `..` take 27 bytes: 15 names of 255 bytes and one of 52 fill the block.
    names = [chr(ord("a") + number) * 255 for number in range(15)] + ["z" * 52, "~"]
    files = [VirtualFile.of(name, [], ATTRIBUTES) for name in names]
    image = image_of(files)
    assert image.inodes[""].size == BLOCK + 12 + 1
    assert set(image.inodes) == {"", *names}


def test_the_same_plan_gives_the_same_image(tmp_path: Path) -> None:
    """Nothing in it depends on when it is made."""
    files, directories = tree_of(tmp_path)
    image = image_bytes(files, directories)
    assert image == image_bytes(files, directories)
    assert image[1024 + 48 : 1024 + 64] == UUID
    assert image[1024 + 64 : 1024 + 80] == b"remapfs".ljust(16, b"\0")


def test_300_devices_reach_over_several_blocks(tmp_path: Path) -> None:
    """The device table is as long as it has to be; each file gets the bytes of its own source."""
    files = []
    for number in range(300):
        source = written(tmp_path / f"{number}", random_bytes(16, number) * 512)
        files.append(VirtualFile.of(f"{number:03}", [Slice(source, 0, 8192)], ATTRIBUTES))
    image = image_of(files, chunk=BLOCK)
    assert len(image.devices) == 300
    assert all(image.inodes[file.path].data == whole(file) for file in files)


def complaints(image: Path, *arguments: str) -> list[str]:
    """Check an image with fsck.erofs, whose exit code is 0 even if it finds something."""
    command = ["fsck.erofs", "-d3", *arguments, str(image)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    said = (run.stdout + run.stderr).splitlines()
    if not any("No errors found" in line for line in said):
        return said
    return [line for line in said if line.startswith("<E>") or ("rror" in line and "No errors" not in line)]


@needs_fsck
def test_fsck_erofs_accepts_the_image(tmp_path: Path) -> None:
    """Its structure, for every kind of file; fsck.erofs 1.5 opens the devices one by one."""
    files, directories = tree_of(tmp_path)
    names = [f"deep/{number:04}" for number in range(2000)]
    files += [VirtualFile.of(name, [Literal(b"x")], ATTRIBUTES) for name in names]
    (tmp_path / "image").write_bytes(image_bytes(files, directories))
    devices = [f"--device={tmp_path / name}" for name in ("shard", "plain")]
    assert complaints(tmp_path / "image", *devices) == []


@needs_fsck
def test_fsck_erofs_notices_a_changed_superblock(tmp_path: Path) -> None:
    """So that the test above can fail."""
    image = bytearray(image_bytes([VirtualFile.of("a", [Literal(b"x")], ATTRIBUTES)]))
    image[1024 + 50] ^= 1
    (tmp_path / "image").write_bytes(image)
    assert any("checksum" in line for line in complaints(tmp_path / "image"))


@st.composite
def contents(draw: st.DrawFn, sizes: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Draw extents: the number of a source, or -1 for a literal; an offset and a length."""
    extents = []
    near_block = st.builds(
        lambda block, by: max(block * BLOCK + by, 0), st.integers(0, 12), st.integers(-2, 2)
    )
    position = 0
    for _ in range(draw(st.integers(0, 4))):
        number = draw(st.integers(-1, len(sizes) - 1))
        length = draw(near_block)
        if number < 0:
            extents.append((number, 0, length))
            position += length
            continue
        offset = draw(near_block)
        if draw(st.booleans()):
            offset += (position - offset) % BLOCK  # in step
        offset = min(offset, sizes[number])
        length = min(length, sizes[number] - offset) if draw(st.booleans()) else sizes[number] - offset
        extents.append((number, offset, length))
        position += length
    return extents


@settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
@given(sample=samples(), chunk=st.sampled_from([BLOCK, CHUNK]))
def test_any_checkpoint_reads_from_the_image_as_planned(sample: Sample, chunk: int) -> None:
    """Random shards and rules, as the other presenters are tested with."""
    with sample.on_disk() as root:
        plan = sample.plan(root)
        inodes = image_of(plan.files, plan.directories, chunk).inodes
        assert {path: inode.data for path, inode in inodes.items() if path} == {
            file.path: whole(file) for file in plan.files
        }


SIZES = (9 * BLOCK + 17, 16 * BLOCK, 5 * BLOCK - 1)


@settings(deadline=None, max_examples=300)
@given(
    plans=st.lists(contents(SIZES), min_size=1, max_size=4),
    chunk=st.sampled_from([BLOCK, 2 * BLOCK, 4 * BLOCK, CHUNK]),
)
def test_any_plan_reads_from_the_image_and_its_devices_as_the_extents_say(
    plans: list[list[tuple[int, int, int]]], chunk: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """In step or not, with seams and ends anywhere; no block of a device is cut short by its end."""
    folder = tmp_path_factory.getbasetemp() / "sources"
    folder.mkdir(exist_ok=True)
    sources = []
    for number, size in enumerate(SIZES):
        path = folder / str(number)
        if not path.exists():
            path.write_bytes(random_bytes(size, number))
        sources.append(source_of(path))
    files = [
        VirtualFile.of(
            f"{index}",
            [
                Slice(sources[number], offset, length) if number >= 0 else Literal(b"h" * length)
                for number, offset, length in extents
            ],
            ATTRIBUTES,
        )
        for index, extents in enumerate(plans)
    ]
    image = image_of(files, chunk=chunk)
    assert {path: inode.data for path, inode in image.inodes.items() if path} == {
        file.path: whole(file) for file in files
    }
