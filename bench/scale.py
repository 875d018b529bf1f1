"""How the time until a mount answers, and its memory, grow with shards and with tensors."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NoReturn

from checkpoints import make
from deepseek_v4 import PRO
from machine import describe
from startup import start

if TYPE_CHECKING:
    from deepseek_v4 import Model
    from startup import Start

_STEPS: tuple[tuple[Model, int], ...] = (
    (replace(PRO, kinds=PRO.kinds[:1], experts=80), 1),
    (replace(PRO, kinds=PRO.kinds[:3], experts=276), 1),
    (replace(PRO, kinds=PRO.kinds[:22], experts=377), 16),
    (PRO, 1),
    (PRO, 4),
    (PRO, 16),
    (PRO, 95),
)


@dataclass(frozen=True, slots=True)
class Step:
    """One checkpoint and the starts of a mount of it."""

    presenter: str
    tensors: int
    shards: int
    data: int
    starts: tuple[Start, ...]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--presenter", action="append", choices=("fuse", "fusepy", "erofs"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", type=Path, help="where the sparse checkpoints are made")
    parser.add_argument("--json", type=Path, help="also write everything that was measured to this file")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    presenters = options.presenter or ["fuse"]
    steps = []
    with tempfile.TemporaryDirectory(prefix="remapfs-bench-", dir=options.directory) as made:
        machine = describe(Path(made))
        mountpoint = Path(made).resolve() / "mount"
        mountpoint.mkdir()
        for number, (model, shards) in enumerate(_STEPS):
            source = Path(made).resolve() / str(number)
            totals = make(source, model, shards)
            for presenter in presenters:
                starts = tuple(start(source, mountpoint, presenter) for _ in range(options.rounds))
                steps.append(Step(presenter, totals.tensors, shards, totals.data, starts))
    print("\n".join(f"{key}: {value}" for key, value in machine.items()))
    print(f"medians of {options.rounds} rounds\n")
    print("| presenter | tensors | shards | data | answers after | peak memory |\n|---|--:|--:|--:|--:|--:|")
    for step in steps:
        seconds = median(each.mounted for each in step.starts)
        peak = median(each.peak_memory for each in step.starts)
        data = f"{step.data / 1e9:.0f} GB"
        print(
            f"| {step.presenter} | {step.tensors:,} | {step.shards} | {data} | {seconds:.2f} s"
            f" | {peak / 1e6:.0f} MB |"
        )
    if options.json:
        content = {"machine": machine, "steps": [asdict(step) for step in steps]}
        options.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _stop(*_: object) -> NoReturn:
    raise SystemExit(143)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
