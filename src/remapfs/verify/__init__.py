"""A mount, an export or any other directory compared with what its source says it must be."""

from remapfs.verify.chunks import Share
from remapfs.verify.compare import verify_plan
from remapfs.verify.model import Difference, Equal

__all__ = ["Difference", "Equal", "Share", "verify_plan"]
