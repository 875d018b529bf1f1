"""A program that loads all tensors of a checkpoint onto the CPU with one of the loaders that people use.

It takes a loader and shards, says `ready` on stdout once everything is imported, begins at the first line of
stdin, and prints one line of JSON. Every byte is copied into memory of its own, as a load onto a GPU would.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Loader = Callable[[list[str]], Iterable[Any]]


def _safetensors(backend: str) -> Loader:
    safe_open = import_module("safetensors").safe_open

    def load(paths: list[str]) -> Iterable[Any]:
        for path in paths:
            with safe_open(path, "pt", backend=backend) as shard:
                for name in shard.keys():  # noqa: SIM118 - it is no mapping
                    yield shard.get_tensor(name)

    return load


def _fastsafetensors() -> Loader:
    fastsafe_open = import_module("fastsafetensors").fastsafe_open

    def load(paths: list[str]) -> Iterable[Any]:
        for path in paths:
            with fastsafe_open([path], nogds=True, device="cpu") as shard:
                for name in shard.keys():  # noqa: SIM118 - it is no mapping
                    yield shard.get_tensor(name)

    return load


def _runai() -> Loader:
    streamer_class = import_module("runai_model_streamer").SafetensorsStreamer

    def load(paths: list[str]) -> Iterable[Any]:
        with streamer_class() as streamer:
            streamer.stream_files(paths)
            for _, tensor in streamer.get_tensors():
                yield tensor

    return load


def _vllm(strategy: str) -> Loader:
    weights = import_module("vllm.model_executor.model_loader.weight_utils")

    def load(paths: list[str]) -> Iterable[Any]:
        for _, tensor in weights.safetensors_weights_iterator(
            paths, use_tqdm_on_load=False, safetensors_load_strategy=strategy
        ):
            yield tensor

    return load


LOADERS: Final[dict[str, tuple[str, Callable[[], Loader]]]] = {
    "safetensors, mmap": ("safetensors", lambda: _safetensors("mmap")),
    "safetensors, pread": ("safetensors", lambda: _safetensors("pread")),
    "fastsafetensors": ("fastsafetensors", _fastsafetensors),
    "runai-model-streamer": ("runai_model_streamer", _runai),
    "vLLM, lazy": ("vllm", lambda: _vllm("lazy")),
    "vLLM, prefetch": ("vllm", lambda: _vllm("prefetch")),
}
"""Name on the command line and in the table: the package it needs, and what makes it."""


def main() -> None:
    """Load the shards that the command line names."""
    name, *paths = sys.argv[1:]
    load = LOADERS[name][1]()
    # One piece of memory that exists already: first touches of new memory would be most of what is measured.
    torch = import_module("torch")

    target = torch.zeros(64 << 20, dtype=torch.uint8)
    print("ready", flush=True)
    sys.stdin.readline()
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.monotonic_ns()
    size = 0
    for tensor in load(paths):
        flat = tensor.reshape(-1).view(torch.uint8)
        for begin in range(0, flat.numel(), target.numel()):
            piece = flat[begin : begin + target.numel()]
            target[: piece.numel()].copy_(piece)
        size += flat.numel()
    end = time.monotonic_ns()
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"size": size, "start": start, "end": end, "cpu": cpu}))


if __name__ == "__main__":
    main()
