"""The presenter that needs no server: an EROFS image, mounted over the shards as they lie on disk."""

from remapfs.present.erofs.backing import Backing
from remapfs.present.erofs.detached import ImageOptions
from remapfs.present.erofs.session import check, looks_possible, mount, serve

__all__ = ["Backing", "ImageOptions", "check", "looks_possible", "mount", "serve"]
