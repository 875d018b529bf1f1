"""Mounts and exports compared with their source."""

from __future__ import annotations

import errno
import json
import os
import re
from typing import TYPE_CHECKING

import pytest

from export.sources import LARGE, RENAME, plan_of, write_source
from mounting import missing, mounted, remapfs
from remapfs.errors import RemapError, RuntimeFailure
from remapfs.present.reflink import ExportOptions, export_plan
from remapfs.verify import Difference, Equal, compare, verify_plan

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Write a source, and rules beside it."""
    (tmp_path / "rules.toml").write_text(RENAME)
    return write_source(tmp_path / "src")


@pytest.fixture
def exported(source: Path) -> Path:
    """Export the source, to files that can be changed."""
    target = source.parent / "dst"
    export_plan(plan_of(source), str(target), ExportOptions())
    for path in target.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return target


def flip(path: Path, offset: int, bit: int = 0) -> None:
    """Flip one bit of a file."""
    with path.open("r+b") as stream:
        stream.seek(offset)
        byte = stream.read(1)[0]
        stream.seek(offset)
        stream.write(bytes([byte ^ 1 << bit]))


def tensor_place(path: Path, name: str) -> tuple[int, int]:
    """Say from where to where a tensor lies in a shard."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    begin, end = json.loads(content[8 : 8 + length])[name]["data_offsets"]
    return 8 + length + begin, 8 + length + end


def difference(source: Path, directory: Path, sample: int | None = None) -> Difference:
    """Compare, and return the difference, which there must be."""
    answer = verify_plan(plan_of(source), str(directory), sample)
    assert isinstance(answer, Difference)
    return answer


def test_an_export_is_equal(source: Path, exported: Path) -> None:
    """One line, and exit code 0."""
    run = remapfs("verify", exported, source, "--rules", source.parent / "rules.toml")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == "equal: 9 tensors in 3 shards, 6 files, 18.9 MB compared\n"


def test_a_sample_reads_less(source: Path, exported: Path) -> None:
    """The line says that it was one."""
    run = remapfs("verify", exported, source, "--rules", source.parent / "rules.toml", "--sample", "2")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == (
        "equal: 9 tensors in 3 shards, 6 files, 6.3 MB compared, a sample of 2 MiB of each\n"
    )


def test_json(source: Path, exported: Path) -> None:
    """Of either answer."""
    arguments = ["verify", str(exported), str(source), "--rules", f"{source.parent}/rules.toml", "--json"]
    equal = json.loads(remapfs(*arguments).stdout)
    assert (equal["equal"], equal["tensors"], equal["shards"], equal["files"]) == (True, 9, 3, 6)
    flip(exported / "config.json", 3)
    run = remapfs(*arguments)
    assert run.returncode == 1
    assert json.loads(run.stdout) == {
        "equal": False,
        "file": "config.json",
        "text": "byte 3 of the file is 0x73, not what the source has",
        "tensor": None,
        "offset": 3,
    }


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_mount_is_equal(source: Path) -> None:
    """Served by remapfs' own server."""
    arguments = ["--rules", str(source.parent / "rules.toml")]
    with mounted(source, arguments) as mountpoint:
        run = remapfs("verify", mountpoint, source, *arguments)
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout == "equal: 9 tensors in 3 shards, 6 files, 18.9 MB compared\n"


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_mount_by_other_rules(source: Path) -> None:
    """The names are those of the rules that verify is given, or it is said which are not."""
    with mounted(source) as mountpoint:
        run = remapfs("verify", mountpoint, source, "--rules", source.parent / "rules.toml")
    assert run.returncode == 1
    assert run.stdout == (
        "different: m-0.safetensors, tensor 'language_model.0.a': it lacks 'language_model.0.a', "
        "'language_model.0.small', 'language_model.0.z'\n"
    )


