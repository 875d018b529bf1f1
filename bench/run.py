"""Compare reading through remapfs, bindfs and the file system itself."""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from checkpoints import make_experts
from machine import describe
from measure import CASES, measure, same_bytes
from mounts import Subject, available, mounted
from table import render

if TYPE_CHECKING:
    from measure import Result

_SHARDS = 8
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=size, default=size("2G"), help="bytes of the checkpoint, as in 2G")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write everything that was measured to this file")
    parser.add_argument(
        "--directory", type=Path, help="where the checkpoint is made; decides what disk is read"
    )
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, _stop)
    with (
        tempfile.TemporaryDirectory(prefix="remapfs-bench-", dir=options.directory) as made,
        ExitStack() as stack,
    ):
        work = Path(made).resolve()
        machine = describe(work)
        note("making the checkpoint")
        make_experts(work / "checkpoint", options.size, _SHARDS)
        native = Subject("native", work / "checkpoint")
        source = native.shards()
        subjects, missing = [native], {}
        for name, reason in available().items():
            if reason:
                missing[name] = reason
                continue
            subject = stack.enter_context(mounted(name, native.directory, work / name))
            same_bytes(source, subject)
            subjects.append(subject)
        results: dict[tuple[str, str], list[Result]] = {}
        for turn in range(options.rounds):
            for case in CASES:
                for subject in filter(case.fits, subjects):
                    note(f"round {turn + 1} of {options.rounds}: {case.name}: {subject.name}")
                    results.setdefault((case.name, subject.name), []).append(measure(case, subject, source))
    note("")
    print("\n".join(f"{key}: {value}" for key, value in machine.items()))
    print(f"checkpoint: {_SHARDS} shards, {options.size / 1e9:.2f} GB; medians of {options.rounds} rounds\n")
    print(render(results, [subject.name for subject in subjects]))
    for name, reason in missing.items():
        print(f"\n{name} is left out: {reason}")
    if options.json:
        raw = [
            {"case": case, "subject": name, "rounds": [asdict(result) for result in each]}
            for (case, name), each in results.items()
        ]
        report = {"machine": machine, "size": options.size, "missing": missing, "results": raw}
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


def size(text: str) -> int:
    """Read a number of bytes such as 512M."""
    found = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text} is not a size such as 512M or 2G")
    return int(found[1]) * _UNITS[found[2]]


def _stop(*_: object) -> NoReturn:
    raise SystemExit(143)


def note(text: str) -> None:
    """Say on a terminal what goes on."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
