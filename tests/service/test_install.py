"""Units and what belongs to them are written, kept where somebody changed them, and removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from remapfs import RemapError
from remapfs.service.install import drop_in, install, uninstall

PROGRAM = "/opt/remapfs/bin/remapfs"


def test_everything_is_written_once(tmp_path: Path) -> None:
    """The second time nothing is left to do."""
    written = install(str(tmp_path), PROGRAM, force=False)
    assert [path.removeprefix(f"{tmp_path}/") for path in written] == [
        "etc/systemd/system/remapfs@.service",
        "etc/systemd/system/remapfs-clear@.service",
        "etc/remapfs/example.toml",
        "sbin/mount.remapfs",
    ]
    unit = Path(written[0]).read_text()
    assert f"ExecStart={PROGRAM} mount --config /etc/remapfs/%i.toml" in unit
    assert "@REMAPFS@" not in unit
    assert Path(written[3]).readlink() == Path("/opt/remapfs/bin/mount.remapfs")
    assert install(str(tmp_path), PROGRAM, force=False) == []


def test_a_file_that_somebody_changed_is_kept(tmp_path: Path) -> None:
    """With --force it is written over; without, nothing else is written either."""
    unit = tmp_path / "etc/systemd/system/remapfs@.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("mine")
    with pytest.raises(RemapError, match="it holds something else"):
        install(str(tmp_path), PROGRAM, force=False)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["remapfs@.service"]
    assert str(unit) in install(str(tmp_path), PROGRAM, force=True)
    assert "ExecStart" in unit.read_text()


def test_uninstalling_leaves_what_was_changed(tmp_path: Path) -> None:
    """And configurations that a user wrote."""
    written = install(str(tmp_path), PROGRAM, force=False)
    own = tmp_path / "etc/remapfs/v4.toml"
    own.write_text("source = '/a'")
    Path(written[0]).write_text("mine")
    assert set(uninstall(str(tmp_path), PROGRAM)) == set(written[1:])
    assert own.exists()
    assert Path(written[0]).read_text() == "mine"


@pytest.mark.parametrize(
    ("program", "word"), [("/a b/remapfs", '"/a b/remapfs"'), ("/50%/remapfs", "/50%%/remapfs")]
)
def test_a_program_with_an_odd_path_is_written_as_systemd_reads_it(
    tmp_path: Path, program: str, word: str
) -> None:
    """White space in quotes, a percent sign twice."""
    written = install(str(tmp_path), program, force=False)
    assert f"ExecStart={word} mount" in Path(written[0]).read_text()


def test_the_drop_in_names_the_mount() -> None:
    """Unit and mount point."""
    text = drop_in("v4", "/mnt/50%")
    assert "After=remapfs@v4.service" in text
    assert "AssertPathIsMountPoint=/mnt/50%%" in text
