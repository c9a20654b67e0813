from typing import Any

import pytest

from settle.exit_codes import CommandFailed, Exit
from settle.queries import limbo
from settlement.model.errors import Refusal
from settlement.model.orders import Decision
from settlement.model.state import SettlementState
from settlement.policy import compensation
from tests.settle.desk import ADA, KEY, Desk


def effects(desk: Desk) -> dict[str, str]:
    """What `show` says that each decision would do."""
    return {one["decision"]: one["effect"] for one in limbo.show(desk.stack, KEY)["decisions"]}


def open_cases(desk: Desk) -> list[dict[str, Any]]:
    cases, more = limbo.open_cases(desk.stack)
    assert not more
    return cases


def test_nothing_in_limbo_is_an_empty_list(desk: Desk) -> None:
    desk.pay()

    assert open_cases(desk) == []


def test_what_is_stuck_is_listed_with_all_that_a_first_look_needs(desk: Desk) -> None:
    desk.stuck()

    assert open_cases(desk) == [
        {
            "key": KEY,
            "case": 1,
            "since": desk.row()["gsi1sk"],
            "account": "bob",
            "stuck_step": "compensate:release",
            "amount_at_risk": "47.72",
            "currency": "EUR",
            "error": "InsufficientFunds",
        }
    ]


def test_the_oldest_is_listed_first_and_not_the_least_key(desk: Desk) -> None:
    desk.stuck("nothing", "order-zzz-0000001")
    desk.stuck("nothing", "order-aaa-0000001")

    found = open_cases(desk)

    assert [one["key"] for one in found] == ["order-zzz-0000001", "order-aaa-0000001"]
    assert found[0]["since"] < found[1]["since"]


def test_the_row_decides_and_not_the_index(desk: Desk) -> None:
    """An index may be behind: a settlement that has left LIMBO needs no decision, even if it is listed."""
    desk.stuck("nothing", "order-left-000001")
    desk.stuck("nothing", "order-still-00001")
    desk.ledger.put(desk.row("order-left-000001") | {"status": "COMPENSATING"})

    assert [one["key"] for one in open_cases(desk)] == ["order-still-00001"]


def test_what_has_left_limbo_is_not_listed(desk: Desk) -> None:
    desk.stuck("nothing")
    desk.machines.broken.clear()
    desk.compensate(desk.machines.machines.executions[0].data["settlement"], resolution=retry())

    assert desk.row()["status"] == "COMPENSATED"
    assert open_cases(desk) == []


def retry() -> dict[str, Any]:
    return {"decision": "retry", "reason": "unlocked", "by": ADA, "case": 1}


def test_a_case_is_shown_with_all_that_a_decision_needs(desk: Desk) -> None:
    desk.stuck()

    shown = limbo.show(desk.stack, KEY)

    assert shown.pop("since") == desk.row()["gsi1sk"]
    assert [one["decision"] for one in shown.pop("decisions")] == ["retry", "write-off", "complete"]
    assert shown == {
        "key": KEY,
        "case": 1,
        "account": "bob",
        "stuck_step": "compensate:release",
        "amount_at_risk": "47.72",
        "currency": "EUR",
        "error": "InsufficientFunds",
        "available": "7.72",
        "escrow": "0.48",
        "cause": "payee: the account has too little available to give back what it received",
        "reversed_for": {"step": "fee", "error": "KycRejected", "cause": "kyc: the provider says no"},
        "steps": ["hold", "release", "verify"],
        "reversed": [],
    }


@pytest.mark.parametrize(
    ("step", "shown"),
    [
        ("fee", {"account": "fees:EUR", "amount_at_risk": "0.48", "available": None, "escrow": "0.00"}),
        ("hold", {"account": "alice", "amount_at_risk": "48.20", "available": "451.80", "escrow": "48.20"}),
        ("nothing", {"account": "alice", "amount_at_risk": "0.00", "available": None, "escrow": "0.00"}),
    ],
)
def test_a_case_names_whom_it_is_stuck_on(desk: Desk, step: str, shown: dict[str, str | None]) -> None:
    desk.stuck(step)

    found = limbo.show(desk.stack, KEY)

    assert shown.items() <= found.items()
    assert (found["case"], found["error"], found["reversed"]) == (1, "SettlementError", [])


