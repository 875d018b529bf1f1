"""Draw what run.py and scale.py measured, as SVG and PNG."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt  # the backend has to be chosen before

_COLOURS = {
    "native": "#8a8f98",
    "erofs": "#0b6e4f",
    "fuse": "#2f7fd6",
    "fusepy": "#c9a227",
    "plain fusepy": "#e0b94f",
    "bindfs": "#b4573f",
    "mergerfs": "#d98c6f",
}
# Without ids made of random numbers and without a date, the same figures give the same file.
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "remapfs",
    "svg.fonttype": "none",
}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", type=Path, help="what `run.py --json` wrote")
    parser.add_argument("--scale", type=Path, help="what `scale.py --json` wrote")
    parser.add_argument("directory", type=Path, help="where the pictures go")
    options = parser.parse_args()
    with plt.rc_context(_STYLE):
        if options.run:
            _save(
                _throughput(json.loads(options.run.read_text(encoding="utf-8"))),
                options.directory,
                "throughput",
            )
        if options.scale:
            _save(_growth(json.loads(options.scale.read_text(encoding="utf-8"))), options.directory, "scale")


def _throughput(report: dict[str, Any]) -> Any:  # noqa: ANN401  # a figure: matplotlib is loosely typed
    cases = list(dict.fromkeys(each["case"] for each in report["results"]))
    names = list(dict.fromkeys(each["subject"] for each in report["results"]))
    speeds = {
        (each["case"], each["subject"]): median(one["speed"] for one in each["rounds"])
        for each in report["results"]
    }
    figure, axes = plt.subplots(figsize=(9, 1.1 * len(cases) + 1.2))
    height = 0.8 / len(names)
    for at, name in enumerate(names):
        places = [row + at * height for row in range(len(cases))]
        values = [speeds.get((case, name), 0.0) for case in cases]
        bars = axes.barh(places, values, height * 0.9, label=name, color=_COLOURS.get(name))
        axes.bar_label(bars, [f"{value:.1f}" if value else "" for value in values], padding=3, fontsize=8)
    axes.set_yticks([row + 0.4 - height / 2 for row in range(len(cases))], cases)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("GB/s, logarithmic; medians, each in turn, on a virtual machine with 2 cores")
    axes.legend(frameon=False, ncols=len(names), loc="lower center", bbox_to_anchor=(0.4, 1.0))
    return figure


def _growth(report: dict[str, Any]) -> Any:  # noqa: ANN401  # a figure
    figure, (seconds, memory) = plt.subplots(1, 2, figsize=(9, 3.4))
    for presenter in dict.fromkeys(step["presenter"] for step in report["steps"]):
        steps = [step for step in report["steps"] if step["presenter"] == presenter]
        steps.sort(key=lambda step: (step["tensors"], step["shards"]))
        tensors = [step["tensors"] / 1000 for step in steps]
        colour = _COLOURS.get(presenter)
        for axes, field, unit in ((seconds, "mounted", 1), (memory, "peak_memory", 1e6)):
            values = [median(each[field] for each in step["starts"]) / unit for step in steps]
            axes.plot(tensors, values, "o", label=presenter, color=colour)
    for axes, label in ((seconds, "seconds until the mount answers"), (memory, "peak memory, MB")):
        axes.set_xlabel("tensors, thousands")
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.set_xlim(left=0)
    seconds.legend(frameon=False)
    figure.tight_layout()
    return figure


def _save(figure: Any, directory: Path, name: str) -> None:  # noqa: ANN401  # a figure
    directory.mkdir(parents=True, exist_ok=True)
    figure.savefig(directory / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})
    figure.savefig(directory / f"{name}.png", bbox_inches="tight", dpi=110, metadata={"Software": None})
    plt.close(figure)


if __name__ == "__main__":
    main()
