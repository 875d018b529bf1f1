"""The page as a file, from Python and from the command line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from mounting import remapfs
from plan.planning import plan, write
from remapfs import RemapError
from remapfs.report import write_report
from report.making import RULES, tensors, with_hole

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Write a small checkpoint, and rules beside it."""
    folder = tmp_path / "model"
    folder.mkdir()
    write(folder, {"model.safetensors": tensors()})
    (tmp_path / "rules.toml").write_text(RULES)
    return folder


def test_the_file_bears_the_time_of_its_making(checkpoint: Path, tmp_path: Path) -> None:
    """Whoever gets the page sees how old it is."""
    file = tmp_path / "report.html"
    made = plan(checkpoint, RULES)
    write_report(str(file), made, with_hole(made))
    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["report.html", "sub/../report.html"])
def test_nothing_is_written_into_the_checkpoint(checkpoint: Path, name: str) -> None:
    """The source stays as it is, also where somebody names a file in it."""
    (checkpoint / "sub").mkdir()
    with pytest.raises(RemapError, match="would lie in the checkpoint"):
        write_report(str(checkpoint / name), plan(checkpoint), None)
    assert not (checkpoint / "report.html").exists()


def test_a_place_that_cannot_be_written_is_named(checkpoint: Path, tmp_path: Path) -> None:
    """The system's reason is passed on."""
    with pytest.raises(RemapError, match=r"nowhere/report\.html: No such file or directory"):
        write_report(str(tmp_path / "nowhere/report.html"), plan(checkpoint), None)


def test_plan_writes_the_page_beside_what_it_prints(checkpoint: Path, tmp_path: Path) -> None:
    """--html is a further output, and no other one changes."""
    rules = ["plan", str(checkpoint), "--rules", str(tmp_path / "rules.toml")]
    file = tmp_path / "report.html"
    plain, result = remapfs(*rules), remapfs(*rules, "--html", file)
    assert (result.returncode, result.stdout) == (plain.returncode, plain.stdout) == (0, plain.stdout)
    assert "245 of 246 tensors renamed" in file.read_text(encoding="utf-8")
