"""`settle check list` and `status`, and other commands' report of an awaited check."""

import json
from datetime import timedelta

import pytest

from settle.exit_codes import Exit
from settle.settlements import executions
from settlement.checks import waits
from settlement.checks.check import Approve, Check
from settlement.core.ledger import keys
from tests.settle.conftest import Command
from tests.settle.desk import Desk
from tests.world.constants import KEY
from tests.world.environment import NOW

CHECKS = [
    {"name": "limits", "refusals": ["too-much"], "wait_seconds": 0},
    {"name": "delivered", "refusals": ["lost", "returned"], "wait_seconds": 86_400},
]


def check(name: str) -> Check:
    return Check(name=name, refusals=(), ask=lambda *_: Approve(), wait_seconds=86_400)


@pytest.fixture
def waiting(desk: Desk) -> Desk:
    """A stage with two checks; a payment has one answer, and waits for the other."""
    desk.stack.outputs["StageChecks"] = json.dumps(CHECKS)
    desk.pay(KEY, until="hold")
    desk.alter(checks={"limits", "delivered"})
    state = desk.stack.store.settlement(KEY)
    assert state
    content = {"decision": "APPROVED", "reason": "", "by_way": "ask", "evidence": "{}"}
    desk.stack.store.put(waits.evidence(state.settlement, check("limits"), content, NOW))
    until = NOW + timedelta(days=1)
    desk.stack.store.update(waits.begin(state.settlement, check("delivered"), ["delivered"], until, NOW))
    return desk


def test_the_checks_of_a_stack_are_listed(waiting: Desk, command: Command) -> None:
    code, out, _ = command("check", "list", "--json")
    _, text, _ = command("check", "list")

    assert (code, json.loads(out)) == (Exit.FINE, CHECKS)
    assert "lost, returned" in text


def test_check_status_shows_each_checks_answer(waiting: Desk, command: Command) -> None:
    code, out, _ = command("check", "status", KEY, "--json")
    _, text, _ = command("check", "status", KEY)

    assert code == Exit.FINE
    delivered, limits = json.loads(out)
    assert (limits["check"], limits["decision"], limits["waits_until"]) == ("limits", "APPROVED", None)
    assert (delivered["decision"], delivered["waits_until"][:10]) == (None, "2026-11-21")
    assert "delivered" in text


def test_a_stack_or_payment_without_checks_is_reported(desk: Desk, command: Command) -> None:
    desk.pay(KEY, until="hold")

    listed, shown = command("check", "list"), command("check", "status", KEY)

    assert (listed[0], "has no checks" in listed[2]) == (Exit.NOT_FOUND, True)
    assert (shown[0], f"{KEY} demands no checks" in shown[2]) == (Exit.NOT_FOUND, True)


def test_check_status_of_an_unclaimed_key_is_not_found(waiting: Desk, command: Command) -> None:
    code, _, err = command("check", "status", "order-of-nobody-01")

    assert code == Exit.NOT_FOUND
    assert "no request has claimed" in err


def test_check_status_names_malformed_rows(waiting: Desk, command: Command) -> None:
    waiting.alter(keys.evidence(KEY, "check:limits"), decision=["APPROVED"], reason={})
    code, _, err = command("check", "status", KEY)
    assert (code, "is no str" in err) == (Exit.FAILED, True)

    waiting.alter(status="PAID")

    code, _, err = command("check", "status", KEY)
    assert (code, KEY in err) == (Exit.FAILED, True), err


def test_status_and_recover_name_the_check_that_is_awaited(waiting: Desk, command: Command) -> None:
    state = waiting.stack.store.settlement(KEY)
    assert state

    told = executions.describe(waiting.stack, state)
    _, out, err = command("recover", KEY)

    assert "before the callback of the check delivered" in told["activity"]
    assert "the callback of the check delivered" in out + err
