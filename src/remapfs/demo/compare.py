"""Every tensor of a presented checkpoint compared with its source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import safetensors

from remapfs.errors import RuntimeFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from remapfs.plan import Plan


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many shards and tensors were compared, and the presented names of the tensors that differ."""

    shards: int
    tensors: int
    different: tuple[str, ...]


def open_shards(plan: Plan, mountpoint: Path) -> None:
    """Open every presented shard as loaders do, by mmap.

    Raises RuntimeFailure if its names are not those of the plan.
    """
    for planned in plan.shards:
        path = planned.shard.file.path
        wanted = {name for _, name in planned.presented()}
        with safetensors.safe_open(mountpoint / path, framework="np") as shard:
            found = set(shard.keys())
        if found != wanted:
            raise RuntimeFailure(f"{path} has other names through the mount: {sorted(found ^ wanted)[:5]}")


def compare(plan: Plan, read: Callable[[str], bytes]) -> Comparison:
    """Compare all tensors, by the names that the plan gives them, with those on disk.

    `read` gives the bytes of a presented file by its relative path. Both sides go through the strict parser
    of the safetensors package, which knows nothing of the plan.
    """
    count = 0
    different = []
    for planned in plan.shards:
        source = _parse(Path(planned.shard.file.source.path).read_bytes())
        presented = _parse(read(planned.shard.file.path))
        names = [(tensor.name, name) for tensor, name in planned.presented()]
        count += len(names)
        different += [new for old, new in names if presented.get(new) != source[old]]
        different += sorted(presented.keys() - {new for _, new in names})
    return Comparison(len(plan.shards), count, tuple(different))


def _parse(data: bytes) -> dict[str, object]:
    return dict(safetensors.deserialize(data))  # type: ignore[no-untyped-call]  # the package types its Rust half loosely
