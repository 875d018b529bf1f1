"""`remapfs umount`."""

from __future__ import annotations

import click

from remapfs.cli.config import read_config
from remapfs.present import mountpoint as mountpoints

_EPILOG = """
\b
Examples:
  remapfs umount /mnt/v4
  remapfs umount --dead --config /etc/remapfs/v4.toml
"""


@click.command(epilog=_EPILOG)
@click.argument("mountpoint", required=False)
@click.option("--dead", is_flag=True, help="Only clear a mount whose server is gone; leave any other alone.")
@click.option(
    "--config", metavar="FILE", help="Take the mount point from a file that `mount --config` takes."
)
@click.pass_context
def umount(context: click.Context, mountpoint: str | None, config: str | None, *, dead: bool) -> None:
    """End the remapfs mount at MOUNTPOINT; a dead one, whose server is gone, is cleared.

    Other file systems are left alone. Exit code 1 if it is in use.
    """
    if config is not None and mountpoint is None:
        from remapfs.cli.mount import mount  # noqa: PLC0415  # only for its options

        mountpoint = read_config(config, mount).get("mountpoint")
    if mountpoint is None:
        raise click.MissingParameter(ctx=context, param_hint="'MOUNTPOINT'", param_type="argument")
    if dead:
        mountpoints.clear_dead(mountpoint)
    else:
        mountpoints.unmount(mountpoint)
