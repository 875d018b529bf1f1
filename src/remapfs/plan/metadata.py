"""Names inside a header's `__metadata__`.

torch's distributed checkpoints (`DCP_SHARDING_INFO`) and torchao (`tensor_names`) keep JSON in metadata
values whose keys or items are tensor names, and torchao also uses names as metadata keys.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SEPARATORS = (":", ".")
_JSON = ("{", "[")


def rename_metadata(
    metadata: Mapping[str, str] | None, old: Sequence[str], new: Sequence[str | None]
) -> Mapping[str, str] | None:
    """Rename whatever in the metadata is a tensor's name, or the name that a group of tensors starts with.

    A value that holds no name keeps its bytes. Names of dropped tensors stay where they are the only trace
    of them.
    """
    if not metadata or not _may_name(metadata, old):
        return metadata
    pairs = {
        before: after for before, after in zip(old, new, strict=True) if after is not None and after != before
    }
    if not pairs:
        return metadata
    names = _Names(pairs, set(old))
    return names.rename_keys({key: _rename_value(value, names) for key, value in metadata.items()})


def _may_name(metadata: Mapping[str, str], old: Sequence[str]) -> bool:
    """Whether a key could be a name or a group's, or a value hold JSON; most metadata is only a format."""
    lines = "\n".join(["", *old, ""])
    return any(
        value.startswith(_JSON) or any(f"\n{key}{end}" in lines for end in ("\n", *_SEPARATORS))
        for key, value in metadata.items()
    )


class _Names:
    def __init__(self, pairs: Mapping[str, str], known: set[str]) -> None:
        self._pairs = pairs
        self._known = known

    def rename(self, text: str) -> str:
        if text in self._known:
            return self._pairs.get(text, text)
        for separator in _SEPARATORS:
            stem = text + separator
            members = [name for name in self._known if name.startswith(stem)]
            if not members:
                continue
            tails = [(name[len(text) :], self._pairs.get(name, name)) for name in members]
            stems = {new.removesuffix(tail) if new.endswith(tail) else None for tail, new in tails}
            only = stems.pop() if len(stems) == 1 else None
            return only or text
        return text

    def rename_keys(self, mapping: Mapping[str, Any]) -> dict[str, Any]:
        """Rename keys, but none into one that is taken: a value would be lost."""
        new = {key: self.rename(key) for key in mapping}
        while len(set(new.values())) < len(new):
            uses = Counter(new.values())
            new |= {key: key for key, name in new.items() if uses[name] > 1}
        return {new[key]: value for key, value in mapping.items()}


def _rename_value(value: str, names: _Names) -> str:
    if not value.startswith(_JSON):
        return value
    try:
        decoded = json.loads(value)
    except ValueError:
        return value
    renamed = _rename_json(decoded, names)
    if renamed == decoded:
        return value
    compact = ", " not in value and ": " not in value
    return json.dumps(renamed, ensure_ascii=value.isascii(), separators=(",", ":") if compact else None)


def _rename_json(value: Any, names: _Names) -> Any:  # noqa: ANN401  # JSON
    if isinstance(value, dict):
        return names.rename_keys(value)
    if isinstance(value, list):
        return [names.rename(item) if isinstance(item, str) else item for item in value]
    return value
