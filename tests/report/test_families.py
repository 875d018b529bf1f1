"""Tensors as families, and families as the page's data."""

from __future__ import annotations

import json
import re
from itertools import product
from string import ascii_letters
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from remapfs.report.encode import encode
from remapfs.report.families import families, pattern
from remapfs.report.marks import MARKS, RENAMED
from remapfs.report.places import places
from report.making import grouped, item

if TYPE_CHECKING:
    from remapfs.report.items import Item

_SEGMENT = st.sampled_from(["layers", "0", "1", "7", "12", "007", "w1", "w2", "a_3", "attn", "weight", "é5"])
_NAME = st.lists(_SEGMENT, min_size=1, max_size=6).map(".".join)
_ITEM = st.builds(
    item, st.none() | _NAME, _NAME, st.sampled_from(sorted(MARKS)), st.sampled_from(["", "why", "3 of 4"])
)


def _expand(ranges: str) -> list[str]:
    bounds = [part.split("-") for part in ranges.split(",")]
    return [
        number
        for low, *high in bounds
        for number in ([str(n) for n in range(int(low), int(high[0]) + 1)] if high else [low])
    ]


def _decoded(data: dict[str, Any]) -> list[tuple[str | None, str | None, str]]:
    """Read the page's data back, as its script does."""
    found = []
    for family in data["families"]:
        runs = re.findall(r"([a-zA-Z.])(\d*)", family["states"])
        letters = [letter for letter, times in runs for _ in range(int(times or 1))]
        numbers = list(product(*map(_expand, family["axes"])))
        assert len(letters) == len(numbers)
        for at, letter in zip(numbers, letters, strict=True):
            if letter != ".":
                names = [
                    template and "".join(piece if isinstance(piece, str) else at[piece] for piece in template)
                    for template in (family["source"], family["name"])
                ]
                found.append((names[0], names[1], data["states"][ascii_letters.index(letter)]["mark"]))
    return found


def _key(each: tuple[str | None, str | None, str]) -> tuple[str, str, str]:
    return each[0] or "", each[1] or "", each[2]


@given(st.lists(_ITEM, max_size=40))
def test_the_data_gives_back_every_tensor_with_its_names_and_its_mark(found: list[Item]) -> None:
    """Nothing is lost, doubled or renamed on the way into the page, whatever the names are."""
    made = families(found)
    data = json.loads(encode(made, places(made)).text)
    assert sorted(_decoded(data), key=_key) == sorted(
        ((each.source, each.name, each.mark) for each in found), key=_key
    )


def test_a_full_grid_of_names_is_one_family() -> None:
    """Layers and experts become axes; the renamed number is taken from the name on disk."""
    made = grouped(
        (f"model.layers.{layer}.experts.{expert}.up.weight", f"layers.{layer}.experts.{expert}.w3.weight")
        for layer in range(3)
        for expert in range(20)
    )
    assert [(pattern(f.source or ()), pattern(f.name or (), f.axes), f.tensors) for f in made] == [
        ("model.layers.{}.experts.{}.up.weight", "layers.{0-2}.experts.{0-19}.w3.weight", 60)
    ]


def test_numbers_within_words_are_not_axes_while_they_are_few() -> None:
    """w1, w2 and w3 are three projections, not one projection with three numbers."""
    made = grouped((f"layers.{n}.w{p}.weight",) * 2 for n in range(2) for p in (1, 2, 3))
    assert [pattern(f.source or ()) for f in made] == [f"layers.{{}}.w{p}.weight" for p in (1, 2, 3)]


def test_many_numbers_within_words_are_an_axis() -> None:
    """Some writers say layers_12: that is a layer too."""
    made = grouped((f"layers_{n}.weight",) * 2 for n in range(20))
    assert [pattern(f.source or (), f.axes) for f in made] == ["layers_{0-19}.weight"]


def test_a_hole_in_a_grid_of_names_stays_a_hole() -> None:
    """One absent tensor does not split its family."""
    names = [f"layers.{n}.experts.{e}.w" for n in range(3) for e in range(20)]
    names.remove("layers.1.experts.7.w")
    (made,) = grouped((name, name) for name in names)
    assert made.tensors == 59
    assert made.states.index(None) == 27


def test_names_scattered_over_their_axes_do_not_make_a_huge_family() -> None:
    """A thousand names on the diagonal are not a million places."""
    made = grouped((f"a.{n}.b.{n + 5000}.c.{n * 7}",) * 2 for n in range(1000))
    assert sum(len(family.states) for family in made) < 5000
    assert sum(family.tensors for family in made) == 1000


def test_another_dtype_or_shape_is_another_family() -> None:
    """What a name pattern is made of can be told only if it is the same for all."""
    made = families(item(f"layers.{n}.w", f"layers.{n}.w")._replace(shape=(1 + n % 2,)) for n in range(4))
    assert [(f.shape, f.axes) for f in made] == [((1,), (("0", "2"),)), ((2,), (("1", "3"),))]


def test_numbers_of_thousands_of_digits_are_numbers() -> None:
    """Python refuses to read them as integers; a header may have them all the same."""
    made = grouped((f"layers.{digits}.w",) * 2 for digits in ("9" * 5000, "1" * 5000, "3"))
    assert made[0].axes == (("3", "1" * 5000, "9" * 5000),)


def test_what_does_not_fit_is_counted_and_what_fails_goes_first() -> None:
    """A page of a limited size says how many tensors it leaves out, and never leaves out the failing ones."""
    found = [item(f"{letter}.weight", f"{letter}.weight", RENAMED) for letter in ascii_letters]
    found.append(item("q_last.weight", "q_last.weight", "refused", "no room"))
    made = families(found)
    encoded = encode(made, places(made), budget=800)
    marks = [mark for _, _, mark in _decoded(json.loads(encoded.text))]
    assert "refused" in marks
    assert encoded.tensors_left_out == encoded.families_left_out == len(found) - len(marks) > 0


def test_more_reasons_than_letters_share_one() -> None:
    """A thousand reasons do not stop the page; the marks stay right."""
    words = ["".join(pair) for pair in product("abcdefghij", repeat=3)]
    made = families(item(word, word, "different", f"because {word}") for word in words)
    data = json.loads(encode(made, places(made)).text)
    assert {mark for _, _, mark in _decoded(data)} == {"different"}
    assert data["states"][-1]["reason"] == "for several reasons: see the problems"
