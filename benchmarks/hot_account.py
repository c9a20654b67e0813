"""Simulate the conflicts on one account that many settlements debit or credit at once.

A discrete-event simulation with a fixed seed. It takes seconds. Its assumptions, which only AWS can confirm:

* A transaction keeps a row busy for 4 ms at least and 8 ms at most. Each cell is simulated with both.
* A second transaction on a busy row is refused at once (`TransactionConflict`), and the first one is not.
* An account's settlements arrive as a Poisson process, and each touches the account's row once.

A call sends its transaction again, with full jitter, until its sends are used up. Then the machine calls
again, twice, with full jitter of 1 s and 2 s. A settlement whose last call has failed is stalled.

With r = arrivals per second x busy seconds, a send meets a busy row with probability r if the waits are long,
so wasted / useful is r / (1 - r) for any number of sends. The simulation agrees while few settlements stall.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

RATES = (20, 50, 100, 150, 200, 300, 500)
"""Arrivals per second on one account."""

MERCHANT_RATE = 5_000
BUSY_SECONDS = (0.004, 0.008)
REFUSAL_SECONDS = 0.003
"""The time until a refused send has its answer."""

ARRIVALS, ARRIVING_SECONDS = 20_000, 20
"""Minimum settlements of a cell, and minimum time in which they arrive: several times the time of all calls
of one settlement. The first and the last tenth are not counted: they only keep the account busy.
"""

CALL_BACKOFF_SECONDS = (1.0, 2.0)
"""Upper bounds of the machine's waits before its second and third call."""

STALLED_MAX = 0.001
WASTED_MAX = 1.3
"""The criteria of the published bound: the share that stalls, and wasted ÷ useful transactions."""


@dataclass(frozen=True)
class Sends:
    """The sends of one call: how many, and the bounds of the wait between them."""

    tries_max: int
    base_seconds: float = 0.05
    bound_seconds: float = 0.4

    def wait(self, failed: int, random: Random) -> float:
        """Return the wait after this many failed sends: full jitter, doubling up to the bound."""
        return random.uniform(0, min(self.bound_seconds, self.base_seconds * 2 ** (failed - 1)))


SIX = Sends(6)


@dataclass(frozen=True)
class Cell:
    """The figures of one variant at one rate."""

    variant: str
    rate: int
    busy_seconds: float
    wasted_per_useful: float
    stalled: float


class Counts:
    """The transactions of one simulation, and the settlements that stall."""

    def __init__(self) -> None:
        self.useful = self.wasted = self.stalled = 0

    def cell(self, variant: str, rate: int, busy_seconds: float) -> Cell:
        """Return the figures. Some transaction always commits, so no divisor is 0."""
        stalled = self.stalled / (self.useful + self.stalled)
        return Cell(variant, rate, busy_seconds, self.wasted / self.useful, stalled)


def contended(rate: float, busy_seconds: float) -> Counts:
    """Simulate settlements that each write the account's row."""
    random, counts = Random(f"{rate} {busy_seconds} {SIX} 1"), Counts()  # noqa: S311
    arrivals = max(ARRIVALS, round(rate * ARRIVING_SECONDS))
    arrived_at = [0.0]
    while len(arrived_at) < arrivals:
        arrived_at.append(arrived_at[-1] + random.expovariate(rate))
    events = [(at, number, 0, 0) for number, at in enumerate(arrived_at)]  # sorted, so it is a heap
    free_at = 0.0
    measured = range(arrivals // 10, arrivals - arrivals // 10)
    while events:
        now, number, calls, failed = heapq.heappop(events)
        counted = number in measured
        if free_at <= now:
            free_at = now + busy_seconds
            counts.useful += counted
            continue
        counts.wasted += counted
        failed += 1
        if failed < SIX.tries_max:
            again = SIX.wait(failed, random)
        elif calls < len(CALL_BACKOFF_SECONDS):
            again, calls, failed = random.uniform(0, CALL_BACKOFF_SECONDS[calls]), calls + 1, 0
        else:
            counts.stalled += counted
            continue
        heapq.heappush(events, (now + REFUSAL_SECONDS + again, number, calls, failed))
    return counts


SWEEPS_PER_SECOND = 1
MERCHANT_DEBITS_PER_SECOND = 20
"""Refunds and payouts of a merchant, which write the balance row."""


def merchant(rate: float, busy_seconds: float) -> Counts:
    """Simulate credits that do not write the balance, while a sweeper folds them.

    Only debits and the sweeper write the balance row, so only they conflict.
    """
    counts = contended(MERCHANT_DEBITS_PER_SECOND + SWEEPS_PER_SECOND, busy_seconds)
    credits_per_write = rate / (MERCHANT_DEBITS_PER_SECOND + SWEEPS_PER_SECOND)
    credits_ = round(counts.useful * credits_per_write)
    counts.useful += credits_
    return counts


def rows() -> list[Cell]:
    """Return all figures: each variant at each rate, with both busy times."""
    cells = []
    for busy in BUSY_SECONDS:
        for rate in RATES:
            cells += [
                contended(rate, busy).cell("6 sends", rate, busy),
                merchant(rate, busy).cell("merchant and sweeper", rate, busy),
            ]
        cells.append(merchant(MERCHANT_RATE, busy).cell("merchant and sweeper", MERCHANT_RATE, busy))
    return cells


def bound(busy_seconds: float, wasted_max: float) -> int:
    """Return the highest rate within the limits for stalled and wasted, in steps of 5/s."""

    def is_good(steps: int) -> bool:
        cell = contended(5 * steps, busy_seconds).cell("", 5 * steps, busy_seconds)
        return cell.stalled < STALLED_MAX and cell.wasted_per_useful <= wasted_max

    good, bad = 1, 64  # 320/s is more than any busy time here lets one row bear
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if is_good(middle) else (good, middle)
    return 5 * good


def table(cells: list[Cell]) -> Iterator[str]:
    """Yield a table: wasted ÷ useful and the stalled share, for both busy times."""
    variants = list(dict.fromkeys(cell.variant for cell in cells))
    yield f"| arrivals/s | {' | '.join(variants)} |"
    yield f"|--:|{'---|' * len(variants)}"
    for rate in dict.fromkeys(cell.rate for cell in cells):
        columns = []
        for variant in variants:
            found = [cell for cell in cells if (cell.rate, cell.variant) == (rate, variant)]
            columns.append(_column(*found) if found else "")
        yield f"| {rate:,} | {' | '.join(columns)} |"


def _column(low: Cell, high: Cell) -> str:
    wasted = f"{low.wasted_per_useful:.2f} to {high.wasted_per_useful:.2f}"
    return f"{wasted}, {_percent(low.stalled)} to {_percent(high.stalled)}"


def _percent(share: float) -> str:
    return f"{share:.2%}" if share else "0"


def main() -> None:
    """Print the figures and the bounds."""
    print("wasted ÷ useful transactions, and the share that stalls, for a row busy for 4 ms to 8 ms:\n")
    for line in table(rows()):
        print(line, flush=True)
    print("\n| highest rate with < 0.1 % stalled | busy 4 ms | busy 8 ms |\n|---|--:|--:|")
    for criterion, wasted_max in (("and wasted ÷ useful ≤ 1.3", WASTED_MAX), ("alone", float("inf"))):
        found = [f"{bound(busy, wasted_max):,}/s" for busy in BUSY_SECONDS]
        print(f"| {criterion} | {' | '.join(found)} |", flush=True)


if __name__ == "__main__":
    main()
