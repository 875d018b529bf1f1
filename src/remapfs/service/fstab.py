"""`mount.remapfs`: what mount(8) calls for a line of fstab or a `.mount` unit.

mount(8) runs it as `mount.remapfs SOURCE MOUNTPOINT [-sfnv] [-N NAMESPACE] [-o OPTIONS] [-t TYPE]`.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import click

from remapfs.cli.config import keys
from remapfs.errors import RemapError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# What mount(8) and systemd mean for themselves, and what holds for every mount of ours anyway. mount(8) says
# rw where a user says nothing.
_IGNORED: Final = frozenset(
    {
        "ro", "rw", "auto", "noauto", "nofail", "_netdev", "defaults", "nosuid", "nodev", "exec", "noexec",
        "user", "nouser", "users", "owner", "group", "suid", "dev", "async", "sync", "atime", "noatime",
        "diratime", "nodiratime", "relatime", "norelatime", "comment", "default_permissions",
        "dirsync", "silent", "loud",
    }
)  # fmt: skip
_PREFIXES: Final = ("x-", "X-", "comment=")
_REFUSED: Final = {
    "remount": "unmount it and mount it again",
    "background": "it goes on by itself",
    "config": "write the options here, or use the unit remapfs@NAME.service",
}
_BY_THEMSELVES: Final = {"source", "mountpoint", *_REFUSED}


@dataclass(frozen=True, slots=True)
class Call:
    """What mount(8) wants: `fake` is its -f, to do everything but the mount."""

    source: str
    mountpoint: str
    options: str
    fake: bool


def read_call(words: Sequence[str]) -> Call:
    """Read the command line of a mount helper; raises RemapError for one that mount(8) does not write."""
    places: list[str] = []
    options: list[str] = []
    fake = False
    rest = iter(words)
    for word in rest:
        match word:
            case "-o":
                options.append(next(rest, ""))
            case "-t" | "-N":
                next(rest, "")
            case _ if word.startswith("-") and set(word[1:]) <= set("sfnvw") and word != "-":
                fake = fake or "f" in word
            case _ if word.startswith("-"):
                raise RemapError(f"mount.remapfs: unknown option {word}", "it takes -s -f -n -v -o -t -N")
            case _:
                places.append(word)
    if len(places) != 2:  # noqa: PLR2004 - a source and a place for it
        raise RemapError(
            "mount.remapfs needs SOURCE and MOUNTPOINT", "mount -t remapfs SOURCE MOUNTPOINT -o …"
        )
    return Call(places[0], places[1], ",".join(options), fake)


def arguments(call: Call, command: click.Command) -> list[str]:
    """Write the call as arguments of `remapfs mount`; raises RemapError for an option that it refuses."""
    known = keys(command)
    words = ["--background"]
    for option in filter(None, call.options.split(",")):
        name, equals, value = option.partition("=")
        if name in _IGNORED or option.startswith(_PREFIXES):
            continue
        wanted = name.replace("_", "-")
        parameter = known.get(wanted)
        if parameter is None or wanted in _BY_THEMSELVES:
            raise RemapError(f"mount.remapfs: unknown option '{option}'", _hint(wanted, known))
        if isinstance(parameter, click.Option) and parameter.is_flag:
            if equals:
                raise RemapError(f"mount.remapfs: '{name}' takes no value", f"write  {name}")
            words.append(f"--{wanted}")
        else:
            # In fstab a comma ends an option, so several values of one are written with colons.
            values = value.split(":") if parameter.multiple else [value]
            words += [word for each in values for word in (f"--{wanted}", each)]
    return [*words, "--", call.source, call.mountpoint]


def _hint(name: str, known: Mapping[str, object]) -> str:
    if name in _REFUSED:
        return _REFUSED[name]
    close = difflib.get_close_matches(name, [each for each in known if each not in _BY_THEMSELVES], 1)
    return f"did you mean '{close[0]}'?" if close else "the options are those of `remapfs mount`"
