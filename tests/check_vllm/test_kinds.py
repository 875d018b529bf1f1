"""Which refusals speak for names that were not tried."""

from __future__ import annotations

from remapfs.check.vllm.inside.kinds import ENOUGH, Item, Kinds


def _items(count: int) -> list[Item]:
    return [Item(i, f"layers.{i // 10}.experts.{i % 10}.w1.weight", "BF16", (2, 2)) for i in range(count)]


def test_a_kind_speaks_for_its_members_after_enough_refusals() -> None:
    """The first, the last and some between are tried all the same."""
    items = _items(100)
    kinds = Kinds(items)
    for item in items[:ENOUGH]:
        assert not kinds.is_settled(item)
        kinds.refused(item, "KeyError")
    tried = [item.number for item in items if not kinds.is_settled(item)]
    assert tried[0] == 0
    assert tried[-1] == 99
    assert len(tried) == 8
    assert kinds.reason(items[50]) == "KeyError"


def test_one_acceptance_makes_each_layer_speak_for_itself() -> None:
    """A wrong name in one layer says nothing about the others."""
    items = _items(100)
    kinds = Kinds(items)
    kinds.accepted(items[0])
    for item in items[10:20]:
        kinds.refused(item, "KeyError in layer 1")
    assert not any(kinds.is_settled(item) for item in items[20:])
    assert any(kinds.is_settled(item) for item in items[10:20])


def test_another_shape_or_dtype_is_another_kind() -> None:
    """A refusal for its shape does not speak for tensors of the right one."""
    items = [Item(i, f"a.{i}", "BF16", (2,)) for i in range(ENOUGH)] + [
        Item(ENOUGH, "a.8", "BF16", (3,)),
        Item(ENOUGH + 1, "a.9", "F32", (2,)),
    ]
    kinds = Kinds(items)
    for item in items[:ENOUGH]:
        kinds.refused(item, "wrong")
    assert not kinds.is_settled(items[-1])
    assert not kinds.is_settled(items[-2])
