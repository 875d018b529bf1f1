"""The default presenter: a server that speaks the kernel's FUSE protocol on /dev/fuse itself."""

from remapfs.present.fuse.session import Session
from remapfs.present.fuse.supervisor import serve

__all__ = ["Session", "serve"]
