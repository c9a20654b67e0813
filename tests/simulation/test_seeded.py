"""A seed decides everything, and a broken rule prints its history."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.simulation.seeded import __main__ as command
from tests.simulation.seeded import weakened
from tests.simulation.seeded.run import run, tell

ENOUGH = ("balances.debit_payer", "sufficient")


def test_a_seed_gives_the_same_history_in_any_process() -> None:
    told = []
    for hashes in ("1", "2"):
        program = "from tests.simulation.seeded.run import tell; print(*map(tell, range(20, 26)))"
        told.append(
            subprocess.run(
                [sys.executable, "-c", program],
                env={**os.environ, "PYTHONHASHSEED": hashes},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )

    assert told[0] == told[1]
    assert "is called with" in told[0]


def test_two_seeds_give_different_histories() -> None:
    assert tell(20) != tell(21)


def test_a_broken_rule_prints_its_history_and_replay_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with weakened.without({ENOUGH}):
        seed = next(seed for seed in range(500) if run([seed]).failed)
        monkeypatch.setattr(sys, "argv", ["simulate", "--from", str(seed), "--seeds", "1"])
        code = command.main()

    said = capsys.readouterr().out.splitlines()
    assert code == 1
    assert said[0].endswith("1 broke a rule")
    assert said[1].startswith("rarest: ")
    assert said[2].startswith(f"  make simulate FROM={seed} SEEDS=1 TELL=--tell    # Violated: ")
    assert said[-1].startswith("BROKEN: ")
    assert any("HoldFunds" in line and "is called with" in line for line in said)
    assert "the table" in said[-2], "the write that broke the rule comes last, and no end of its function"

    assert command.main() == 0
    assert "0 broke a rule" in capsys.readouterr().out


def test_the_core_keeps_every_rule_without_a_room() -> None:
    seen = run(range(60), core=True)

    assert seen.failed == {}
    assert seen.counted["PROCESSING to SETTLED"] > 20
    assert seen.counted["COMPENSATING to COMPENSATED"] > 10


@pytest.mark.long
@pytest.mark.parametrize(
    "seen",
    [
        *("PROCESSING to REJECTED", "SETTLED to COMPENSATING", "COMPENSATING to LIMBO"),
        *("frozen in HoldFunds", "TaskFailedByHand", "KycCircuitOpen", "RecoveredByExpress"),
    ],
)
def test_each_rare_event_happens_in_some_history(seen: str, some_seeds: Callable[[], dict[str, int]]) -> None:
    assert some_seeds()[seen] > 0


@pytest.mark.long
def test_many_payments_settle_despite_the_faults(some_seeds: Callable[[], dict[str, int]]) -> None:
    """Code that refuses everything would break no rule."""
    counted = some_seeds()

    assert counted["PROCESSING to SETTLED"] > counted["None to PROCESSING"] > 150


@pytest.fixture(scope="module")
def some_seeds() -> Callable[[], dict[str, int]]:
    seen = run(range(100))
    assert seen.failed == {}
    return lambda: seen.counted
