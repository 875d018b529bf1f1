"""The rules language: TOML text to Rules."""

from __future__ import annotations

import os
import re
import tomllib
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from remapfs.errors import RemapError
from remapfs.rules.model import Hide, Json, Origin, Refuse, Rules, Step
from remapfs.rules.parameters import (
    Parameter,
    check_known,
    check_used,
    declared,
    fill,
    given,
    settable,
    settle,
    values_for,
)
from remapfs.rules.spelling import check_keys, did_you_mean
from remapfs.rules.tables import KINDS, check_table, read_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable

_TOP = {"about", "extends", "preset", "parameters", "vllm", "optional", "unindexed", *KINDS}
_HEADING = re.compile(r"^[ \t]*\[\[[ \t]*([A-Za-z_]+)[ \t]*\]\]", re.MULTILINE)
_NONE: Mapping[str, str] = MappingProxyType({})


def load_rules(path: str, values: Mapping[str, str] = _NONE) -> Rules:
    """Read a rules file; raises RemapError that names the file, the rule and what is wrong with it.

    `values` are those of the parameters that the file and what it starts from take.
    """
    text, opened = _open(Path(path), ())
    return parse_rules(text, opened[-1].name, values, opened)


def load_preset(name: str, values: Mapping[str, str] = _NONE) -> Rules:
    """Read a preset that ships with remapfs; raises RemapError with the nearest name if there is none.

    `values` are those of its parameters.
    """
    return parse_rules(preset_text(name), f"{name}.toml", values_for(name, values))


def preset_text(name: str) -> str:
    """Give the TOML text of a preset."""
    known = _preset_names()
    if name not in known:
        raise RemapError(
            f"there is no preset '{name}'", did_you_mean(name, known, f"the presets are: {', '.join(known)}")
        )
    return (_folder() / f"{name}.toml").read_text(encoding="utf-8")


def presets() -> dict[str, str]:
    """Map the name of each preset to its one-line description."""
    return {name: str(_preset(name).get("about", "")) for name in _preset_names()}


def presets_for_vllm(model_type: str) -> list[str]:
    """List the presets that give the names which vLLM wants for a `model_type` of config.json."""
    return [name for name in _preset_names() if model_type in _preset(name).get("vllm", ())]


def preset_parameters(name: str) -> dict[str, Parameter]:
    """Give the parameters that a preset takes."""
    return declared(_preset(name), f"{name}.toml")


def file_parameters(path: str) -> set[str]:
    """Give the names of the values that a rules file takes, for itself and for what it starts from."""
    return _taken_by_file(Path(path), ())


def parse_rules(
    text: str, file: str, values: Mapping[str, str] = _NONE, opened: tuple[Path, ...] = ()
) -> Rules:
    """Turn TOML text into rules; `file` is named in messages.

    What it extends comes first, then the presets it names, then its own rules. `values` are those of the
    parameters that it takes; `opened` are the files that led here, itself last, where it is one.
    """
    document = _decode(text, file)
    check_keys(document, _TOP, file)
    default = _flag(document, "optional", file)
    _several(document, "vllm", file)
    parameters = declared(document, file)
    own = settle(parameters, values, file)
    tables = list(_tables(document, text, file))
    steps: list[Step] = []
    hide, json, refuse = [], [], []
    for origin, table in tables:
        check_table(table, origin)
        match read_table(fill(table, own, str(origin)), origin, optional=default):
            case Hide() as rule:
                hide.append(rule)
            case Json() as rule:
                json.append(rule)
            case Refuse() as rule:
                refuse.append(rule)
            case step:
                steps.append(step)
    taken = _taken_by_bases(document, file, opened)
    check_known(given(document, file), taken, file)
    check_used(parameters.keys() - taken, [table for _, table in tables], file)
    unindexed = _flag(document, "unindexed", file)
    rules = Rules(file, tuple(steps), tuple(hide), tuple(json), tuple(refuse), unindexed)
    for first in reversed(_bases(document, file, {**values, **own, **given(document, file)}, opened)):
        rules = rules.after(first)
    return rules


def _bases(
    document: Mapping[str, Any], file: str, values: Mapping[str, str], opened: tuple[Path, ...]
) -> list[Rules]:
    """Read what the rules start from: the files they extend, and then the presets."""
    bases = []
    for path in _extended(document, file, opened):
        text, passed = _open(path, opened)
        bases.append(parse_rules(text, path.name, values, passed))
    for name, alone in _presets(document, file):
        bases.append(load_preset(name, values_for(name, values) | alone))
    return bases


