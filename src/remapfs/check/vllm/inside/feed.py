"""Give a model's loader the tensors of a checkpoint, and go on after each refusal."""
# ruff: noqa: ANN401  # vLLM and torch are not typed
# mypy: disable-error-code="import-not-found,no-any-unimported,unused-ignore"

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from .dtypes import torch_dtype
from .events import sentence
from .kinds import Item, Kinds
from .ledger import PRIMING
from .shortlist import shorten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .kinds import Kind
    from .ledger import Ledger

_EVERY = 5_000
_META = torch.device("meta")


class CannotTell(Exception):  # noqa: N818  # it says what happened
    """The loader asks for something that a dry run does not have."""


class Fed(NamedTuple):
    """What became of the tensors, by their numbers."""

    refused: dict[int, str]
    alike: set[int]
    """Refused like others of their kind, without having been tried."""
    wrote: set[int]
    """Something was written from them."""
    kept: dict[int, bool]
    """Held back by the loader, and whether it has used them since."""
    unread: set[int]
    """Not asked for."""
    after: str
    """What the loader raised after the last tensor."""


def feed(model: Any, items: list[Item], ledger: Ledger, progress: Callable[[int], None]) -> Fed:
    """Feed all of `items` in their order."""
    feeder = _Feeder(model, items, ledger, progress)
    feeder.feed(items)
    return Fed(feeder.refused, feeder.alike, ledger.wrote, ledger.kept(), feeder.unread, feeder.after)


class _Feeder:
    """Feed names in their order and note the refusals.

    An exception ends the generators of a loader, and with them the variables of its loop. So it is started
    again with what is left, and gets first, in their order, the last accepted tensor of each kind: what its
    loop remembers of earlier tensors is then what it would remember had the refused ones not been there. This
    matters: DeepSeek's loader takes an expert that it does not know for the last one that it did, and says
    nothing; only where there was none it stops.
    """

    def __init__(
        self,
        model: Any,
        items: list[Item],
        ledger: Ledger,
        progress: Callable[[int], None],
    ) -> None:
        self.refused: dict[int, str] = {}
        self.alike: set[int] = set()
        self.unread: set[int] = set()
        self.after = ""
        self._model = model
        self._ledger = ledger
        self._progress = progress
        self._kinds = Kinds(items)
        self._last: dict[Kind, Item] = {}
        self._current: Item | None = None
        self._handed = (PRIMING, "")
        self._turns = 0
        self._skipped: list[Item] = []
        self._done = 0
        shorten(model, self._in_hand)

    def feed(self, items: list[Item]) -> None:
        """Feed all, then once more what others of its kind had spoken for until one was accepted."""
        self._run(items)
        skipped, self._skipped = self._skipped, []
        self._run([item for item in skipped if self._kinds.of(item).accepted])
        for item in [item for item in skipped if not self._kinds.of(item).accepted] + self._skipped:
            self.refused[item.number] = self._kinds.reason(item)
            self.alike.add(item.number)

    def _in_hand(self) -> tuple[int, str]:
        """Give the tensor that the loader got last."""
        return self._handed

    def _run(self, items: list[Item]) -> None:
        left = iter(items)
        while True:
            self._finished = False
            try:
                self._model.load_weights(self._weights(left))
            except Exception as error:  # noqa: BLE001  # whatever it raises is the result
                _raise_if_undecidable(error)
                if self._refuse(error):
                    continue
            if not self._finished:
                # It stopped asking without having failed.
                self.unread |= {item.number for item in left}
            return

    def _refuse(self, error: Exception) -> bool:
        """Note whose failure it is; say whether to go on."""
        item = self._current
        if self._finished:
            self.after = sentence(error)
            return False
        if item is None:
            raise error
        self.refused[item.number] = sentence(error)
        self._kinds.refused(item, self.refused[item.number])
        self._current = None
        return True

    def _weights(self, left: Iterator[Item]) -> Iterator[tuple[str, Any]]:
        for item in list(self._last.values()):
            self._ledger.hand_out(PRIMING, None)
            self._hand(item)
            yield item.name, _tensor(item)
        for item in left:
            self._accept()
            if self._kinds.is_settled(item):
                self._skipped.append(item)
                continue
            self._current = item
            self._done += 1
            if self._done % _EVERY == 0:
                self._progress(self._done)
            tensor = _tensor(item)
            self._ledger.hand_out(item.number, tensor)
            self._hand(item)
            yield item.name, tensor
            del tensor
        self._accept()
        self._finished = True

    def _hand(self, item: Item) -> None:
        self._turns += 1
        self._handed = self._turns, item.name

    def _accept(self) -> None:
        """Note that the tensor that was handed out last is behind the loader."""
        item, self._current = self._current, None
        if item is None:
            return
        self._kinds.accepted(item)
        if item.number in self._ledger.wrote:
            kind = self._kinds.of(item)
            self._last.pop(kind, None)
            self._last[kind] = item


def _tensor(item: Item) -> Any:
    return torch.empty(item.shape, dtype=torch_dtype(item.dtype), device=_META)


def _raise_if_undecidable(error: Exception) -> None:
    if "meta tensor" in str(error) or "Meta tensor" in str(error):
        raise CannotTell(f"the loader needs values, not only names and shapes: {sentence(error)}") from error
