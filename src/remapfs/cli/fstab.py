"""The command `mount.remapfs`, which mount(8) calls."""

from __future__ import annotations

import sys

from remapfs.cli import output
from remapfs.cli.mount import mount
from remapfs.errors import RemapError
from remapfs.service.fstab import arguments, read_call

# mount(8): incorrect invocation, and mount failure.
_USAGE, _FAILURE = 1, 32


def main() -> None:
    """Mount, return once the mount answers, and exit with the codes of mount(8)."""
    try:
        call = read_call(sys.argv[1:])
        words = arguments(call, mount)
    except RemapError as error:
        output.failure(error)
        sys.exit(_USAGE)
    if call.fake:
        return
    sys.argv = ["remapfs", "mount", *words]
    from remapfs.cli.main import main as run  # noqa: PLC0415  # only now is it known what to run

    try:
        run()
    except SystemExit as end:
        sys.exit(_FAILURE if end.code else 0)
