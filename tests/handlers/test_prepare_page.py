"""PreparePage: all that a person must know, read from the row, and when they hear it again."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from settlement.errors import InvalidRequest, StepFenced
from settlement.status import Status
from tests.handlers.calls import (
    EXECUTION_ARN,
    KEY,
    LATER_AT,
    MALFORMED_SETTLEMENTS,
    REJECTED_BY_KYC,
    SPENT,
    WIRE,
    Calls,
)

SUMMARY = (
    f"{KEY} is in LIMBO since {LATER_AT}: 47.72 EUR at risk, compensate:release of account bob"
    " is stuck by InsufficientFunds"
)
PAGE = {
    "summary": SUMMARY,
    "key": KEY,
    "case": 1,
    "account": "bob",
    "stuck_step": "compensate:release",
    "amount_at_risk": "47.72",
    "currency": "EUR",
    "failure": {
        "step": "compensate:release",
        "error": "InsufficientFunds",
        "cause": "payee: has too little",
    },
    "since": LATER_AT,
    "page": 1,
    "execution_arn": EXECUTION_ARN,
    "runbook": "docs/runbooks/limbo.md",
    "next_command": f"settle limbo show {KEY}",
}
STATE = {"settlement": WIRE, "case": 1, "pages": 1, "page": PAGE, "wait_seconds": 1800}
REASON = "resolution.reason: must be one line of at most 500 printable characters, not blank"


def test_the_page_says_what_is_stuck_and_what_to_do_next(calls: Calls, later: Callable[..., None]) -> None:
    later()
    found = calls.fall("release")
    later(days=3)

    with calls.writes_nothing():
        assert calls.page(found | {"stuck": {"release": SPENT}}) == STATE


@pytest.mark.parametrize(
    ("stuck", "account", "step", "at_risk", "what"),
    [
        ("fee", "fees:EUR", "compensate:fee", "0.48", "at risk"),
        ("release", "bob", "compensate:release", "47.72", "at risk"),
        ("hold", "alice", "compensate:hold", "48.20", "safe in escrow"),
        ("nothing", "alice", "compensate:hold", "0.00", "safe in escrow"),
    ],
)
def test_the_page_names_the_party_and_the_amount_that_the_step_is_about(
    calls: Calls, stuck: str, account: str, step: str, at_risk: str, what: str
) -> None:
    page = calls.page(calls.fall(stuck))["page"]

    assert (page["account"], page["stuck_step"], page["amount_at_risk"]) == (account, step, at_risk)
    assert f": {at_risk} EUR {what}, {step} of account {account} is stuck" in page["summary"]


def test_the_amount_at_risk_has_the_decimals_of_its_currency(calls: Calls) -> None:
    yen = WIRE | {"currency": "JPY", "amount": "4820", "fee": "48"}
    calls.ledger.open("alice", 10_000, "JPY")
    calls("ClaimKey", yen)
    calls("HoldFunds", yen)
    found = calls.begin(settlement=yen, error=REJECTED_BY_KYC)
    calls.limbo(found, yen, step="hold")

    page = calls.page(found)["page"]

    assert (page["amount_at_risk"], page["currency"]) == ("4820", "JPY")


@pytest.mark.parametrize(
    ("pages", "wait_seconds"),
    [(0, 1800), (1, 3600), (2, 7200), (5, 57_600), (6, 86_400), (20, 86_400), (100_000, 86_400)],
)
def test_each_page_waits_twice_as_long_as_the_one_before_and_a_day_at_most(
    calls: Calls, pages: int, wait_seconds: int
) -> None:
    found = calls.fall("release")

    state = calls.page(found | {"pages": pages})

    assert (state["pages"], state["page"]["page"]) == (pages + 1, pages + 1)
    assert state["wait_seconds"] == wait_seconds


def test_a_machine_that_waited_in_vain_pages_again_with_the_next_number(calls: Calls) -> None:
    calls.fall("release")

    state = calls.page(
        STATE | {"put": {"FailedEntryCount": 0}, "error": {"Error": "States.Timeout", "Cause": ""}}
    )

    since = calls.row()["gsi1sk"]
    page = PAGE | {"page": 2, "since": since, "summary": SUMMARY.replace(LATER_AT, since)}
    assert state == STATE | {"pages": 2, "wait_seconds": 3600, "page": page}


@pytest.mark.parametrize("name", ["InvalidRequest", "ResolutionRefused"])
@pytest.mark.parametrize("as_json", [True, False])
def test_a_decision_that_was_refused_is_told_with_the_reason(calls: Calls, name: str, as_json: bool) -> None:
    calls.fall("release")
    cause = json.dumps({"errorMessage": REASON, "errorType": name}) if as_json else REASON

    state = calls.page(
        STATE | {"resolution": {"decision": "retry"}, "error": {"Error": name, "Cause": cause}}
    )

    assert state["page"]["refused"] == REASON
    assert set(state) == set(STATE)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="the first page"),
        pytest.param({"stuck": {"release": SPENT}}, id="what is stuck"),
        pytest.param({"error": {"Error": "States.Timeout", "Cause": "x"}}, id="waited in vain"),
    ],
)
def test_where_no_decision_failed_none_is_told(calls: Calls, more: dict[str, Any]) -> None:
    calls.fall("release")

    page = calls.page(STATE | more)["page"]

    assert set(page) == set(PAGE)


@pytest.mark.parametrize(
    "name",
    ["StepFenced", "StoreUnavailable", "InsufficientFunds", "IdempotencyConflict", "States.TaskFailed"],
)
@pytest.mark.parametrize("cause", ["x", '{"errorMessage": "x"}'])
def test_whatever_else_kept_a_decision_from_being_carried_out_is_told_by_its_name(
    calls: Calls, name: str, cause: str
) -> None:
    calls.fall("release")

    page = calls.page(STATE | {"error": {"Error": name, "Cause": cause}})["page"]

    assert page["refused"] == f"{name}: x"
    assert set(page) == {*PAGE, "refused"}


def test_what_is_told_of_an_error_has_a_bounded_length(calls: Calls) -> None:
    calls.fall("release")

    page = calls.page(STATE | {"error": {"Error": "E" * 101, "Cause": "x" * 501}})["page"]

    assert page["refused"] == f"{'E' * 100}: {'x' * 500}"


@pytest.mark.parametrize("escrow", [0, 4819, 4821])
def test_what_the_escrow_does_not_hold_is_not_called_safe(calls: Calls, escrow: int) -> None:
    found = calls.reopened("VoidHold")
    calls.alter(escrow=escrow)
    calls.limbo(found, step="hold", error={"Error": "EscrowMismatch", "Cause": "x"})

    assert "safe in escrow" not in calls.page(found)["page"]["summary"]


def test_a_second_case_is_told_by_its_own_number(calls: Calls) -> None:
    calls.fall("release")
    found = calls.begin(calls.resolve("retry"))
    calls.limbo(found)

    state = calls.page(found)

    assert (state["case"], state["page"]["case"], state["pages"]) == (2, 2, 1)


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.LIMBO])
def test_nobody_is_paged_out_of_limbo(
    calls: Calls, status: Status, counted: Callable[[], dict[str, float]]
) -> None:
    found = calls.fall("release")
    calls.alter(status=status)
    counted()

    with calls.writes_nothing(), pytest.raises(StepFenced, match=f"^page: {KEY} is not in LIMBO$"):
        calls.page(found)

    assert counted() == {"StepCalled": 1, "StepFenced": 1}


def test_nobody_is_paged_for_a_key_that_was_never_claimed(calls: Calls) -> None:
    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls.page(STATE)


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("settlement", "message"), MALFORMED_SETTLEMENTS)
def test_a_malformed_settlement_is_refused(calls: Calls, settlement: Any, message: str) -> None:
    found = calls.fall("release")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls.page(found | {"settlement": settlement})
