from typing import Any

import pytest

from settle.exit_codes import CommandFailed, Exit
from settle.orders import limbo
from settlement.core.ledger import keys
from settlement.core.model.errors import Refusal
from settlement.core.model.orders import Decision
from settlement.core.model.state import SettlementState
from settlement.core.policy import compensation
from tests.settle.desk import Desk
from tests.world.constants import KEY


def decisions(desk: Desk) -> dict[str, Any]:
    shown = limbo.show(desk.stack, KEY)["decisions"]
    assert [one["decision"] for one in shown] == list(Decision)
    return {one["decision"]: (one["effect"], one["command"]) for one in shown}


def test_an_open_case_shows_its_account_and_amount_at_risk(desk: Desk) -> None:
    desk.pay("order-flying-0001", until="hold")
    assert limbo.open_cases(desk.stack) == ([], False)

    desk.stuck()

    case = {
        "key": KEY,
        "case": 1,
        "since": desk.row()["gsi1sk"],
        "account": "bob",
        "stuck_step": "compensate:release",
        "amount_at_risk": "47.72",
        "currency": "EUR",
        "error": "InsufficientFunds",
    }
    assert limbo.open_cases(desk.stack) == ([case], False)


def test_only_cases_still_in_limbo_are_listed_oldest_first(desk: Desk) -> None:
    """The index may lag, so the row decides."""
    names = ["order-zzz-0000001", "order-left-000001", "order-aaa-0000001"]
    for name in names:
        desk.stuck("nothing", name)
    desk.ledger.put(desk.row(names.pop(1)) | {"status": "COMPENSATING"})

    cases, _ = limbo.open_cases(desk.stack)

    assert [one["key"] for one in cases] == names
    assert cases[0]["since"] < cases[1]["since"]


@pytest.mark.parametrize(
    ("step", "shown"),
    [
        (
            "release",
            {
                "stuck_step": "compensate:release",
                "account": "bob",
                "amount_at_risk": "47.72",
                "error": "InsufficientFunds",
                "available": "7.72",
                "escrow": "0.48",
                "cause": "payee: the account has too little available to give back what it received",
                "reversed_for": {"step": "fee", "error": "KycRejected", "cause": "kyc: the provider says no"},
                "steps": ["hold", "release", "verify"],
            },
        ),
        ("fee", {"account": "fees:EUR", "amount_at_risk": "0.48", "available": None, "escrow": "0.00"}),
        ("hold", {"account": "alice", "amount_at_risk": "48.20", "available": "451.80", "escrow": "48.20"}),
        ("nothing", {"account": "alice", "amount_at_risk": "0.00", "available": None, "escrow": "0.00"}),
    ],
)
def test_a_case_is_shown_with_the_blocked_account(desk: Desk, step: str, shown: dict[str, Any]) -> None:
    desk.stuck(step)

    found = limbo.show(desk.stack, KEY)

    error = "InsufficientFunds" if step == "release" else "IdempotencyConflict"
    common = {"key": KEY, "case": 1, "since": desk.row()["gsi1sk"], "currency": "EUR", "error": error}
    assert {**common, "reversed": [], **shown}.items() <= found.items()


def test_a_case_whose_account_was_deleted_shows_no_balance(desk: Desk) -> None:
    desk.stuck()
    desk.ledger.delete(keys.account("bob"))

    shown = limbo.show(desk.stack, KEY)

    assert (shown["account"], shown["available"]) == ("bob", None)


@pytest.mark.parametrize(
    ("step", "account", "amount", "fees"),
    [("release", "bob", "47.72", "0.48"), ("fee", "fees:EUR", "0.48", "0.00")],
)
def test_each_possible_decision_shows_its_effect_and_exact_command(
    desk: Desk, step: str, account: str, amount: str, fees: str
) -> None:
    desk.stuck(step)

    effects = {
        Decision.RETRY: f"takes {amount} EUR out of {account} once the cause is gone, and reverses the rest",
        Decision.WRITE_OFF: f"covers {amount} EUR from losses:EUR, and refunds 48.20 EUR to alice;"
        f" {account} keeps what it has",
        Decision.COMPLETE: f"the payee bob keeps what it received, {fees} EUR go to the fees: SETTLED",
    }
    for name, endpoint, option in (
        ("settlement-local", "http://127.0.0.1:1", ""),
        ("Payments/Saga", "http://127.0.0.1:1", " --stack Payments/Saga"),
        ("settlement-local", None, " --stack settlement-local"),
    ):
        object.__setattr__(desk.stack, "name", name)
        object.__setattr__(desk.stack, "endpoint_url", endpoint)
        assert decisions(desk) == {
            decision: (effect, f"settle limbo resolve {KEY} {decision} --case 1 --reason '<why>'{option}")
            for decision, effect in effects.items()
        }


@pytest.mark.parametrize(("step", "amount"), [("hold", "48.20"), ("nothing", "0.00")])
def test_a_stuck_hold_allows_only_retry(desk: Desk, step: str, amount: str) -> None:
    desk.stuck(step)

    found = decisions(desk)

    effect, command = found.pop(Decision.RETRY)
    assert effect == f"returns {amount} EUR from the escrow to alice, once the cause is gone"
    assert command
    for decision, shown in found.items():
        with pytest.raises(Refusal) as why:
            compensation.ensure_can_resolve(SettlementState.from_row(desk.row()), Decision(decision))
        assert shown == (f"not possible: {why.value}", None)


@pytest.mark.parametrize(("until", "status"), [("claim", "PROCESSING"), ("fee", "SETTLED")])
def test_showing_a_settlement_outside_limbo_is_a_conflict(desk: Desk, until: str, status: str) -> None:
    desk.pay(until=until)

    with pytest.raises(CommandFailed) as told:
        limbo.show(desk.stack, KEY)

    assert (told.value.code, str(told.value)) == (Exit.CONFLICT, f"{KEY}: is {status}, not in LIMBO")
