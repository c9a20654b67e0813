"""The generated part of the costs page."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks import bills, hot_account
from benchmarks.bills import STRETCH, TARGETS
from benchmarks.cost import Bill, Tariff
from benchmarks.deployment import Deployment
from benchmarks.growth import Grown
from benchmarks.hot_account import Cell
from benchmarks.interleave import Measured
from benchmarks.rivals import ENTRANTS

PROJECT = Path(__file__).parents[1]
PAGE = PROJECT / "docs/reference/costs.md"
MEASURED = PROJECT / "benchmarks/measured.json"
"""Measurements of the last run, for `make price`."""

PLOTS = PROJECT / "docs/reference/costs"
_SMALLER_MB = 512
_PLACE = re.compile(r"(<!-- bench -->\n).*?(<!-- end of bench -->)", re.DOTALL)


@dataclass(frozen=True)
class Results:
    """The results of a run."""

    about: str
    measured: Mapping[str, Measured]
    imports: Mapping[str, float]
    grown: Sequence[Grown]
    hot: Sequence[Cell]
    circuit: Sequence[str]
    deployed: Deployment
    tariff: Tariff

    def bills(self, name: str) -> dict[str, Bill]:
        """Return a rival's bills by variant, such as Express."""
        return bills.bills(name, self.measured, self.deployed, self.tariff)

    @property
    def all_bills(self) -> dict[str, Bill]:
        """The bills of all rivals, by title."""
        return {
            f"{entrant.title}, {way}": bill
            for name, entrant in ENTRANTS.items()
            for way, bill in self.bills(name).items()
        }


def write(results: Results, prices: Path) -> None:
    """Put the tables and the plots into the page."""
    from benchmarks import plots  # noqa: PLC0415  # matplotlib sets itself up at import

    PLOTS.mkdir(exist_ok=True)
    plots.dollars(PLOTS / "dollars.svg", results.all_bills)
    plots.growth(PLOTS / "growth.svg", results.grown)
    plots.hot_account(PLOTS / "hot-account.svg", results.hot)
    text = "\n".join(_sections(results, prices))
    page, found = _PLACE.subn(lambda place: f"{place[1]}\n{text}\n\n{place[2]}", PAGE.read_text())
    assert found == 1, f"{PAGE} must have one place for the benchmarks"
    PAGE.write_text(page)
    kept = {name: asdict(results.measured[name]) for name in ("ours", "bare")}
    MEASURED.write_text(json.dumps(kept, indent=2) + "\n")


def _sections(results: Results, prices: Path) -> Iterator[str]:
    yield results.about
    yield "\n### Counted: the same on every machine\n"
    yield from _counted(results)
    yield "\n### Dollars per million settlements\n"
    yield "Modelled from what was counted and measured, with the assumptions below. Some of these ways double"
    yield "money [under faults](rivals.md). DBOS has no functions; its database and containers are paid by"
    yield "the hour.\n"
    yield from _dollars(results)
    yield "\n![dollars per million settlements](costs/dollars.svg)"
    yield "\n### Times: ratios of one run\n"
    yield "Paired rounds in rotating order; the median of each round's ratio to the bare calls. The"
    yield "engine's own CPU does not count. The durable functions run in AWS's local runner, whose threads"
    yield "and pauses are in their times; PostgreSQL writes to the disk, the DynamoDB engine to memory.\n"
    yield from _times(results)
    yield "\n### Cold imports\n"
    yield "CPU time in fresh processes, by that of boto3 with a DynamoDB client; median of paired rounds.\n"
    yield from table(
        ("import", "ratio"), ((title, f"{ratio:.2f}") for title, ratio in results.imports.items())
    )
    yield "\n### Growth\n"
    yield from _growth(results)
    yield "\n![growth](costs/growth.svg)"
    yield "\n### One hot account\n"
    yield "Simulated ([how](../../benchmarks/hot_account.py)): wasted ÷ useful transactions, and the share of"
    yield "settlements that stall, if a transaction keeps a row busy for 4 ms to 8 ms.\n"
    yield from hot_account.table(list(results.hot))
    yield "\n![the hot account](costs/hot-account.svg)"
    yield "\n### The circuit\n"
    yield "Calls that reach a dead KYC provider ([how](../../benchmarks/circuit.py)).\n"
    yield from results.circuit
    yield "\n### Prices and assumptions\n"
    yield from _prices(prices)


