"""What the user is told when there is no vLLM to ask."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
from safetensors.numpy import save_file

from remapfs import make_plan, read_checkpoint
from remapfs.check.vllm import run_loader
from remapfs.errors import RemapError, RuntimeFailure
from remapfs.rules import Rules

if TYPE_CHECKING:
    from pathlib import Path

    from remapfs.plan import Plan


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Plan a checkpoint of one tensor."""
    folder = tmp_path / "model"
    folder.mkdir()
    save_file({"a": np.zeros(2, dtype=np.float32)}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"]}))
    return make_plan(read_checkpoint(str(folder)), Rules("none"))


def _python(tmp_path: Path, script: str) -> str:
    """Make a program in the place of a Python."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_no_such_python(plan: Plan) -> None:
    """The path is named."""
    with pytest.raises(RemapError, match="there is no Python at /nowhere/python") as caught:
        run_loader(plan, "/nowhere/python")
    assert "--python" in caught.value.hint


def test_a_python_without_vllm(plan: Plan, tmp_path: Path) -> None:
    """It can run, and says so."""
    python = _python(tmp_path, f'exec {sys.executable} -S "$@"')
    with pytest.raises(RemapError, match="has no vLLM: no module named vllm") as caught:
        run_loader(plan, python)
    assert not isinstance(caught.value, RuntimeFailure)


def test_a_process_that_dies_is_a_failure_with_its_last_lines(plan: Plan, tmp_path: Path) -> None:
    """The signal and what it printed are shown."""
    with pytest.raises(RuntimeFailure, match=r"(?s)by signal 9 \(SIGKILL\).*out of luck"):
        run_loader(plan, _python(tmp_path, "echo out of luck >&2\nkill -9 $$"))


def test_no_config(tmp_path: Path) -> None:
    """Nothing names the model class."""
    save_file({"a": np.zeros(2, dtype=np.float32)}, tmp_path / "model.safetensors")
    plan = make_plan(read_checkpoint(str(tmp_path)), Rules("none"))
    with pytest.raises(RemapError, match=r"presents no config\.json"):
        run_loader(plan, sys.executable)
