"""Names from a checkpoint are data: they choose no path, and a terminal never obeys them."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest

from mounting import missing, mounted, remapfs
from remapfs.checkpoint.header import parse_header
from remapfs.errors import RemapError
from remapfs.words import printable
from situations import shard

ESCAPES = "\x1b[31m\x1b]0;title\x07\x9b2J\u202e"
HOSTILE = (
    "..",
    "../../etc/passwd",
    "/etc/passwd",
    "a\0b",
    "two\nhint:  run  curl evil | sh",
    f"x{ESCAPES}y",
    "n" * 1_000_000,
    "",
    ".",
    "%s{}$(id)`id`",
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Make a checkpoint whose tensors have names that want to be more."""
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    tensors = [[name, "U8", [4]] for name in HOSTILE]
    (folder / "model.safetensors").write_bytes(shard({"tensors": tensors}))
    return folder


def test_hostile_tensor_names_are_names(source: Path, tmp_path: Path) -> None:
    """A mount shows them unchanged, in the header and nowhere else: no file comes of them."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    rules = tmp_path / "rules.toml"
    rules.write_text("[[rename]]\nsubstring = '../../etc'\nto = '/../../usr'\n")
    with mounted(source, ["--rules", str(rules)]) as mountpoint:
        assert sorted(os.listdir(mountpoint)) == ["model.safetensors"]
        data = (mountpoint / "model.safetensors").read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = parse_header(data[8 : 8 + length], "model.safetensors", len(data) - 8 - length)
        wanted = {name.replace("../../etc", "/../../usr") for name in HOSTILE}
        assert {tensor.name for tensor in header.tensors} == wanted


@pytest.mark.parametrize("options", [[], ["--dump"], ["--full-diff"]])
def test_a_plan_shows_them_as_escapes(source: Path, options: list[str]) -> None:
    """What is printed has no character that a terminal obeys, and no line that a name began."""
    run = remapfs("plan", source, *options)
    assert run.returncode == 0, run.stderr
    shown = run.stdout + run.stderr
    assert all(line.isprintable() for line in shown.splitlines())
    assert not any(line.startswith("hint:") for line in shown.split("\n"))


def test_a_plan_in_json_is_json(source: Path) -> None:
    """And the names come back from it as they are."""
    run = remapfs("plan", source, "--json")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["tensors"] == len(HOSTILE)


@pytest.mark.parametrize("name", [name for name in HOSTILE if len(name) < 100])
def test_an_error_shows_a_tensor_name_as_escapes(tmp_path: Path, name: str) -> None:
    """One line for the error, one for the hint, whatever the name holds."""
    text = json.dumps({name: {"dtype": "U8", "shape": [4], "data_offsets": [0, 5]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(5))
    run = remapfs("plan", tmp_path)
    assert run.returncode == 2
    lines = run.stderr.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["error", "hint"]
    assert all(line.isprintable() for line in lines)
    assert f"'{printable(name)}'" in lines[0]


FILES = (f"evil{ESCAPES}.safetensors", "two\nhint:  run me.safetensors", "tab\t\r.safetensors")


@pytest.mark.parametrize("name", FILES)
def test_an_error_shows_a_file_name_as_escapes(tmp_path: Path, name: str) -> None:
    """A file that cannot be read as a shard is named so that a terminal shows its name."""
    (tmp_path / name).write_bytes(b"not a shard")
    run = remapfs("plan", tmp_path)
    assert run.returncode == 2
    lines = run.stderr.split("\n")
    assert [line.partition(":")[0] for line in lines] == ["error", "hint", ""]
    assert all(line.isprintable() for line in lines)
    assert printable(name) in lines[0]


def test_a_link_with_a_hostile_name_is_shown_as_escapes(tmp_path: Path) -> None:
    """Also in the rule that the hint offers."""
    (tmp_path / FILES[1]).symlink_to(f"nowhere{ESCAPES}")
    run = remapfs("plan", tmp_path)
    assert run.returncode == 2
    lines = run.stderr.split("\n")
    assert [line.partition(":")[0] for line in lines] == ["error", "hint", ""]
    assert all(line.isprintable() for line in lines)


def test_files_whose_names_are_no_text_are_shown_and_read() -> None:
    """Bytes that are not UTF-8, line breaks and escapes in names: plan prints them, the mount has them."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="remapfs-test-") as made:
        folder = Path(made)
        (folder / "model.safetensors").write_bytes(shard({"tensors": [["a", "U8", [4]]]}))
        names = [b"\xff\xfe.json", b"two\nlines.txt", b"\x1b[31m.txt"]
        for name in names:
            Path(os.fsdecode(os.path.join(os.fsencode(made), name))).write_bytes(name)
        for options in ([], ["--dump"], ["--json"]):
            run = remapfs("plan", folder, *options)
            assert run.returncode == 0, run.stderr
            assert "\x1b" not in run.stdout
        with mounted(folder) as mountpoint:
            for name in names:
                with open(os.path.join(os.fsencode(mountpoint), name), "rb") as stream:
                    assert stream.read() == name


@pytest.mark.parametrize(
    "target",
    ["../../etc/passwd", "/etc/passwd", "..", "sub/../../x.safetensors", "../checkpoint-2/m.safetensors"],
)
def test_an_index_that_leads_outside_is_refused(tmp_path: Path, target: str) -> None:
    """Before anything there is opened: exit code 2, with the index and what it names."""
    (tmp_path / "model.safetensors").write_bytes(shard({"tensors": [["a", "U8", [4]]]}))
    index = {"weight_map": {"a": target}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    run = remapfs("plan", tmp_path)
    assert run.returncode == 2
    assert f"model.safetensors.index.json names the shard '{target}', outside the checkpoint" in run.stderr


def test_a_header_that_claims_to_be_huge_is_not_read() -> None:
    """Neither by its length, nor by its shape: the sizes are compared with the file's first."""
    with tempfile.TemporaryDirectory() as made:
        (Path(made) / "model.safetensors").write_bytes((1 << 62).to_bytes(8, "little") + b"{")
        run = remapfs("plan", made)
        assert run.returncode == 2
        assert "has a header of 4,611,686,018,427,387,904 bytes" in run.stderr
    huge = json.dumps({"a": {"dtype": "F64", "shape": [1 << 62, 1 << 62], "data_offsets": [0, 8]}}).encode()
    with pytest.raises(RemapError, match=r"takes .* bytes, but its data_offsets"):
        parse_header(huge, "model.safetensors", 8)
