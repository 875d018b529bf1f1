"""Parameters of rules: a preset names them, whoever uses it gives their values.

A text says `{{name}}` where the value goes. In a regular expression it stands for itself, whatever characters
it has; in a jq program it is a string. A value is given by the parameter's name, and then goes to all that
take it, or by `preset.name`, and then goes to that preset alone.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from remapfs.errors import RemapError
from remapfs.rules.spelling import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

_PLACE = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_-]*)\}\}")
_REGEXES = frozenset({"match", "if_tensor"})
_KEYS = ("about", "default", "ends")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A declared parameter; `default` is None where a value must be given.

    `ends` is what every value ends with: it is added where it is missing.
    """

    about: str
    default: str | None
    ends: str


def declared(document: Mapping[str, Any], file: str) -> dict[str, Parameter]:
    """Read what the tables below `parameters` declare; texts there are values for presets."""
    found = {}
    for name, table in _parameters(document, file).items():
        if not isinstance(table, dict):
            continue
        for key, value in table.items():
            if key not in _KEYS or not isinstance(value, str):
                raise RemapError(
                    f"{file}: parameter '{name}' has {key} = {value!r}",
                    did_you_mean(key, set(_KEYS) - {key}, "it takes the texts about, default and ends"),
                )
        found[name] = Parameter(table.get("about", ""), table.get("default"), table.get("ends", ""))
    return found


def given(document: Mapping[str, Any], file: str) -> dict[str, str]:
    """Read the values that a rules file gives to what it starts from."""
    return {name: value for name, value in _parameters(document, file).items() if isinstance(value, str)}


def values_for(preset: str, values: Mapping[str, str]) -> dict[str, str]:
    """Take the values that concern a preset: those meant for it alone win over those for all."""
    alone = f"{preset}."
    plain = {name: value for name, value in values.items() if "." not in name}
    return plain | {
        name.removeprefix(alone): value for name, value in values.items() if name.startswith(alone)
    }


def settable(preset: str, taken: Iterable[str]) -> set[str]:
    """Give the names under which a preset's parameters can be given."""
    return {name for parameter in taken for name in (parameter, f"{preset}.{parameter}")}


def settle(known: Mapping[str, Parameter], values: Mapping[str, str], file: str) -> dict[str, str]:
    """Give every declared parameter its value; raises RemapError where one has none, or an empty one."""
    settled = {}
    for name, parameter in known.items():
        value = values.get(name, parameter.default)
        about = f" ({parameter.about})" if parameter.about else ""
        if value is None:
            raise RemapError(
                f"{file} needs the parameter '{name}'{about}",
                f"on the command line: --set {name}=VALUE; in a rules file: [parameters] {name} = 'VALUE'",
            )
        if not value and parameter.default != "":
            raise RemapError(f"{file}: the parameter '{name}' is empty{about}", "give it some text")
        settled[name] = value if value.endswith(parameter.ends) else value + parameter.ends
    return settled


def check_known(values: Collection[str], known: Collection[str], where: str) -> None:
    """Refuse a value that no rules ask for."""
    short = sorted(name for name in known if "." not in name)
    for name in values:
        if name not in known:
            raise RemapError(
                f"{where}: no rules have a parameter '{name}'",
                did_you_mean(name, known, f"they take: {', '.join(short)}" if short else "they take none"),
            )


def check_used(known: Collection[str], tables: Iterable[Mapping[str, Any]], file: str) -> None:
    """Refuse a parameter that no rule of the file uses."""
    used = {place for table in tables for text in _texts(table) for place in _PLACE.findall(text)}
    for name in known:
        if name not in used:
            raise RemapError(
                f"{file}: the parameter '{name}' is declared, and no rule uses it",
                did_you_mean(name, used - set(known), f"write  {{{{{name}}}}}  where its value goes"),
            )


def fill(table: Mapping[str, Any], values: Mapping[str, str], where: str) -> dict[str, Any]:
    """Put values in the place of `{{name}}` in all texts of a rule."""
    return {key: _fill(key, value, table, values, where) for key, value in table.items()}


def _fill(key: str, value: Any, table: Mapping[str, Any], values: Mapping[str, str], where: str) -> Any:  # noqa: ANN401  # TOML
    if isinstance(value, list):
        return [_fill(key, item, table, values, where) for item in value]
    if not isinstance(value, str):
        return value

    def replacement(place: re.Match[str]) -> str:
        name = place[1]
        if name not in values:
            raise RemapError(
                f"{where}: {key} uses the parameter '{name}', which is not declared",
                did_you_mean(name, values, f"write  [parameters.{name}]  at the top of the file"),
            )
        text = values[name]
        if key in _REGEXES:
            return re.escape(text)
        if key == "to" and "match" in table:
            return text.replace("\\", "\\\\")
        return json.dumps(text) if key == "jq" else text

    return _PLACE.sub(replacement, value)


def _texts(table: Mapping[str, Any]) -> list[str]:
    values = (item for value in table.values() for item in (value if isinstance(value, list) else [value]))
    return [value for value in values if isinstance(value, str)]


def _parameters(document: Mapping[str, Any], file: str) -> Mapping[str, Any]:
    table = document.get("parameters", {})
    if not isinstance(table, dict) or not all(isinstance(value, str | dict) for value in table.values()):
        raise RemapError(
            f"{file}: 'parameters' is not a table of texts",
            "a value:  [parameters]  prefix = 'model.'; a declaration:  [parameters.prefix]  about = '…'",
        )
    return table
