"""The one process that runs vLLM's loader, and what it reports."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from remapfs.errors import RemapError, RuntimeFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_INSIDE = Path(__file__).with_name("inside")
_NAME = "remapfs_inside"
# Loads the folder `inside` as a package, without making anything else of remapfs importable there.
_BOOTSTRAP = f"""
import importlib.util, sys
folder, job, descriptor = sys.argv[1:]
spec = importlib.util.spec_from_file_location(
    {_NAME!r}, folder + "/__init__.py", submodule_search_locations=[folder]
)
sys.modules[{_NAME!r}] = importlib.util.module_from_spec(spec)
importlib.import_module({_NAME!r} + ".entry").main(job, int(descriptor))
"""
_CACHES = (
    "FLASHINFER_WORKSPACE_BASE",
    "HF_HOME",
    "HF_MODULES_CACHE",
    "MPLCONFIGDIR",
    "TMPDIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "VLLM_CACHE_ROOT",
    "VLLM_CONFIG_ROOT",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
)
_SETTINGS = {
    "DO_NOT_TRACK": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "HF_HUB_OFFLINE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
}
_LAST_LINES = 12


@dataclass(frozen=True, slots=True)
class Report:
    """What the process found.

    `against` names vLLM and the model class. `outcomes` are (number of the tensor, outcome, reason) for all
    that do not simply load, `missing` (parameter, what of it is missing). `after` is what the loader raised
    after the last tensor, `config_refused` why vLLM does not take config.json, `impossible` why there is no
    result: each is "" where there is nothing to say.
    """

    against: str
    outcomes: tuple[tuple[int, str, str], ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    after: str = ""
    config_refused: str = ""
    impossible: str = ""


def run(python: str, folder: str, progress: Callable[[str, int, int], None]) -> Report:
    """Run the job in `folder`, which takes all that is written.

    Raises RemapError for an interpreter or a configuration that will not do, RuntimeFailure for a process
    that ends without an answer.
    """
    scratch = os.path.join(folder, "scratch")
    os.makedirs(scratch)
    heard = _Heard(progress)
    log = os.path.join(folder, "log")
    reading, writing = os.pipe()
    with open(log, "wb") as output, open(reading, "rb") as events:
        try:
            process = subprocess.Popen(  # noqa: S603  # the interpreter that the user named
                [_interpreter(python), "-c", _BOOTSTRAP, _INSIDE, folder, str(writing)],
                cwd=scratch,
                env=_environment(scratch),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(writing,),
                start_new_session=True,
            )
        except OSError as error:
            raise RemapError(
                f"cannot run {python}: {error.strerror}",
                "give the Python of the environment that vLLM is installed in: --python PATH",
            ) from None
        finally:
            os.close(writing)
        try:
            for line in events:
                heard.hear(json.loads(line))
            status = process.wait()
        finally:
            # Its own session, so that nothing that vLLM started stays behind either.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return heard.report(python, status, log)


@dataclass(slots=True)
class _Heard:
    progress: Callable[[str, int, int], None]
    last: dict[str, Any] = field(default_factory=dict)
    version: str = ""
    model: str = ""

    def hear(self, event: dict[str, Any]) -> None:
        self.last = event
        match event["event"]:
            case "vllm":
                self.version = event["version"]
                self.progress(f"building the model with vLLM {self.version}", 0, 0)
            case "built":
                self.model = event["model"]
                self.progress(f"loading {self.model}", 0, 0)
            case "progress":
                self.progress(f"loading {self.model}", event["done"], event["of"])
            case _:
                pass  # an ending: report() reads it

    def report(self, python: str, status: int, log: str) -> Report:
        against = ", ".join(["vLLM " + self.version, *([self.model] if self.model else [])])
        match self.last:
            case {"event": "result"} as result:
                return Report(
                    against,
                    tuple((number, outcome, reason) for number, outcome, reason in result["outcomes"]),
                    tuple((name, reason) for name, reason in result["missing"]),
                    tuple(result["notes"]),
                    result["after"],
                    result["config_refused"],
                )
            case {"event": "impossible", "reason": reason}:
                return Report(against, impossible=reason)
            case {"event": "config_refused", "reason": reason}:
                raise RemapError(
                    f"vLLM {self.version} does not take the configuration: {reason}",
                    "put config.json right with a json rule, or use a preset: see `remapfs presets`",
                )
            case {"event": "no_vllm", "reason": reason}:
                raise RemapError(
                    f"{python} has no vLLM: {reason}",
                    "give the Python of the environment that vLLM is installed in: --python PATH",
                )
            case _:
                raise RuntimeFailure(
                    f"vLLM's process ended {_ending(status)} without an answer; its end:",
                    "run the check once more; if it stays so, report it with these lines",
                    lines=_tail(log),
                )


def _interpreter(python: str) -> str:
    found = shutil.which(os.path.expanduser(python))
    if found is None:
        raise RemapError(
            f"there is no Python at {python}",
            "give the Python of the environment that vLLM is installed in: --python PATH",
        )
    # The process runs in another directory. Not resolved: a link tells Python which environment is its own.
    return os.path.abspath(found)


def _environment(scratch: str) -> Mapping[str, str]:
    return dict(os.environ) | dict.fromkeys(_CACHES, scratch) | _SETTINGS


def _ending(status: int) -> str:
    if status < 0:
        return f"by signal {-status} ({signal.Signals(-status).name})"
    return f"with status {status}"


def _tail(log: str) -> list[str]:
    with open(log, encoding="utf-8", errors="replace") as stream:
        lines = [line.rstrip() for line in stream if line.strip()]
    return [f"  {line[:300]}" for line in lines[-_LAST_LINES:]]
