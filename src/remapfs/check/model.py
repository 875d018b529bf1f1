"""What checking a checkpoint against a reader gives."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Outcome(StrEnum):
    """What becomes of a tensor when the checkpoint is loaded."""

    LOADS = "loads"
    MISSING = "missing"
    """Wanted, and nothing gives it."""
    UNEXPECTED = "unexpected"
    """Presented, and not wanted."""
    DIFFERENT = "different"
    """Wanted with another shape, dtype or quantisation."""
    REFUSED = "refused"
    """The loader stops at it."""
    IGNORED = "ignored"
    """The loader writes it nowhere and says nothing."""
    UNUSED = "unused"
    """The loader leaves it out by design, such as the layers of a draft model."""
    DROPPED = "dropped"
    """A rule leaves it out."""

    @property
    def harmless(self) -> bool:
        """Whether the checkpoint loads all the same."""
        return self in (Outcome.LOADS, Outcome.UNUSED, Outcome.DROPPED)


class Judged(NamedTuple):
    """One tensor and its outcome.

    `source` is its name on disk, None for one that is missing; `name` the one that it is presented or wanted
    under, None for one that is dropped. `reason` is a sentence, "" where there is nothing to say. `length` is
    in bytes, 0 where it is not known.
    """

    source: str | None
    name: str | None
    outcome: Outcome
    reason: str
    length: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Every tensor's outcome.

    `against` says in a few words what was asked, such as "vLLM 0.32.0, DeepseekV4ForCausalLM"; `notes` are
    sentences about the whole.
    """

    against: str
    judged: tuple[Judged, ...]
    notes: tuple[str, ...] = ()

    @property
    def loads(self) -> bool:
        """Whether the checkpoint would load, with every value in its place."""
        return all(each.outcome.harmless for each in self.judged)
