"""Serves a directory, started as a service manager starts a service.

Arguments: descriptors to pass on, their names, the directory, the mount point, and options:
`no-resend` for a kernel that does not know RESEND, `dies` for servers that die as they begin, `slow` for
servers that take half a second for every read.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sys
import time
from pathlib import Path

from present.plans import plan_of
from remapfs.errors import RemapError
from remapfs.present.fuse import serve, supervisor, threads
from remapfs.present.options import LOGGER, MountOptions
from remapfs.present.sources import SourcePool

_FIRST = 3
_ABOVE = 50


def _pass_on(descriptors: str, names: str) -> None:
    # Out of the way first: a number that is wanted may be in use by another.
    high = [fcntl.fcntl(int(each), fcntl.F_DUPFD, _ABOVE) for each in descriptors.split(",") if each]
    for number, descriptor in enumerate(high, _FIRST):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if high:
        os.environ |= {
            "LISTEN_PID": str(os.getpid()),
            "LISTEN_FDS": str(len(high)),
            "LISTEN_FDNAMES": names,
        }


def _die(_: object) -> None:
    os._exit(9)


def main() -> None:
    """Serve until the end."""
    descriptors, names, source, mountpoint, *options = sys.argv[1:]
    _pass_on(descriptors, names)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    if "no-resend" in options:
        vars(supervisor)["resend"] = lambda _: False  # as a kernel before 6.9 answers
    if "dies" in options:
        threads.ServingThreads.start = _die  # type: ignore[assignment,method-assign]  # a server that cannot begin
    if "slow" in options:
        read = SourcePool.read_into

        def slow(*arguments: object) -> int:
            time.sleep(0.5)
            return read(*arguments)  # type: ignore[arg-type]  # what it was called with

        SourcePool.read_into = slow  # type: ignore[assignment,method-assign]
    try:
        serve(
            plan_of(Path(source)),
            mountpoint,
            MountOptions(),
            lambda: print("ready", flush=True),  # noqa: T201 - the test waits for it
        )
    except RemapError as error:
        LOGGER.critical("%s", error.message)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
