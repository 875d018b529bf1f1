"""The full-size DeepSeek-V4 checkpoint as sparse files, and how fast it is mounted."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import NoReturn

from checkpoints import make
from deepseek_v4 import MODELS
from machine import describe
from startup import Start, start


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="write the checkpoint as sparse files")
    making.add_argument("directory", type=Path)
    making.add_argument("--model", choices=sorted(MODELS), default="pro")
    making.add_argument("--shards", type=int, default=95)
    mounting = commands.add_parser("mount", help="measure the time and memory that mounting it takes")
    mounting.add_argument("directory", type=Path)
    mounting.add_argument("--presenter", choices=("fuse", "fusepy"), default="fuse")
    mounting.add_argument("--rounds", type=int, default=5)
    mounting.add_argument("--json", type=Path, help="also write everything that was measured to this file")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    if options.command == "make":
        totals = make(options.directory, MODELS[options.model], options.shards)
        print(
            f"{totals.shards} shards, {totals.tensors:,} tensors, "
            f"{totals.data:,} bytes of tensors, {totals.apparent:,} bytes apparent"
        )
    else:
        _mount(options.directory.resolve(), options.presenter, options.rounds, options.json)


def _mount(source: Path, presenter: str, rounds: int, report: Path | None) -> None:
    machine = describe(source)
    with tempfile.TemporaryDirectory(prefix="remapfs-bench-") as made:
        mountpoint = Path(made).resolve() / "mount"
        mountpoint.mkdir()
        starts = [start(source, mountpoint, presenter) for _ in range(rounds)]
    print("\n".join(f"{key}: {value}" for key, value in machine.items()))
    print(f"{source} through {presenter}\n")
    print(_table(starts))
    if report:
        content = {
            "machine": machine,
            "source": str(source),
            "presenter": presenter,
            "rounds": [asdict(each) for each in starts],
        }
        report.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _table(starts: list[Start]) -> str:
    rows = [
        ("mounted, s", [each.mounted for each in starts], ".2f"),
        ("every shard read, s", [each.every_shard_read for each in starts], ".2f"),
        ("peak memory, MB", [each.peak_memory / 1e6 for each in starts], ".0f"),
        ("steady memory, MB", [each.steady_memory / 1e6 for each in starts], ".0f"),
    ]
    head = ["", "median", *(f"round {number}" for number in range(1, len(starts) + 1))]
    lines = [head, *([label, *(format(x, form) for x in (median(xs), *xs))] for label, xs, form in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = [
        [
            line[0].ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)),
        ]
        for line in lines
    ]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join(f"| {' | '.join(line)} |" for line in (padded[0], rule, *padded[1:]))


def _stop(*_: object) -> NoReturn:
    raise SystemExit(143)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
