"""Catch what a loader does to tensors, so that nothing needs storage."""
# ruff: noqa: ANN401  # vLLM and torch are not typed
# mypy: disable-error-code="import-not-found,no-any-unimported,unused-ignore"

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .ledger import Ledger


class Notices:
    """What the dry run could not decide, because it has no values."""

    def __init__(self) -> None:
        self.compared = False


@contextmanager
def watched(ledger: Ledger, notices: Notices) -> Iterator[None]:
    """Note all writes while the block runs.

    The methods of torch.Tensor are replaced: every parameter class inherits them, and a dispatch mode, which
    would see all operations, costs several times as much. A copy of a wrong shape fails as in torch.
    """
    methods: dict[str, Callable[..., Any]] = {
        "copy_": _copy(ledger),
        "__setitem__": _set_item(ledger),
        "__bool__": _truth(notices),
        **{name: _in_place(name, ledger) for name in ("fill_", "zero_", "index_copy_", "masked_fill_")},
    }
    before = {name: torch.Tensor.__dict__.get(name) for name in methods}
    for name, method in methods.items():
        setattr(torch.Tensor, name, method)
    try:
        yield
    finally:
        for name, method in before.items():
            if method is None:
                delattr(torch.Tensor, name)
            else:
                setattr(torch.Tensor, name, method)


def _copy(ledger: Ledger) -> Callable[..., Any]:
    original = torch.Tensor.copy_

    def copy_(self: Any, src: Any, *args: Any, **kwargs: Any) -> Any:
        if src.is_meta and not self.is_meta:
            # torch copies nothing out of a meta tensor; this fails where the shapes make a copy fail.
            src.expand(self.shape)
        elif src.shape != self.shape or not self.is_meta:
            original(self, src, *args, **kwargs)
        ledger.write(self, src)
        return self

    return copy_


def _set_item(ledger: Ledger) -> Callable[..., None]:
    original = torch.Tensor.__setitem__

    def set_item(self: Any, index: Any, value: Any) -> None:
        source = value if isinstance(value, torch.Tensor) else None
        part = self[index]
        if source is not None and source.is_meta and not self.is_meta:
            _without_leading_ones(source, part.dim()).expand(part.shape)
        elif source is None or source.shape != part.shape or not self.is_meta:
            original(self, index, value)
        # An index of tensors gives a copy: what it wrote is then not known, and all counts.
        ledger.write(part if _is_view(index) else self, source)

    return set_item


def _in_place(name: str, ledger: Ledger) -> Callable[..., Any]:
    original = getattr(torch.Tensor, name)

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        original(self, *args, **kwargs)
        ledger.write(self)
        return self

    return method


def _truth(notices: Notices) -> Callable[[Any], bool]:
    original = torch.Tensor.__bool__

    def truth(self: Any) -> bool:
        if not self.is_meta:
            return bool(original(self))
        # Loaders ask whether two scales differ: a dry run takes them to agree.
        notices.compared = True
        return False

    return truth


def _without_leading_ones(tensor: Any, most: int) -> Any:
    while tensor.dim() > most and tensor.shape[0] == 1:
        tensor = tensor[0]
    return tensor


def _is_view(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return all(part is None or part is Ellipsis or isinstance(part, (int, slice)) for part in parts)
