"""Whether two plans look the same to a kernel that has cached parts of one of them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import astuple
from typing import TYPE_CHECKING

from remapfs.plan.extents import Literal, VirtualFile
from remapfs.plan.tree import build_tree
from remapfs.present.fuse import wire

if TYPE_CHECKING:
    from remapfs.plan.extents import Extent
    from remapfs.plan.model import Plan


def fingerprint(plan: Plan) -> str:
    """Hash every node with its number, attributes and bytes, and what was agreed with the kernel.

    Bytes of sources are taken to be the same if the sources' identities are.
    """
    digest = hashlib.sha256(json.dumps(wire.AGREED).encode())
    for node in build_tree(plan.files, plan.directories):
        extents = node.entry.extents if isinstance(node.entry, VirtualFile) else ()
        line = [
            node.ino,
            node.entry.path,
            astuple(node.entry.attributes),
            [_extent(each) for each in extents],
        ]
        digest.update(json.dumps(line).encode())
    return digest.hexdigest()


def _extent(extent: Extent) -> list[object]:
    if isinstance(extent, Literal):
        return [hashlib.sha256(extent.data).hexdigest()]
    return [astuple(extent.source), extent.offset, extent.length]
