"""Write the price of a million settlements, and the lowest limit of each way to start: `make price`."""

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from benchmarks import bills, cost, deployment, stage, storage, throughput
from benchmarks.interleave import Measured
from benchmarks.report import MEASURED, PROJECT, table
from benchmarks.throughput import POOL
from benchmarks.ways import TARGETS, Estimate, Way

PRICES, QUOTAS = PROJECT / "benchmarks/prices.toml", PROJECT / "benchmarks/quotas.toml"
PRICE_PAGE, QUOTAS_PAGE = PROJECT / "docs/reference/price.md", PROJECT / "docs/operating/quotas.md"
RATES, STORMS = (1, 10, 50, 500), (100, 500, 2_000)
"""Settlements a second in the tables of prices, and in the tables of limits."""

_STAGE = "prod"
_PLACE = re.compile(r"(<!-- price: (\w+) -->\n).*?(<!-- end of price -->)", re.DOTALL)


def main() -> None:
    for page in (PRICE_PAGE, QUOTAS_PAGE):
        page.write_text(rendered(page))
        print(f"written: {page.relative_to(PROJECT)}")


def rendered(page: Path) -> str:
    """Return a page's text, with its tables rendered from the current code, prices and template."""
    tables = {"ways": _ways, "services": _services, "idle": _idle, "counted": _counted, "limits": _limits}
    tables |= {"needs": _needs}
    return _PLACE.sub(
        lambda found: "\n".join((found[1], *tables[found[2]](), "", found[3])), page.read_text()
    )


@cache
def estimate(name: str = _STAGE) -> Estimate:
    """Return a stage's facts, with the measurements of the last `make bench`."""
    found = json.loads(MEASURED.read_text())
    measured = {rival: Measured(**own) for rival, own in found.items()}
    tariff = cost.load(PRICES)
    used = bills.usage("ours", measured, deployment.read(), tariff)
    return Estimate(
        used=used,
        call_cpu_ms=used.cpu_ms / len(measured["ours"].counted["calls"]),
        kept=storage.kept(storage.payment()),
        stage=stage.read(name),
        tariff=tariff,
    )


def _ways() -> Iterator[str]:
    found = estimate()

    def row(way: Way) -> Iterator[str]:
        own = sum(found.of_payment(way).values())
        verdict = "met" if own <= TARGETS[way] else "**missed**"
        yield from (str(way), f"{own:.1f}", f"{TARGETS[way]}: {verdict}")
        yield from (f"{own + sum(found.of_all(rate).values()):.1f}" for rate in RATES)

    titles = ("way", "its own services", "target", *(f"all, at {rate}/s" for rate in RATES))
    return table(titles, map(row, Way))


def _services() -> Iterator[str]:
    own = {way: estimate().of_payment(way) for way in Way}
    names = list(own[Way.EXPRESS])
    yield from table(("", *own), ((name, *(_shown(each[name]) for each in own.values())) for name in names))
    yield ""
    by_rate = {rate: estimate().of_all(rate) for rate in RATES}
    titles = ("every way also pays", *(f"at {rate}/s" for rate in by_rate))
    names = list(by_rate[RATES[0]])
    yield from table(titles, ((name, *(_shown(each[name]) for each in by_rate.values())) for name in names))


def _idle() -> Iterator[str]:
    stages = {name: estimate(name).idle_month() for name in ("dev", "prod")}
    names = list(stages[_STAGE])
    rows = [(name, *(f"{each[name]:.2f}" for each in stages.values())) for name in names]
    rows.append(("**sum**", *(f"**{sum(each.values()):.2f}**" for each in stages.values())))
    return table(("dollars a month", *(f"`{name}`" for name in stages)), rows)


def _counted() -> Iterator[str]:
    kinds: Mapping[str, list[str] | str] = tomllib.loads(PRICES.read_text())["counted"]
    found: dict[str, list[str]] = {}
    for kind, by in kinds.items():
        text = f"not counted: {by}" if isinstance(by, str) else ", ".join(_spaced(by))
        found.setdefault(text, []).append(f"`{kind}`")
    return _text(("resource", "paid by"), ((", ".join(names), text) for text, names in found.items()))


def _text(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _limits() -> Iterator[str]:
    names = tomllib.loads(QUOTAS.read_text())["limit"]

    def row(way: Way) -> tuple[str, ...]:
        found = _of(way)
        first = f"{found[0].per_second:,.0f}: {names[found[0].name]['name']}"
        over = ([names[one.name]["name"] for one in found if one.per_second < rate] for rate in STORMS)
        return (str(way), first, *(", ".join(each) or "borne" for each in over))

    yield from _text(("way", "bears each second", *(f"{rate:,}/s meets" for rate in STORMS)), map(row, Way))
    yield ""
    rows = ((each["name"], each["above"], each["then"]) for each in names.values())
    yield from _text(("limit", "above it, the caller sees", "what has begun"), rows)


def _needs() -> Iterator[str]:
    names = tomllib.loads(QUOTAS.read_text())["limit"]
    found = [one for way in Way if way is not Way.HELD for one in _of(way)]
    lowest = {one.name: one for one in sorted(found, key=lambda one: one.per_second, reverse=True)}

    def row(name: str) -> tuple[str, ...]:
        if name == POOL:
            values = (throughput.account(rate, lowest, estimate()) for rate in (0, *STORMS))
            return ("`concurrency.account`, and Lambda's quota", *(f"{value:,}" for value in values))
        one = lowest[name]
        return (names[name]["name"], f"{one.value:,.0f}", *(f"{one.needed(rate):,}" for rate in STORMS))

    return table(("limit", "now", *(f"for {rate:,}/s" for rate in STORMS)), map(row, names))


def _of(way: Way) -> list[throughput.Limit]:
    return throughput.limits(way, estimate(), tomllib.loads(QUOTAS.read_text())["quota"])


def _shown(dollars: float) -> str:
    return f"{dollars:.2f}" if dollars else "-"


def _spaced(names: list[str]) -> list[str]:
    return [name.replace("_", " ") for name in names]


if __name__ == "__main__":
    main()
