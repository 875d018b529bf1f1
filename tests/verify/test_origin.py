"""What a mount or an export says itself about its source and rules."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from export.sources import RENAME, plan_of, write_source
from mounting import PRESENTERS, missing, mounted, remapfs
from remapfs.present.reflink import ExportOptions, export_plan
from remapfs.present.reflink.state import STATE

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

EQUAL = "equal: 9 tensors in 3 shards, 6 files, 18.9 MB compared\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Write a source, and rules beside it."""
    (tmp_path / "rules.toml").write_text(RENAME)
    return write_source(tmp_path / "src")


def _exported(source: Path) -> Path:
    """Export by the command line, with the rules named from where they lie."""
    run = remapfs("export", source, "dst", "--rules", "rules.toml", cwd=source.parent)
    assert run.returncode == 0, run.stderr
    return source.parent / "dst"


def _refused(run: subprocess.CompletedProcess[str]) -> str:
    assert (run.returncode, run.stdout) == (2, "")
    return run.stderr.splitlines()[0]


@pytest.mark.parametrize("presenter", PRESENTERS)
def test_a_mount_knows_its_source(source: Path, presenter: str) -> None:
    """Of each presenter."""
    reason = missing(presenter)
    if reason is not None:
        pytest.skip(reason)
    rules = ["--rules", str(source.parent / "rules.toml")]
    with mounted(source, rules, presenter) as mountpoint:
        run = remapfs("verify", mountpoint, *rules)
    assert (run.returncode, run.stdout, run.stderr) == (0, EQUAL, "")


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_mount_does_not_know_its_rules(source: Path) -> None:
    """They must be given, or the source if there were none."""
    with mounted(source) as mountpoint:
        run = remapfs("verify", mountpoint)
        assert _refused(run) == (
            f"error: {mountpoint} is a mount of {source}, and does not say by which rules"
        )
        assert remapfs("verify", mountpoint, source).returncode == 0


def test_an_export_knows_source_and_rules(source: Path) -> None:
    """From wherever it is asked."""
    target = _exported(source)
    run = remapfs("verify", target, cwd="/")
    assert (run.returncode, run.stdout, run.stderr) == (0, EQUAL, "")


def test_an_export_by_other_rules_than_its_own(source: Path) -> None:
    """Those that are given count."""
    target = _exported(source)
    (source.parent / "other.toml").write_text(RENAME.replace("language_model", "other"))
    run = remapfs("verify", target, "--rules", source.parent / "other.toml")
    assert run.returncode == 1
    assert "it lacks 'other.0.a'" in run.stdout


@pytest.mark.parametrize("what", ["source", "rules"])
def test_an_export_of_what_changed_since(source: Path, what: str) -> None:
    """It is not taken for a difference; with everything given it is compared."""
    target = _exported(source)
    if what == "source":
        os.utime(source / "m-0.safetensors")
    else:
        (source.parent / "rules.toml").write_text(RENAME.replace("language_model", "other"))
    error = _refused(remapfs("verify", target))
    assert error == f"error: {source}, or the rules, changed since {target} was exported"
    run = remapfs("verify", target, source, "--rules", source.parent / "rules.toml")
    assert run.returncode == (0 if what == "source" else 1)


def test_an_export_whose_rules_are_gone(source: Path) -> None:
    """The file is named."""
    target = _exported(source)
    (source.parent / "rules.toml").unlink()
    assert str(source.parent / "rules.toml") in _refused(remapfs("verify", target))


def test_an_export_by_an_earlier_release(source: Path) -> None:
    """Its state has no options: they are asked for where they made a difference."""
    target = _exported(source)
    state = json.loads((target / STATE).read_bytes())
    del state["options"]
    (target / STATE).write_text(json.dumps(state))
    assert "or the rules, changed" in _refused(remapfs("verify", target))
    assert remapfs("verify", target, "--rules", source.parent / "rules.toml").returncode == 0


def test_an_export_from_python(source: Path) -> None:
    """It has no options either, and needs none if there were no rules."""
    target = source.parent / "dst"
    export_plan(plan_of(source, ""), str(target), ExportOptions())
    assert remapfs("verify", target).returncode == 0


def test_neither_a_mount_nor_an_export(source: Path) -> None:
    """Or one whose state cannot be understood."""
    assert _refused(remapfs("verify", source)) == (
        f"error: {source} is neither a mount of remapfs nor an export: its source is not known"
    )
    assert "its source is not known" in _refused(remapfs("verify", "/nowhere"))


@pytest.mark.parametrize("text", ["0", "-1", "0%", "101%", "x", "%", "nan%"])
def test_a_sample_that_is_none(source: Path, text: str) -> None:
    """It says what one looks like."""
    error = _refused(remapfs("verify", source, source, "--sample", text))
    assert f"'{text}' is neither a number of MiB, as 64, nor a share, as 1%" in error


def test_a_share_as_a_sample(source: Path) -> None:
    """Whole MiB of each file, rounded up; the line says so."""
    run = remapfs("verify", source, source, "--sample", "1%")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.endswith(" compared, a sample of 1% of each\n")
    assert "9 tensors in 3 shards, 6 files, 3.2 MB compared" in run.stdout
