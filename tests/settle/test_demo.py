import json
from typing import Any

import pytest

from settle.exit_codes import CommandFailed, Exit
from settle.local import embedded_aws
from settle.local.demo import cost, outage, settlements, stuck_reversal, tour
from settle.local.demo.settlements import Settled
from settle.local.record import Running
from settle.settlements.machines import Machine
from settle.settlements.start import Ended
from tests.settle.conftest import Command
from tests.settle.desk import Desk
from tests.world.constants import KEY


@pytest.fixture(autouse=True)
def walked(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """One request, and walks with results set by the test."""
    walked: dict[str, dict[str, Any]] = {"limbo": {"conserved": True}, "outage": {"conserved": True}}
    outcome = {"status": "SETTLED", "replayed": False, "failure": None}
    request = {"key": KEY, "payer": "a.run", "payee": "b.run", "amount": "1.00", "currency": "EUR"}

    def settle_all(*_: object) -> list[Settled]:
        return [Settled(Machine.EXPRESS, request, Ended(KEY, "an-execution", outcome))]

    monkeypatch.setattr(embedded_aws, "up", lambda report: Running(1, 1, 2))
    monkeypatch.setattr(tour, "embedded", lambda running: desk.stack)
    monkeypatch.setattr(settlements, "open_accounts", lambda *_: 0)
    monkeypatch.setattr(settlements, "settle_all", settle_all)
    monkeypatch.setattr(cost, "since", lambda *_: {})
    monkeypatch.setattr(stuck_reversal, "walk", lambda *_: walked["limbo"])
    monkeypatch.setattr(outage, "walk", lambda *_: walked["outage"])
    return walked


@pytest.mark.parametrize(("walk", "code"), [("", Exit.FINE), ("limbo", Exit.FAILED), ("outage", Exit.FAILED)])
def test_a_lossy_walk_fails_the_demo_with_one_json_value(
    command: Command, walked: dict[str, dict[str, Any]], walk: str, code: Exit
) -> None:
    walked[walk] = {"conserved": False}

    ended, out, _ = command("demo", "--json")

    assert (ended, len(out.splitlines())) == (code, 1)
    assert json.loads(out)


def test_a_demo_that_fails_in_the_middle_prints_no_json(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise CommandFailed(Exit.FAILED, "no alert came")

    monkeypatch.setattr(stuck_reversal, "walk", fail)

    code, out, err = command("demo", "--json")

    assert (code, out) == (Exit.FAILED, "")
    assert err.splitlines()[-1] == "settle: no alert came"