def _counted(results: Results) -> Iterator[str]:
    def row(name: str, own: Measured) -> Iterable[str]:
        counted = own.counted
        calls, units = str(len(counted["calls"])), f"{counted['write_units']:g} / {counted['by_rule']:g}"
        if "statements" in counted:
            calls, units = f"{counted['statements']} statements", f"{counted['commits']} commits"
        return (
            ENTRANTS[name].title,
            calls,
            units,
            f"{counted['read_units']:g}",
            str(ENTRANTS[name].functions or ""),
            f"{counted['log_bytes']:,} in {counted['log_lines']}" if counted["log_lines"] else "",
        )

    titles = ("", "calls", "write units: engine / rule", "read units", "functions", "bytes logged, in lines")
    yield from table(titles, (row(*one) for one in results.measured.items()))


def _dollars(results: Results) -> Iterator[str]:
    def row(title: str, bill: Bill) -> Iterable[str]:
        parts = (bill.database, bill.functions, bill.orchestration, bill.logs, bill.total)
        return (title, *(f"{part:.1f}" for part in parts))

    titles = ("", "database", "functions or containers", "orchestration", "logs", "sum")
    yield from table(titles, (row(*one) for one in results.all_bills.items()))
    ours, known = results.bills("ours"), results.bills("ours-known")
    yield ""
    memory_mb = results.deployed.memory_mb
    yield f"With the stage for production, whose functions have {memory_mb:,} MB:\n"
    for way, most in TARGETS.items():
        met, also = ("met" if bill[way].total <= most else "missed" for bill in (ours, known))
        better = f", better {STRETCH[way]}" if way in STRETCH else ""
        yield (
            f"- {way}: {ours[way].total:.1f} ({met}), or {known[way].total:.1f} where the environment"
            f" remembers the payee ({also}); the target is at most {most}{better}."
        )
    smaller = replace(results, deployed=replace(results.deployed, memory_mb=_SMALLER_MB)).bills("ours")
    yield f"- With {_SMALLER_MB} MB: " + ", ".join(f"{way} {smaller[way].total:.1f}" for way in TARGETS) + "."


def _times(results: Results) -> Iterator[str]:
    rows = (
        (ENTRANTS[name].title, f"{own.wall_ratio:.2f}", f"{own.cpu_ratio:.2f}")
        for name, own in results.measured.items()
    )
    yield from table(("", "wall ÷ bare", "CPU ÷ bare"), rows)


def _growth(results: Results) -> Iterator[str]:
    def row(each: Grown) -> Iterable[str]:
        settled = ("", "", "")
        if each.wall_ratio is not None:
            settled = (str(each.calls), f"{each.write_units:g}", f"{each.wall_ratio:.2f}")
        return (
            f"{each.settlements:,}",
            *settled,
            f"{each.reconcile_cpu_ratio:.2f}",
            f"{each.reconcile_mb:.0f} MB",
        )

    titles = (
        "settlements in the table",
        "calls of one more",
        "write units",
        "wall ÷ smallest",
        "reconcile: CPU of each ÷ smallest",
        "reconcile: memory",
    )
    yield from table(titles, map(row, results.grown))


def _prices(path: Path) -> Iterator[str]:
    content = tomllib.loads(path.read_text())
    yield "From [`prices.toml`](../../benchmarks/prices.toml): list prices of us-east-1. Those without a page"
    yield "on which they were seen are from memory.\n"
    rows = (
        (name.replace("_", " "), f"{price['usd']:g}", f"{price['per']:,.0f}", _seen(price))
        for name, price in content["price"].items()
    )
    yield from table(("price", "dollars", "for", "seen"), rows)
    yield "\nNo local run can measure these:\n"
    model = ((name.replace("_", " "), f"{value:g}") for name, value in content["model"].items())
    yield from table(("assumption", "value"), model)


def _seen(price: Mapping[str, object]) -> str:
    return f"[{price['date']}]({price['seen']})" if "seen" in price else ""


def table(titles: Sequence[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield the lines of a table. All columns except the first have numbers."""
    yield f"| {' | '.join(titles)} |"
    yield f"|---|{'--:|' * (len(titles) - 1)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
