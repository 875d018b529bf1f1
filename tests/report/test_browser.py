"""The page in a real browser: what is drawn, and what the keyboard does."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from plan.planning import plan, write
from remapfs.check import Outcome
from remapfs.report import report
from report.browser import Browser, needs_chromium
from report.making import EXPERTS, HOLE, HOLE_ON_DISK, LAYERS, RULES, judged, tensors, with_hole
from report.test_page import NASTY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from report.browser import Page

pytestmark = needs_chromium

FOCUSED = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"
HOLE_PATTERN = "layers.{}.ffn.experts.{}.w3.weight"
BLACK_ON_WHITE = 21


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of this module."""
    with Browser(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(scope="module")
def hole_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of a model of which one projection of one expert of one layer is ignored."""
    folder = tmp_path_factory.mktemp("hole")
    write(folder, {"model.safetensors": tensors()})
    made = plan(folder, RULES)
    page = folder / "report.html"
    page.write_text(report(made, with_hole(made)))
    return page


@pytest.fixture
def page(browser: Browser, hole_file: Path) -> Iterator[Page]:
    """Open that page; in the end nothing may have been thrown, logged or asked of the network."""
    with browser.page() as opened:
        opened.look()
        opened.open(hole_file)
        yield opened
        assert opened.complaints == []


def _labels(page: Page, selector: str) -> list[str]:
    found: list[str] = page.run(
        f"[...document.querySelectorAll({json.dumps(selector)})].map(each => each.getAttribute('aria-label'))"
    )
    return found


def _text(page: Page, selector: str) -> str:
    found: str = page.run(f"document.querySelector({json.dumps(selector)}).innerText")
    return found


def _tab_to(page: Page, condition: str) -> None:
    for _ in range(60):
        page.press("Tab")
        if page.run(f"(element => {condition})(document.activeElement)"):
            return
    pytest.fail(f"Tab does not come to an element with {condition}")


def test_the_verdict_is_what_comes_first(page: Page) -> None:
    """The first heading says whether it loads."""
    assert _text(page, "h1") == "It will not load with every value in its place"


def test_the_hole_is_the_one_tile_that_differs(page: Page) -> None:
    """Of all tiles one has another colour, a sign, and a label that says where and how many."""
    tiles = page.run("document.querySelectorAll('.layers .tile').length")
    assert tiles == LAYERS * 2
    assert _labels(page, ".layers .tile:not([data-mark=loads])") == [
        f"layer 2, ffn.experts: 1 of {2 * EXPERTS} silently ignored, {2 * EXPERTS - 1} load"
    ]
    assert _text(page, ".layers .tile[data-mark=ignored]") == "∅"
    assert f"∅ 1 of {LAYERS * 2 * EXPERTS}" in _text(page, ".layers")


def test_a_tile_opens_its_experts_by_keyboard(page: Page) -> None:
    """Tab comes to the grid, arrows to the tile, Enter opens it, Escape closes it and is back at the tile."""
    _tab_to(page, "element.matches('.layers .tile')")
    page.press("ArrowRight", "ArrowRight")
    assert page.run(FOCUSED).startswith("layer 2, ffn.experts:")
    page.press("Enter")
    assert page.run(FOCUSED) == "Layer 2 · ffn.experts"
    assert page.run("document.querySelectorAll('.items').length") == 2
    assert page.run("document.querySelectorAll('.items .tile').length") == 2 * EXPERTS
    assert _labels(page, ".items .tile:not([data-mark=loads])") == ["item 17, w3: silently ignored"]
    _tab_to(page, "element.matches('.items [data-mark=ignored]')")
    page.press("Enter")
    assert HOLE in _text(page, ".detail [role=status]")
    assert "written nowhere" in _text(page, ".detail [role=status]")
    page.press("Escape")
    assert page.run("document.querySelector('.detail') === null")
    assert page.run(FOCUSED).startswith("layer 2, ffn.experts:")


def test_arrows_home_and_end_move_through_the_grid_and_stop_at_its_edges(page: Page) -> None:
    """The grid is one stop for Tab: the tile that was last in use."""
    _tab_to(page, "element.matches('.layers .tile')")
    seen = []
    for key in ("End", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "ArrowLeft"):
        page.press(key)
        seen.append(page.run(FOCUSED).partition(":")[0])
    assert seen == [
        "layer 3, ffn.experts",
        "layer 3, ffn.experts",
        "layer 3, ffn.experts",
        "layer 3, self_attn.q_proj",
        "layer 0, self_attn.q_proj",
        "layer 0, self_attn.q_proj",
    ]
    assert page.run("document.querySelectorAll('.layers [tabindex=\"0\"]').length") == 1


def test_the_focus_can_be_seen(page: Page) -> None:
    """A focused tile has an outline."""
    _tab_to(page, "element.matches('.layers .tile')")
    assert page.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"


@pytest.mark.parametrize("name", [HOLE, HOLE_ON_DISK, "experts.17.w3", "LAYERS.2.*.17.*w3"])
def test_the_search_finds_a_name_on_disk_or_as_presented(page: Page, name: str) -> None:
    """/ comes to the field from anywhere; a name that no element of the page holds is found."""
    page.press("/")
    assert page.run("document.activeElement.id") == "query"
    page.type(name)
    page.wait("document.getElementById('matches').textContent !== ''")
    found = _text(page, "#results")
    assert HOLE in found
    assert HOLE_ON_DISK in found
    page.press("Escape")
    assert page.run("document.getElementById('results').childElementCount") == 0
    assert page.run("!document.getElementById('tree').hidden")


def test_a_found_name_is_shown_in_the_grid(page: Page) -> None:
    """Its button opens the layer's experts and goes to the one."""
    page.press("/")
    page.type(HOLE)
    page.press("Enter")
    _tab_to(page, "element.textContent === 'Show in the grid'")
    page.press("Enter")
    assert page.run(FOCUSED) == "item 17, w3: silently ignored"


def test_an_outcome_alone_lists_its_tensors(page: Page) -> None:
    """Whoever wants to see only what is ignored chooses that."""
    page.run(
        "(select => { select.value = 'ignored'; select.dispatchEvent(new Event('change')); })"
        "(document.getElementById('mark'))"
    )
    assert _text(page, "#matches") == "1 tensor found"
    assert HOLE in _text(page, "#results")


def test_a_name_that_is_nowhere_is_said_to_be_nowhere(page: Page) -> None:
    """An empty list alone would say nothing."""
    page.press("/")
    page.type("layers.99.")
    page.press("Enter")
    assert _text(page, "#matches") == "No tensor has such a name."


def test_a_branch_of_the_tree_opens_by_keyboard(page: Page) -> None:
    """Enter opens and closes, the right arrow opens and goes in, the left one comes back out."""
    _tab_to(page, "element.matches('#tree summary') && element.innerText.includes('mlp.experts')")
    before = page.run("document.querySelectorAll('#tree .row').length")
    page.press("Enter")
    page.wait(f"document.querySelectorAll('#tree .row').length > {before}")
    assert page.run("document.activeElement.parentElement.open")
    page.press("ArrowRight")
    assert page.run("document.activeElement.innerText.trim().includes('down_proj')")
    page.press("ArrowLeft")
    assert "mlp.experts" in page.run("document.activeElement.innerText")
    page.press("Enter")
    assert not page.run("document.activeElement.parentElement.open")


def test_the_tree_shows_before_and_after(page: Page) -> None:
    """A leaf has the pattern of the presented names."""
    page.wait(f"{_OPEN_ALL}, document.getElementById('tree').innerText.includes({json.dumps(HOLE_PATTERN)})")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_tiles_stand_out_in_light_and_dark(page: Page, scheme: str) -> None:
    """Contrast as WCAG asks: 4.5 for text and signs, 3 for the edge of a tile against the page."""
    page.look(scheme=scheme)
    page.run(_CONTRAST)
    assert page.run("luminance(colour(document.documentElement, 'backgroundColor')) > 0.5") == (
        scheme == "light"
    )
    for selector in (
        "body",
        "h1",
        ".lead",
        ".sum",
        ".sum.fails",
        ".facts dt",
        "#query-help",
        ".origin",
        ".amount",
    ):
        assert 4.5 <= page.run(f"textContrast({json.dumps(selector)})") <= BLACK_ON_WHITE, selector
    weak = page.run("weakTiles()")
    assert weak == {}


def test_every_outcome_has_a_sign_or_is_as_it_should_be(page: Page) -> None:
    """Colour is never the only difference between what fails and what loads."""
    signs = page.run(
        "[...marks()].filter(mark => mark.fails).map(mark => mark.glyph)".replace("marks()", _MARKS)
    )
    assert len(set(signs)) == len(signs) == 5
    assert "" not in signs


@pytest.mark.parametrize("width", [320, 390, 640, 1280])
def test_only_tables_scroll_sideways(page: Page, width: int) -> None:
    """At 320 pixels, as a window of 1280 at 400 %, the page itself still fits."""
    page.look(width=width)
    page.run("document.querySelector('.layers [data-mark=ignored]').click()")
    page.wait(f"{_OPEN_ALL}, document.getElementById('tree').innerText.includes({json.dumps(HOLE_PATTERN)})")
    assert page.run("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_what_can_be_operated_has_a_name_and_sections_have_headings(page: Page) -> None:
    """For a screen reader: no control, grid or region is nameless, no heading level is skipped."""
    page.ask("Accessibility.enable")
    nodes = page.ask("Accessibility.getFullAXTree")["nodes"]
    nameless = [
        node["role"]["value"]
        for node in nodes
        if not node["ignored"]
        and node["role"]["value"]
        in ("button", "grid", "gridcell", "searchbox", "combobox", "region", "heading")
        and not node["name"]["value"]
    ]
    assert nameless == []
    levels = page.run("[...document.querySelectorAll('h1,h2,h3,h4')].map(each => Number(each.tagName[1]))")
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert page.run("document.querySelectorAll('main').length") == 1


def test_it_can_be_printed(page: Page) -> None:
    """A PDF is made, without what only a screen needs."""
    assert page.ask("Page.printToPDF", printBackground=True)["data"]
    page.ask("Emulation.setEmulatedMedia", media="print")
    assert page.run("getComputedStyle(document.getElementById('search')).display") == "none"


def test_names_that_look_like_markup_stay_text_in_a_browser(browser: Browser, tmp_path: Path) -> None:
    """None of them runs, opens an element or stops the script; each is found by the search."""
    write(tmp_path, {"model.safetensors": dict.fromkeys(NASTY, "BF16")})
    made = plan(tmp_path)
    answer = judged(made, **{name.replace(".", "__"): (Outcome.REFUSED, name) for name in NASTY[:4]})
    file = tmp_path / "report.html"
    file.write_text(report(made, answer))
    with browser.page() as page:
        page.open(file)
        page.run("document.querySelectorAll('.tile').forEach(each => each.click())")
        page.press("/")
        page.type("onerror")
        page.press("Enter")
        assert _text(page, "#matches") == "1 tensor found"
        assert "<img src=x onerror='window.broken = 1'>.weight" in _text(page, "#results")
        assert page.run("window.broken === undefined && document.querySelectorAll('img').length === 0")
        assert page.complaints == []


_OPEN_ALL = "document.querySelectorAll('#tree details').forEach(each => { each.open = true; })"
_MARKS = "JSON.parse(document.getElementById('data').textContent).marks"
_CONTRAST = """
var colour = (element, which) => getComputedStyle(element)[which].match(/[\\d.]+/g).map(Number);
var luminance = ([red, green, blue]) => [red, green, blue].map(value => value / 255)
  .map(value => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
  .reduce((sum, value, at) => sum + value * [0.2126, 0.7152, 0.0722][at], 0);
var contrast = (a, b) => {
  const [dark, bright] = [luminance(a), luminance(b)].sort((one, other) => one - other);
  return (bright + 0.05) / (dark + 0.05);
};
var behind = element => {
  for (let each = element; each; each = each.parentElement) {
    const found = colour(each, 'backgroundColor');
    if (found[3] !== 0) return found;
  }
};
var textContrast = selector => {
  const element = document.querySelector(selector);
  return contrast(colour(element, 'color'), behind(element));
};
var weakTiles = () => {
  const weak = {};
  const paper = behind(document.querySelector('.legend'));
  for (const mark of JSON.parse(document.getElementById('data').textContent).marks) {
    const tile = document.createElement('span');
    tile.className = 'tile';
    tile.dataset.mark = mark.key;
    tile.textContent = mark.glyph;
    document.querySelector('.legend').append(tile);
    const own = colour(tile, 'backgroundColor');
    const body = own[3] === 0 ? paper : own;
    const border = colour(tile, 'borderTopColor');
    const edge = Math.max(border[3] === 0 ? 1 : contrast(border, paper), contrast(body, paper));
    const sign = mark.glyph ? contrast(colour(tile, 'color'), body) : 21;
    if (edge < 3 || sign < 4.5) weak[mark.key] = [edge, sign];
    tile.remove();
  }
  return weak;
};
"""
