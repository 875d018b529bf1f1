"""The presenter that needs no server: an EROFS image, mounted over the shards as they lie on disk."""

from remapfs.present.erofs.session import mount, serve

__all__ = ["mount", "serve"]
