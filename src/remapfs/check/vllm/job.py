"""What a plan presents, written down for the process that runs the loader: small files, names, no weights."""

from __future__ import annotations

import os
import posixpath
import struct
from typing import TYPE_CHECKING, NamedTuple

import orjson

from remapfs.checkpoint.index import SUFFIX
from remapfs.errors import RemapError
from remapfs.plan.documents import apply_jq, decode, encode
from remapfs.present.reader import open_file
from remapfs.rules import load_preset, presets_for_vllm

if TYPE_CHECKING:
    import re

    from remapfs.checkpoint.header import Tensor
    from remapfs.plan import Plan
    from remapfs.plan.extents import VirtualFile

_CONFIG = "config.json"
_LENGTH = struct.Struct("<Q")
_READ = (".json", ".py", ".jinja")
# A tokenizer is large and decides nothing about weights.
_NOT_READ = frozenset({"tokenizer.json", "vocab.json", "merges.txt", "tokenizer.model"})


class Presented(NamedTuple):
    """A tensor and the name that it is presented under, numbered in this order."""

    tensor: Tensor
    name: str


def write_job(plan: Plan, folder: str, *, trust_remote_code: bool) -> list[Presented]:
    """Write the job into `folder`: `model/` as vLLM would see it, shards with a header and a hole.

    Returns the tensors; a tensor's place in the list is its number in what the process reports. Raises
    RemapError where no config.json is presented.
    """
    files = {file.path: file for file in plan.files}
    if _CONFIG not in files:
        raise RemapError(
            f"{plan.root} presents no {_CONFIG}, which names the model class",
            "fetch the file; to compare names alone, give a checkpoint or a list of names as --against",
        )
    shards = {planned.shard.file.path: list(planned.presented()) for planned in plan.shards}
    for path, file in files.items():
        if path in shards:
            _write(folder, "model", path, _header(file))
            # As long as the shard, but nothing behind the header takes space.
            os.truncate(os.path.join(folder, "model", path), file.size)
        elif path.endswith(SUFFIX):
            _write(folder, "model", path, _short_index(_content(file)))
        elif path.endswith(_READ) and posixpath.basename(path) not in _NOT_READ:
            _write(folder, "model", path, _content(file))
    other = _as_preset_would(decode(_CONFIG, _content(files[_CONFIG])), _content(files[_CONFIG]), shards)
    if other is not None:
        _write(folder, "other", _CONFIG, other)
        for entry in os.listdir(os.path.join(folder, "model")):
            if entry != _CONFIG:
                os.symlink(os.path.join(folder, "model", entry), os.path.join(folder, "other", entry))
    job = {
        "trust_remote_code": trust_remote_code,
        "other_config": other is not None,
        "shards": [
            [path, [[name, tensor.dtype, tensor.shape] for tensor, name in tensors]]
            for path, tensors in shards.items()
        ],
    }
    with open(os.path.join(folder, "job.json"), "wb") as stream:
        stream.write(orjson.dumps(job))
    return [Presented(tensor, name) for tensors in shards.values() for tensor, name in tensors]


def _as_preset_would(
    config: object, text: bytes, shards: dict[str, list[tuple[Tensor, str]]]
) -> bytes | None:
    """Rewrite config.json with the preset for the model type; None where that changes nothing.

    vLLM refuses some configurations before it looks at a single name. With this one it goes on, and the names
    can be judged all the same.
    """
    kind = config.get("model_type") if isinstance(config, dict) else None
    preset = next(iter(presets_for_vllm(str(kind))), None)
    if preset is None:
        return None
    names = [name for tensors in shards.values() for _, name in tensors]

    def has_tensor(pattern: re.Pattern[str]) -> bool:
        return any(pattern.search(name) for name in names)

    rules = [rule for rule in load_preset(preset).json if rule.file == _CONFIG]
    try:
        changed, hits = apply_jq(_CONFIG, config, rules, has_tensor)
    except RemapError:
        return None
    return encode(changed, text) if any(hits) else None


def _header(file: VirtualFile) -> bytes:
    """Read a shard's header with its length: vLLM looks at some names before it loads anything."""
    with open_file(file) as stream:
        length = stream.read(_LENGTH.size)
        return length + stream.read(_LENGTH.unpack(length)[0])


def _short_index(text: bytes) -> bytes:
    """Keep one name a shard: vLLM asks an index only which shards there are."""
    document = orjson.loads(text)
    shards = {shard: name for name, shard in document["weight_map"].items()}
    return orjson.dumps(document | {"weight_map": {name: shard for shard, name in shards.items()}})


def _write(folder: str, part: str, path: str, content: bytes) -> None:
    target = os.path.join(folder, part, path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "wb") as stream:
        stream.write(content)


def _content(file: VirtualFile) -> bytes:
    with open_file(file) as stream:
        return stream.readall()
