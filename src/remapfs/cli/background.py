"""A server that goes on after the command has returned."""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from remapfs.cli.logs import LogForm, log_handler, log_to
from remapfs.errors import RemapError, RuntimeFailure
from remapfs.present.options import LOGGER

if TYPE_CHECKING:
    from remapfs.plan import Plan
    from remapfs.present.options import MountOptions, Presenter

_SYSLOG = "/dev/log"
_READY = b"ready\n"


def in_background(  # noqa: PLR0913  # what the server is given
    serve: Presenter,
    plan: Plan,
    mountpoint: str,
    options: MountOptions,
    log_file: str | None,
    form: LogForm = LogForm.TEXT,
) -> None:
    """Serve in a process of its own and return when the mount answers this process.

    Raises what the server raised before it was ready, or RuntimeFailure if it died without a word.
    """
    handler = log_handler(log_file, _syslog, form)
    # The working directory of a daemon must not keep a file system busy, so paths are made absolute first.
    mountpoint = os.path.abspath(mountpoint)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        _serve(serve, plan, mountpoint, options, handler, writing)
    os.close(writing)
    with open(reading, "rb") as pipe:
        # One line, not all: a server's children hold its end of the pipe too.
        answer = pipe.readline()
    if answer == _READY:
        _check_answers(mountpoint, child)
        return
    os.waitpid(child, 0)
    if not answer:
        raise RuntimeFailure(
            "the server ended before the mount answered", "run without --background to see why"
        )
    told = json.loads(answer)
    kind = RemapError if told["code"] == RemapError.exit_code else RuntimeFailure
    message, *lines = told["message"].split("\n")
    raise kind(message, told["hint"], lines)


def _check_answers(mountpoint: str, child: int) -> None:
    try:
        os.listdir(mountpoint)
    except OSError as error:
        os.kill(child, signal.SIGTERM)
        raise RuntimeFailure(f"the mount at {mountpoint} does not answer: {error.strerror}") from None


def _serve(  # noqa: PLR0913  # what the parent gives to the child
    serve: Presenter,
    plan: Plan,
    mountpoint: str,
    options: MountOptions,
    handler: logging.Handler,
    writing: int,
) -> NoReturn:
    code = 0
    try:
        os.setsid()
        os.chdir("/")
        # What a service manager says is meant for the process that it started.
        os.environ.pop("NOTIFY_SOCKET", None)
        log_to(handler)
        # Before the presenter forks: each of its processes would hold the caller's pipes open.
        _detach()

        def ready() -> None:
            os.write(writing, _READY)
            os.close(writing)

        serve(plan, mountpoint, options, ready)
    except RemapError as error:
        LOGGER.error("%s", error.message)
        code = error.exit_code
        _tell(writing, code, error.message, error.hint)
    except Exception as error:  # noqa: BLE001  # the parent must be told, whatever it is
        LOGGER.exception("the server failed")
        code = 1
        _tell(writing, code, f"the server failed: {error!r}", "run without --background to see more")
    finally:
        # Not sys.exit: the parent's clean-up handlers are not the child's to run.
        os._exit(code)


def _tell(writing: int, code: int, message: str, hint: str) -> None:
    try:
        os.write(writing, json.dumps({"code": code, "message": message, "hint": hint}).encode() + b"\n")
    except OSError:
        # The parent has its answer already: the failure came later, and is in the log.
        return


def _detach() -> None:
    """Let go of the caller's terminal and pipes: a caller that captures output waits for them to close."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def _syslog() -> logging.Handler:
    if not Path(_SYSLOG).exists():
        return logging.NullHandler()
    return logging.handlers.SysLogHandler(_SYSLOG)
