"""jq programs of rules end, whatever they do, and the process that asked goes on."""

from __future__ import annotations

import pytest

from remapfs.plan.programs import ProgramError, run_jq


def test_the_results_are_those_of_jq() -> None:
    """All of them, with whole numbers and others told apart."""
    assert run_jq(".a, .b", {"a": [1, 1.5, "ü", None, True], "b": {}}) == [[1, 1.5, "ü", None, True], {}]
    assert run_jq("empty", 1) == []


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("def f: f; f", "it does not end: stopped after 2 seconds"),
        ("[limit(1000000000; repeat(1))]", "(it does not end|jq ended with SIGABRT)"),
        ("[range(100000000)]", "(it does not end|jq ended with SIGABRT)"),
        ('"a" * 1000000000 | length', "jq ended with SIGABRT: it may use 256 MiB"),
        ("reduce range(20000) as $i (.; [.])", "its result is nested too deeply"),
        ('error("no such thing")', "no such thing"),
    ],
)
def test_a_program_that_gives_no_result_is_stopped_and_named(program: str, why: str) -> None:
    """One that loops, one that fills the memory, one that nests too deeply, one that fails by itself."""
    with pytest.raises(ProgramError, match=why):
        run_jq(program, {}, seconds=2, memory=256 << 20)


def test_what_a_program_prints_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    """`debug`, `stderr` and jq's own complaints could write anything to the user's terminal."""
    assert run_jq(r'"\u001b[2J" | debug | stderr', None) == ["\x1b[2J"]
    with pytest.raises(ProgramError):
        run_jq('"a" * 1000000000', None, memory=64 << 20)
    assert capfd.readouterr() == ("", "")