def _taken_by_bases(document: Mapping[str, Any], file: str, opened: tuple[Path, ...]) -> set[str]:
    """Give the names of the values that what the rules start from still needs or allows."""
    taken = set()
    for path in _extended(document, file, opened):
        taken |= _taken_by_file(path, opened)
    for name, alone in _presets(document, file):
        takes = preset_parameters(name)
        check_known(alone, takes, f"{file}: preset '{name}'")
        taken |= settable(name, takes.keys() - alone.keys())
    return taken


def _taken_by_file(path: Path, opened: tuple[Path, ...]) -> set[str]:
    text, opened = _open(path, opened)
    document = _decode(text, path.name)
    fixed = given(document, path.name)
    bases = _taken_by_bases(document, path.name, opened)
    free = {name for name in bases if name not in fixed and name.rpartition(".")[2] not in fixed}
    return free | declared(document, path.name).keys()


def _presets(document: Mapping[str, Any], file: str) -> list[tuple[str, dict[str, str]]]:
    """List the presets that a document names, each with the values that are meant for it alone."""
    value = document.get("preset", [])
    found: list[tuple[str, dict[str, str]]] = []
    for item in value if isinstance(value, list) else [value]:
        match item:
            case str():
                found.append((item, {}))
            case {"name": str(name), **alone} if all(isinstance(text, str) for text in alone.values()):
                found.append((name, {str(key): str(text) for key, text in alone.items()}))
            case _:
                raise RemapError(
                    f"{file}: 'preset' is {value!r}",
                    "it takes a name, a table such as { name = 'strip-prefix', prefix = 'model.' }, "
                    "or a list of them",
                )
    return found


def _extended(document: Mapping[str, Any], file: str, opened: tuple[Path, ...]) -> list[Path]:
    others = _several(document, "extends", file)
    if others and not opened:
        raise RemapError(f"{file}: extends '{others[0]}', and is not a file itself", "use preset instead")
    if any("\0" in other for other in others):
        raise RemapError(f"{file}: 'extends' is {others!r}", "a path has no zero bytes")
    return [opened[-1].parent / other for other in others]


def _open(path: Path, opened: tuple[Path, ...]) -> tuple[str, tuple[Path, ...]]:
    """Read a rules file, and add it to the files that led to it; refuse a circle."""
    text = _read(path, opened)
    real = path.resolve()
    if real in opened:
        circle = " → ".join(each.name for each in (*opened[opened.index(real) :], real))
        raise RemapError(f"rules extend each other in a circle: {circle}", "take one of the extends out")
    return text, (*opened, real)


def _read(path: Path, opened: tuple[Path, ...]) -> str:
    if opened and os.path.exists(path) and not os.path.isfile(path):
        raise RemapError(f"{opened[-1].name} extends {path.name}, which is no file", "give a file of rules")
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
    except RecursionError:
        raise RemapError(f"{file}: it is nested too deeply", "rules are lists of plain tables") from None


def _several(document: Mapping[str, Any], key: str, file: str) -> list[str]:
    value = document.get(key, [])
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise RemapError(f"{file}: '{key}' is {value!r}", "it takes a text, or a list of texts")
    return names


def _flag(document: Mapping[str, Any], key: str, file: str) -> bool:
    value = document.get(key, False)
    if not isinstance(value, bool):
        raise RemapError(f"{file}: '{key}' is {value!r}", "it takes true or false")
    return value


def _preset(name: str) -> dict[str, Any]:
    return tomllib.loads(preset_text(name))


def _preset_names() -> list[str]:
    files = (file.name for file in _folder().iterdir())
    return sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml"))


def _folder() -> Traversable:
    return resources.files("remapfs.rules") / "presets"


def _tables(document: Mapping[str, Any], text: str, file: str) -> Iterator[tuple[Origin, dict[str, Any]]]:
    """Yield the rules in the order in which they stand in the text, whatever their kind.

    A TOML parser gives one list a kind, so the order between kinds comes from the headings.
    """
    headings = [(match[1], text.count("\n", 0, match.start(1)) + 1) for match in _headings(text)]
    for kind in KINDS:
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
    numbers = dict.fromkeys(KINDS, 0)
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
