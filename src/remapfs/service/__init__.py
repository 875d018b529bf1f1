"""Running as a service: a configuration file for a mount, units for systemd, and what fstab calls."""
