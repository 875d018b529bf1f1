"""What a mount logs: one line an event, for people, for the journal and for programs."""

from __future__ import annotations

import json
import os
import signal
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from mounting import mounted, remapfs
from observe.conftest import foreground, status, until
from processes import child_of
from situations import shard

if TYPE_CHECKING:
    from pathlib import Path

    from observe.conftest import Foreground

_SHARD = "model.safetensors"


def truncate(source: Path, size: int) -> None:
    """Cut a shard short, as a disk that is full does."""
    with (source / _SHARD).open("r+b") as stream:
        stream.truncate(size)


def fails(mount: Foreground, times: int) -> None:
    """Read so often, in vain."""
    for _ in range(times):
        with pytest.raises(OSError, match="Input/output error"):
            mount.read()


def objects(lines: list[str]) -> list[dict[str, Any]]:
    """Read lines that are JSON objects."""
    return [json.loads(line) for line in lines]


def test_a_source_that_was_truncated_is_logged_once(source: Path) -> None:
    """With its file and the offset, and at the end how often it failed again; status tells the same."""
    with foreground(source) as mount:
        truncate(source, 1 << 20)
        fails(mount, 5)
        path = (source / _SHARD).resolve()
        lines = [line for line in mount.lines() if str(path) in line]
        assert len(lines) == 1
        assert lines[0].startswith(f"remapfs: {path}: changed since it was planned: size was ")
        offset = int(lines[0].rpartition(" (seen when reading at byte ")[2].rstrip(")"))
        # The kernel reads ahead by several threads.
        assert 0 <= offset < (4 << 20)
        told = status(mount.path)
        assert told["errors"]["EIO"] >= 5
        assert told["failure"]["file"] == str(path)
        assert told["failure"]["offset"] == offset
        assert told["failure"]["text"].startswith("changed since it was planned")
        assert f"failed     {path}: changed since" in remapfs("status", mount.path).stdout
        mount.end()
        again = [line for line in mount.lines() if "more failed reads" in line]
        assert len(again) == 1
        assert again[0].startswith(f"remapfs: {path}: changed: ")


def test_a_source_that_was_written_to_is_logged_once(source: Path) -> None:
    """Whatever server notices, each tells it once."""
    with foreground(source) as mount:
        with (source / _SHARD).open("r+b") as stream:
            stream.seek(1 << 20)
            stream.write(b"other bytes")
        fails(mount, 3)
        os.kill(child_of(mount.process.pid) or 0, signal.SIGKILL)
        fails(mount, 3)
        lines = [line for line in mount.lines() if "changed since it was planned: mtime_ns was" in line]
        assert len(lines) == 2


def test_a_source_that_was_replaced_is_read_on_and_not_logged(source: Path) -> None:
    """Its bytes are those of the plan."""
    with foreground(source) as mount:
        content = mount.read()
        (source / "new").write_bytes(b"x" * len(content))
        (source / "new").rename(source / _SHARD)
        assert mount.read() == content
        assert status(mount.path)["failure"] is None
        assert not any("planned" in line for line in mount.lines())


def test_lines_for_the_journal_begin_with_their_level(source: Path) -> None:
    """Six for what happens, four for what is healed, three for what fails."""
    with foreground(source, journal=True) as mount:
        os.kill(child_of(mount.process.pid) or 0, signal.SIGKILL)
        mount.read()
        truncate(source, 1 << 20)
        fails(mount, 1)
        mount.end()
        # The directory above the source is closed to others, and that is said first.
        levels = [line[:3] for line in mount.lines()]
        assert levels[:4] == ["<4>", "<6>", "<4>", "<3>"]
        (end,) = (line for line in mount.lines() if "stopping on SIGTERM" in line)
        assert end.startswith("<6>")
        assert mount.lines()[1].startswith(f"<6>remapfs: {source.resolve()} on ")


def test_elsewhere_they_do_not(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that is left from a parent service names another stream."""
    monkeypatch.setenv("JOURNAL_STREAM", "8:12345")
    with foreground(source) as mount:
        assert mount.lines()[-1].startswith("remapfs: ")
        assert not any(line.startswith("<") for line in mount.lines())


def test_json_is_one_object_a_line(source: Path) -> None:
    """Each with time, level, message and process; an event's own fields beside them."""
    with foreground(source, ["--log-format", "json"]) as mount:
        os.kill(child_of(mount.process.pid) or 0, signal.SIGKILL)
        mount.read()
        truncate(source, 1 << 20)
        fails(mount, 3)
        mount.end()
        told = objects(mount.lines())
        assert all(set(each) >= {"time", "level", "message", "pid", "event"} for each in told)
        assert [each["event"] for each in told][:4] == ["finding", "mounted", "server-died", "source-failed"]
        assert told[2]["how"] == "was killed by SIGKILL"
        failed = told[3]
        assert (failed["level"], failed["file"]) == ("error", str((source / _SHARD).resolve()))
        assert failed["cause"] == "changed"
        assert 0 <= failed["offset"] < (4 << 20)
        again = [each for each in told if each["event"] == "source-failed-again"]
        assert sum(each["count"] for each in again) >= 2
        assert "ended" in [each["event"] for each in told]


def test_json_for_the_journal_has_levels_too(source: Path) -> None:
    """The journal takes the level off the line."""
    with foreground(source, ["--log-format", "json"], journal=True) as mount:
        *_, line = mount.lines()
        assert line.startswith('<6>{"time": "')
        assert json.loads(line[3:])["event"] == "mounted"


def test_a_name_with_a_line_break_makes_one_line(source: Path) -> None:
    """Nobody who names files can write lines into the log."""
    name = "a\nremapfs: all is well\x1b[2J.safetensors"
    (source / name).write_bytes(shard({"tensors": [["b", "U8", [3 << 20]]]}))
    with foreground(source) as mount:
        before = len(mount.lines())
        with (source / name).open("r+b") as stream:
            stream.truncate(1 << 20)
        with pytest.raises(OSError, match="Input/output error"):
            mount.read(name)
        (line,) = mount.lines()[before:]
        assert "a\\nremapfs: all is well\\x1b[2J.safetensors: changed since" in line
        assert "\\x1b[2J" in remapfs("status", mount.path).stdout


def test_a_log_file_has_the_same_lines(source: Path, tmp_path: Path) -> None:
    """As text with the time, or as JSON, from the background too."""
    for form in ("text", "json"):
        log = tmp_path / form
        with mounted(source, ["--log", str(log), "--log-format", form]) as mountpoint:
            pass
        until(partial(_says, log, "unmounted"))
        (line,) = log.read_text().splitlines()
        if form == "json":
            assert json.loads(line)["message"] == f"{mountpoint}: unmounted"
        else:
            assert line.endswith(f"remapfs {mountpoint}: unmounted")


def _says(log: Path, word: str) -> bool:
    return word in log.read_text()
