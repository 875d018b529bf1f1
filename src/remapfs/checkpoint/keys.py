"""Keys that a JSON object has twice."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

from remapfs.errors import RemapError

if TYPE_CHECKING:
    from collections.abc import Callable


def refuse_duplicates(text: bytes, file: str, refusal: Callable[[str], RemapError]) -> None:
    """Raise what `refusal` makes of the first key that some object in `text`, valid JSON, has twice.

    Parsers keep one of the two without a word, and not all the same one. `file` is named where the text is
    nested too deeply to be looked at.
    """

    def check(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for key, uses in Counter(key for key, _ in pairs).items():
            if uses > 1:
                raise refusal(key)
        return dict(pairs)

    try:
        json.loads(text, object_pairs_hook=check)
    except RecursionError:
        raise too_deep(file) from None


def too_deep(file: str) -> RemapError:
    """Say that a JSON file is nested too deeply."""
    return RemapError(f"{file}: its JSON is nested too deeply", "no tool writes such a file; fetch it again")
