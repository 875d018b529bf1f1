"""From the names of both sides to a suggestion."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from remapfs.plan.patterns import by_module
from remapfs.rules.apply import apply_steps
from remapfs.rules.language import parse_rules
from remapfs.rules.model import Drop, Rename
from remapfs.suggest.kinds import fill, group, shown
from remapfs.suggest.model import Decision, LeftOver, Suggested, Suggestion
from remapfs.suggest.synthesis import synthesise
from remapfs.suggest.targets import Targets, find_targets
from remapfs.suggest.write import rename_table
from remapfs.words import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from remapfs.suggest.edits import Edit
    from remapfs.suggest.kinds import Kind
    from remapfs.suggest.model import Named

_FILE = "suggested.toml"


@dataclass(frozen=True)
class _Draft:
    """A rule as text, before it is parsed."""

    lines: tuple[str, ...]
    example: str
    because: str = ""


def suggest(source: Sequence[Named], reference: Sequence[Named]) -> Suggestion:
    """Find rules that turn the source's names into the reference's.

    Neither needs to be whole: the reference may be another member of the family, quantised or not, or only
    names. The rules are tried on every name before they are returned; what they do not give is listed.
    """
    ours, theirs = group(source), group(reference)
    targets = find_targets(ours, theirs)
    dropped = {kind.text for kind in targets.drops}
    kept = [kind for kind in ours if kind.text not in dropped]
    chosen, _ = synthesise([kind.text for kind in kept], targets.names)
    drafts = [*_drops(targets.drops), *_renames(kept, chosen)]
    text = "\n".join(line for draft in drafts for line in draft.lines)
    steps = parse_rules(text, _FILE).steps
    names = [name for kind in ours for name in kind.names]
    done = apply_steps(names, steps)
    outcome = dict(zip(names, done.names, strict=True))
    wrong = [kind for kind in ours if not _right(kind, targets, outcome)]
    left = [kind for kind in kept if kind.text not in targets.names]
    return Suggestion(
        rules=tuple(
            Suggested(step, _comment(draft, hits), hits)
            for draft, step, hits in zip(drafts, steps, done.hits, strict=True)
            if isinstance(step, Rename | Drop)
        ),
        tensors=len(names),
        mapped=sum(len(kind.names) for kind in ours if kind.text in targets.names and kind not in wrong),
        notes=targets.notes,
        decided=tuple(
            Decision(choice.why, tuple((shown(old), shown(new)) for old, new in choice.pairs))
            for choice in targets.decided
        ),
        undecided=(*targets.undecided, *(f"no rules were found for {kind.names[0]}" for kind in wrong)),
        unmapped=_patterns(name for kind in left for name in kind.names),
        missing=_patterns(targets.missing),
    )


def _right(kind: Kind, targets: Targets, outcome: dict[str, str | None]) -> bool:
    target = targets.names.get(kind.text)
    if target is None:
        return True
    return all(outcome[name] == new for name, new in zip(kind.names, fill(target, kind.slots), strict=True))


def _drops(kinds: Sequence[Kind]) -> list[_Draft]:
    if not kinds:
        return []
    ends = sorted({re.escape(".".join(kind.text.split(".")[-2:])) for kind in kinds})
    pattern = ends[0] if len(ends) == 1 else f"(?:{'|'.join(ends)})"
    because = (
        "scales of a quantised KV cache: the reference is quantised, has their layers, and has none of them"
    )
    return [_Draft(("[[drop]]", f"match = '\\.{pattern}$'"), kinds[0].names[0], because)]


def _renames(kinds: Sequence[Kind], chosen: Iterable[Edit]) -> list[_Draft]:
    texts = [kind.text for kind in kinds]
    drafts = []
    for edit in chosen:
        following = [edit.apply(text) for text in texts]
        kind, old, new = next(
            (kind, old, new) for kind, old, new in zip(kinds, texts, following, strict=True) if old != new
        )
        example = f"{fill(old, kind.slots[:1])[0]} → {fill(new, kind.slots[:1])[0]}"
        drafts.append(_Draft(tuple(rename_table(edit.pattern, edit.to)), example))
        texts = following
    return drafts


def _comment(draft: _Draft, hits: int) -> tuple[str, ...]:
    line = f"{count(hits, 'tensor')}: {draft.example}"
    return (f"{draft.because[0].upper()}{draft.because[1:]}.", line) if draft.because else (line,)


def _patterns(names: Iterable[str]) -> tuple[LeftOver, ...]:
    return tuple(LeftOver(pattern, number) for pattern, number in by_module(names))
