"""What a suggestion is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from remapfs.rules.model import Drop, Rename


class Named(NamedTuple):
    """A tensor by its name, with dtype and shape, or None where they are not known."""

    name: str
    dtype: str | None
    shape: tuple[int, ...] | None


class LeftOver(NamedTuple):
    """Names of one pattern for which nothing was found, and how many there are."""

    pattern: str
    tensors: int


class Decision(NamedTuple):
    """What was chosen among several that fit: why, and (pattern before, pattern after), N for each number."""

    why: str
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Suggested:
    """A rule, and the sentences that explain it; `tensors` is how many it hits."""

    step: Rename | Drop
    comment: tuple[str, ...]
    tensors: int


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Rules that turn the source's names into the reference's, and what they leave open.

    `notes` are sentences on how the two were compared; `decided` lists what was chosen among several that
    fit, and `undecided` what was not; `unmapped` are source names for which the reference has none, and
    `missing` names of the reference that no source name becomes.
    """

    rules: tuple[Suggested, ...]
    tensors: int
    mapped: int
    notes: tuple[str, ...]
    decided: tuple[Decision, ...]
    undecided: tuple[str, ...]
    unmapped: tuple[LeftOver, ...]
    missing: tuple[LeftOver, ...]

    @property
    def complete(self) -> bool:
        """Whether every name was mapped, and every wanted one is there."""
        return not (self.undecided or self.unmapped or self.missing)
