"""vLLM itself loads what remapfs presents.

Needs an environment with vLLM, which is too large for the test dependencies. REMAPFS_VLLM_PYTHON names its
interpreter; REMAPFS_NVFP4_CHECKPOINT and REMAPFS_ALL_NVFP4_CHECKPOINT name ModelOpt exports of a tiny
DeepSeek V4, the first with only the experts in NVFP4, the second with everything.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mounting import remapfs

if TYPE_CHECKING:
    from collections.abc import Iterator

_SCRIPTS = Path(__file__).with_name("vllm")
_MINUTE = 60

# What ModelOpt's everything-NVFP4 recipe quantises and vLLM does not.
_NOT_LOADABLE = (
    "attn.compressor.wkv",
    "attn.compressor.wgate",
    "attn.indexer.compressor.wkv",
    "attn.indexer.compressor.wgate",
    "attn.indexer.weights_proj",
)


def _from_environment(variable: str) -> Path:
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} is not set")
    return Path(value).absolute()


@dataclass(frozen=True)
class Vllm:
    """A vLLM environment, and a directory for all that it would write elsewhere."""

    python: Path
    scratch: Path

    def run(self, script: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run one of the scripts beside this file to its end, with whatever it starts."""
        process = subprocess.Popen(
            [self.python, _SCRIPTS / script, *arguments],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            log, _ = process.communicate(timeout=5 * _MINUTE)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return subprocess.CompletedProcess(process.args, process.returncode, log)

    def result(self, script: str, model: Path, *arguments: str) -> dict[str, Any]:
        """Run a script that writes what it found about a model, and give that."""
        out = self.scratch / "result.json"
        out.unlink(missing_ok=True)
        run = self.run(script, model, out, *arguments)
        assert run.returncode == 0, run.stdout
        found: dict[str, Any] = json.loads(out.read_text())
        return found

    def failure(self, script: str, model: Path) -> str:
        """Run a script that has to fail, and give its log."""
        run = self.run(script, model, self.scratch / "none.json")
        assert run.returncode != 0, run.stdout
        return run.stdout

    def _environment(self) -> dict[str, str]:
        caches = ("HF_HOME", "VLLM_CACHE_ROOT", "VLLM_CONFIG_ROOT", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        return (
            inherited
            | dict.fromkeys(caches, str(self.scratch / "cache"))
            | {
                "HF_HUB_OFFLINE": "1",
                "VLLM_NO_USAGE_STATS": "1",
                "VLLM_CPU_KVCACHE_SPACE": "1",
                # The engine stays in the process that asks for it: nothing to leave behind.
                "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            }
        )


@dataclass(frozen=True)
class Checkpoints:
    """One model's values under vLLM's names and under ModelOpt's."""

    native: Path
    hf: Path


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Vllm:
    """Give the vLLM environment."""
    return Vllm(_from_environment("REMAPFS_VLLM_PYTHON"), tmp_path_factory.mktemp("vllm"))


@pytest.fixture(scope="module")
def checkpoints(vllm: Vllm, tmp_path_factory: pytest.TempPathFactory) -> Checkpoints:
    """Make a tiny BF16 model under both sets of names."""
    folder = tmp_path_factory.mktemp("checkpoints")
    run = vllm.run("write_checkpoints.py", folder)
    assert run.returncode == 0, run.stdout
    return Checkpoints(folder / "native", folder / "hf")


@pytest.fixture(scope="module")
def native_digests(vllm: Vllm, checkpoints: Checkpoints) -> dict[str, Any]:
    """Give the digest of every parameter after vLLM has loaded the model under its own names."""
    digests = vllm.result("load_engine.py", checkpoints.native)
    assert len(digests) == 80
    return digests


@pytest.fixture
def mountpoint(tmp_path: Path) -> Path:
    """Make an empty directory to mount on."""
    path = tmp_path / "mnt"
    path.mkdir()
    return path


def _mount(source: Path, mountpoint: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return remapfs("mount", source, mountpoint, "--preset", "deepseek-v4", "--background", *options)


@contextlib.contextmanager
def _mounted(source: Path, mountpoint: Path, *options: str) -> Iterator[Path]:
    run = _mount(source, mountpoint, *options)
    assert run.returncode == 0, run.stderr
    try:
        yield mountpoint
    finally:
        run = remapfs("umount", mountpoint)
        assert run.returncode == 0, run.stderr
        assert not mountpoint.is_mount()


@pytest.mark.parametrize("strategy", ["lazy", "prefetch"])
def test_the_engine_holds_the_same_values_as_with_native_names(
    vllm: Vllm, checkpoints: Checkpoints, native_digests: dict[str, Any], mountpoint: Path, strategy: str
) -> None:
    """All 80 parameters have the digests that they have after loading the native checkpoint."""
    with _mounted(checkpoints.hf, mountpoint) as presented:
        assert vllm.result("load_engine.py", presented, strategy) == native_digests


def test_the_dry_run_says_of_both_what_the_engine_does(vllm: Vllm, checkpoints: Checkpoints) -> None:
    """What loads under its own names, and through the preset, loads in the dry run, and nothing else."""
    asking = ["--against", "vllm", "--python", str(vllm.python)]
    native = remapfs("check", checkpoints.native, *asking)
    assert native.stdout.startswith("loads: "), native.stdout + native.stderr
    through = remapfs("check", checkpoints.hf, "--preset", "deepseek-v4", *asking)
    assert through.stdout == native.stdout
    without = remapfs("check", checkpoints.hf, *asking)
    assert without.returncode == 1
    assert "mlp_layer_types" in without.stdout
    assert "UnboundLocalError" in without.stdout
    assert "fix:  --preset deepseek-v4" in without.stdout


def test_without_the_mount_the_engine_refuses_the_configuration(vllm: Vllm, checkpoints: Checkpoints) -> None:
    """The words that transformers uses for the kinds of layer are the first thing that vLLM does not know."""
    assert "mlp_layer_types" in vllm.failure("load_engine.py", checkpoints.hf)


def test_without_the_mount_the_engine_dies_on_a_name(
    vllm: Vllm, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    """With the configuration put right and the names left alone, loading the weights fails."""
    shutil.copytree(checkpoints.hf, tmp_path / "model")
    shutil.copyfile(checkpoints.native / "config.json", tmp_path / "model" / "config.json")
    log = vllm.failure("load_engine.py", tmp_path / "model")
    assert re.search(r"in load_weights\n(?s:.*)KeyError: 'layers\.0\.", log), log


def test_every_tensor_of_an_nvfp4_export_loads(vllm: Vllm, mountpoint: Path) -> None:
    """Each of 296 tensors finds its parameter, and no parameter is left without one."""
    with _mounted(_from_environment("REMAPFS_NVFP4_CHECKPOINT"), mountpoint) as presented:
        found = vllm.result("load_nvfp4.py", presented)
    assert found["failed"] == {}
    assert found["missing"] == []
    assert len(found["loaded"]) == 296


def test_without_the_mount_an_nvfp4_export_is_refused(vllm: Vllm) -> None:
    """It fails before the model is built."""
    log = vllm.failure("load_nvfp4.py", _from_environment("REMAPFS_NVFP4_CHECKPOINT"))
    assert "mlp_layer_types" in log


def test_an_export_that_cannot_load_is_refused_before_the_mount(mountpoint: Path) -> None:
    """Exit code 2, the tensors named by pattern, and the mount point as it was."""
    source = _from_environment("REMAPFS_ALL_NVFP4_CHECKPOINT")
    before = mountpoint.stat()
    run = _mount(source, mountpoint)
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.startswith("error: 28 tensors cannot be loaded")
    for module in _NOT_LOADABLE:
        leaves = rf"layers\.\S+\.{re.escape(module)}\.\{{input_scale, weight, weight_scale, weight_scale_2\}}"
        assert re.search(leaves, run.stderr), run.stderr
    assert "--force" in run.stderr
    assert not mountpoint.is_mount()
    assert mountpoint.stat() == before


def test_what_is_refused_is_what_vllm_cannot_load(vllm: Vllm, mountpoint: Path) -> None:
    """Presented all the same, those 28 tensors of 404 fail and no other."""
    with _mounted(_from_environment("REMAPFS_ALL_NVFP4_CHECKPOINT"), mountpoint, "--force") as presented:
        found = vllm.result("load_nvfp4.py", presented)
    assert len(found["loaded"]) == 404 - 28
    assert len(found["failed"]) == 28
    modules = {re.sub(r"^layers\.\d+\.", "", name.rpartition(".")[0]) for name in found["failed"]}
    assert modules == set(_NOT_LOADABLE)
