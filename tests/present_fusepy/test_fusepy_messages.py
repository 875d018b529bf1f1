"""What the fusepy presenter says when the host cannot mount."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from remapfs.checkpoint.source import Attributes
from remapfs.errors import RemapError, RuntimeFailure
from remapfs.plan.model import Plan
from remapfs.plan.tree import Directory
from remapfs.present import fusepy
from remapfs.present.options import MountOptions

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Make a plan of an empty directory."""
    return Plan(str(tmp_path / "source"), (), (Directory("", Attributes(0o555, 0, 0, 0)),), ())


def test_a_mount_that_libfuse_refuses_is_an_error(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When libfuse cannot mount, serve raises an error that names the mount point."""

    class Refusing:
        def __init__(self, *_arguments: object, **_options: object) -> None:
            raise RuntimeError(1)

    module = ModuleType("fuse")
    monkeypatch.setattr(module, "FUSE", Refusing, raising=False)
    monkeypatch.setitem(sys.modules, "fuse", module)
    mountpoint = tmp_path / "here"
    mountpoint.mkdir()
    with pytest.raises(RuntimeFailure, match=f"could not mount {mountpoint}"):
        fusepy.serve(plan, str(mountpoint), MountOptions(), lambda: None)


def test_a_missing_package_is_named(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without fusepy the error says how to install it."""
    monkeypatch.setitem(sys.modules, "fuse", None)
    with pytest.raises(RemapError, match="fusepy package") as caught:
        fusepy.serve(plan, "/nowhere", MountOptions(), lambda: None)
    assert caught.value.hint == "pip install 'remapfs[fusepy]'"


@pytest.mark.skipif(importlib.util.find_spec("fuse") is None, reason="the fusepy package is not installed")
def test_a_missing_libfuse_is_named(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without libfuse 2 the error says what to install."""
    monkeypatch.delitem(sys.modules, "fuse", raising=False)
    monkeypatch.delenv("FUSE_LIBRARY_PATH", raising=False)
    monkeypatch.setattr("ctypes.util.find_library", lambda _name: None)
    with pytest.raises(RemapError, match="Unable to find libfuse") as caught:
        fusepy.serve(plan, "/nowhere", MountOptions(), lambda: None)
    assert "libfuse2" in caught.value.hint


def test_another_module_of_that_name_is_told_apart(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module fuse from another package gives an error that names it."""
    (tmp_path / "fuse.py").write_text("", encoding="utf-8")
    monkeypatch.delitem(sys.modules, "fuse", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RemapError, match="is not fusepy's"):
        fusepy.serve(plan, "/nowhere", MountOptions(), lambda: None)
    monkeypatch.delitem(sys.modules, "fuse")
