"""jq programs of rules, run where they can harm nothing: in a child with little time and memory."""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import signal
from time import monotonic
from typing import Any, Final, NoReturn

SECONDS: Final = 10
MEMORY: Final = 1 << 30
_PIECE: Final = 1 << 16
_RESULTS, _REFUSAL = b"r", b"e"


class ProgramError(Exception):
    """A program that gave no result; the text says why."""


def run_jq(program: str, document: Any, seconds: float = SECONDS, memory: int = MEMORY) -> list[Any]:  # noqa: ANN401  # JSON
    """Give all results of a jq program on a decoded JSON document.

    It runs in a forked child, for jq knows no limits: a program may loop for ever, fill the memory, or end
    the process that it runs in. `memory` is what it may take beyond the process as it is, in bytes.
    Raises ProgramError if the program fails, takes too much, or gives more than jq or JSON can nest.
    """
    reading, writing = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if not child:
        _be_the_child(program, document, writing, memory)
    os.close(writing)
    try:
        answer = _receive(reading, monotonic() + seconds)
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
    if answer is None:
        raise ProgramError(f"it does not end: stopped after {seconds:g} seconds")
    if answer[:1] == _RESULTS:
        return _decode(answer[1:])
    if answer[:1] == _REFUSAL:
        raise ProgramError(answer[1:].decode(errors="replace"))
    how = os.waitstatus_to_exitcode(status)
    ended = signal.Signals(-how).name if how < 0 else f"exit code {how}"
    raise ProgramError(f"jq ended with {ended}: it may use {memory >> 20:,} MiB")


def _decode(text: bytes) -> list[Any]:
    try:
        results: list[Any] = json.loads(text)
    except RecursionError:
        raise ProgramError("its result is nested too deeply") from None
    return results


def _receive(reading: int, deadline: float) -> bytes | None:
    """Read until the child has said all; None where it is not done by then."""
    parts: list[bytes] = []
    while (left := deadline - monotonic()) > 0:
        if not select.select((reading,), (), (), left)[0]:
            break
        part = os.read(reading, _PIECE)
        if not part:
            return b"".join(parts)
        parts.append(part)
    return None


def _be_the_child(program: str, document: Any, writing: int, memory: int) -> NoReturn:  # noqa: ANN401  # JSON
    try:
        # Its complaints and what a program prints are not for the user's terminal.
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nothing, number)
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        _limit_memory(memory)
        answer = _answer(program, document)
        while answer:
            answer = answer[os.write(writing, answer) :]
    finally:
        # Neither the parent's clean-up nor its traceback is the child's.
        os._exit(0)


def _limit_memory(memory: int) -> None:
    with open("/proc/self/statm", encoding="ascii") as statm:
        now = int(statm.read().split()[0]) * resource.getpagesize()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    wanted = now + memory
    resource.setrlimit(
        resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
    )


def _answer(program: str, document: Any) -> bytes:  # noqa: ANN401  # JSON
    import jq  # noqa: PLC0415  # most plans run no jq, and the import costs start-up time

    try:
        results = jq.compile(program).input_text(json.dumps(document)).all()
        return _RESULTS + json.dumps(results).encode()
    except ValueError as error:
        return _REFUSAL + str(error).encode(errors="replace")
    except RecursionError:
        return _REFUSAL + b"its result is nested too deeply"
    except MemoryError:
        return _REFUSAL + b"it takes too much memory"
