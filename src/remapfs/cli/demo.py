"""`remapfs demo`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from remapfs.cli.planning import plan_for
from remapfs.errors import RuntimeFailure
from remapfs.present.reader import open_file
from remapfs.words import count, size

if TYPE_CHECKING:
    from collections.abc import Callable

    from remapfs.demo import Comparison
    from remapfs.plan import Plan

_PRESET = "deepseek-v4"
_SHOWN = (
    "lm_head.weight",
    "model.layers.2.input_layernorm.weight",
    "model.layers.2.self_attn.q_a_proj.weight",
    "model.layers.2.self_attn.compressor.indexer.kv_proj.weight",
    "model.layers.2.mlp.experts.3.gate_proj.weight_scale",
)
_CHUNK = 1 << 20
_EPILOG = """
\b
Examples:
  remapfs demo
"""


@click.command(epilog=_EPILOG)
def demo() -> None:
    """Make a small ModelOpt-style DeepSeek-V4 checkpoint, mount it, compare every tensor, leave nothing.

    Where nothing can be mounted it says why and reads the same files through plain Python. Exit code 1 if any
    tensor differs.
    """
    with tempfile.TemporaryDirectory(prefix="remapfs-demo-") as folder:
        source, mountpoint = Path(folder, "checkpoint"), Path(folder, "mount")
        source.mkdir()
        mountpoint.mkdir()
        from remapfs.demo import write_checkpoint  # noqa: PLC0415  # numpy is needed here only

        write_checkpoint(source)
        plan = plan_for(str(source), _PRESET, None, "strict", force=False)
        tensors = sum(len(planned.names) for planned in plan.shards)
        click.echo(
            f"made      a ModelOpt-style DeepSeek-V4 checkpoint: {count(len(plan.shards), 'shard')}, "
            f"{count(tensors, 'tensor')}, {size(_length(plan))}"
        )
        try:
            refusal = _mount(source, mountpoint)
            if refusal is None:
                _show_mounted(plan, mountpoint)
            else:
                _show_read(plan, refusal)
        finally:
            # An interrupted demo too leaves nothing, not even a mount whose command it did not see return.
            if mountpoint.is_mount():
                _remapfs("umount", str(mountpoint))
    click.echo("removed: nothing is left")


def _mount(source: Path, mountpoint: Path) -> str | None:
    """Mount as a user would; returns what the command said where it could not."""
    start = time.monotonic()
    run = _remapfs("mount", str(source), str(mountpoint), "--preset", _PRESET, "--background")
    if run.returncode:
        return run.stderr.strip()
    click.echo(f"mounted   with  --preset {_PRESET}  in {time.monotonic() - start:.2f} s")
    return None


def _remapfs(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "remapfs", *arguments]
    # This very program, with arguments made here.
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603


def _show_mounted(plan: Plan, mountpoint: Path) -> None:
    from remapfs.demo import open_shards  # noqa: PLC0415  # safetensors and numpy are needed here only

    _show_names(plan)
    open_shards(plan, mountpoint)
    files = [file.path for file in plan.files]
    first = _rate(mountpoint, files)
    again = _rate(mountpoint, files)
    native = _rate(Path(plan.root), files)
    _report(_compare(plan, lambda path: (mountpoint / path).read_bytes()), "through the mount")
    click.echo(
        f"speed     {first:.1f} GB/s on first touch, {again:.1f} GB/s again, {native:.1f} GB/s the source "
        f"(cached, {size(_length(plan))}: a glimpse, see bench/ for figures)"
    )


def _show_read(plan: Plan, refusal: str) -> None:
    click.echo(f"not mounted; this host does not allow it:\n{refusal}")
    _show_names(plan)
    _report(_compare(plan, lambda path: _by_reader(plan, path)), "through the Python reader instead")


def _show_names(plan: Plan) -> None:
    renamed = {
        tensor.name: name or ""
        for planned in plan.shards
        for tensor, name in zip(planned.shard.header.tensors, planned.names, strict=True)
    }
    width = max(map(len, _SHOWN))
    for name in _SHOWN:
        click.echo(f"  {name:<{width}}  →  {renamed[name]}")


def _compare(plan: Plan, read: Callable[[str], bytes]) -> Comparison:
    from remapfs.demo import compare  # noqa: PLC0415  # safetensors and numpy are needed here only

    return compare(plan, read)


def _report(found: Comparison, how: str) -> None:
    import safetensors  # noqa: PLC0415  # needed here only

    if found.different:
        raise RuntimeFailure(
            f"{len(found.different)} of {found.tensors} tensors differ {how}: {found.different[0]} first",
            "this is a defect of remapfs: please report it with the output of  remapfs plan --dump",
        )
    click.echo(
        f"compared  {found.tensors} of {found.tensors} tensors equal, {how}, every shard opened by "
        f"safetensors {safetensors.__version__}"
    )


def _by_reader(plan: Plan, path: str) -> bytes:
    return open_file(next(file for file in plan.files if file.path == path)).read()


def _rate(folder: Path, paths: list[str]) -> float:
    """Read all the files once and return the rate in GB/s."""
    buffer = memoryview(bytearray(_CHUNK))
    done = 0
    start = time.perf_counter()
    for path in paths:
        descriptor = os.open(folder / path, os.O_RDONLY)
        try:
            while count := os.readv(descriptor, [buffer]):
                done += count
        finally:
            os.close(descriptor)
    return done / (time.perf_counter() - start) / 1e9


def _length(plan: Plan) -> int:
    return sum(file.size for file in plan.files)
