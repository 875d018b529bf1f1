"""Keys that a JSON object has twice."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from remapfs.errors import RemapError


def refuse_duplicates(text: bytes, refusal: Callable[[str], RemapError]) -> None:
    """Raise what `refusal` makes of the first key that some object in `text`, valid JSON, has twice.

    Parsers keep one of the two without a word, and not all the same one.
    """

    def check(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for key, uses in Counter(key for key, _ in pairs).items():
            if uses > 1:
                raise refusal(key)
        return dict(pairs)

    json.loads(text, object_pairs_hook=check)
