"""Parameters of rules: a preset names them, whoever uses it gives their values.

A text says `{{name}}` where the value goes. In a regular expression it stands for itself, whatever characters
it has; in a jq program it is a string.
"""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from remapfs.errors import RemapError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_PLACE = re.compile(r"\{\{([A-Za-z_][A-Za-z0-9_-]*)\}\}")
_REGEXES = frozenset({"match", "if_tensor"})


@dataclass(frozen=True, slots=True)
class Parameter:
    """A declared parameter; `default` is None where a value must be given."""

    about: str
    default: str | None


def declared(document: Mapping[str, Any], file: str) -> dict[str, Parameter]:
    """Read what the tables below `parameters` declare; texts there are values for presets."""
    found = {}
    for name, table in _parameters(document, file).items():
        if not isinstance(table, dict):
            continue
        for key, value in table.items():
            if key not in ("about", "default") or not isinstance(value, str):
                raise RemapError(
                    f"{file}: parameter '{name}' has {key} = {value!r}",
                    "it takes the texts about and default",
                )
        found[name] = Parameter(table.get("about", ""), table.get("default"))
    return found


def given(document: Mapping[str, Any], file: str) -> dict[str, str]:
    """Read the values that a rules file gives to the presets it starts from."""
    return {name: value for name, value in _parameters(document, file).items() if isinstance(value, str)}


def settle(known: Mapping[str, Parameter], values: Mapping[str, str], file: str) -> dict[str, str]:
    """Give every declared parameter its value; raises RemapError where one has none."""
    settled = {}
    for name, parameter in known.items():
        value = values.get(name, parameter.default)
        if value is None:
            about = f" ({parameter.about})" if parameter.about else ""
            raise RemapError(
                f"{file} needs the parameter '{name}'{about}",
                f"on the command line: --set {name}=VALUE; in a rules file: [parameters] {name} = 'VALUE'",
            )
        settled[name] = value
    return settled


def check_known(values: Collection[str], known: Collection[str], where: str) -> None:
    """Refuse a value that no preset asks for."""
    for name in values:
        if name not in known:
            close = difflib.get_close_matches(name, list(known), 1)
            listed = f"they take: {', '.join(sorted(known))}" if known else "they take none"
            raise RemapError(
                f"{where}: no rules have a parameter '{name}'",
                f"did you mean '{close[0]}'?" if close else listed,
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
        if place[1] not in values:
            raise RemapError(
                f"{where}: {key} uses the parameter '{place[1]}', which is not declared",
                f"write  [parameters.{place[1]}]  at the top of the file",
            )
        text = values[place[1]]
        if key in _REGEXES:
            return re.escape(text)
        if key == "to" and "match" in table:
            return text.replace("\\", "\\\\")
        return json.dumps(text) if key == "jq" else text

    return _PLACE.sub(replacement, value)


def _parameters(document: Mapping[str, Any], file: str) -> Mapping[str, Any]:
    table = document.get("parameters", {})
    if not isinstance(table, dict) or not all(isinstance(value, str | dict) for value in table.values()):
        raise RemapError(
            f"{file}: 'parameters' is not a table of texts",
            "a value:  [parameters]  prefix = 'model.'; a declaration:  [parameters.prefix]  about = '…'",
        )
    return table