def test_an_account_that_is_gone_has_nothing_available_to_show(desk: Desk) -> None:
    desk.stuck()
    desk.ledger.client.delete_item(
        TableName=desk.ledger.table_name, Key={"pk": {"S": "ACCOUNT#bob"}, "sk": {"S": "BALANCE"}}
    )

    shown = limbo.show(desk.stack, KEY)

    assert (shown["account"], shown["available"]) == ("bob", None)


def test_a_payee_who_is_stuck_leaves_all_three_decisions(desk: Desk) -> None:
    desk.stuck()

    assert effects(desk) == {
        "retry": "takes 47.72 EUR out of bob once the cause is gone, and reverses the rest",
        "write-off": "covers 47.72 EUR from losses:EUR, and refunds 48.20 EUR to alice;"
        " bob keeps what it has",
        "complete": "the payee bob keeps what it received, 0.48 EUR go to the fees: SETTLED",
    }


def test_a_fee_that_is_stuck_leaves_all_three_decisions(desk: Desk) -> None:
    desk.stuck("fee")

    assert effects(desk) == {
        "retry": "takes 0.48 EUR out of fees:EUR once the cause is gone, and reverses the rest",
        "write-off": "covers 0.48 EUR from losses:EUR, and refunds 48.20 EUR to alice;"
        " fees:EUR keeps what it has",
        "complete": "the payee bob keeps what it received, 0.00 EUR go to the fees: SETTLED",
    }


@pytest.mark.parametrize("step", ["hold", "nothing"])
def test_a_payer_who_is_stuck_leaves_but_the_retry_and_says_why(desk: Desk, step: str) -> None:
    desk.stuck(step)

    found = effects(desk)

    for decision in (Decision.WRITE_OFF, Decision.COMPLETE):
        with pytest.raises(Refusal) as why:
            compensation.ensure_can_resolve(SettlementState.from_row(desk.row()), decision)
        assert found[decision] == f"not possible: {why.value}"
    assert not found["retry"].startswith("not possible")


@pytest.mark.parametrize("step", ["hold", "nothing"])
def test_a_retry_never_claims_to_take_from_a_payer_what_it_gives_back(desk: Desk, step: str) -> None:
    """To void a hold is to pay the payer: a person who decides at night must not read the reverse."""
    desk.stuck(step)

    assert "out of alice" not in effects(desk)["retry"]


@pytest.mark.parametrize(("endpoint", "option"), [("http://127.0.0.1:1", ""), (None, " --stack under-test")])
def test_each_decision_comes_with_the_command_that_makes_it_on_this_case_and_stack(
    desk: Desk, endpoint: str | None, option: str
) -> None:
    """The reason is for the person to fill in: the placeholder is refused."""
    desk.stuck()
    object.__setattr__(desk.stack, "endpoint_url", endpoint)

    shown = limbo.show(desk.stack, KEY)["decisions"]

    assert [one["command"] for one in shown] == [
        f'settle limbo resolve {KEY} {decision} --case 1 --reason "<why>"{option}' for decision in Decision
    ]


@pytest.mark.parametrize("step", ["hold", "nothing"])
def test_a_decision_that_cannot_be_made_comes_without_a_command(desk: Desk, step: str) -> None:
    desk.stuck(step)

    shown = limbo.show(desk.stack, KEY)["decisions"]

    assert [one["decision"] for one in shown if one["command"]] == ["retry"]


@pytest.mark.parametrize(("until", "status"), [("claim", "PROCESSING"), ("fee", "SETTLED")])
def test_what_is_not_in_limbo_has_no_case_to_show(desk: Desk, until: str, status: str) -> None:
    desk.pay(until=until)

    with pytest.raises(CommandFailed) as told:
        limbo.show(desk.stack, KEY)

    assert (told.value.code, str(told.value)) == (Exit.CONFLICT, f"{KEY}: is {status}, not in LIMBO")


def test_an_unclaimed_key_is_not_found(desk: Desk) -> None:
    with pytest.raises(CommandFailed) as told:
        limbo.show(desk.stack, "order-unclaimed-01")

    assert told.value.code is Exit.NOT_FOUND
