"""What readers notice while the server of their mount is killed again and again."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from machine import describe
from mounts import family, serving, wait
from remapfs import load_rules, make_plan, open_file, read_checkpoint
from verifier import WAYS, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from remapfs import Plan

_READERS: Final = 8
_MIB: Final = 1 << 20
_PATIENCE: Final = 120.0
# A step that began this long after a kill was not held up by it.
_LATEST: Final = 0.02


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened: kills, whole files read right and wrong, errors, and the longest stall after each kill.

    `calm` are the stalls at moments without a kill, before the first. Stalls are in seconds; memory in bytes
    and descriptors are the supervisor's, before and after.
    """

    kills: int
    right: int
    wrong: int
    errors: list[str]
    stalls: list[float]
    calm: list[float]
    memory: tuple[int, int]
    descriptors: tuple[int, int]


def main() -> None:
    """Run the command line; the exit code is 1 if any reader saw an error or a wrong byte."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--pause", type=float, nargs=2, default=(0.2, 1.0), metavar=("FROM", "TO"))
    parser.add_argument("--size", type=int, default=64, help="MiB of each of the shards, one a reader")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--directory", type=Path, help="where the checkpoint lies [default: the temporary one]"
    )
    parser.add_argument("--json", type=Path, help="also write what was measured to this file")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    with tempfile.TemporaryDirectory(prefix="remapfs-bench-", dir=options.directory) as made:
        folder = Path(made).resolve()
        machine = describe(folder)
        chance = random.Random(options.seed)  # noqa: S311 - when to kill is no secret
        outcome = _run(folder, options.size * _MIB, options.seconds, options.pause, chance)
    print("\n".join(f"{key}: {value}" for key, value in machine.items()))
    print(_text(outcome))
    if options.json:
        content = {"machine": machine, **{name: getattr(outcome, name) for name in Outcome.__slots__}}
        options.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    sys.exit(1 if outcome.wrong or outcome.errors else 0)


def _run(
    folder: Path, size: int, seconds: float, pause: tuple[float, float], chance: random.Random
) -> Outcome:
    source, mountpoint, rules = folder / "source", folder / "mount", folder / "rules.toml"
    source.mkdir()
    mountpoint.mkdir()
    rules.write_text("[[rename]]\nprefix = 'old.'\nto = 'new.'\n", encoding="utf-8")
    for number in range(_READERS):
        _write_shard(source / f"model-{number}.safetensors", size, chance)
    wanted = _expected(make_plan(read_checkpoint(str(source)), load_rules(str(rules))))
    command = [sys.executable, "-m", "remapfs", "mount", str(source), str(mountpoint), "--rules", str(rules)]
    with serving(command, mountpoint) as process, ExitStack() as stack:
        wait(process, mountpoint)
        paths = sorted(mountpoint.iterdir())
        readers = [
            _reader(stack, way, path, wanted[path.name] if way != "names" else _named(paths, path))
            for way, path in zip(WAYS * (_READERS // len(WAYS)), paths, strict=True)
        ]
        memory, descriptors = _memory(process.pid), _descriptors(process.pid)
        calm = list(_moments(seconds / 4, pause, chance))
        kills = []
        for moment in _moments(seconds, pause, chance):
            kills.append(moment)
            _kill(process.pid)
        results = [_result(reader) for reader in readers]
        memory_after, descriptors_after = _memory(process.pid), _descriptors(process.pid)
    steps = [step for result in results for step in result.steps]
    return Outcome(
        len(kills),
        sum(result.right for result in results),
        sum(result.wrong for result in results),
        [error for result in results for error in result.errors],
        [_stall(kill, steps) for kill in kills],
        [_stall(moment, steps) for moment in calm],
        (memory, memory_after),
        (descriptors, descriptors_after),
    )


def _moments(seconds: float, pause: tuple[float, float], chance: random.Random) -> Iterator[float]:
    """Yield the time now and then, until `seconds` are over."""
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end:
        time.sleep(min(chance.uniform(*pause), end - now))
        yield time.monotonic()


def _write_shard(path: Path, size: int, chance: random.Random) -> None:
    entry = {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}
    header = json.dumps({f"old.{path.stem}": entry}).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + chance.randbytes(size))


def _expected(plan: Plan) -> dict[str, str]:
    """Hash what the plan says, read without a mount."""
    hashes = {}
    for file in plan.files:
        with open_file(file) as stream:
            digest = hashlib.sha256()
            while piece := stream.read(_MIB):
                digest.update(piece)
        hashes[file.path] = digest.hexdigest()
    return hashes


def _named(paths: list[Path], path: Path) -> str:
    seen = [[each.name for each in paths], path.stat().st_size, True]
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()


def _reader(stack: ExitStack, way: str, path: Path, wanted: str) -> subprocess.Popen[str]:
    program = Path(__file__).with_name("verifier.py")
    reader = subprocess.Popen(
        [sys.executable, "-I", str(program), way, str(path), wanted],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    stack.callback(reader.kill)
    assert reader.stdin is not None  # noqa: S101 - a pipe was asked for
    assert reader.stdout is not None  # noqa: S101
    reader.stdout.readline()
    reader.stdin.write("go\n")
    reader.stdin.flush()
    return reader


def _result(reader: subprocess.Popen[str]) -> Verdict:
    said, _ = reader.communicate(timeout=_PATIENCE)
    if reader.returncode:
        return Verdict(errors=[f"a reader ended with {reader.returncode}"])
    return Verdict(**json.loads(said))


def _kill(supervisor: int) -> None:
    for pid in family(supervisor)[1:]:
        if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").strip() == "remapfs-server":
            os.kill(pid, signal.SIGKILL)


def _stall(kill: float, steps: list[tuple[float, float]]) -> float:
    return max((end - kill for begin, end in steps if begin < kill + _LATEST and end > kill), default=0.0)


def _memory(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def _descriptors(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _text(outcome: Outcome) -> str:
    lines = [
        f"kills: {outcome.kills}",
        f"files read: {outcome.right} right, {outcome.wrong} wrong",
        f"errors: {len(outcome.errors)}",
        f"stall after a kill, ms: {_percentiles(outcome.stalls)}",
        f"stall without a kill, ms: {_percentiles(outcome.calm)}",
        f"supervisor's memory, MB: {outcome.memory[0] / 1e6:.1f} → {outcome.memory[1] / 1e6:.1f}",
        f"supervisor's descriptors: {outcome.descriptors[0]} → {outcome.descriptors[1]}",
    ]
    return "\n".join(lines + outcome.errors[:20])


def _percentiles(stalls: list[float]) -> str:
    ordered = sorted(stalls) or [0.0]
    p50, p99 = (ordered[int(len(ordered) * share)] for share in (0.5, 0.99))
    return f"p50 {p50 * 1e3:.0f}, p99 {p99 * 1e3:.0f}, max {ordered[-1] * 1e3:.0f}"


def _stop(*_: object) -> NoReturn:
    raise SystemExit(143)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
