"""The failures that a user is told about."""

from collections.abc import Iterable

from remapfs.words import printable


class RemapError(Exception):
    """Input that cannot be presented, or a host that cannot present it.

    `message` names what was found and where (file, tensor, rule), in one line, which `lines` may follow;
    `hint` says what to do next. Names may hold any characters: those that a terminal would obey, or that
    would begin a line, are written as escapes.
    The command line prints both and exits with `exit_code`: 2 for bad input, found before anything
    is mounted.
    """

    exit_code = 2

    def __init__(self, message: str, hint: str = "", lines: Iterable[str] = ()) -> None:
        super().__init__("\n".join(map(printable, (message, *lines))))
        self.message = str(self)
        self.hint = hint


class RuntimeFailure(RemapError):  # noqa: N818  # RuntimeError means something else in Python
    """Something that failed while running, on input that was good: exit code 1."""

    exit_code = 1
