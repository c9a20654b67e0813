"""Play the day, check its promises, and draw it: `make worst-day DAY="--rate 20"`."""

import argparse
import sys
import time
from pathlib import Path

from benchmarks import plots
from benchmarks.worst_day import findings, play

PROJECT = Path(__file__).parents[2]
PLOT = PROJECT / "docs" / "internals" / "worst-day.svg"


def main() -> int:
    """Play, check and draw the day. Return 1 if a promise is broken."""
    parser = argparse.ArgumentParser(prog="make worst-day", description=__doc__)
    parser.add_argument("--rate", type=float, default=20, help="payments a second")
    parser.add_argument("--seconds", type=int, default=600, help="how long the day takes")
    parser.add_argument("--plot", type=Path, default=PLOT, help="the file of the plot")
    parser.add_argument("--keep", type=Path, help="a file for the figures")
    parser.add_argument("--drawn-from", type=Path, help="kept figures: draw them, and play nothing")
    options = parser.parse_args()
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:5.0f} s  {text}", flush=True)

    if options.drawn_from:
        played = findings.read(options.drawn_from)
    else:
        with play.prepared(options.rate, options.seconds, say) as (day, silent):
            day.play(silent, say)
            played = day.played()
    if options.keep:
        played.write(options.keep)
    plots.worst_day(options.plot, played)
    print(played.table())
    throttled = {name: count for name, count in played.throttled.items() if count}
    print(
        f"the dead provider was asked about {played.asked_while_dead} payments, at most {played.asked_max}"
        f" ({played.failures_to_open} to open, 3 for each of {played.environments} environments,"
        f" {played.probes_while_dead} probes); throttled: {throttled}"
    )
    for fault in (faults := played.faults()):
        print(f"BROKEN: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
