"""`--config FILE`: the options of a command as a TOML file."""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from remapfs.errors import RemapError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_Command = TypeVar("_Command", bound="Callable[..., object]")
_NAME = "config"


def takes_a_config(command: _Command) -> _Command:
    """Add `--config`: the file says what the command line leaves out, arguments too."""
    return click.option(
        f"--{_NAME}",
        metavar="FILE",
        is_eager=True,
        expose_value=False,
        callback=_apply,
        help="A TOML file with source, mountpoint, and these options by their names; the command line wins.",
    )(command)


def read_config(file: str, command: click.Command) -> dict[str, Any]:
    """Read a file's values by the names of the command's parameters.

    Raises RemapError for a file that cannot be read, an unknown key, and a value that its option refuses.
    """
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise RemapError(
            f"cannot read {file}: {error.strerror}", "`remapfs install-units` writes an example beside it"
        ) from None
    except UnicodeDecodeError as error:
        raise RemapError(f"{file} is not UTF-8: {error}", "save it as UTF-8") from None
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise RemapError(f"{file} is not TOML: {error}", 'a line is like  source = "/data/model"') from None
    known = keys(command)
    values = {}
    for key, value in document.items():
        parameter = known.get(key)
        if parameter is None or parameter.name is None:
            raise RemapError(f"{file}: unknown key '{key}'", _hint(key, known))
        values[parameter.name] = _value(file, key, value, parameter)
    return values


def keys(command: click.Command) -> dict[str, click.Parameter]:
    """List what a file may say: arguments by their names, and options by theirs without the dashes."""
    known: dict[str, click.Parameter] = {}
    for parameter in command.params:
        if isinstance(parameter, click.Argument):
            known[str(parameter.name)] = parameter
        else:
            names = (name.removeprefix("--") for name in parameter.opts if name.startswith("--"))
            known |= {name: parameter for name in names if name not in (_NAME, "help")}
    return known


def _apply(context: click.Context, parameter: click.Parameter, file: str | None) -> None:
    del parameter
    if file is not None:
        context.default_map = read_config(file, context.command)


def _value(file: str, key: str, value: object, parameter: click.Parameter) -> object:
    if isinstance(parameter, click.Option) and parameter.is_flag:
        if not isinstance(value, bool):
            raise _wrong(file, key, value, f"{key} = true  or  {key} = false")
        return value
    if parameter.multiple:
        if isinstance(value, dict):
            value = [f"{name}={each}" for name, each in value.items()]
        listed = value if isinstance(value, list) else [value]
        if not all(isinstance(item, str) for item in listed):
            raise _wrong(file, key, value, f'{key} = "…"  or  {key} = ["…", "…"]')
        return listed
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _wrong(file, key, value, f'{key} = "…"')
    try:
        parameter.type.convert(str(value), parameter, None)
    except click.BadParameter as error:
        raise RemapError(f"{file}: {key} = {value!r}: {error.message}", f"correct {key} in {file}") from None
    return str(value)


def _wrong(file: str, key: str, value: object, form: str) -> RemapError:
    return RemapError(f"{file}: {key} = {value!r} is not what it takes", f"write  {form}")


def _hint(key: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(key, list(known), 1)
    return f"did you mean '{close[0]}'?" if close else f"it takes {', '.join(sorted(known))}"
