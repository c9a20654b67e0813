"""Play the same lives in every way, and write the table; or print one life, line by line."""

import argparse
import time
from collections import Counter
from contextlib import ExitStack

from benchmarks import engine
from benchmarks.lives import page, process
from benchmarks.lives.judge import Outcome
from benchmarks.lives.life import draw
from benchmarks.lives.ways import WAYS


def main() -> None:
    """Play the lives."""
    parser = argparse.ArgumentParser(prog="make rivals", description=__doc__)
    parser.add_argument("--lives", type=int, default=500, help="seeds from 1 on")
    parser.add_argument("--seed", type=int, help="tell this life, and write nothing")
    parser.add_argument("--rival", choices=WAYS, help="only this one; writes nothing")
    options = parser.parse_args()
    seeds = range(1, options.lives + 1) if options.seed is None else range(options.seed, options.seed + 1)
    names = [options.rival] if options.rival else list(WAYS)
    with ExitStack() as stack:
        url = stack.enter_context(engine.dynamodb())
        postgresql = stack.enter_context(engine.postgresql()).url
        played = {}
        for name in names:
            started = time.monotonic()
            played[name] = process.played(name, postgresql if WAYS[name].is_on_postgresql else url, seeds)
            if options.seed is not None:
                _tell(name, played[name][0])
            else:
                counted = Counter(str(one.verdict) for one in played[name])
                print(f"{time.monotonic() - started:4.0f} s  {WAYS[name].title}: {dict(counted)}", flush=True)
    if options.seed is None and not options.rival:
        page.write(played)
        print(f"written: {page.PAGE.name}")


def _tell(name: str, outcome: Outcome) -> None:
    print(f"\n{WAYS[name].title}, life {outcome.seed}: {outcome.verdict}")
    for line in draw(outcome.seed).lines():
        print(f"  * {line}")
    for line in outcome.told:
        print(f"    {line}")
    print(f"  {outcome.end.report}; moved {dict(outcome.end.moved)}")


if __name__ == "__main__":
    main()
