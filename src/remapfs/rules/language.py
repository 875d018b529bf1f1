"""The rules language: TOML text to Rules."""

from __future__ import annotations

import difflib
import re
import tomllib
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from remapfs.errors import RemapError
from remapfs.rules.model import (
    Alias,
    Drop,
    Hide,
    Json,
    Match,
    Origin,
    Pattern,
    Prefix,
    Refuse,
    Rename,
    Rules,
    Step,
    Substring,
    Suffix,
)
from remapfs.rules.parameters import Parameter, check_known, declared, fill, given, settle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from importlib.resources.abc import Traversable

_PATTERNS = ("match", "prefix", "suffix", "substring")
_KEYS = {
    "rename": {*_PATTERNS, "to", "optional"},
    "drop": {*_PATTERNS, "optional"},
    "alias": {"name", "as", "optional"},
    "hide": {"files", "optional"},
    "json": {"file", "jq", "if_tensor", "optional"},
    "refuse": {"match", "dtypes", "because", "hint"},
}
_TOP = {"about", "extends", "preset", "parameters", "vllm", "optional", "unindexed", *_KEYS}
_HEADING = re.compile(r"^[ \t]*\[\[[ \t]*([A-Za-z_]+)[ \t]*\]\]", re.MULTILINE)
_Value = TypeVar("_Value")


_NONE: Mapping[str, str] = MappingProxyType({})


def load_rules(path: str, values: Mapping[str, str] = _NONE) -> Rules:
    """Read a rules file; raises RemapError that names the file, the rule and what is wrong with it.

    `values` are those of the parameters that the file declares.
    """
    return _load(Path(path), values, ())


def load_preset(name: str, values: Mapping[str, str] = _NONE) -> Rules:
    """Read a preset that ships with remapfs; raises RemapError with the nearest name if there is none.

    `values` are those of its parameters.
    """
    return parse_rules(preset_text(name), f"{name}.toml", values)


def preset_text(name: str) -> str:
    """Give the TOML text of a preset."""
    known = presets()
    if name not in known:
        raise RemapError(
            f"there is no preset '{name}'", _nearest(name, known) or f"the presets are: {', '.join(known)}"
        )
    return (_folder() / f"{name}.toml").read_text(encoding="utf-8")


def presets() -> dict[str, str]:
    """Map the name of each preset to its one-line description."""
    return {name: str(document.get("about", "")) for name, document in _documents().items()}


def presets_for_vllm(model_type: str) -> list[str]:
    """List the presets that give the names which vLLM wants for a `model_type` of config.json."""
    return [name for name, document in _documents().items() if model_type in document.get("vllm", ())]


def preset_parameters(name: str) -> dict[str, Parameter]:
    """Give the parameters that a preset takes."""
    return declared(tomllib.loads(preset_text(name)), f"{name}.toml")


def file_parameters(path: str) -> dict[str, Parameter]:
    """Give the parameters that a rules file takes."""
    return declared(_decode(_read(Path(path)), Path(path).name), Path(path).name)


def parse_rules(
    text: str, file: str, values: Mapping[str, str] = _NONE, opened: tuple[Path, ...] = ()
) -> Rules:
    """Turn TOML text into rules; `file` is named in messages.

    What it extends comes first, then the presets it names, then its own rules. `values` are those of the
    parameters that it declares; `opened` are the files that led here, itself last, where it is one.
    """
    document = _decode(text, file)
    _check_keys(document, _TOP, file)
    default = _typed(document, "optional", bool, file) or False
    _several(document, "vllm", file)
    own = settle(declared(document, file), values, file)
    steps: list[Step] = []
    hide, json, refuse = [], [], []
    for origin, unfilled in _tables(document, text, file):
        _check_keys(unfilled, _KEYS[origin.kind], str(origin))
        table = fill(unfilled, own, str(origin))
        optional = table.get("optional", default)
        if not isinstance(optional, bool):
            raise RemapError(f"{origin}: optional is not true or false", "write  optional = true")
        match origin.kind:
            case "rename":
                steps.append(_rename(table, origin, optional=optional))
            case "drop":
                steps.append(Drop(_pattern(table, origin), origin, optional))
            case "alias":
                steps.append(
                    Alias(_text(table, "name", origin), _text(table, "as", origin), origin, optional)
                )
            case "hide":
                hide.append(Hide(_texts(table, "files", origin), origin, optional))
            case "json":
                json.append(_json(table, origin, optional=optional))
            case _:
                refuse.append(_refuse(table, origin))
    unindexed = _typed(document, "unindexed", bool, file) or False
    rules = Rules(file, tuple(steps), tuple(hide), tuple(json), tuple(refuse), unindexed)
    for first in reversed(_bases(document, file, values, opened)):
        rules = rules.after(first)
    return rules


