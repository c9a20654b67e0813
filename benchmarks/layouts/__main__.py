"""Print each layout's units, broken histories, and found bugs.

Each layout runs the same machines. Its writes go to two engines, which count their units, and to a model, on
which 30,000 random histories run; a planted bug has 3,000 to be found in.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace

from benchmarks.layouts.catalogue import LAYOUTS
from benchmarks.layouts.histories import Layout, broken_in
from benchmarks.layouts.measured import ENGINES, SCENARIOS, Figures, client, kyc_writes, measure

HISTORIES = 30_000
HISTORIES_WITH_A_BUG = 3_000
PROCESSES = 2


def costs() -> Iterator[str]:
    """Yield the table of the units."""
    yield "| layout | happy: rule | Dynoxide | DynamoDB Local | write calls, reads | no funds | KYC says no |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    figures: dict[tuple[str, str, str], Figures] = {}
    for engine in ENGINES:
        with client(engine) as connected:
            for layout in LAYOUTS:
                for scenario in SCENARIOS:
                    measured = measure(layout, scenario, connected)
                    figures[engine, layout.name, scenario] = measured.figures
    for layout in LAYOUTS:
        happy, no_funds, kyc_no = (figures[ENGINES[0], layout.name, scenario] for scenario in SCENARIOS)
        local = figures[ENGINES[1], layout.name, "happy"]
        yield (
            f"| {layout.name} | {happy.units} | {happy.reported:.0f} | {local.reported:.0f}"
            f" | {happy.writes}, {happy.reads} | {_with_refused(no_funds)} | {_with_refused(kyc_no)} |"
        )


def _with_refused(figures: Figures) -> str:
    return f"{figures.units} + ≤ {figures.refused}" if figures.refused else str(figures.units)


def privileges() -> Iterator[str]:
    """Yield what `dynamodb:LeadingKeys` can tell apart in each layout."""
    yield "| layout | VerifyKyc puts | entries are in | updated rows are in |"
    yield "|---|---|---|---|"
    with client(ENGINES[0]) as connected:
        for layout in LAYOUTS:
            measured = [measure(layout, scenario, connected) for scenario in SCENARIOS]
            entries = frozenset[str]().union(*(each.entry_kinds for each in measured))
            updated = frozenset[str]().union(*(each.updated_kinds for each in measured))
            columns = [" ".join(sorted(each)) for each in (kyc_writes(layout), entries, updated)]
            yield f"| {layout.name} | {' | '.join(columns)} |"


def histories() -> Iterator[str]:
    """Yield each layout's broken histories, without and with a planted bug."""
    yield "| layout | bug | histories | broken |\n|---|---|--:|--:|"
    runs: list[tuple[Layout, int]] = [(layout, HISTORIES) for layout in LAYOUTS]
    runs += [(replace(each, bug=bug), HISTORIES_WITH_A_BUG) for each in LAYOUTS for bug in each.bugs]
    with ProcessPoolExecutor(PROCESSES) as pool:
        broken = pool.map(broken_in, *zip(*runs, strict=True))
        for (layout, tries), found in zip(runs, broken, strict=True):
            yield f"| {layout.name} | {layout.bug or 'none'} | {tries:,} | {len(found):,} |"


def main() -> None:
    """Print the tables."""
    for table in (costs, privileges, histories):
        for line in table():
            print(line, flush=True)
        print()


if __name__ == "__main__":
    main()