@pytest.mark.parametrize("where", ["first", "middle", "last"])
@pytest.mark.parametrize("bit", [0, 7])
@pytest.mark.parametrize("name", ["language_model.1.a", "language_model.1.small", "language_model.1.z"])
def test_one_flipped_bit_is_found_and_named(
    source: Path, exported: Path, name: str, bit: int, where: str
) -> None:
    """File, tensor, the byte in either, and what stands there."""
    shard = exported / "m-1.safetensors"
    start, end = tensor_place(shard, name)
    offset = {"first": start, "middle": (start + end) // 2, "last": end - 1}[where]
    flip(shard, offset, bit)
    found = difference(source, exported)
    assert (found.file, found.tensor, found.offset) == ("m-1.safetensors", name, offset)
    byte = shard.read_bytes()[offset]
    assert found.text == (
        f"byte {offset - start:,} of the tensor, byte {offset:,} of the file is 0x{byte:02x}, "
        "not what the source has"
    )


def test_the_line_of_a_difference(source: Path, exported: Path) -> None:
    """On stdout, with exit code 1."""
    start, _ = tensor_place(exported / "other.safetensors", "vision.z")
    flip(exported / "other.safetensors", start + 1_000)
    run = remapfs("verify", exported, source, "--rules", source.parent / "rules.toml")
    assert (run.returncode, run.stderr) == (1, "")
    assert re.fullmatch(
        r"different: other\.safetensors, tensor 'vision\.z': byte 1,000 of the tensor, "
        r"byte 3,[0-9,]+ of the file is 0x[0-9a-f]{2}, not what the source has\n",
        run.stdout,
    )


def test_the_first_of_several_differences(source: Path, exported: Path) -> None:
    """In the order of the paths and of the bytes, whichever thread is faster."""
    start, end = tensor_place(exported / "m-0.safetensors", "language_model.0.z")
    for offset in (end - 1, start + LARGE // 2, start + 7):
        flip(exported / "m-0.safetensors", offset)
    flip(exported / "m-1.safetensors", start)
    assert difference(source, exported).offset == start + 7


@pytest.mark.parametrize("path", ["m-0.safetensors", "m-1.safetensors"])
def test_a_sample_finds_what_it_reads(source: Path, exported: Path, path: str) -> None:
    """The first and the last MiB are always among it, and so is the header."""
    size = (exported / path).stat().st_size
    flip(exported / path, size - 1)
    assert difference(source, exported, sample=2).offset == size - 1


def test_another_dtype(source: Path, exported: Path) -> None:
    """It is said, with the shape, before any byte is compared."""
    shard = exported / "m-0.safetensors"
    shard.write_bytes(shard.read_bytes().replace(b'"dtype":"U8"', b'"dtype":"I8"', 1))
    found = difference(source, exported)
    assert found.tensor == "language_model.0.a"
    assert found.text == f"it is I8 [{LARGE + 5}], in the source U8 [{LARGE + 5}]"


def test_the_padding_of_a_header(source: Path, exported: Path) -> None:
    """It belongs to no tensor, and is compared all the same; in a sample too."""
    start, _ = tensor_place(exported / "m-0.safetensors", "language_model.0.a")
    with (exported / "m-0.safetensors").open("r+b") as stream:
        stream.seek(start - 2)
        stream.write(b"\n")
    for sample in (None, 1):
        found = difference(source, exported, sample)
        assert (found.tensor, found.offset) == (None, start - 2)


@pytest.mark.parametrize("damage", ["length", "not JSON", "cut off", "longer"])
def test_a_shard_whose_form_is_broken(source: Path, exported: Path, damage: str) -> None:
    """It is named, with what is wrong."""
    shard = exported / "m-0.safetensors"
    if damage == "length":
        flip(shard, 6)
    elif damage == "not JSON":
        flip(shard, 8)
    else:
        os.truncate(shard, shard.stat().st_size + (1 if damage == "longer" else -1))
    found = difference(source, exported)
    assert found.file == "m-0.safetensors"
    size = shard.stat().st_size
    assert {
        "length": "its header would have ",
        "not JSON": "its header is not JSON",
        "cut off": "is truncated: tensor 'language_model.0.z' ends at byte ",
        "longer": f"it has {size:,} bytes, and must have {size - 1:,}",
    }[damage] in found.text


def test_other_files_are_compared(source: Path, exported: Path) -> None:
    """What the plan wrote, and what it passes through."""
    flip(exported / "sub" / "notes.txt", 10_000)
    found = difference(source, exported)
    assert (found.file, found.tensor, found.offset) == ("sub/notes.txt", None, 10_000)


def test_a_file_that_is_missing_or_too_many(source: Path, exported: Path) -> None:
    """A loader would take a shard that is too many."""
    (exported / "more.safetensors").write_bytes(b"x")
    assert difference(source, exported) == Difference("more.safetensors", "the plan has no such file")
    (exported / "empty").unlink()
    assert difference(source, exported) == Difference("empty", "it does not exist")


def test_the_top_of_a_file_system(source: Path, exported: Path) -> None:
    """Ext4 keeps lost+found there, which is no file of a checkpoint."""
    (exported / "lost+found").mkdir()
    assert isinstance(verify_plan(plan_of(source), str(exported)), Equal)


def test_swapped_tensors_are_found(source: Path, exported: Path) -> None:
    """A header that gives a tensor another's bytes is wrong, though every byte is somewhere."""
    one, two = exported / "m-0.safetensors", exported / "m-1.safetensors"
    start, end = tensor_place(one, "language_model.0.a")
    first, second = one.read_bytes(), two.read_bytes()
    one.write_bytes(first[:start] + second[start:end] + first[end:])
    found = difference(source, exported)
    assert (found.tensor, found.offset is not None and start <= found.offset < end) == (
        "language_model.0.a",
        True,
    )


def test_a_directory_that_cannot_be_looked_at(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not exist, is no directory, or is a dead mount: exit code 2."""
    run = remapfs("verify", "/nowhere", source)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.splitlines()[0] == "error: /nowhere does not exist"
    run = remapfs("verify", source / "config.json", source)
    assert run.returncode == 2
    assert run.stderr.splitlines()[0] == f"error: {source}/config.json is not a directory"

    def dead(_: str) -> os.stat_result:
        raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))

    monkeypatch.setattr(compare, "os", _Patched(dead))
    with pytest.raises(RemapError) as caught:
        verify_plan(plan_of(source), "/mnt/v4")
    assert caught.value.message == "the mount at /mnt/v4 is dead: its server is gone"
    assert caught.value.exit_code == 2


class _Patched:
    """The os module with another stat."""

    def __init__(self, stat: object) -> None:
        self.stat = stat

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)


@pytest.fixture
def failing_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every read of a file fail."""

    def fail(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(compare, "read_at", fail)


@pytest.mark.usefixtures("failing_reads")
def test_what_cannot_be_read(source: Path, exported: Path) -> None:
    """It is no difference: exit code 1 with an error."""
    with pytest.raises(RuntimeFailure, match="Input/output error"):
        verify_plan(plan_of(source), str(exported))


def test_a_source_that_changed(source: Path, exported: Path) -> None:
    """It is said, and not taken for a difference of the other side."""
    plan = plan_of(source)
    os.utime(source / "m-0.safetensors")
    with pytest.raises(RuntimeFailure, match=r"m-0\.safetensors: changed since it was planned"):
        verify_plan(plan, str(exported))


def test_export_verify_says_what_differs(source: Path, exported: Path) -> None:
    """Also in what an earlier run wrote: its size and time are as they were."""
    before = (exported / "m-0.safetensors").stat()
    flip(exported / "m-0.safetensors", before.st_size - 1)
    os.utime(exported / "m-0.safetensors", ns=(before.st_atime_ns, before.st_mtime_ns))
    run = remapfs("export", source, exported, "--rules", source.parent / "rules.toml", "--verify")
    assert run.returncode == 1
    assert run.stdout.splitlines()[1].startswith("different: m-0.safetensors, tensor 'language_model.0.z': ")


def test_an_equal_answer_counts(source: Path, exported: Path) -> None:
    """Files, shards, tensors, and every byte once."""
    plan = plan_of(source)
    assert verify_plan(plan, str(exported)) == Equal(6, 3, 9, sum(file.size for file in plan.files))
