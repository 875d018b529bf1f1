"""The full-size DeepSeek-V4 checkpoint, as sparse files."""

from __future__ import annotations

import argparse
from pathlib import Path

from deepseek_v4 import MODELS
from checkpoints import make


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="write the checkpoint as sparse files")
    making.add_argument("directory", type=Path)
    making.add_argument("--model", choices=sorted(MODELS), default="pro")
    making.add_argument("--shards", type=int, default=95)
    options = parser.parse_args()
    totals = make(options.directory, MODELS[options.model], options.shards)
    print(
        f"{totals.shards} shards, {totals.tensors:,} tensors, "
        f"{totals.data:,} bytes of tensors, {totals.apparent:,} bytes apparent"
    )


if __name__ == "__main__":
    main()
