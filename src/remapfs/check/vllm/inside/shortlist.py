"""The list of experts that a loader walks through for each name, cut to those that can match it."""
# ruff: noqa: ANN401  # vLLM and torch are not typed
# mypy: disable-error-code="import-not-found,no-any-unimported,unused-ignore"

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_EXPERT = re.compile(r"experts\.(\d+)\.")
_MAKER = "fused_moe_make_expert_params_mapping"

# How many names a loader must be seen to handle one by one before its list is cut.
_PROOF = 100

Mapping = tuple[Any, ...]


class Shortlist(list[Mapping]):
    """An expert mapping that leaves out the experts whose number is not the one in the tensor's name.

    A loop over all of 384 experts for each of their tensors is most of what loading costs. The last entry is
    always given, so that the loop's variables end as they would. A loader that reads several tensors before
    it handles the first gets the whole list, and so does a name without one expert's number: such as one of a
    shared expert, which some loaders number anew.
    """

    def __init__(self, mapping: list[Mapping], current: Callable[[], tuple[int, str]]) -> None:
        super().__init__(mapping)
        self._current = current
        self._before = 0
        self._proofs = 0
        self._short: dict[str, list[Mapping]] = {}
        self._regular = True
        for entry in mapping:
            found = _EXPERT.search(str(entry[1]))
            if found is None:
                self._regular = False
            else:
                self._short.setdefault(found[1], []).append(entry)
        for own in self._short.values():
            if own[-1] is not mapping[-1]:
                own.append(mapping[-1])

    def __iter__(self) -> Iterator[Mapping]:
        """Give the entries for the tensor that was handed out last."""
        number, name = self._current()
        if self._proofs < _PROOF:
            self._proofs = 0 if number == self._before else self._proofs + 1
            self._before = number
            return super().__iter__()
        found = _EXPERT.findall(name)
        if not self._regular or len(found) != 1 or "shared" in name:
            return super().__iter__()
        return iter(self._short.get(found[0], self[-1:]))


def shorten(model: Any, current: Callable[[], tuple[int, str]]) -> None:
    """Give the loaders of a model short lists: where they ask a method for it, and where a function."""
    for module in model.modules():
        method = getattr(module, "get_expert_mapping", None)
        # What routed experts load themselves is looked up by the expert already.
        if (
            callable(method)
            and callable(getattr(module, "load_weights", None))
            and not hasattr(module, "w13_weight")
        ):
            object.__setattr__(module, "get_expert_mapping", _once(method, current))
    for name in {type(module).__module__ for module in model.modules()}:
        namespace = vars(sys.modules[name])
        if callable(namespace.get(_MAKER)):
            namespace[_MAKER] = _once(namespace[_MAKER], current)


def _once(make: Callable[..., Any], current: Callable[[], tuple[int, str]]) -> Callable[..., Any]:
    made: list[tuple[Any, Any]] = []

    def mapping(*args: Any, **kwargs: Any) -> Any:
        for arguments, result in made:
            if arguments == (args, kwargs):
                return result
        result = make(*args, **kwargs)
        if isinstance(result, list) and all(isinstance(entry, tuple) for entry in result):
            result = Shortlist(result, current)
        made.append(((args, kwargs), result))
        return result

    return mapping
