"""What this host can do for a mount, and what to do about the rest."""

from remapfs.doctor.checks import examine
from remapfs.doctor.host import look
from remapfs.doctor.model import Check, Host, Level, Refused, Storage, Works

__all__ = ["Check", "Host", "Level", "Refused", "Storage", "Works", "examine", "look"]
