"""JSON files that carry names, or that rules rewrite."""

from __future__ import annotations

import json
import posixpath
import re
import sys
from math import isnan
from typing import TYPE_CHECKING, Any

from remapfs.checkpoint.keys import too_deep
from remapfs.checkpoint.quantization import map_modules
from remapfs.errors import RemapError
from remapfs.plan.model import Finding, Kind
from remapfs.plan.modules import ModuleNames, Renamed, Unchanged
from remapfs.plan.programs import ProgramError, run_jq
from remapfs.words import some

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from remapfs.rules.model import Json

_SHOWN = 6
_NUMBERS = (int, float)
_LARGEST = sys.float_info.max


def rename_modules(path: str, document: Any, modules: ModuleNames) -> tuple[Any, list[Finding]]:  # noqa: ANN401  # JSON
    """Bring the module names in a config up to the new names, and report what could not be decided."""
    findings: dict[str, Finding] = {}

    def rename(pattern: str) -> list[str]:
        match modules.translate(pattern):
            case Unchanged():
                return [pattern]
            case Renamed(patterns):
                if len(patterns) > 1:
                    names = some(patterns, _SHOWN)
                    text = f"module pattern '{pattern}' became {len(patterns)} names: {names}"
                    findings.setdefault(pattern, Finding(Kind.HEALED, path, text))
                return list(patterns)
            case undecided:
                text = f"module pattern '{pattern}' {undecided.why}: it stays as it is"
                findings.setdefault(pattern, Finding(Kind.LEFT, path, text))
                return [pattern]

    return map_modules(document, rename), list(findings.values())


def apply_jq(
    path: str,
    document: Any,  # noqa: ANN401  # JSON
    rules: Sequence[Json],
    has_tensor: Callable[[re.Pattern[str]], bool],
) -> tuple[Any, list[int]]:
    """Run the jq programs of `rules` in order.

    Returns the result and, for each rule, 1 where it changed something.
    """
    hits = []
    for rule in rules:
        if rule.if_tensor and not has_tensor(rule.if_tensor):
            hits.append(0)
            continue
        changed = _keep(document, _run(path, document, rule))
        hits.append(int(changed != document))
        document = changed
    return document, hits


def decode(path: str, text: bytes) -> Any:  # noqa: ANN401  # JSON
    """Decode a JSON file of the checkpoint."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise RemapError(
            f"{path} is not JSON: {error}", "fetch the file again, or leave it out with a hide rule"
        ) from None
    except RecursionError:
        raise too_deep(path) from None


def encode(document: Any, like: bytes) -> bytes:  # noqa: ANN401  # JSON
    """Write JSON in the manner of the text that it replaces: its indentation and its final newline."""
    found = re.match(rb"\s*[{\[]\r?\n([ \t]+)", like)
    indent = found[1].decode() if found else None
    separators = (",", ":") if indent is None and b": " not in like and b", " not in like else None
    text = json.dumps(document, ensure_ascii=like.isascii(), indent=indent, separators=separators)
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        # Half a character can only be written as an escape, as it was.
        encoded = json.dumps(document, indent=indent, separators=separators).encode()
    return encoded + b"\n" * like.endswith(b"\n")


def applies_to(folder: str, path: str) -> bool:
    """Whether a config in `folder` speaks of the tensors in the file at `path`: it is below that folder."""
    return not folder or posixpath.dirname(path) == folder or path.startswith(folder + "/")


def _run(path: str, document: Any, rule: Json) -> Any:  # noqa: ANN401  # JSON
    try:
        results = run_jq(rule.jq, document)
    except ProgramError as error:
        raise RemapError(
            f"{rule.origin} failed on {path}: {error}", "the program must accept this file as it is"
        ) from None
    if len(results) != 1:
        raise RemapError(
            f"{rule.origin} gave {len(results)} results for {path}", "a jq program must give exactly one"
        )
    return results[0]


def _keep(before: Any, after: Any) -> Any:  # noqa: ANN401  # JSON
    """Take numbers that jq passed through from the original: jq knows only doubles."""
    if isinstance(before, dict) and isinstance(after, dict):
        return {key: _keep(before[key], value) if key in before else value for key, value in after.items()}
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [_keep(old, new) for old, new in zip(before, after, strict=True)]
    return before if type(before) in _NUMBERS and _same(before, after) else after


def _same(before: float, after: object) -> bool:
    """Whether jq would write `before` as `after`: NaN as null, what is too large as the largest double."""
    number = float(max(min(before, _LARGEST), -_LARGEST))
    return after is None if isnan(number) else type(after) in _NUMBERS and number == after
