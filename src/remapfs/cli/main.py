"""The command group, and what every failure looks like."""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module
from typing import Final

import click

from remapfs.cli import output
from remapfs.errors import RemapError, RuntimeFailure

_COMMANDS: Final = {
    "mount": "Mount a checkpoint under other names.",
    "status": "Say how mounts fare: who reads, how fast, what failed.",
    "warm": "Read a mount's shards into the page cache, before they are loaded.",
    "umount": "Unmount what `mount` mounted, alive or dead.",
    "export": "Write a checkpoint to a directory under other names, sharing its bytes where possible.",
    "verify": "Compare a mount or an export with its source, byte for byte.",
    "plan": "Show what a mount would show, without mounting.",
    "check": "Say whether it would load, before it is loaded.",
    "suggest": "Write the rules that lead from one checkpoint's names to another's.",
    "presets": "List the presets, or print one.",
    "doctor": "Say what this host can do for a mount, and what to do about the rest.",
    "install-units": "Put units for systemd, and what fstab needs, in place.",
    "demo": "Make a small checkpoint, mount it, compare every tensor, leave nothing.",
}
_INTERRUPTED: Final = 130

_EPILOG: Final = """
\b
Examples:
  remapfs demo
  remapfs plan  /data/DeepSeek-V4-NVFP4 --preset deepseek-v4
  remapfs mount /data/DeepSeek-V4-NVFP4 /mnt/v4 --preset deepseek-v4
"""


class _Commands(click.Group):
    """Imports a command only when it is asked for: start-up time is part of every mount."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names in the order in which they are met."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command: it is called like its module."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(import_module(f"remapfs.cli.{name}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


@click.group(cls=_Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="remapfs", message="%(prog)s %(version)s")
def remapfs() -> None:
    """Present a safetensors checkpoint under the names its loader wants, without copying a tensor."""


def main() -> None:
    """Run the command line and exit: 0 on success, 2 for bad input, 1 for what fails while running."""
    try:
        code = remapfs(prog_name="remapfs", standalone_mode=False)
    except RemapError as error:
        output.failure(error)
        code = error.exit_code
    except click.exceptions.Abort:
        code = _INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = error.exit_code
    except click.ClickException as error:
        where = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "remapfs"
        output.failure(RemapError(error.format_message(), f"see: {where} --help"))
        code = error.exit_code
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has gone, as `| head` does; nothing is left to tell it.
        sys.stderr.close()
        code = 1
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        output.failure(
            RuntimeFailure(os.strerror(errno.ENOSPC), "make room where the output goes, or in TMPDIR")
        )
        code = RuntimeFailure.exit_code
    sys.exit(code if isinstance(code, int) else 0)
