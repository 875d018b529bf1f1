"""A mount's configuration file: the options of `remapfs mount` by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from remapfs import RemapError
from remapfs.cli.config import keys, read_config
from remapfs.cli.mount import mount

if TYPE_CHECKING:
    from pathlib import Path


def read(text: str, folder: Path) -> dict[str, object]:
    """Read a configuration of this text."""
    file = folder / "v4.toml"
    file.write_text(text, encoding="utf-8")
    return read_config(str(file), mount)


def test_every_option_of_mount_may_stand_in_the_file() -> None:
    """But for help and the file itself; both arguments too. So the two cannot drift apart."""
    options = {name for parameter in mount.params for name in parameter.opts}
    assert {f"--{name}" for name in keys(mount)} >= {name for name in options if name.startswith("--")} - {
        "--help",
        "--config",
    }
    assert {"source", "mountpoint", "preset", "rules", "set", "presenter", "image-dir"} <= set(keys(mount))


def test_values_become_those_of_the_command_line(tmp_path: Path) -> None:
    """A text or a list where an option may be given several times, a table for --set, true for a flag."""
    text = """
source = "/a"
mountpoint = "/m"
preset = "strip-prefix"
set = { prefix = "model." }
private = true
threads = 4
"""
    assert read(text, tmp_path) == {
        "source": "/a",
        "mountpoint": "/m",
        "preset": ["strip-prefix"],
        "values": ["prefix=model."],
        "private": True,
        "threads": "4",
    }


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("sorce = '/a'", "unknown key 'sorce'", "did you mean 'source'?"),
        ("zzz = 1", "unknown key 'zzz'", "it takes "),
        ("threads = 0", "threads = 0: 0 is not in the range", "correct threads in"),
        ("threads = 'many'", "threads = 'many'", "correct threads in"),
        ("private = 'yes'", "private = 'yes' is not what it takes", "private = true"),
        ("preset = 3", "preset = 3 is not what it takes", 'preset = "…"'),
        ("source = ['/a']", "source = ['/a'] is not what it takes", 'source = "…"'),
        ("presenter = 'nfs'", "presenter = 'nfs': 'nfs' is not one of", "correct presenter"),
        ("config = '/b'", "unknown key 'config'", ""),
        ("a = ", "is not TOML", "a line is like"),
    ],
)
def test_a_mistake_is_named_with_its_file(tmp_path: Path, text: str, message: str, hint: str) -> None:
    """File, key, what was found, and what to write."""
    with pytest.raises(RemapError) as error:
        read(text, tmp_path)
    assert f"{tmp_path}/v4.toml" in error.value.message
    assert message in error.value.message
    assert hint in error.value.hint


def test_a_missing_file_is_bad_input(tmp_path: Path) -> None:
    """With a hint at the example."""
    with pytest.raises(RemapError, match="No such file"):
        read_config(str(tmp_path / "none.toml"), mount)
