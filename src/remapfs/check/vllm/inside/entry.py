"""Look, with the standard library alone, whether there is a vLLM, and then begin."""

from __future__ import annotations

import importlib.util

from .events import Events


def main(job_dir: str, descriptor: int) -> None:
    """Do the job in `job_dir`, and write the events to the descriptor."""
    events = Events(descriptor)
    for name in ("vllm", "torch", "numpy"):
        if importlib.util.find_spec(name) is None:
            events.send("no_vllm", reason=f"no module named {name}")
            return
    from .run import main as run  # noqa: PLC0415  # it imports what has been looked for

    run(job_dir, events)
