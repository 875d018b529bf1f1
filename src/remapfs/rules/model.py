"""Rules as immutable data."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a rule stands: the file's name, the kind of rule, its number among that kind, and its line."""

    file: str
    kind: str
    number: int
    line: int

    def __str__(self) -> str:
        """Name the rule as messages do."""
        return f"{self.kind} rule {self.number} in {self.file} (line {self.line})"


@dataclass(frozen=True, slots=True)
class Match:
    """A Python regular expression, searched for anywhere in a name."""

    regex: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Prefix:
    """Literal text at the start of a name."""

    text: str


@dataclass(frozen=True, slots=True)
class Suffix:
    """Literal text at the end of a name."""

    text: str


@dataclass(frozen=True, slots=True)
class Substring:
    """Literal text anywhere in a name."""

    text: str


Pattern = Match | Prefix | Suffix | Substring


@dataclass(frozen=True, slots=True)
class Rename:
    """Replace what the pattern matches by `to`: every match, as re.sub does."""

    pattern: Pattern
    to: str
    origin: Origin
    optional: bool


@dataclass(frozen=True, slots=True)
class Drop:
    """Leave out the tensors whose names the pattern matches."""

    pattern: Pattern
    origin: Origin
    optional: bool


@dataclass(frozen=True, slots=True)
class Alias:
    """Present the tensor `name` a second time, as `other`."""

    name: str
    other: str
    origin: Origin
    optional: bool


Step = Rename | Drop | Alias


@dataclass(frozen=True, slots=True)
class Hide:
    """Leave out files whose path, or whose base name, matches one of the globs."""

    files: tuple[str, ...]
    origin: Origin
    optional: bool

    def hits(self, path: str) -> bool:
        """Whether the relative path is left out."""
        base = path.rpartition("/")[2]
        return any(fnmatchcase(path, glob) or fnmatchcase(base, glob) for glob in self.files)


@dataclass(frozen=True, slots=True)
class Json:
    """Rewrite a JSON file with a jq program; with `if_tensor`, only if it matches some presented name."""

    file: str
    jq: str
    if_tensor: re.Pattern[str] | None
    origin: Origin
    optional: bool


@dataclass(frozen=True, slots=True)
class Refuse:
    """A presented tensor that the reader these rules are for cannot load; `dtypes` empty means any dtype."""

    regex: re.Pattern[str]
    dtypes: frozenset[str]
    because: str
    hint: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Rules:
    """An ordered list of rules; `steps` are applied in order, each to the result of the one before."""

    name: str
    steps: tuple[Step, ...] = ()
    hide: tuple[Hide, ...] = ()
    json: tuple[Json, ...] = ()
    refuse: tuple[Refuse, ...] = ()
    unindexed: bool = False

    def hides(self, path: str) -> bool:
        """Whether a hide rule leaves out this relative path."""
        return any(rule.hits(path) for rule in self.hide)

    @property
    def documents(self) -> frozenset[str]:
        """The JSON files that the rules rewrite."""
        return frozenset(rule.file for rule in self.json)

    def after(self, first: Rules) -> Rules:
        """Put these rules behind `first`."""
        return Rules(
            self.name,
            first.steps + self.steps,
            first.hide + self.hide,
            first.json + self.json,
            first.refuse + self.refuse,
            first.unindexed or self.unindexed,
        )
