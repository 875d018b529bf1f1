"""The dry run says what the real loader does with real tensors.

Needs an environment with vLLM: REMAPFS_VLLM_PYTHON names its interpreter.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from remapfs import make_plan, open_file, read_checkpoint
from remapfs.check import Outcome
from remapfs.check.vllm import run_loader
from remapfs.rules import Rules, parse_rules

if TYPE_CHECKING:
    from remapfs.check import Answer
    from remapfs.plan import Plan

_SCRIPTS = Path(__file__).with_name("inside_vllm")
_EXPERT = "model.layers.1.mlp.experts.2"
_MODELS = ("llama", "llama-tied", "qwen3", "qwen3-moe", "deepseek-v2", "deepseek-v3")


@dataclass(frozen=True)
class Case:
    """A checkpoint, presented with a fault or without: what rules make of it, or a shape turned round."""

    model: str
    fault: str
    rules: str = ""
    turned: str = ""

    def __str__(self) -> str:
        """Name the case as pytest shows it."""
        return f"{self.model}: {self.fault}"


def _rename(old: str, new: str) -> str:
    return f"[[rename]]\nsubstring = '{old}'\nto = '{new}'\n"


def _drop(name: str) -> str:
    return f"[[drop]]\nmatch = '^{name}$'\n"


_NORM = _rename("layers.1.input_layernorm.weight", "layers.1.input_norm.weight")
_CASES = [
    *(Case(model, "none") for model in _MODELS),
    Case("llama", "a norm has a wrong name", _NORM),
    Case("llama", "k_proj is not there", _drop(r"model\.layers\.1\.self_attn\.k_proj\.weight")),
    Case(
        "llama",
        "up_proj and lm_head are not there",
        _drop(r"(model\.layers\.2\.mlp\.up_proj|lm_head)\.weight"),
    ),
    Case("llama", "a shape is turned round", turned="model.layers.0.mlp.down_proj.weight"),
    Case("llama-tied", "the embedding is not there", _drop(r"model\.embed_tokens\.weight")),
    Case("qwen3", "a norm is not there", _drop(r"model\.layers\.2\.self_attn\.q_norm\.weight")),
    Case("qwen3-moe", "an expert has a wrong name", _rename(f"{_EXPERT}.down_proj", f"{_EXPERT}.downproj")),
    Case(
        "qwen3-moe",
        "an expert's gate is not there",
        _drop(r"model\.layers\.1\.mlp\.experts\.2\.gate_proj\.weight"),
    ),
    Case("qwen3-moe", "an expert's shape is turned round", turned=f"{_EXPERT}.up_proj.weight"),
    Case("deepseek-v2", "an expert has a wrong name", _rename(f"{_EXPERT}.down_proj", f"{_EXPERT}.downproj")),
    Case("deepseek-v2", "a norm is not there", _drop(r"model\.layers\.1\.self_attn\.kv_a_layernorm\.weight")),
    Case(
        "deepseek-v3", "an expert has a wrong name", _rename(f"{_EXPERT}.", "model.layers.1.mlp.experts.9.")
    ),
    Case(
        "deepseek-v3",
        "an expert's up is not there",
        _drop(r"model\.layers\.2\.mlp\.experts\.3\.up_proj\.weight"),
    ),
    Case(
        "deepseek-v3",
        "kv_a_proj is not there",
        _drop(r"model\.layers\.0\.self_attn\.kv_a_proj_with_mqa\.weight"),
    ),
    Case(
        "deepseek-v3",
        "a scale too many",
        _rename("layers.1.mlp.gate.e_score_correction_bias", "layers.1.mlp.gate.b"),
    ),
]


@dataclass(frozen=True)
class Vllm:
    """A vLLM environment, a directory for all that it would write elsewhere, and the tiny checkpoints."""

    python: str
    scratch: Path

    def run(self, script: str, *arguments: str | Path) -> None:
        """Run one of the scripts beside this file to its end."""
        caches = ("HF_HOME", "VLLM_CACHE_ROOT", "VLLM_CONFIG_ROOT", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
        environment = dict(os.environ) | dict.fromkeys(caches, str(self.scratch / "cache"))
        environment |= {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
        run = subprocess.run(
            [self.python, _SCRIPTS / script, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        assert run.returncode == 0, run.stderr

    def folder(self, case: Case) -> Path:
        """Where the case lies as real files."""
        return self.scratch / "presented" / str(_CASES.index(case))


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Vllm:
    """Give the environment, with the tiny checkpoints written."""
    python = os.environ.get("REMAPFS_VLLM_PYTHON")
    if not python:
        pytest.skip("REMAPFS_VLLM_PYTHON is not set")
    vllm = Vllm(python, tmp_path_factory.mktemp("vllm"))
    vllm.run("write_tiny.py", vllm.scratch / "models")
    for case in _CASES:
        if case.turned:
            _turn(
                vllm.scratch / "models" / case.model,
                vllm.scratch / f"turned-{_CASES.index(case)}",
                case.turned,
            )
    return vllm


@pytest.fixture(scope="module")
def real(vllm: Vllm) -> dict[str, Any]:
    """Give what the real loader does with each case: all in one process, for its long start."""
    for case in _CASES:
        _write(_plan(vllm, case), vllm.folder(case))
    out = vllm.scratch / "real.json"
    vllm.run("load_for_real.py", out, *(vllm.folder(case) for case in _CASES))
    found: dict[str, Any] = json.loads(out.read_text())
    return found


@pytest.fixture(scope="module")
def answers(vllm: Vllm) -> dict[Case, Answer]:
    """Give the dry run's answer to each case: two processes at a time, for their long starts."""

    def ask(case: Case) -> Answer:
        return run_loader(_plan(vllm, case), vllm.python)

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(_CASES, pool.map(ask, _CASES), strict=True))


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_the_dry_run_agrees_with_real_loading(
    vllm: Vllm, real: dict[str, Any], answers: dict[Case, Answer], case: Case
) -> None:
    """The first refusal is where the real loader dies; else the parameters with holes are the same."""
    found = real[str(vllm.folder(case))]
    answer = answers[case]
    refused = sorted(each.name or "" for each in answer.judged if each.outcome is Outcome.REFUSED)
    if found["error"]:
        assert found["failed_at"] in refused, (found, _failures(answer))
    else:
        missing = {each.name for each in answer.judged if each.outcome is Outcome.MISSING}
        assert refused == []
        assert missing == set(found["unwritten"]), (found, _failures(answer))
    faulty = bool(found["error"] or found["unwritten"])
    assert answer.loads is not faulty, _failures(answer)
    assert faulty is (case.fault != "none")


def _plan(vllm: Vllm, case: Case) -> Plan:
    turned = vllm.scratch / f"turned-{_CASES.index(case)}"
    source = turned if case.turned else vllm.scratch / "models" / case.model
    rules = parse_rules(case.rules, "fault.toml") if case.rules else Rules("none")
    return make_plan(read_checkpoint(str(source)), rules)


def _write(plan: Plan, folder: Path) -> None:
    for file in plan.files:
        target = folder / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(open_file(file).read())


def _turn(source: Path, target: Path, name: str) -> None:
    """Copy a checkpoint with the shape of one tensor turned round in its header."""
    target.mkdir()
    for path in source.iterdir():
        content = path.read_bytes()
        if path.suffix == ".safetensors":
            length = struct.unpack("<Q", content[:8])[0]
            header = json.loads(content[8 : 8 + length])
            if name in header:
                header[name]["shape"].reverse()
            text = json.dumps(header).encode()
            content = struct.pack("<Q", len(text)) + text + content[8 + length :]
        (target / path.name).write_bytes(content)


def _failures(answer: Answer) -> list[tuple[str | None, str, str]]:
    return [(each.name, each.outcome, each.reason) for each in answer.judged if not each.outcome.harmless]
