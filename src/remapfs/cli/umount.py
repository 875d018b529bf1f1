"""`remapfs umount`."""

from __future__ import annotations

import click

from remapfs.present import mountpoint as mountpoints

_EPILOG = """
\b
Examples:
  remapfs umount /mnt/v4
"""


@click.command(epilog=_EPILOG)
@click.argument("mountpoint")
def umount(mountpoint: str) -> None:
    """End the remapfs mount at MOUNTPOINT; a dead one, whose server is gone, is cleared.

    Other file systems are left alone. Exit code 1 if it is in use.
    """
    mountpoints.unmount(mountpoint)
