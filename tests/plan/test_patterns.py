"""Many names as few patterns."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from remapfs.plan.patterns import by_module, patterns, split


def texts(names: list[str]) -> list[str]:
    """Write the patterns of names."""
    return [pattern.text() for pattern in patterns(names)]


def test_a_number_that_varies_is_a_range() -> None:
    """One that does not is itself."""
    assert texts([f"layers.{n}.w1" for n in range(3)]) == ["layers.{0-2}.w1"]
    assert texts(["layers.5.w1"]) == ["layers.5.w1"]


def test_few_numbers_are_listed_and_many_counted() -> None:
    """Where they leave holes."""
    assert texts(["l.0", "l.2", "l.10"]) == ["l.{0,2,10}"]
    assert texts([f"l.{2 * n}" for n in range(7)]) == ["l.{0-12: 7 of them}"]


def test_names_that_differ_in_text_are_apart() -> None:
    """In the order in which they are met."""
    assert texts(["b.0", "a.0", "b.1"]) == ["b.{0-1}", "a.0"]


def test_without_ranges_a_number_that_varies_is_a_hole() -> None:
    """For the new name, whose numbers are those of the old one."""
    (pattern,) = patterns(["layers.0.w1", "layers.1.w1"])
    assert pattern.text(ranges=False) == "layers.{}.w1"


def test_the_leaves_of_a_module_are_told_together() -> None:
    """Sorted, with the number of names."""
    names = [f"l.{n}.wkv.{leaf}" for n in range(2) for leaf in ("weight", "scale")]
    assert by_module([*names, "top"]) == [("l.{0-1}.wkv.{scale, weight}", 4), ("top", 1)]


def test_numbers_keep_their_leading_zeros() -> None:
    """They are text: 007 is not 7."""
    assert texts(["l.007"]) == ["l.007"]
    assert texts(["l.007", "l.008"]) == ["l.{007-008}"]
    assert texts(["l.7", "l.007", "l.8"]) == ["l.{007,7,8}"]
    assert texts(["l.7", "l.007", "l.9"]) == ["l.{007,7,9}"]


_NAMES = st.lists(st.text("a.01٣²", max_size=6), max_size=10)


@settings(deadline=None, max_examples=200)
@given(_NAMES)
def test_every_name_is_in_one_pattern(names: list[str]) -> None:
    """With its number of names, and each can be put together again."""
    groups = patterns(names)
    assert sum(group.count for group in groups) == len(names)
    assert len({group.parts for group in groups}) == len(groups)
    for name in names:
        parts, numbers = split(name)
        assert parts[0] + "".join(n + part for n, part in zip(numbers, parts[1:], strict=True)) == name
    assert all(group.text() for group in groups) or "" in names
    assert sum(number for _, number in by_module(names)) == len(names)
