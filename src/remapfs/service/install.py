"""Units and what belongs to them, put where systemd and mount(8) look."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from remapfs.errors import RemapError, RuntimeFailure

if TYPE_CHECKING:
    from collections.abc import Iterator

_UNITS: Final = "etc/systemd/system"
_CONFIGS: Final = "etc/remapfs"
_HELPER: Final = "sbin/mount.remapfs"
_PLACE: Final = "@REMAPFS@"
_SERVICES: Final = ("remapfs@.service", "remapfs-clear@.service")


@dataclass(frozen=True, slots=True)
class Piece:
    """A file to be installed: its path below the root, and its text, or what it is a link to."""

    path: str
    content: str
    is_link: bool = False


def pieces(program: str) -> Iterator[Piece]:
    """List what is installed for the command `program`, an absolute path."""
    folder = files("remapfs.service") / "units"
    for name in _SERVICES:
        text = (folder / name).read_text(encoding="utf-8")
        yield Piece(f"{_UNITS}/{name}", text.replace(_PLACE, _quoted(program)))
    yield Piece(f"{_CONFIGS}/example.toml", (folder / "example.toml").read_text(encoding="utf-8"))
    yield Piece(_HELPER, str(Path(program).with_name("mount.remapfs")), is_link=True)


def drop_in(name: str, mountpoint: str) -> str:
    """Write the drop-in that lets a container's unit need the mount `name` at `mountpoint`."""
    text = (files("remapfs.service") / "units" / "vllm.conf").read_text(encoding="utf-8")
    return text.replace("@NAME@", name).replace("@MOUNTPOINT@", mountpoint.replace("%", "%%"))


def install(root: str, program: str, *, force: bool) -> list[str]:
    """Write all pieces below `root`, and return the paths of those that were not there as they are.

    Raises RemapError, with nothing written, where a file there holds something else, unless `force`.
    """
    wanted = [(Path(root, piece.path), piece) for piece in pieces(program)]
    new = [(path, piece) for path, piece in wanted if _found(path) != piece.content]
    kept = [str(path) for path, piece in new if _found(path) is not None]
    if kept and not force:
        raise RemapError(
            f"{', '.join(kept)}: {'they hold' if len(kept) > 1 else 'it holds'} something else",
            "to write over it: --force; a change of your own belongs into a drop-in: systemctl edit",
        )
    for path, piece in new:
        _write(path, piece)
    return [str(path) for path, _ in new]


def uninstall(root: str, program: str) -> list[str]:
    """Remove the pieces that are as they were written, and return their paths; configurations stay."""
    gone = []
    for piece in pieces(program):
        path = Path(root, piece.path)
        if _found(path) == piece.content:
            path.unlink()
            gone.append(str(path))
    return gone


def find_program() -> str:
    """Give the absolute path of the remapfs command that runs now."""
    found = shutil.which(sys.argv[0]) or shutil.which("remapfs")
    if found is None or Path(found).name != "remapfs":
        raise RemapError("cannot tell where the remapfs command is", "give its path with --program")
    return os.path.abspath(found)


def _found(path: Path) -> str | None:
    """Read a file or link, None if there is none."""
    try:
        return os.readlink(path) if path.is_symlink() else path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise RuntimeFailure(f"cannot read {path}: {error}", "look what it is") from None


def _write(path: Path, piece: Piece) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if piece.is_link:
            path.symlink_to(piece.content)
        else:
            path.write_text(piece.content, encoding="utf-8")
            path.chmod(0o644)
    except OSError as error:
        raise RuntimeFailure(
            f"cannot write {path}: {error.strerror}", "run as root, or give another --root"
        ) from None


def _quoted(program: str) -> str:
    """Write a path as the first word of ExecStart=, where % and white space mean something."""
    escaped = program.replace("%", "%%")
    return f'"{escaped}"' if any(each.isspace() for each in program) else escaped
