"""The command line with a disk that stands still: run as a program by the tests of interruptions.

The first argument is a directory. Once the third part of a shard is to be written, half of it is; then a
file `stalled` is made there, and nothing is written on until there is a file `go`.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from pathlib import Path

from remapfs.cli import main
from remapfs.present.reflink import copying

folder = Path(sys.argv.pop(1))
write = copying.write_all
calls = itertools.count()
lock = threading.Lock()


def write_slowly(target: int, data: memoryview | bytes, at: int) -> None:
    """Write half, wait, write the rest."""
    with lock:
        third = next(calls) == 2
    if third:
        half = len(data) // 2
        write(target, data[:half], at)
        (folder / "stalled").touch()
        while not (folder / "go").exists():
            time.sleep(0.05)
        data, at = data[half:], at + half
    write(target, data, at)


copying.write_all = write_slowly
main()
