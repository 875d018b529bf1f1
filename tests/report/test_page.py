"""The page as text: what it says, that it is the same each time, and that names cannot break out of it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from plan.planning import plan, write
from remapfs.check import Outcome, Problem, problems
from remapfs.report import report
from remapfs.report.text import share, visible
from report.making import HOLE, RULES, judged, tensors, with_hole

if TYPE_CHECKING:
    from pathlib import Path

    from remapfs import Plan

NASTY = [
    "</script><script>window.broken = 1</script>",
    "<!--<script>.layers.1.w",
    "<img src=x onerror='window.broken = 1'>.weight",
    'layers.1."quoted" onclick="window.broken = 1".weight',
    "layers.2.$title.${data}.weight",
    "layers.3.line\u2028and\u2029paragraph.weight",
    "layers.4.\u202eturned\u202c.weight",
    "layers.5.&lt;b&gt;.weight",
    "layers.6.\\u003cscript\\u003e.weight",
    "layers.7.\x00\x1b[31m\n.weight",
    "layers.8.ключ.权重",
]


class _Text(HTMLParser):
    """What a reader sees of a page: its elements and attributes, and the text outside scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.inside: dict[str, str] = {}
        self.feed(page)
        self.text = re.sub(r"\s+", " ", self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "wbr":
            self.text += " "

    def handle_data(self, data: str) -> None:
        tag, attributes = self.tags[-1] if self.tags else ("", {})
        if self.cdata_elem:
            self.inside[attributes.get("id") or tag] = data
        else:
            self.text += data


@pytest.fixture
def made(tmp_path: Path) -> Plan:
    """Plan a small model with experts."""
    write(tmp_path, {"model.safetensors": tensors()})
    return plan(tmp_path, RULES)


def test_a_plan_alone_says_what_is_renamed_and_that_nobody_was_asked(made: Plan) -> None:
    """Without an answer the page makes no claim about loading."""
    text = _Text(report(made, None)).text
    assert "245 of 246 tensors renamed" in text
    assert "1 untouched, 4 dropped" in text
    assert "whether it loads has not been asked" in text
    assert "It will" not in text


def test_a_good_answer_says_that_it_will_load(made: Plan) -> None:
    """All that is presented loads; the dropped tensors are no part of it."""
    text = _Text(report(made, judged(made))).text
    assert "It will load" in text
    assert "246 of 246 presented tensors (100 %)" in text
    assert "a loader of the tests" in text


def test_one_tensor_that_is_silently_ignored_is_no_good_answer(made: Plan) -> None:
    """The verdict counts it and never rounds the share up to 100 %; the problem has name and reason."""
    text = _Text(report(made, with_hole(made))).text
    assert "It will not load with every value in its place" in text
    assert "245 of 246 presented tensors (99.59 %)" in text
    assert "1 silently ignored" in text
    assert f"{HOLE} silently ignored · 1 tensor" in text
    assert "written nowhere" in text


def test_a_refused_tensor_means_that_it_will_not_load(made: Plan) -> None:
    """The loader stops there."""
    answer = judged(made, norm__weight=(Outcome.REFUSED, "KeyError"))
    assert "It will not load 245 of 246" in _Text(report(made, answer)).text


def test_a_problem_shows_nearest_name_and_fix(made: Plan) -> None:
    """Lines of a fix stay lines."""
    fix = "[[rename]]\nprefix = 'a'\nto = 'b'"
    problem = Problem(Outcome.MISSING, None, "a.{0-3}", 4, 0, "", "a.0", "b.{}", fix)
    page = report(made, with_hole(made), [problem])
    assert "<pre>[[rename]]\nprefix = &#x27;a&#x27;\nto = &#x27;b&#x27;</pre>" in page
    assert "nearest b.{}" in _Text(page).text


def test_source_rules_version_and_time_are_named(made: Plan) -> None:
    """A page that is sent around says what it is about."""
    text = _Text(report(made, None, made=datetime(2026, 12, 1, 9, 30, tzinfo=UTC))).text
    for fact in (made.root, "rules.toml", "0.1.0", "2026-12-01 09:30 UTC"):
        assert fact in text


def test_rules_without_hits_are_folded(made: Plan) -> None:
    """They are there, and not in the way."""
    page = report(made, None)
    assert "1 rule without a hit" in page
    assert page.index("&#x27;no such name&#x27;") > page.index("<details><summary>1 rule without a hit")


def test_the_same_input_gives_the_same_page(tmp_path: Path) -> None:
    """Planned anew and judged anew, no byte differs; only the time that is given would."""
    write(tmp_path, {"a.safetensors": tensors()})
    pages = []
    for _ in range(2):
        anew = plan(tmp_path, RULES)
        pages.append(report(anew, with_hole(anew), problems(with_hole(anew).judged)))
    assert pages[0] == pages[1]


def test_the_policy_allows_this_script_and_this_style_and_nothing_else(made: Plan) -> None:
    """No network, no inline attributes: the hashes in the policy are those of the page's own blocks."""
    read = _Text(report(made, None))
    (policy,) = [a["content"] for tag, a in read.tags if tag == "meta" and "http-equiv" in a]
    hashes = {
        tag: base64.b64encode(hashlib.sha256(read.inside[tag].encode()).digest()).decode()
        for tag in ("script", "style")
    }
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{hashes['style']}'; script-src 'sha256-{hashes['script']}'; "
        "base-uri 'none'; form-action 'none'"
    )
    for tag, attributes in read.tags:
        assert not {name for name in attributes if name.startswith("on") or name in ("style", "src")}, tag


def test_names_stay_text(tmp_path: Path) -> None:
    """Names that look like markup, or carry characters that nothing shows, are text that can be read."""
    write(tmp_path, {"model.safetensors": dict.fromkeys(NASTY, "BF16")})
    plain = _Text(report(plan(tmp_path), None))
    answer = judged(plan(tmp_path), **{name.replace(".", "__"): (Outcome.REFUSED, name) for name in NASTY})
    page = report(plan(tmp_path), answer)
    read = _Text(page)
    assert (
        [tag for tag, _ in read.tags].count("script") == [tag for tag, _ in plain.tags].count("script") == 2
    )
    for name in NASTY:
        assert visible(name) in read.text
    names = {
        "".join(piece if isinstance(piece, str) else "#" for piece in family["name"])
        for family in json.loads(read.inside["data"])["families"]
    }
    assert names == {visible(name) for name in NASTY}
    assert not re.search("[\u2028\u2029\u202e\x00\x1b]", page)


def test_lone_surrogates_can_be_written() -> None:
    """JSON allows half a character; UTF-8 does not."""
    assert visible("a\ud800b").encode() == b"a\\ud800b"


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 0, "0 %"),
        (0, 5, "0 %"),
        (5, 5, "100 %"),
        (282_798, 282_799, "99.99 %"),
        (1, 282_799, "less than 0.01 %"),
        (1, 2, "50 %"),
    ],
)
def test_only_all_is_100_per_cent(part: int, whole: int, text: str) -> None:
    """Rounding would hide one tensor of 282,799."""
    assert share(part, whole) == text
