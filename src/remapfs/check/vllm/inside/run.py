"""The dry run: read the job, build the model, feed it, tell what became of each tensor."""
# ruff: noqa: ANN401  # vLLM and torch are not typed
# mypy: disable-error-code="import-not-found,no-any-unimported,unused-ignore"

from __future__ import annotations

import gc
import importlib
import json
import os
from typing import TYPE_CHECKING, Any

from . import build, files, stand_ins
from .dtypes import torch_dtype
from .events import sentence
from .feed import CannotTell
from .halves import feed
from .kinds import Item
from .ledger import Ledger
from .missing import missing
from .unused import ByDesign
from .writes import Notices, watched

if TYPE_CHECKING:
    from .events import Events
    from .feed import Fed

_LOADERS = ("auto", "hf", "safetensors", "mistral")


def main(job_dir: str, events: Events) -> None:
    """Do the job in `job_dir`, and tell how it goes."""
    # The checkpoint's names are many objects that live to the end.
    gc.disable()
    with open(os.path.join(job_dir, "job.json"), encoding="utf-8") as stream:
        job = json.load(stream)
    try:
        _run(job, job_dir, events)
    except build.ConfigRefused as error:
        events.send("config_refused", reason=str(error))
    except (build.NotBuilt, CannotTell) as error:
        events.send("impossible", reason=str(error))


def _run(job: dict[str, Any], job_dir: str, events: Events) -> None:
    stand_ins.before_vllm()
    try:
        version = importlib.import_module("vllm").__version__
    except ImportError as error:
        events.send("no_vllm", reason=sentence(error))
        return
    events.send("vllm", version=version)
    replaced = stand_ins.without_gpu()
    build.inspect_here()
    config, refused = _config(job, job_dir)
    if config.load_config.load_format not in _LOADERS:
        raise CannotTell(f"vLLM loads this model with another loader, {config.load_config.load_format}")
    architecture = next(iter(config.model_config.architectures), "")
    if replaced:
        stand_ins.as_on_nvidia(architecture)
    with build.built(config, job_dir) as model:
        events.send("built", model=type(model).__name__)
        _load(model, config, job, job_dir, events, refused)


def _config(job: dict[str, Any], job_dir: str) -> tuple[Any, str]:
    """Read the configuration: the presented one, or else the one that a preset would make of it."""
    trust = bool(job["trust_remote_code"])
    try:
        return build.engine_config(os.path.join(job_dir, "model"), trust_remote_code=trust), ""
    except build.ConfigRefused as error:
        if not job["other_config"]:
            raise
        other = build.engine_config(os.path.join(job_dir, "other"), trust_remote_code=trust)
        return other, str(error)


def _load(  # noqa: PLR0913  # what was made on the way here
    model: Any,
    config: Any,
    job: dict[str, Any],
    job_dir: str,
    events: Events,
    refused: str,
) -> None:
    notes: list[str] = []
    numbers: dict[str, list[Item]] = {}
    count = 0
    for path, tensors in job["shards"]:
        own = [Item(count + i, name, dtype, tuple(shape)) for i, (name, dtype, shape) in enumerate(tensors)]
        count += len(own)
        numbers[path] = own
    items, outcomes = _read(model, config, os.path.join(job_dir, "model"), numbers)
    odd = sorted({item.dtype for item in items if torch_dtype(item.dtype) is None})
    if odd:
        raise CannotTell(f"the torch there has no dtype for {', '.join(odd)}")

    ledger, notices = Ledger(model), Notices()
    with watched(ledger, notices):
        fed = feed(model, items, ledger, lambda done: events.send("progress", done=done, of=len(items)))
        design = ByDesign(model, config.model_config.hf_config)
        for item in items:
            outcome = _outcome(item, fed, design)
            if outcome:
                outcomes.append([item.number, *outcome])
        lacking = missing(model, ledger)
    if fed.alike:
        notes.append(
            f"{len(fed.alike):,} tensors were not tried but judged like others of their kind: those were all"
            " refused, among them the first, the last and some between"
        )
    if notices.compared:
        notes.append("vLLM compares some values, such as scales: they were taken to agree")
    events.send(
        "result",
        outcomes=outcomes,
        missing=lacking,
        notes=notes,
        after=fed.after,
        config_refused=refused,
    )


def _read(
    model: Any,
    config: Any,
    model_dir: str,
    shards: dict[str, list[Item]],
) -> tuple[list[Item], list[list[Any]]]:
    """Give the tensors of the shards that vLLM reads in its order, and the outcomes of the others."""
    from vllm.model_executor.model_loader import get_model_loader  # noqa: PLC0415

    try:
        paths = files.chosen(get_model_loader(config.load_config), model, model_dir)
    except Exception as error:
        raise CannotTell(files.no_weights(error)) from error
    unread = [
        [item.number, "unused", files.why_unread(path)]
        for path, own in shards.items()
        if path not in paths
        for item in own
    ]
    return [item for path in paths for item in sorted(shards.get(path, ()), key=_name)], unread


def _name(item: Item) -> bytes:
    """Sort as safetensors does, which is how vLLM meets the names of a shard."""
    return item.name.encode()


def _outcome(  # noqa: PLR0911  # one sentence each
    item: Item, fed: Fed, design: ByDesign
) -> tuple[str, str] | None:
    """Give the outcome and its reason: None where the tensor loads and there is nothing to say."""
    number = item.number
    if number in fed.refused:
        return "refused", fed.refused[number]
    if number in fed.wrote:
        return None
    if fed.kept.get(number):
        return "loads", "the loader kept it and combined it with others"
    by_design = design.reason(item.name)
    if by_design is not None:
        return "unused", by_design
    if number in fed.kept:
        return "ignored", "the loader keeps it for another tensor, which does not come"
    if number in fed.unread:
        return "ignored", "the loader has stopped asking for tensors before it"
    return "ignored", "the loader skips it without a word: nothing is written into any parameter"
