"""Run all benchmarks, and write their tables and plots into docs/reference/costs.md."""

import argparse
import os
import platform
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import (
    circuit,
    cost,
    deployment,
    engine,
    growth,
    hot_account,
    imports,
    interleave,
    report,
)

_PRICES = Path(__file__).parent / "prices.toml"
_QUICK, _USUAL = (30, 2, (1, 4)), (120, 5, (1, 4, 16))
"""For a quick and a usual run: rounds of rivals, rounds of imports, and numbers of environments."""


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, as a trial of the command itself")
    parser.add_argument("--largest", type=int, default=10_000, help="settlements in the largest table")
    options = parser.parse_args()
    rounds, import_rounds, environments = _QUICK if options.quick else _USUAL
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:5.0f} s  {text}", flush=True)

    say("the deployment's template")
    deployed = deployment.read()
    os.environ["LOG_DETAIL"] = deployed.log_detail  # the functions of every process log as they do on AWS
    results = report.Results(
        about=_about(rounds),
        deployed=deployed,
        tariff=cost.load(_PRICES),
        measured=interleave.run(rounds, say),
        imports=imports.run(import_rounds, say),
        grown=growth.run(options.largest, rounds, say),
        circuit=_circuit(environments, say),
        hot=_hot_account(say),
    )
    report.write(results, _PRICES)
    say(f"written: {report.PAGE.relative_to(report.PROJECT)}")


def _about(rounds: int) -> str:
    today = datetime.now(UTC).date().isoformat()
    return (
        f"Written by `make bench` on {today}: Python {platform.python_version()}, {engine.DYNAMODB},\n"
        f"PostgreSQL from a wheel, {rounds} rounds. Only ratios within one run count, and what is counted."
    )


def _circuit(environments: Sequence[int], say: Callable[[str], None]) -> list[str]:
    with engine.dynamodb() as url:
        lines = []
        for line in circuit.table(url, environments):
            lines.append(line)
            say(f"circuit: {line}")
    return lines


def _hot_account(say: Callable[[str], None]) -> list[hot_account.Cell]:
    say("the hot account")
    return hot_account.rows()


if __name__ == "__main__":
    main()
