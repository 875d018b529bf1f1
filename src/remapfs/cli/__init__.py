"""The command line."""

from remapfs.cli.main import main

__all__ = ["main"]