def _bases(
    document: dict[str, Any], file: str, values: Mapping[str, str], opened: tuple[Path, ...]
) -> list[Rules]:
    """Read what the rules start from: the files they extend, and then the presets."""
    passed = {**values, **given(document, file)}
    names = _several(document, "preset", file)
    known = {parameter for name in names for parameter in preset_parameters(name)}
    bases = []
    for other in _several(document, "extends", file):
        if not opened:
            raise RemapError(f"{file}: extends '{other}', and is not a file itself", "use preset instead")
        path = opened[-1].parent / other
        bases.append(_load(path, passed, opened))
        known |= set(file_parameters(str(path)))
    check_known(given(document, file), known, file)
    return bases + [load_preset(name, passed) for name in names]


def _load(path: Path, values: Mapping[str, str], opened: tuple[Path, ...]) -> Rules:
    text = _read(path, opened)
    real = path.resolve()
    if real in opened:
        circle = " → ".join(each.name for each in (*opened[opened.index(real) :], real))
        raise RemapError(f"rules extend each other in a circle: {circle}", "take one of the extends out")
    return parse_rules(text, path.name, values, (*opened, real))


def _read(path: Path, opened: tuple[Path, ...] = ()) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        if opened:
            raise RemapError(
                f"{opened[-1].name} extends {path.name}, which cannot be read: {error.strerror}",
                "its path is relative to the file that extends it",
            ) from None
        raise RemapError(
            f"cannot read the rules {path}: {error.strerror}", "check the path of --rules"
        ) from None
    except UnicodeDecodeError:
        raise RemapError(f"{path} is not UTF-8 text", "rules are TOML, which is UTF-8") from None


