"""Compare loading a checkpoint with the loaders that people use, through remapfs and without."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import caches
import readers
from checkpoints import make_experts
from loading import LOADERS
from machine import describe
from mounts import Subject, available, mounted
from run import note, size

_SHARDS: Final = 8
_SUBJECTS: Final = ("erofs", "fuse", "fusepy")
_PROGRAM: Final = Path(__file__).with_name("loading.py")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=size, default=size("1G"), help="bytes of the checkpoint, as in 2G")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--python",
        default=sys.executable,
        help="the Python that has torch and the loaders; others are left out",
    )
    parser.add_argument("--json", type=Path, help="also write everything that was measured to this file")
    parser.add_argument("--directory", type=Path, help="where the checkpoint is made")
    options = parser.parse_args()
    missing = {
        name: why for name, (package, _) in LOADERS.items() if (why := _why_not(options.python, package))
    }
    missing |= {name: why for name in _SUBJECTS if (why := available()[name])}
    speeds: dict[tuple[str, str, str], list[float]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="remapfs-bench-", dir=options.directory) as made,
        ExitStack() as stack,
    ):
        work = Path(made).resolve()
        machine = describe(work)
        make_experts(work / "checkpoint", options.size, _SHARDS)
        native = Subject("native", work / "checkpoint")
        subjects = [native]
        subjects += [
            stack.enter_context(mounted(name, native.directory, work / name))
            for name in _SUBJECTS
            if name not in missing
        ]
        for turn in range(options.rounds):
            for loader in LOADERS:
                for state in ("warm", "cold"):
                    for subject in subjects if loader not in missing else ():
                        note(
                            f"round {turn + 1} of {options.rounds}: {loader}, source {state}: {subject.name}"
                        )
                        speed = _measure(options.python, loader, subject, native, state)
                        speeds.setdefault((loader, state, subject.name), []).append(speed)
    note("")
    print("\n".join(f"{key}: {value}" for key, value in machine.items()))
    print(f"checkpoint: {_SHARDS} shards, {options.size / 1e9:.2f} GB")
    print(f"GB/s, medians of {options.rounds} rounds\n")
    print(_table(speeds, [subject.name for subject in subjects]))
    for name, reason in missing.items():
        print(f"\n{name} is left out: {reason}")
    if options.json:
        raw = [{"loader": a, "source": b, "subject": c, "speeds": each} for (a, b, c), each in speeds.items()]
        options.json.write_text(
            json.dumps({"machine": machine, "results": raw}, indent=2) + "\n", encoding="utf-8"
        )


def _measure(python: str, loader: str, subject: Subject, native: Subject, state: str) -> float:
    """Load everything once and give GB/s."""
    shards = subject.shards()
    with caches.opened(native.shards()) as below, caches.opened(shards if subject.server else ()) as above:
        caches.drop([*below, *above])
        if state == "warm":
            caches.warm(below)
        reading = readers.start([python, str(_PROGRAM), loader], [shards])
    return reading.size / 1e9 / reading.seconds


def _table(speeds: dict[tuple[str, str, str], list[float]], subjects: list[str]) -> str:
    medians = {key: statistics.median(each) for key, each in speeds.items()}
    others = [name for name in subjects if name != "native"]
    head = ["loader, source", *subjects, *(f"{name} ÷ native" for name in others)]
    rows = [head, ["---", *["--:"] * (len(head) - 1)]]
    for loader, state in dict.fromkeys((loader, state) for loader, state, _ in speeds):
        row = [f"{loader}, {state}"]
        row += [f"{medians[loader, state, name]:.2f}" for name in subjects]
        native = medians[loader, state, "native"]
        row += [f"{medians[loader, state, name] / native:.2f}" for name in others]
        rows.append(row)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _why_not(python: str, package: str) -> str:
    """Say why a package cannot be used, or the empty string."""
    # An import, not a look: a package without what it needs is as good as none.
    done = subprocess.run(
        [python, "-c", f"import torch, {package}"], capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else f"{python}: {done.stderr.strip().rpartition(chr(10))[2]}"


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
