"""The table that is printed: one row a measurement, medians and ratios side by side."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from measure import CASES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from measure import Case, Result

_RATIOS = (("fuse", "plain fusepy"), ("fuse", "bindfs"), ("erofs", "native"), ("erofs", "fuse"))
_SERVED = ("fuse",)


def render(results: Mapping[tuple[str, str], Sequence[Result]], names: Sequence[str]) -> str:
    """Lay out the medians as a Markdown table; `results` is keyed by case and file system."""
    pairs = [pair for pair in _RATIOS if set(pair) <= set(names)]
    pairs += [(name, "native") for name in _SERVED if name in names]
    rows = [("", *names, *(f"{over} ÷ {under}" for over, under in pairs))]
    for label, values in _lines(results, names):
        cells = [f"{values[name]:.2f}" if name in values else "" for name in names]
        ratios = [_ratio(values, *pair) for pair in pairs]
        rows.append((label, *cells, *ratios))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    head, *body = ("| " + " | ".join(_pad(row, widths)) + " |" for row in rows)
    rule = (
        "|" + "|".join("-" * (width + 1) + ("-" if not at else ":") for at, width in enumerate(widths)) + "|"
    )
    return "\n".join((head, rule, *body))


def _lines(
    results: Mapping[tuple[str, str], Sequence[Result]], names: Sequence[str]
) -> Iterator[tuple[str, dict[str, float]]]:
    def of(case: Case, field: str) -> dict[str, float]:
        return {
            name: median(getattr(result, field) for result in results[case.name, name])
            for name in names
            if results.get((case.name, name))
        }

    warm, cold, *_ = CASES
    for case in CASES:
        yield f"GB/s: {case.name}", of(case, "speed")
    yield "cached bytes a byte read, source cold", of(cold, "growth")
    yield "reader, CPU s a GB, source warm", of(warm, "reader_cpu")
    yield "server, CPU s a GB, source warm", of(warm, "server_cpu")


def _ratio(values: Mapping[str, float], over: str, under: str) -> str:
    return f"{values[over] / values[under]:.2f}" if values.get(under) and over in values else ""


def _pad(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    for at, (cell, width) in enumerate(zip(row, widths, strict=True)):
        yield cell.rjust(width) if at else cell.ljust(width)
