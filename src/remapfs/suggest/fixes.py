"""A rule for each pattern of names that a comparison left over."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from remapfs.plan.patterns import by_module
from remapfs.rules.model import Match
from remapfs.suggest.edits import whole
from remapfs.suggest.kinds import fill, group
from remapfs.suggest.targets import find_targets
from remapfs.suggest.words import lexicon
from remapfs.suggest.write import rename_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from remapfs.suggest.kinds import Kind
    from remapfs.suggest.model import Named


@dataclass(frozen=True, slots=True)
class Fix:
    """What unexpected names of one module pattern should be.

    `pattern` is written as `remapfs.plan.patterns.by_module` does, `names` are the names themselves.
    `nearest` is the pattern of the wanted names, or of the most alike where `rule` is None; None where none
    is wanted. `rule` is the TOML text of a rule that gives the wanted names, and touches no names but those
    that differ from these only in their numbers.
    """

    pattern: str
    names: tuple[str, ...]
    nearest: str | None
    rule: str | None


def fixes(unexpected: Sequence[Named], missing: Sequence[Named]) -> list[Fix]:
    """Pair what is left over on both sides of a comparison; what has no partner gets no rule."""
    ours, theirs = group(unexpected), group(missing)
    targets = find_targets(ours, theirs).names if theirs else {}
    modules: dict[tuple[str, str | None], list[Kind]] = {}
    for kind in ours:
        modules.setdefault((kind.module, _moved(kind.text, targets)), []).append(kind)
    words = lexicon([kind.text for kind in ours], [kind.text for kind in theirs], {})
    found = []
    for (module, moved), kinds in modules.items():
        names = tuple(name for kind in kinds for name in kind.names)
        if moved is None:
            nearest = max(
                theirs, key=lambda kind: (words.likeness(kinds[0].text, kind.text), kind.text), default=None
            )
            found.append(Fix(_pattern(names), names, _pattern(nearest.names) if nearest else None, None))
            continue
        wanted = [new for kind in kinds for new in fill(targets[kind.text], kind.slots)]
        found.append(Fix(_pattern(names), names, _pattern(wanted), _rule(module, moved, kinds, targets)))
    return found


def _moved(text: str, targets: dict[str, str]) -> str | None:
    """Give the module that a kind should go to, with the last segment where that changes too."""
    target = targets.get(text)
    if target is None:
        return None
    module, _, leaf = target.rpartition(".")
    return module if leaf == text.rpartition(".")[2] and module and "." in text else target


def _rule(module: str, moved: str, kinds: Sequence[Kind], targets: dict[str, str]) -> str:
    if len(kinds) == 1:
        edit = whole(kinds[0].text, targets[kinds[0].text])
        return "\n".join(rename_table(edit.pattern, edit.to))
    edit = whole(module, moved)
    leaves = "|".join(re.escape(kind.leaf) for kind in kinds)
    last = len(kinds[0].slots[0]) + 1
    start = edit.pattern.regex.pattern.removesuffix("$") if isinstance(edit.pattern, Match) else ""
    return "\n".join(rename_table(Match(re.compile(rf"{start}\.({leaves})$")), rf"{edit.to}.\{last}"))


def _pattern(names: Iterable[str]) -> str:
    patterns = by_module(names)
    return patterns[0][0] if len(patterns) == 1 else " and ".join(pattern for pattern, _ in patterns)
