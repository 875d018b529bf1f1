"""Keeping a server alive: signals, restarts, and what systemd holds and is told."""
