"""`remapfs install-units`."""

from __future__ import annotations

import os

import click

from remapfs.cli.config import read_config
from remapfs.errors import RemapError
from remapfs.service import install

_EPILOG = """
\b
Examples:
  sudo remapfs install-units && sudo systemctl daemon-reload
  remapfs install-units --drop-in v4 > /etc/systemd/system/vllm.service.d/remapfs.conf
  sudo remapfs install-units --uninstall
"""


@click.command(epilog=_EPILOG)
@click.option("--root", metavar="DIR", default="/", show_default=True, help="Install below this directory.")
@click.option(
    "--program", metavar="PATH", help="The remapfs command that the units run.  [default: this one]"
)
@click.option("--force", is_flag=True, help="Write over files that hold something else.")
@click.option("--uninstall", is_flag=True, help="Remove what was installed and not changed since.")
@click.option(
    "--drop-in",
    "mount_name",
    metavar="NAME",
    help="Only print the drop-in for a unit that needs the mount NAME.",
)
def install_units(
    root: str, program: str | None, mount_name: str | None, *, force: bool, uninstall: bool
) -> None:
    """Put the units remapfs@.service, an example of /etc/remapfs/NAME.toml and mount.remapfs in place.

    Files that hold something else are left alone, with exit code 2. Prints what it wrote or removed.
    """
    if mount_name is not None:
        click.echo(install.drop_in(mount_name, _mountpoint(root, mount_name)), nl=False)
        return
    command = program or install.find_program()
    changed = install.uninstall(root, command) if uninstall else install.install(root, command, force=force)
    for path in changed:
        click.echo(path)


def _mountpoint(root: str, name: str) -> str:
    """Read where the mount `name` will be from its configuration."""
    from remapfs.cli.mount import mount  # noqa: PLC0415  # only for its options

    file = os.path.join(root, "etc/remapfs", f"{name}.toml")
    mountpoint: str | None = read_config(file, mount).get("mountpoint")
    if mountpoint is None:
        raise RemapError(f"{file} says no mountpoint", 'write  mountpoint = "…"')
    return mountpoint
