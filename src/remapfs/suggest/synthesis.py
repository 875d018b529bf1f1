"""The smallest list of ordered replacements that can be found from names to targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from remapfs.suggest.edits import Edit, distance, edits, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_ASIDE = "remapfs_aside"
_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Effect:
    """What a replacement does to the texts as they are: positions that come nearer, and that do not."""

    edit: Edit
    nearer: tuple[int, ...]
    gain: int
    waiting: tuple[int, ...]


def synthesise(texts: Sequence[str], targets: Mapping[str, str]) -> tuple[list[Edit], list[str]]:
    """Find replacements, each applied to the result of the ones before, and what the texts are then.

    A text without a target may change on the way, but never becomes the same as another. Where such a text
    holds the name that another should have, that one does not get there.
    """
    state = _State(list(texts), [targets.get(text) for text in texts])
    chosen: list[Edit] = []
    while state.open() and (edit := state.choose()):
        state.apply(edit)
        chosen.append(edit)
    return chosen, state.texts


@dataclass
class _State:
    texts: list[str]
    targets: list[str | None]
    _index: dict[str, list[int]] = field(default_factory=dict)
    _places: dict[str, int] = field(default_factory=dict)

    def open(self) -> list[int]:
        """List the positions that are not yet where they should be."""
        return [i for i, target in enumerate(self.targets) if target is not None and target != self.texts[i]]

    def apply(self, edit: Edit) -> None:
        self._index, self._places = {}, {}
        self.texts = [edit.apply(text) for text in self.texts]

    def choose(self) -> Edit | None:
        """Choose what brings most texts nearer, or what has to go out of its way first."""
        refused: set[Edit] = set()
        ranked = sorted(
            (effect for edit in self._candidates() if (effect := self._effect(edit))), key=self._rank
        )
        for effect in ranked:
            first = self._first(effect, refused, _DEPTH)
            if first is not None:
                return first
        return self._forced()

    def _candidates(self) -> Iterable[Edit]:
        found: dict[Edit, None] = {}
        for i in self.open():
            found.update(dict.fromkeys(edits(self.texts[i], self.targets[i] or "")))
        return found

    @staticmethod
    def _rank(effect: Effect) -> tuple[object, ...]:
        edit = effect.edit
        return -len(effect.nearer), -effect.gain, edit.cost, edit.old, edit.new, edit.start, edit.end

    def _effect(self, edit: Edit) -> Effect | None:
        """Work out what it does; None if it breaks something or helps nothing."""
        nearer, waiting, gain = [], [], 0
        changed: dict[int, str] = {}
        for i in self._reach(edit):
            text = self.texts[i]
            new = edit.apply(text)
            if new == text:
                continue
            changed[i] = new
            target = self.targets[i]
            if target is None:
                continue
            less = distance(text, target) - distance(new, target)
            if less > 0:
                nearer.append(i)
                gain += less
            elif less == 0:
                waiting.append(i)
            else:
                return None
        if not nearer:
            return None
        blocking = self._collisions(changed)
        return None if blocking is None else Effect(edit, tuple(nearer), gain, (*waiting, *blocking))

    def _reach(self, edit: Edit) -> list[int]:
        """List the positions that it may change: trying all of them would take most of the time."""
        if not self._index:
            for i, text in enumerate(self.texts):
                self._places[text] = i
                for segment in dict.fromkeys(text.split(".")):
                    self._index.setdefault(segment, []).append(i)
        found = [self._index.get(segment, []) for segment in edit.needs]
        return min(found, key=len) if found else list(range(len(self.texts)))

    def _collisions(self, changed: Mapping[int, str]) -> list[int] | None:
        """Which texts must go away first; None if they never would."""
        if len(set(changed.values())) < len(changed):
            return None
        blocking = []
        for new in changed.values():
            i = self._places.get(new)
            if i is not None and i not in changed:
                if self.targets[i] is None or self.targets[i] == self.texts[i]:
                    return None
                blocking.append(i)
        return blocking

    def _first(self, effect: Effect, refused: set[Edit], depth: int) -> Edit | None:
        """Give the replacement itself, or the one that has to come before it."""
        if effect.edit in refused:
            return None
        if not effect.waiting:
            return effect.edit
        refused.add(effect.edit)
        if not depth:
            return None
        i = effect.waiting[0]
        text, target = self.texts[i], self.targets[i]
        if target is None:
            return None
        ranked = sorted(
            (
                found
                for edit in edits(text, target)
                if edit != effect.edit
                and self._makes_way(effect.edit, edit, text, target)
                and (found := self._effect(edit))
            ),
            # What needs nothing else before it comes first: the way there should be short.
            key=lambda found: (bool(found.waiting), self._rank(found)),
        )
        for found in ranked:
            first = self._first(found, refused, depth - 1)
            if first is not None:
                return first
        return None

    @staticmethod
    def _makes_way(later: Edit, edit: Edit, text: str, target: str) -> bool:
        new = edit.apply(text)
        if distance(new, target) >= distance(text, target):
            return False
        then = later.apply(new)
        return then == new or distance(then, target) < distance(new, target)

    def _forced(self) -> Edit | None:
        """Rename one whole name; where names change places in a circle, put one aside, each once."""
        held = set(self.texts)
        for i in self.open():
            edit = whole(self.texts[i], self.targets[i] or "")
            if edit.new not in held:
                return edit
        for i in self.open():
            edit = whole(self.texts[i], f"{self.targets[i]}.{_ASIDE}")
            if not self.texts[i].endswith(_ASIDE) and edit.new not in held:
                return edit
        return None
