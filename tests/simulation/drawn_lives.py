"""Runs random lives from the command line, each drawn from its seed."""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Protocol, TypeVar

_SHOWN_SECONDS = 10
_TOGETHER = 20
"""Lives per chunk of a worker process."""

_FAILED_MAX = 20


@dataclass(frozen=True)
class Outcome:
    seed: int
    calls: int
    met: int
    """Number of drawn deviations that happened before the life ended."""

    statuses: frozenset[str]
    broken: tuple[str, ...]


class Life(Protocol):
    @property
    def broken(self) -> list[str]: ...

    def live(self) -> object: ...


_Life = TypeVar("_Life", bound=Life)


def lived(life: _Life) -> _Life:
    """Run a life to its end, and return it. An exception counts as a broken rule."""
    try:
        life.live()
    except Exception as error:
        life.broken.append(f"it raises {type(error).__name__}: {error}")
    return life


def main(package: str, outcome: Callable[[int], Outcome], told: Callable[[int], str]) -> int:
    """Run the lives, and print the seeds that broke a rule. Return 1 if any did, else 0.

    `outcome` runs a seed's life; `told` returns the life's history.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {package}", description="Live random lives.")
    parser.add_argument("--lives", type=int, default=1_000)
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed; each life has one")
    parser.add_argument("--jobs", type=int, default=1, help="processes that live them")
    parser.add_argument("--tell", action="store_true", help="print the first seed's whole life")
    given = parser.parse_args()
    if given.tell:
        print(told(given.first))
        return 0
    began = shown = time.monotonic()
    failed, done, calls, met = list[Outcome](), 0, 0, 0
    for done, one in enumerate(_lived(outcome, given.first, given.lives, given.jobs), 1):
        calls, met = calls + one.calls, met + one.met
        if one.broken:
            failed.append(one)
            _tell(package, one)
        if time.monotonic() - shown > _SHOWN_SECONDS:
            shown = time.monotonic()
            print(f"{done:,} of {given.lives:,} lives, {done / (shown - began):.0f} a second", flush=True)
    taken = time.monotonic() - began
    print(
        f"{done:,} lives from seed {given.first}, {calls:,} calls, {met:,} deviations met, in {taken:.0f} s"
        f" ({done / taken:.0f} a second): {len(failed)} broke a rule"
    )
    for one in sorted(failed, key=lambda one: one.seed)[:_FAILED_MAX]:
        _tell(package, one)
    return 1 if failed else 0


def _lived(outcome: Callable[[int], Outcome], first: int, lives: int, jobs: int) -> Iterator[Outcome]:
    seeds = range(first, first + lives)
    if jobs == 1:
        yield from map(outcome, seeds)
        return
    with closing(get_context("spawn").Pool(jobs)) as pool:
        yield from pool.imap_unordered(outcome, seeds, chunksize=_TOGETHER)


def _tell(package: str, one: Outcome) -> None:
    print(f"  python -m {package} --from {one.seed} --tell    # {one.broken[0]}", flush=True)
