"""What is asked where vLLM cannot answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import pytest

from check.references import demo, found, planned
from check.test_compare import SEEDED
from remapfs.check import LoaderUnavailable, ask, check_against

if TYPE_CHECKING:
    from pathlib import Path


def _cannot(*_: object, **__: object) -> NoReturn:
    raise LoaderUnavailable("vLLM 9, SomeModel cannot be run dry here: its kernels need a GPU", "compare")


@pytest.fixture(autouse=True)
def no_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let vLLM say that it cannot build the model class here."""
    monkeypatch.setattr(ask, "run_loader", _cannot)


def test_the_names_are_compared_with_the_preset_of_the_model_instead(tmp_path: Path) -> None:
    """A note says why, and the answer is one."""
    answer, problems = check_against(planned(demo(tmp_path / "hf")), "vllm")
    assert (answer.loads, problems) == (True, [])
    assert answer.against == "the names that the preset deepseek-v4 gives"
    (note,) = answer.notes
    assert note.startswith(
        "vLLM 9, SomeModel cannot be run dry here: its kernels need a GPU; so the names were"
    )


@pytest.mark.parametrize("seed", SEEDED)
def test_wrong_rules_are_found_then_too(seed: str, tmp_path: Path) -> None:
    """As against any other reference."""
    rule, tensors, right, wrong = SEEDED[seed]
    answer, _ = check_against(planned(demo(tmp_path / "hf"), rule), "vllm")
    assert found(answer) == [("missing", right, tensors), ("unexpected", wrong, tensors)]


def test_without_a_preset_the_reason_is_all_there_is(tmp_path: Path) -> None:
    """Nothing is guessed."""
    source = demo(tmp_path / "hf")
    config = source / "config.json"
    config.write_text(config.read_text().replace("deepseek_v4", "some_model"))
    with pytest.raises(LoaderUnavailable, match="its kernels need a GPU"):
        check_against(planned(source, preset=None), "vllm")
