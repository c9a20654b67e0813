"""PrepareAlert: the facts of a case, read from the row, and the time until the next alert."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from settlement.model.errors import InvalidRequest, StepFenced
from settlement.model.status import Status
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
ALERT = {
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
    "alert": 1,
    "execution_arn": EXECUTION_ARN,
    "runbook": "docs/runbooks/limbo.md",
    "next_command": f"settle limbo show {KEY}",
}
STATE = {"settlement": WIRE, "case": 1, "alerts": 1, "alert": ALERT, "wait_seconds": 1800}
REASON = "resolution.reason: must be one line of at most 500 printable characters, not blank"


def test_the_alert_names_the_stuck_step_and_the_next_command(
    calls: Calls, later: Callable[..., None]
) -> None:
    later()
    found = calls.fall("release")
    later(days=3)

    with calls.writes_nothing():
        assert calls.alert(found | {"stuck": {"release": SPENT}}) == STATE


@pytest.mark.parametrize(
    ("stuck", "account", "step", "at_risk", "risk"),
    [
        ("fee", "fees:EUR", "compensate:fee", "0.48", "at risk"),
        ("release", "bob", "compensate:release", "47.72", "at risk"),
        ("hold", "alice", "compensate:hold", "48.20", "safe in escrow"),
        ("nothing", "alice", "compensate:hold", "0.00", "safe in escrow"),
    ],
)
def test_the_alert_names_the_party_and_the_amount_of_the_step(
    calls: Calls, stuck: str, account: str, step: str, at_risk: str, risk: str
) -> None:
    alert = calls.alert(calls.fall(stuck))["alert"]

    assert (alert["account"], alert["stuck_step"], alert["amount_at_risk"]) == (account, step, at_risk)
    assert f": {at_risk} EUR {risk}, {step} of account {account} is stuck" in alert["summary"]


def test_the_amount_at_risk_has_the_decimals_of_its_currency(calls: Calls) -> None:
    yen = WIRE | {"currency": "JPY", "amount": "4820", "fee": "48"}
    calls.ledger.open("alice", 10_000, "JPY")
    calls("ClaimKey", yen)
    calls("HoldFunds", yen)
    found = calls.begin(settlement=yen, error=REJECTED_BY_KYC)
    calls.limbo(found, yen, step="hold")

    alert = calls.alert(found)["alert"]

    assert (alert["amount_at_risk"], alert["currency"]) == ("4820", "JPY")


@pytest.mark.parametrize(
    ("alerts", "wait_seconds"),
    [(0, 1800), (1, 3600), (2, 7200), (5, 57_600), (6, 86_400), (20, 86_400), (100_000, 86_400)],
)
def test_each_alert_waits_twice_as_long_as_the_one_before_and_a_day_at_most(
    calls: Calls, alerts: int, wait_seconds: int
) -> None:
    found = calls.fall("release")

    state = calls.alert(found | {"alerts": alerts})

    assert (state["alerts"], state["alert"]["alert"]) == (alerts + 1, alerts + 1)
    assert state["wait_seconds"] == wait_seconds


def test_a_machine_that_got_no_decision_alerts_again_with_the_next_number(calls: Calls) -> None:
    calls.fall("release")

    state = calls.alert(
        STATE | {"put": {"FailedEntryCount": 0}, "error": {"Error": "States.Timeout", "Cause": ""}}
    )

    since = calls.row()["gsi1sk"]
    alert = ALERT | {"alert": 2, "since": since, "summary": SUMMARY.replace(LATER_AT, since)}
    assert state == STATE | {"alerts": 2, "wait_seconds": 3600, "alert": alert}


@pytest.mark.parametrize("name", ["InvalidRequest", "ResolutionRefused"])
@pytest.mark.parametrize("as_json", [True, False])
def test_an_alert_has_the_reason_of_a_refused_decision(calls: Calls, name: str, as_json: bool) -> None:
    calls.fall("release")
    cause = json.dumps({"errorMessage": REASON, "errorType": name}) if as_json else REASON

    state = calls.alert(
        STATE | {"resolution": {"decision": "retry"}, "error": {"Error": name, "Cause": cause}}
    )

    assert state["alert"]["refused"] == REASON
    assert set(state) == set(STATE)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="the first alert"),
        pytest.param({"stuck": {"release": SPENT}}, id="the stuck step"),
        pytest.param({"error": {"Error": "States.Timeout", "Cause": "x"}}, id="no decision in time"),
    ],
)
def test_an_alert_names_no_refused_decision_if_there_was_none(calls: Calls, more: dict[str, Any]) -> None:
    calls.fall("release")

    alert = calls.alert(STATE | more)["alert"]

    assert set(alert) == set(ALERT)


@pytest.mark.parametrize(
    "name",
    ["StepFenced", "StoreUnavailable", "InsufficientFunds", "IdempotencyConflict", "States.TaskFailed"],
)
@pytest.mark.parametrize("cause", ["x", '{"errorMessage": "x"}'])
def test_an_alert_names_any_other_error_that_stopped_a_decision(calls: Calls, name: str, cause: str) -> None:
    calls.fall("release")

    alert = calls.alert(STATE | {"error": {"Error": name, "Cause": cause}})["alert"]

    assert alert["refused"] == f"{name}: x"
    assert set(alert) == {*ALERT, "refused"}


def test_the_error_in_an_alert_has_a_bounded_length(calls: Calls) -> None:
    calls.fall("release")

    alert = calls.alert(STATE | {"error": {"Error": "E" * 101, "Cause": "x" * 501}})["alert"]

    assert alert["refused"] == f"{'E' * 100}: {'x' * 500}"


@pytest.mark.parametrize("escrow", [0, 4819, 4821])
def test_money_that_the_escrow_does_not_hold_is_not_called_safe(calls: Calls, escrow: int) -> None:
    found = calls.reopened("VoidHold")
    calls.alter(escrow=escrow)
    calls.limbo(found, step="hold", error={"Error": "EscrowMismatch", "Cause": "x"})

    assert "safe in escrow" not in calls.alert(found)["alert"]["summary"]


def test_the_alert_of_a_second_case_has_its_own_number(calls: Calls) -> None:
    calls.fall("release")
    found = calls.begin(calls.resolve("retry"))
    calls.limbo(found)

    state = calls.alert(found)

    assert (state["case"], state["alert"]["case"], state["alerts"]) == (2, 2, 1)


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.LIMBO])
def test_no_alert_is_sent_outside_limbo(
    calls: Calls, status: Status, counted: Callable[[], dict[str, float]]
) -> None:
    found = calls.fall("release")
    calls.alter(status=status)
    counted()

    with calls.writes_nothing(), pytest.raises(StepFenced, match=f"^alert: {KEY} is not in LIMBO$"):
        calls.alert(found)

    assert counted() == {"StepCalled": 1, "StepFenced": 1}


def test_no_alert_is_sent_for_an_unclaimed_key(calls: Calls) -> None:
    with calls.writes_nothing(), pytest.raises(StepFenced):
        calls.alert(STATE)


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("settlement", "message"), MALFORMED_SETTLEMENTS)
def test_a_malformed_settlement_is_refused(calls: Calls, settlement: Any, message: str) -> None:
    found = calls.fall("release")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls.alert(found | {"settlement": settlement})
