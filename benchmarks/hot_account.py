"""Simulate the conflicts on one account that many settlements debit or credit at once.

A discrete-event simulation with a fixed seed; seconds to run. Its assumptions, which only AWS can settle:

* A transaction keeps a row busy for 4 ms at least and 8 ms at most. Each cell is simulated with both.
* A second transaction on a busy row is refused at once (`TransactionConflict`), and the first one is not.
* An account's settlements arrive as a Poisson process, and each touches the account's row once.

A call sends its transaction again, with full jitter, until its sends are used up. Then the machine calls
again, twice, with full jitter of 1 s and 2 s. A settlement whose last call has failed is stalled.

With r = arrivals per second x busy seconds, a send meets a busy row with probability r if the waits are long,
so wasted / useful is r / (1 - r) for any number of sends. The simulation agrees while little stalls.
"""

import heapq
from collections import deque
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
"""The least settlements of one cell, and the least time in which they arrive, several times that of all calls
of one settlement. The first and the last tenth only keep the account busy.
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


THREE, SIX = Sends(3), Sends(6)


@dataclass(frozen=True)
class Cell:
    """The figures of one variant at one rate. `seconds_p99` is the time until the commit."""

    variant: str
    rate: int
    busy_seconds: float
    wasted_per_useful: float
    stalled: float
    seconds_p99: float


class Counts:
    """The transactions of one simulation, and the times until their commits."""

    def __init__(self) -> None:
        self.useful = self.wasted = self.stalled = 0
        self.seconds: list[float] = []

    def cell(self, variant: str, rate: int, busy_seconds: float) -> Cell:
        """Return the figures. A simulation always commits something."""
        slowest = sorted(self.seconds)[int(len(self.seconds) * 0.99)]
        settled = len(self.seconds) + self.stalled
        return Cell(variant, rate, busy_seconds, self.wasted / self.useful, self.stalled / settled, slowest)


def contended(rate: float, busy_seconds: float, sends: Sends, rows: int = 1) -> Counts:
    """Simulate settlements that each write one of the account's rows, at random."""
    random, counts = Random(f"{rate} {busy_seconds} {sends} {rows}"), Counts()  # noqa: S311
    arrivals = max(ARRIVALS, round(rate * ARRIVING_SECONDS))
    arrived_at = [0.0]
    while len(arrived_at) < arrivals:
        arrived_at.append(arrived_at[-1] + random.expovariate(rate))
    events = [(at, number, 0, 0) for number, at in enumerate(arrived_at)]  # sorted, so it is a heap
    free_at = [0.0] * rows
    measured = range(arrivals // 10, arrivals - arrivals // 10)
    while events:
        now, number, calls, failed = heapq.heappop(events)
        row, counted = random.randrange(rows) if rows > 1 else 0, number in measured
        if free_at[row] <= now:
            free_at[row] = now + busy_seconds
            if counted:
                counts.useful += 1
                counts.seconds.append(free_at[row] - arrived_at[number])
            continue
        counts.wasted += counted
        failed += 1
        if failed < sends.tries_max:
            again = sends.wait(failed, random)
        elif calls < len(CALL_BACKOFF_SECONDS):
            again, calls, failed = random.uniform(0, CALL_BACKOFF_SECONDS[calls]), calls + 1, 0
        else:
            counts.stalled += counted
            continue
        heapq.heappush(events, (now + REFUSAL_SECONDS + again, number, calls, failed))
    return counts


GROUP_MAX = 33
"""Settlements of one group: row, release and fee's entry of each, and the balance: 100 actions at most."""

FULL_GROUP_FACTOR = 2
"""A full group is assumed to keep the row busy for twice the time of a single transaction."""

REFUSED_IN_A_GROUP = 0.001
"""The share of settlements whose condition fails: each cancels its whole group once."""

GROUP_WAIT_SECONDS_MAX = 8
"""A settlement that waits longer for its group is stalled: its function has timed out."""


def group_commit(rate: float, busy_seconds: float) -> Counts:
    """Simulate one writer for the account, which commits all that waits in one transaction."""
    random, counts = Random(f"group {rate} {busy_seconds}"), Counts()  # noqa: S311
    waiting: deque[float] = deque()
    now, arrives_at, arrived = 0.0, 0.0, 0
    arrivals = max(ARRIVALS, round(rate * 4 * GROUP_WAIT_SECONDS_MAX))
    while arrived < arrivals or waiting:
        if not waiting:
            now = max(now, arrives_at)
        while arrived < arrivals and arrives_at <= now:
            waiting.append(arrives_at)
            arrived += 1
            arrives_at += random.expovariate(rate)
        group = [waiting.popleft() for _ in range(min(GROUP_MAX, len(waiting)))]
        cancelled = sum(random.random() < REFUSED_IN_A_GROUP for _ in group)
        longer = 1 + (FULL_GROUP_FACTOR - 1) * len(group) / GROUP_MAX
        now += (1 + cancelled) * busy_seconds * longer
        counts.useful += 1
        counts.wasted += cancelled
        waits = [now - at for at in group]
        counts.seconds += [wait for wait in waits if wait <= GROUP_WAIT_SECONDS_MAX]
        counts.stalled += sum(wait > GROUP_WAIT_SECONDS_MAX for wait in waits)
    return counts


SWEEPS_PER_SECOND = 1
MERCHANT_DEBITS_PER_SECOND = 20
"""Refunds and payouts of a merchant: these do write the balance row."""


def merchant(rate: float, busy_seconds: float) -> Counts:
    """Simulate credits that do not write the balance, while a sweeper folds them.

    Only debits and the sweeper write the balance row, and only they can meet each other.
    """
    counts = contended(MERCHANT_DEBITS_PER_SECOND + SWEEPS_PER_SECOND, busy_seconds, SIX)
    credits_per_write = rate / (MERCHANT_DEBITS_PER_SECOND + SWEEPS_PER_SECOND)
    credits_ = round(counts.useful * credits_per_write)
    counts.useful += credits_
    counts.seconds += [busy_seconds] * credits_
    return counts


BUCKETS = 16


def rows() -> list[Cell]:
    """Return all figures: each variant at each rate, with both busy times."""
    cells = []
    for busy in BUSY_SECONDS:
        for rate in RATES:
            cells += [
                contended(rate, busy, THREE).cell("3 sends", rate, busy),
                contended(rate, busy, SIX).cell("6 sends", rate, busy),
                contended(rate, busy, SIX, BUCKETS).cell("6 sends, 16 buckets", rate, busy),
                group_commit(rate, busy).cell("group commit", rate, busy),
                merchant(rate, busy).cell("merchant and sweeper", rate, busy),
            ]
        cells += [
            contended(MERCHANT_RATE, busy, SIX, BUCKETS).cell("6 sends, 16 buckets", MERCHANT_RATE, busy),
            contended(MERCHANT_RATE, busy, SIX, 512).cell("6 sends, 512 buckets", MERCHANT_RATE, busy),
            group_commit(MERCHANT_RATE, busy).cell("group commit", MERCHANT_RATE, busy),
            merchant(MERCHANT_RATE, busy).cell("merchant and sweeper", MERCHANT_RATE, busy),
        ]
    return cells


def bound(sends: Sends, busy_seconds: float, buckets: int, wasted_max: float) -> int:
    """Return the highest rate that stalls and wastes little enough, in steps of 5/s a bucket."""

    def is_good(steps: int) -> bool:
        rate = 5 * buckets * steps
        cell = contended(rate, busy_seconds, sends, buckets).cell("", rate, busy_seconds)
        return cell.stalled < STALLED_MAX and cell.wasted_per_useful <= wasted_max

    good, bad = 1, 64  # 320/s is more than any busy time here lets one row bear
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if is_good(middle) else (good, middle)
    return 5 * buckets * good


def stranded(buckets: int, tries: int, runs: int = 20, debits: int = 10_000) -> float:
    """Return the share of a treasury's funds left at the first refused debit.

    A debit tries this many buckets at random, and is refused if none covers it. The funds cover `debits`
    average debits, in equal buckets. Amounts are exponential. The result is the mean of some runs.
    """
    random = Random(f"{buckets} {tries}")  # noqa: S311
    return sum(_left(random, buckets, tries, debits) for _ in range(runs)) / runs


def _left(random: Random, buckets: int, tries: int, debits: int) -> float:
    left = [debits / buckets] * buckets
    while True:
        amount = random.expovariate(1)
        tried = random.sample(range(buckets), tries)
        covered = next((bucket for bucket in tried if left[bucket] >= amount), None)
        if covered is None:
            return sum(left) / debits
        left[covered] -= amount


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
    """Print the figures, the bounds, and what reservation buckets strand."""
    print("wasted ÷ useful transactions, and the share that stalls, for a row busy for 4 ms to 8 ms:\n")
    for line in table(rows()):
        print(line, flush=True)
    print("\n| highest rate with < 0.1 % stalled | criterion | busy 4 ms | busy 8 ms |")
    print("|---|---|--:|--:|")
    for name, sends, buckets in (
        ("3 sends", THREE, 1),
        ("6 sends", SIX, 1),
        ("6 sends, 16 buckets", SIX, 16),
    ):
        for criterion, wasted_max in (("and wasted ÷ useful ≤ 1.3", WASTED_MAX), ("alone", float("inf"))):
            found = [f"{bound(sends, busy, buckets, wasted_max):,}/s" for busy in BUSY_SECONDS]
            print(f"| {name} | {criterion} | {' | '.join(found)} |", flush=True)
    print("\n| reservation buckets | tries | funds left at the first refusal |\n|--:|--:|--:|")
    for buckets, tries in ((16, 1), (16, 3), (16, 16), (64, 3), (64, 16)):
        print(f"| {buckets} | {tries} | {stranded(buckets, tries):.1%} |")


if __name__ == "__main__":
    main()
