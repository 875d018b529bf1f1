"""The failures that a user is told about."""


class RemapError(Exception):
    """Input that cannot be presented, or a host that cannot present it.

    `message` names what was found and where (file, tensor, rule); `hint` says what to do next.
    The command line prints both and exits with `exit_code`: 2 for bad input, found before anything
    is mounted.
    """

    exit_code = 2

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class RuntimeFailure(RemapError):  # noqa: N818  # RuntimeError means something else in Python
    """Something that failed while running, on input that was good: exit code 1."""

    exit_code = 1
