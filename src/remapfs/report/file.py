"""The page as a file."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from remapfs.errors import RemapError
from remapfs.report.page import report

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remapfs.check import Answer, Problem
    from remapfs.plan import Plan


def write_report(path: str, plan: Plan, answer: Answer | None, problems: Sequence[Problem] = ()) -> None:
    """Write the page of a plan, or of an answer about it, that bears the present time.

    Raises RemapError where the file cannot be written, and where it would lie in the checkpoint itself.
    """
    if os.path.commonpath([os.path.realpath(path), plan.root]) == plan.root:
        raise RemapError(
            f"the report {path} would lie in the checkpoint {plan.root}",
            "remapfs writes nothing there: name another place",
        )
    text = report(plan, answer, problems, made=datetime.now(UTC))
    try:
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise RemapError(f"cannot write the report {path}: {error.strerror}", "name another file") from error