def _decode(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise RemapError(
            f"{file}: {error}", "regular expressions need single quotes: match = '\\.weight$'"
        ) from None


def _several(document: dict[str, Any], key: str, file: str) -> list[str]:
    value = document.get(key, [])
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RemapError(f"{file}: '{key}' is {value!r}", "it takes a text, or a list of texts")
    return names


def _documents() -> dict[str, dict[str, Any]]:
    files = sorted(_folder().iterdir(), key=lambda file: file.name.removesuffix(".toml"))
    return {
        file.name[:-5]: tomllib.loads(file.read_text(encoding="utf-8"))
        for file in files
        if file.name.endswith(".toml")
    }


def _folder() -> Traversable:
    return resources.files("remapfs.rules") / "presets"


def _tables(document: dict[str, Any], text: str, file: str) -> Iterator[tuple[Origin, dict[str, Any]]]:
    """Yield the rules in the order in which they stand in the text, whatever their kind.

    A TOML parser gives one list a kind, so the order between kinds comes from the headings.
    """
    headings = [(match[1], text.count("\n", 0, match.start(1)) + 1) for match in _headings(text)]
    for kind in _KEYS:
        rules = document.get(kind, [])
        if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
            raise RemapError(
                f"{file}: '{kind}' is not a list of tables", f"write  [[{kind}]]  above each rule"
            )
        if len(rules) != sum(heading == kind for heading, _ in headings):
            raise RemapError(
                f"{file}: {kind} rules are written inline",
                f"write  [[{kind}]]  above each rule: order counts",
            )
    numbers = dict.fromkeys(_KEYS, 0)
    for kind, line in headings:
        if kind in numbers:
            numbers[kind] += 1
            yield Origin(file, kind, numbers[kind], line), document[kind][numbers[kind] - 1]


def _headings(text: str) -> Iterator[re.Match[str]]:
    multiline = '"""' in text or "'''" in text
    for match in _HEADING.finditer(text):
        if not multiline or _parses(text[: match.start()]):
            yield match


def _parses(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _rename(table: dict[str, Any], origin: Origin, *, optional: bool) -> Rename:
    pattern, to = _pattern(table, origin), _text(table, "to", origin, empty=True)
    if isinstance(pattern, Match):
        try:
            # The empty alternative makes the expression match, so that the groups `to` refers to are checked.
            re.compile(pattern.regex.pattern + "|").sub(to, "")
        except (re.error, IndexError) as error:
            raise RemapError(
                f"{origin}: its 'to' does not fit its 'match': {error}",
                "\\1 is the first group; a backslash is \\\\",
            ) from None
    return Rename(pattern, to, origin, optional)


def _json(table: dict[str, Any], origin: Origin, *, optional: bool) -> Json:
    import jq  # noqa: PLC0415  # most rules files have no json rule, and the import costs start-up time

    program = _text(table, "jq", origin)
    try:
        jq.compile(program)
    except ValueError as error:
        raise RemapError(
            f"{origin}: jq does not accept its program: {error}", "try it with the jq command"
        ) from None
    condition = _regex(_text(table, "if_tensor", origin), origin) if "if_tensor" in table else None
    return Json(_text(table, "file", origin), program, condition, origin, optional)


def _refuse(table: dict[str, Any], origin: Origin) -> Refuse:
    dtypes = frozenset(_texts(table, "dtypes", origin)) if "dtypes" in table else frozenset[str]()
    regex = _regex(_text(table, "match", origin), origin)
    hint = _text(table, "hint", origin) if "hint" in table else ""
    return Refuse(regex, dtypes, _text(table, "because", origin), hint, origin)


def _pattern(table: dict[str, Any], origin: Origin) -> Pattern:
    given = [key for key in _PATTERNS if key in table]
    if len(given) != 1:
        found = " and ".join(given) if given else "none"
        raise RemapError(f"{origin} needs one of {', '.join(_PATTERNS)}; it has {found}", "keep one of them")
    text = _text(table, given[0], origin)
    match given[0]:
        case "match":
            return Match(_regex(text, origin))
        case "prefix":
            return Prefix(text)
        case "suffix":
            return Suffix(text)
        case _:
            return Substring(text)


def _regex(text: str, origin: Origin) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise RemapError(
            f"{origin}: '{text}' is not a regular expression: {error}",
            "for literal text use prefix, suffix or substring",
        ) from None


def _text(table: dict[str, Any], key: str, origin: Origin, *, empty: bool = False) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not (value or empty):
        found = "is missing" if key not in table else f"is {value!r}, not text"
        raise RemapError(f"{origin}: '{key}' {found}", f"write  {key} = '…'")
    return value


def _texts(table: dict[str, Any], key: str, origin: Origin) -> tuple[str, ...]:
    value = table.get(key)
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        raise RemapError(f"{origin}: '{key}' is not a list of texts", f"write  {key} = ['…']")
    return tuple(value)


def _typed(document: dict[str, Any], key: str, kind: type[_Value], file: str) -> _Value | None:
    value = document.get(key)
    if value is not None and not isinstance(value, kind):
        raise RemapError(
            f"{file}: '{key}' is {value!r}", f"it takes {'text' if kind is str else 'true or false'}"
        )
    return value


def _check_keys(table: dict[str, Any], known: Iterable[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise RemapError(
                f"{where}: unknown key '{key}'",
                _nearest(key, known) or f"it takes {', '.join(sorted(known))}",
            )


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1)
    return f"did you mean '{close[0]}'?" if close else ""
