"""Run the command line: python -m remapfs."""

from remapfs.cli import main

main()
