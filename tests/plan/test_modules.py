"""Module patterns under new names: the selection stays the same, or the pattern stays as it is."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remapfs.plan.modules import ModuleNames, Renamed, Unchanged, Undecided

_SEGMENTS = st.sampled_from(["model", "layers", "0", "1", "10", "attn", "mlp", "w", "a", "é"])
_NAMES = st.lists(_SEGMENTS, min_size=1, max_size=4).map(".".join)
_GLOBS = st.lists(
    st.sampled_from(["*", "?", "[01]", "[!a]", ".", "layers", "0", "1", "attn", "a", "w", "model", "."]),
    min_size=1,
    max_size=6,
).map("".join)


def selected(pattern: str, names: dict[int, str]) -> set[int]:
    """Select as loaders do: the pattern matches the name, or that of a module above it."""
    found = set()
    for entry, name in names.items():
        segments = name.split(".")
        prefixes = [".".join(segments[:count]) for count in range(1, len(segments) + 1)]
        if any(fnmatchcase(prefix, pattern) for prefix in prefixes):
            found.add(entry)
    return found


def check(
    pattern: str, old: list[str], new: list[str | None], aliases: list[tuple[int, str]] | None = None
) -> None:
    """Compare the outcome with the definition."""
    aliases = aliases or []
    before = dict(enumerate(old))
    after = {position: name for position, name in enumerate(new) if name is not None}
    after |= {len(old) + number: name for number, (_, name) in enumerate(aliases)}
    chosen = selected(pattern, before)
    image = {position for position in chosen if new[position] is not None}
    image |= {len(old) + number for number, (position, _) in enumerate(aliases) if position in chosen}
    outcome = ModuleNames(old, new, aliases).translate(pattern)
    match outcome:
        case Unchanged():
            assert image
            assert selected(pattern, after) == image
        case Renamed(patterns):
            assert selected(pattern, after) != image
            assert len(set(patterns)) == len(patterns)
            assert set().union(*(selected(one, after) for one in patterns)) == image
        case Undecided("selects what no name selects alone"):
            assert any(not selected(after[entry], after) <= image for entry in image)
        case Undecided(why):
            assert not image
            assert why == ("selects only dropped tensors" if chosen else "selects no tensor")


@settings(deadline=None, max_examples=500)
@given(st.lists(_NAMES, min_size=1, max_size=10, unique=True), st.data())
def test_the_new_pattern_selects_exactly_the_image(old: list[str], data: st.DataObject) -> None:
    """For random names, any new names for them, dropped ones and aliases, and patterns of every kind."""
    fresh = data.draw(st.lists(_NAMES, min_size=len(old) + 2, max_size=len(old) + 2, unique=True))
    moves = st.sampled_from([str.upper, lambda name: f"x.{name}", lambda name: name.replace("layers.", "l.")])
    move = data.draw(moves)
    scheme = data.draw(st.sampled_from(["any", "alike", "some"]))
    new: list[str | None] = [
        name if scheme == "any" or (scheme == "some" and data.draw(st.booleans())) else move(before)
        for name, before in zip(fresh, old, strict=False)
    ]
    new = [None if data.draw(st.integers(0, 5)) == 0 else name for name in new]
    if len({name for name in new if name}) != sum(name is not None for name in new):
        return
    used = [name for name in fresh[len(old) :] if name not in new]
    aliases = [(data.draw(st.integers(0, len(old) - 1)), name) for name in used if data.draw(st.booleans())]
    parts = data.draw(st.sampled_from(old)).split(".")
    module = ".".join(parts[: data.draw(st.integers(1, len(parts)))])
    pattern = data.draw(
        st.sampled_from([module, module + "*", module + ".*", "*" + module, f"*{parts[-1]}*"]) | _GLOBS
    )
    check(pattern, old, new, aliases)


OLD = [
    "model.layers.0.self_attn.q_proj.weight",
    "model.layers.0.self_attn.kv_proj.weight",
    "model.layers.0.mlp.w1.weight",
    "model.layers.0.mlp.w2.weight",
    "model.layers.1.self_attn.q_proj.weight",
    "model.layers.1.mlp.w1.weight",
    "model.layers.10.mlp.w1.weight",
    "model.norm.weight",
    "lm_head.weight",
]
NEW: list[str | None] = [
    "layers.0.attn.wq.weight",
    "layers.0.attn.wkv.weight",
    "layers.0.ffn.w1.weight",
    "layers.0.ffn.w2.weight",
    "layers.1.attn.wq.weight",
    "layers.1.ffn.w1.weight",
    "layers.10.ffn.w1.weight",
    "norm.weight",
    "head.weight",
]


@pytest.mark.parametrize(
    ("pattern", "outcome"),
    [
        ("lm_head", ("head",)),
        ("model.norm", ("norm",)),
        ("model.layers.0", ("layers.0",)),
        ("model.layers.1", ("layers.1",)),
        ("model.layers.0.self_attn.q_proj", ("layers.0.attn.wq",)),
        ("model.layers.0.self_attn.q_proj.weight", ("layers.0.attn.wq.weight",)),
        ("model.layers.0*", ("layers.0*",)),
        ("model.layers.1*", ("layers.1*",)),
        ("model.layers.1.*", ("layers.1.*",)),
        ("model.layers.0.self_attn*", ("layers.0.attn*",)),
        ("*self_attn*", ("*.attn*",)),
        ("*.mlp.*", ("*.ffn*",)),
        ("model.layers.?.mlp", ("layers.0.ffn", "layers.1.ffn")),
        ("model.layers.[01].self_attn*", ("layers.*.attn*",)),
    ],
)
def test_patterns_that_exporters_write(pattern: str, outcome: tuple[str, ...]) -> None:
    """One pattern for one, where there is one; and it means the same."""
    found = ModuleNames(OLD, NEW, []).translate(pattern)
    check(pattern, OLD, NEW)
    assert isinstance(found, Renamed)
    assert found.patterns == outcome


@pytest.mark.parametrize("pattern", ["*", "*.w1", "*w1*", "*weight"])
def test_a_pattern_that_still_selects_the_same_stays(pattern: str) -> None:
    """It is not written in another way for no reason."""
    assert ModuleNames(OLD, NEW, []).translate(pattern) == Unchanged()


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("re:.*norm", "is a regular expression"),
        ("model.layers.2*", "selects no tensor"),
        ("model.layer", "selects no tensor"),
        ("", "selects no tensor"),
        ("norm", "selects no tensor"),
    ],
)
def test_what_cannot_be_decided_stays(pattern: str, why: str) -> None:
    """With the reason, for the findings."""
    assert ModuleNames(OLD, NEW, []).translate(pattern) == Undecided(why)


def test_a_module_whose_tensors_are_all_dropped() -> None:
    """There is nothing left to speak of."""
    new = [None if name and name.startswith("norm") else name for name in NEW]
    assert ModuleNames(OLD, new, []).translate("model.norm*") == Undecided("selects only dropped tensors")


def test_a_module_whose_tensors_part() -> None:
    """It becomes the fewest modules, or tensors, that hold them and nothing else."""
    old = ["m.a.x", "m.a.y", "m.b.x"]
    new: list[str | None] = ["p.x", "q.y", "q.x"]
    found = ModuleNames(old, new, []).translate("m.a")
    assert found == Renamed(("p", "q.y"))
    check("m.a", old, new)


def test_an_alias_belongs_to_the_image() -> None:
    """What is not quantised is so under each of its names."""
    old = ["embed.weight", "norm.weight"]
    found = ModuleNames(old, ["embed.weight", "norm.weight"], [(0, "head.weight")]).translate("embed")
    assert found == Renamed(("embed", "head"))


def test_a_tensor_called_as_another_s_module() -> None:
    """Its name would select the other too, so nothing is proved."""
    found = ModuleNames(["a", "b"], ["a", "a.b"], []).translate("a")
    assert found == Undecided("selects what no name selects alone")


def test_a_number_is_not_the_start_of_another() -> None:
    """layers.1 is not layers.10."""
    old = ["layers.1.w", "layers.10.w"]
    new: list[str | None] = ["blocks.1.w", "blocks.10.w"]
    assert ModuleNames(old, new, []).translate("layers.1") == Renamed(("blocks.1",))
    check("layers.1*", old, new)
