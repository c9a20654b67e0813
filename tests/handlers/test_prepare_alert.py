import json
from typing import Any

import pytest

from tests.handlers.conftest import Calls
from tests.world.constants import EXECUTION_ARN, KEY, LATER_AT, OTHER_CONTENT, SPENT, WIRE

ALERT = {
    "summary": (
        f"{KEY} is in LIMBO since {LATER_AT}: 47.72 EUR at risk, compensate:release of account bob"
        " is stuck by InsufficientFunds"
    ),
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


@pytest.fixture
def stuck(calls: Calls) -> Calls:
    calls.later()
    calls.fall()
    return calls


def test_the_alert_names_the_stuck_step_and_the_next_command(stuck: Calls) -> None:
    stuck.later(days=3)

    with stuck.writes_nothing():
        assert stuck.alert({"settlement": WIRE, "alerts": 0, "stuck": {"release": SPENT}}) == STATE


@pytest.mark.parametrize(("alerts", "wait_seconds"), [(1, 3600), (5, 57_600), (100_000, 86_400)])
def test_alerts_repeat_with_longer_waits_until_a_decision(
    stuck: Calls, alerts: int, wait_seconds: int
) -> None:
    timed_out = {"error": {"Error": "States.Timeout", "Cause": "x"}, "put": {"FailedEntryCount": 0}}

    state = stuck.alert(STATE | timed_out | {"alerts": alerts})

    number = alerts + 1
    assert state == STATE | {
        "alerts": number,
        "wait_seconds": wait_seconds,
        "alert": ALERT | {"alert": number},
    }


def test_the_alert_of_a_second_case_has_its_own_number(calls: Calls) -> None:
    calls.fall()
    found = calls.begin(calls.resolve("retry"))
    calls.limbo(found)

    state = calls.alert(found)

    assert (state["case"], state["alert"]["case"], state["alerts"]) == (2, 2, 1)


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        ({"Error": "InvalidRequest", "Cause": json.dumps({"errorMessage": REASON})}, REASON),
        ({"Error": "ResolutionRefused", "Cause": REASON}, REASON),
        ({"Error": "StepFenced", "Cause": '{"errorMessage": "x"}'}, "StepFenced: x"),
        ({"Error": "States.TaskFailed", "Cause": "x"}, "States.TaskFailed: x"),
        ({"Error": "E" * 101, "Cause": "x" * 501}, f"{'E' * 100}: {'x' * 500}"),
    ],
)
def test_an_alert_says_why_a_decision_was_refused(stuck: Calls, error: dict[str, str], refused: str) -> None:
    given: dict[str, Any] = STATE | {"alerts": 0, "resolution": {"decision": "retry"}, "error": error}

    assert stuck.alert(given) == STATE | {"alert": ALERT | {"refused": refused}}


def test_the_alert_shows_the_claimed_request_not_the_callers(stuck: Calls) -> None:
    for other in OTHER_CONTENT:
        assert stuck.alert({"settlement": other, "alerts": 0})["alert"] == ALERT
