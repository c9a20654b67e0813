import argparse
import json
import sys
import time
from itertools import count
from pathlib import Path

from tests.simulation.seeded.run import Result, run_side_by_side, tell


def main() -> int:
    """Exit with 0 if every rule held, else with 1 and a failed history."""
    parser = argparse.ArgumentParser(prog="make simulate")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, help="how many; without a number, until --seconds are over")
    parser.add_argument("--seconds", type=float, help="begin no more seeds after so long")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes run them")
    parser.add_argument("--tell", action="store_true", help="print the first seed's history")
    parser.add_argument(
        "--report", type=Path, help="write all counts to this file, as JSON, and print no history"
    )
    parser.add_argument("--core", action="store_true", help="the core alone, without a room")
    given = parser.parse_args()
    if given.tell:
        print(tell(given.first, core=given.core))
        return 0
    seeds = range(given.first, given.first + given.seeds) if given.seeds else count(given.first)
    began, total, shown = time.monotonic(), Result(), 0.0
    for total in run_side_by_side(seeds, given.jobs, given.seconds, core=given.core):
        if time.monotonic() - shown > 60 and given.report:
            shown = time.monotonic()
            _report(given.report, given.first, total, shown - began)
    taken = time.monotonic() - began
    if given.report:
        _report(given.report, given.first, total, taken)
    print(
        f"{total.histories} histories of {total.seeds} seeds from {given.first}, {total.calls} calls,"
        f" {total.commits} commits in {taken:.0f} s ({total.histories / taken:.0f} histories a second):"
        f" {len(total.failed)} broke a rule"
    )
    print("rarest:", ", ".join(f"{name} ({times})" for times, name in total.sometimes()[:5]))
    for seed, broken in sorted(total.failed.items())[:20]:
        print(f"  make simulate FROM={seed} SEEDS=1 TELL=--tell    # {broken}")
    if total.failed and not given.report:
        print(tell(min(total.failed), core=given.core))
    return 1 if total.failed else 0


def _report(path: Path, first: int, total: Result, seconds: float) -> None:
    content = {
        "from": first,
        "seeds": total.seeds,
        "histories": total.histories,
        "calls": total.calls,
        "commits": total.commits,
        "seconds": round(seconds),
        "failed": total.failed,
        "sometimes": {name: times for times, name in total.sometimes()},
        "counted": dict(sorted(total.counted.items())),
    }
    path.write_text(json.dumps(content, indent=1))


if __name__ == "__main__":
    sys.exit(main())
