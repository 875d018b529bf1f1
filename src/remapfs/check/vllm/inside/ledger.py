"""Which tensor of the checkpoint wrote where, without a value being stored."""
# ruff: noqa: ANN401  # vLLM and torch are not typed
# mypy: disable-error-code="import-not-found,no-any-unimported,unused-ignore"

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from .regions import View, boxes, unwritten

if TYPE_CHECKING:
    from .regions import Box

# How many tensors later one is held by no variable of a loader that has gone on.
_TURNS = 3

PRIMING = -1
"""In the place of a tensor's number: what is written then was written before."""


Place = tuple[int, tuple[int, ...], tuple[int, ...]]
"""What a View has: plain, because there are as many as tensors."""


class Ledger:
    """Note each write into the model, and which tensor it came from.

    A write is attributed to the tensor whose storage it reads, or else to the one that was handed out last.
    """

    def __init__(self, model: Any) -> None:
        self.current = PRIMING
        self.wrote: set[int] = set()
        """The numbers of the tensors that something was written from."""
        self._places: dict[int, set[Place]] = {}
        self._fed: dict[int, tuple[int, weakref.ref[Any]]] = {}
        self._recent: list[tuple[int, weakref.ref[Any]]] = []
        self._kept: dict[int, weakref.ref[Any]] = {}
        self._held = []
        for tensor in _tensors(model):
            # Held, so that no other storage gets its address.
            self._held.append(tensor.data)
            self._places.setdefault(_storage(tensor), set())

    def hand_out(self, number: int, tensor: Any) -> None:
        """Say which tensor the loader gets next."""
        self.current = number
        if number == PRIMING:
            return
        held = weakref.ref(tensor)
        self._fed[_storage(tensor)] = number, held
        self._recent.append((number, held))
        if len(self._recent) > _TURNS:
            earlier, reference = self._recent.pop(0)
            if earlier not in self.wrote and reference() is not None:
                self._kept[earlier] = reference

    def write(self, destination: Any, source: Any = None) -> None:
        """Note that `destination`, a view of some tensor, gets values."""
        written = self._places.get(_storage(destination))
        if written is None:
            return
        written.add((destination.storage_offset(), tuple(destination.shape), destination.stride()))
        if source is not None:
            number, held = self._fed.get(_storage(source), (PRIMING, None))
            if held is not None and held() is not None:
                self.wrote.add(number)
                return
        if self.current != PRIMING:
            self.wrote.add(self.current)

    def kept(self) -> dict[int, bool]:
        """Say which tensors the loader held back, and whether it has let go of them since."""
        return {number: reference() is None for number, reference in self._kept.items()}

    def places(self) -> dict[int, set[Place]]:
        """Give what was written of each storage, for a ledger of the same model in another process."""
        return self._places

    def merge(self, places: dict[int, set[Place]]) -> None:
        """Take in what was written in another process that has the same model."""
        for storage, written in places.items():
            self._places[storage] |= written

    def holes(self, parameter: Any) -> list[Box]:
        """Give the parts of a parameter that got no value."""
        written = self._places.get(_storage(parameter))
        if written is None:
            # It has another storage than when the model was built: the loader has put a tensor in its place.
            return []
        whole = View(parameter.storage_offset(), tuple(parameter.shape), parameter.stride())
        return unwritten(whole.shape, [box for part in written for box in boxes(whole, View(*part))])


def _storage(tensor: Any) -> int:
    address: int = tensor.untyped_storage()._cdata  # noqa: SLF001  # torch has no public identity of a storage
    return address


def _tensors(model: Any) -> list[Any]:
    """Give all tensors that hang on the model: also those that no module has registered."""
    found = []
    for module in model.modules():
        found += [*module._parameters.values(), *module._buffers.values()]  # noqa: SLF001  # duplicates too
        found += [value for value in vars(module).values() if hasattr(value, "untyped_storage")]
    return [tensor for tensor in found if tensor is not None]
