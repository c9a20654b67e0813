"""The plots of the costs page, as SVG."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

from benchmarks.bills import TARGETS
from benchmarks.cost import Bill
from benchmarks.growth import Grown
from benchmarks.hot_account import Cell
from benchmarks.worst_day.findings import SECONDS_MAX, Paid, Played

mpl.use("svg")
mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "bench", "font.size": 9}

_BIN_SECONDS = 5
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
    axes.set_xlabel("dollars per million settlements")
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
    """Draw wasted work against the rate of one account, for both busy times."""
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


def worst_day(path: Path, played: Played) -> None:
    """Draw a day of the worst provider: how long payments take, and the calls that reach the provider."""
    figure, (times, calls) = plt.subplots(2, 1, figsize=(8, 5), sharex=True, height_ratios=(2, 1))
    ends = [*list(played.began_at.values())[1:], played.seconds]
    for number, ((name, begins), end) in enumerate(zip(played.began_at.items(), ends, strict=True)):
        for axes in (times, calls):
            axes.axvspan(begins, end, color="grey", alpha=0.05 + 0.08 * (number % 2), linewidth=0)
        times.text(
            (begins + end) / 2, 1.02, name, transform=times.get_xaxis_transform(), ha="center", fontsize=7
        )
    for status, label, is_good, marker in (
        ("SETTLED", "settled", True, "."),
        ("COMPENSATED", "given back", True, "."),
        ("COMPENSATED", "given back, garbage", False, "x"),
    ):
        found = [one for one in played.payments if (one.status, one.is_good) == (status, is_good)]
        seconds, usual, slowest = _by_bin(found)
        (line,) = times.plot(seconds, slowest, marker, markersize=4, label=f"{label}: slowest in 5 s")
        times.plot(seconds, usual, "-", color=line.get_color(), linewidth=1, label=f"{label}: median")
    times.axhline(SECONDS_MAX, color="grey", linestyle="--", linewidth=1, label="promised at most")
    times.set_ylim(0, None)
    times.set_ylabel("seconds to the end of a payment")
    times.legend(fontsize=6, loc="upper left", ncols=2)
    calls.hist(
        [at for at, _ in played.calls],
        bins=range(0, played.seconds + _BIN_SECONDS, _BIN_SECONDS),
        color="C4",
        label="calls that reach the provider",
    )
    _circuit_open(calls, played)
    calls.set_xlabel("seconds of the play")
    calls.set_ylabel("calls in 5 s")
    calls.legend(fontsize=7, loc="upper left")
    _save(figure, path)


def _by_bin(payments: Sequence[Paid]) -> tuple[list[float], list[float], list[float]]:
    """Return the middle, and the median and slowest time, of each five seconds with payments."""
    bins: dict[int, list[float]] = {}
    for one in payments:
        if one.seconds is not None:
            bins.setdefault(int(one.sent_at // _BIN_SECONDS), []).append(one.seconds)
    found = sorted(bins.items())
    return (
        [(number + 0.5) * _BIN_SECONDS for number, _ in found],
        [median(times) for _, times in found],
        [max(times) for _, times in found],
    )


def _circuit_open(axes: Any, played: Played) -> None:
    times = [at for at, _ in played.circuit] + [played.seconds]
    label: str | None = "circuit open"
    for (begins, state), end in zip(played.circuit, times[1:], strict=True):
        if state != "CLOSED":
            axes.axvspan(begins, end, color="C3", alpha=0.3, linewidth=0, label=label)
            label = None


def _save(figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")
