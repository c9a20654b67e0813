"""`python -m tests.simulation.seeded.exhaust` tries each fault and pair at each call of a scenario."""

import argparse
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from math import ceil
from random import Random

from tests.simulation.seeded.moments import Recorded
from tests.simulation.seeded.run import Result
from tests.simulation.seeded.scenarios import SCENARIOS, Faults, live, pairs, singles
from tests.simulation.seeded.stage import Current, set_up


def try_all(current: Current, name: str, all_faults: Iterable[Faults]) -> tuple[Result, dict[str, str]]:
    result, broken = Result(), {}
    for faults in all_faults:
        try:
            result.count(live(current, name, faults, Recorded))
        except AssertionError as failed:
            broken[f"{name} with {dict(faults)}"] = str(failed)
    return result, broken


def try_pairs(current: Current, name: str, single: Faults, one_of: int = 1) -> tuple[Result, dict[str, str]]:
    """Run the pairs that begin with `single`, or only a drawn one in `one_of` of them."""
    each = list(pairs(current, name, single))
    drawn = Random(f"{name} {single}").sample(each, ceil(len(each) / one_of))
    return try_all(current, name, drawn)


def _try_pairs(name: str, single: Faults, one_of: int) -> tuple[Result, dict[str, str]]:
    with set_up() as current:
        return try_pairs(current, name, single, one_of)


def main() -> int:
    """Exit with 0 if every rule held. `--one-of N` tries one pair in N."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--one-of", type=int, default=1)
    parser.add_argument("--from", dest="first", choices=SCENARIOS, default="settles", help="the first life")
    given = parser.parse_args()
    lives, failed = list(SCENARIOS), dict[str, str]()
    began = time.monotonic()
    with ProcessPoolExecutor(given.jobs) as pool:
        for name in lives[lives.index(given.first) :]:
            with set_up() as current:
                each = list(singles(current, name))
                alone, broken = try_all(current, name, each)
            names, steps = [name] * len(each), [given.one_of] * len(each)
            total = Result()
            for result, more in pool.map(_try_pairs, names, each, steps):
                total.add(result)
                broken |= more
            failed |= broken
            tried = f"{alone.histories} single faults, {total.histories} pairs"
            print(f"{name}: {tried}, {len(broken)} broke a rule", flush=True)
    print(f"{time.monotonic() - began:.0f} s")
    for faults, rule in list(failed.items())[:20]:
        print(f"  {faults}: {rule}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
