"""The plots of the costs page, as SVG."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks.bills import TARGETS
from benchmarks.cost import Bill
from benchmarks.growth import Grown
from benchmarks.hot_account import Cell

mpl.use("svg")
mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "bench", "font.size": 9}

_PARTS = ("database", "functions", "orchestration", "logs")
_LABELS = ("database", "functions or containers", "orchestration", "logs")


def dollars(path: Path, bills: Mapping[str, Bill]) -> None:
    """Draw each bill as a bar of its parts, with this project's two targets."""
    figure, axes = plt.subplots(figsize=(8, 0.35 * len(bills) + 1.2))
    titles, left = list(bills), [0.0] * len(bills)
    for part, label in zip(_PARTS, _LABELS, strict=True):
        widths = [getattr(bill, part) for bill in bills.values()]
        axes.barh(titles, widths, left=left, label=label)
        left = [before + width for before, width in zip(left, widths, strict=True)]
    for (title, most), style in zip(TARGETS.items(), (":", "--"), strict=True):
        axes.axvline(most, color="grey", linestyle=style, linewidth=1, label=f"target {title}")
    axes.invert_yaxis()
    axes.set_xlabel("dollars per million settlements (*: money is lost or doubled under retries)")
    axes.legend(fontsize=7, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.02))
    _save(figure, path)


def growth(path: Path, grown: Sequence[Grown]) -> None:
    """Draw the figures of a settlement and of the reconciliation by the size of the table."""
    figure, axes = plt.subplots(figsize=(6, 3))
    settled = [each for each in grown if each.wall_ratio is not None]
    sizes = [each.settlements for each in settled]
    first = settled[0].write_units or 1
    units = [(each.write_units or 0) / first for each in settled]
    axes.plot(sizes, units, "o-", label="write units of a settlement")
    axes.plot(sizes, [each.wall_ratio for each in settled], "s-", label="wall time of a settlement")
    axes.plot(
        [each.settlements for each in grown],
        [each.reconcile_cpu_ratio for each in grown],
        "^-",
        label="CPU of the reconciliation, for each settlement",
    )
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("settlements in the table")
    axes.set_ylabel("ratio to the smallest table")
    axes.legend(fontsize=7)
    _save(figure, path)


def hot_account(path: Path, cells: Sequence[Cell]) -> None:
    """Draw the wasted work on one account by its rate, between the two busy times."""
    figure, axes = plt.subplots(figsize=(6, 3))
    for variant in dict.fromkeys(cell.variant for cell in cells):
        found: dict[int, list[float]] = {}
        for cell in cells:
            if cell.variant == variant:
                found.setdefault(cell.rate, []).append(cell.wasted_per_useful)
        rates = sorted(found)
        low, high = ([pick(found[rate]) for rate in rates] for pick in (min, max))
        (line,) = axes.plot(rates, high, label=variant, linewidth=1, marker=".")
        axes.fill_between(rates, low, high, color=line.get_color(), alpha=0.2)
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("settlements a second on one account")
    axes.set_ylabel("wasted ÷ useful transactions")
    axes.legend(fontsize=7)
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")
