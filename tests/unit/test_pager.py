import json
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.core.model.case import Case
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.status import Status, Step
from settlement.core.policy.pager import AGAIN_AFTER_SECONDS_MAX, PagerConfig, resolution_notice
from tests.unit import books, states
from tests.unit.vectors import CASES, SETTLEMENT
from tests.world.saga import WRITE_OFF
from tests.world.templates import PROJECT

PAGER = PagerConfig.from_json(os.environ["PAGER"])
DAY, YEAR = 86_400, 31_536_000
"""A day and a year in seconds. A Standard execution lasts at most a year."""

HISTORY_EVENTS_MAX = 25_000
FAILURE = {"step": "compensate:release", "error": "InsufficientFunds", "cause": "payee: too little"}
STATES: dict[str, Any] = json.loads((PROJECT / "statemachines/compensation.asl.json").read_text())["States"]


# The time


def alert_times(pager: PagerConfig) -> Iterator[int]:
    at, number = 0, 1
    while at < YEAR:
        yield at
        at, number = at + pager.wait_seconds(number), number + 1


@pytest.mark.parametrize(
    ("number", "hours"),
    [(1, 0.5), (2, 1), (3, 2), (6, 16), (7, 24), (8, 24), (21, 24), (22, 24), (10**9, 24)],
)
def test_the_wait_between_alerts_doubles_up_to_a_day(number: int, hours: float) -> None:
    assert PAGER.wait_seconds(number) == hours * 3600


@given(again=st.integers(1, DAY), number=st.integers(1, 10**6))
def test_the_wait_between_alerts_never_shortens(again: int, number: int) -> None:
    pager = replace(PAGER, again_after_seconds=again)

    wait, following = pager.wait_seconds(number), pager.wait_seconds(number + 1)

    assert again <= wait <= following <= DAY == AGAIN_AFTER_SECONDS_MAX
    assert following in (2 * wait, DAY)


def visited() -> Iterator[dict[str, Any]]:
    names, name = ["PrepareAlert", "PageOnCall", "IsPaged", "AwaitResolution"], "PrepareAlert"
    for expected in names:
        assert name == expected
        yield STATES[name]
        name = STATES[name].get("Next") or STATES[name]["Default"]


def events_of(state: dict[str, Any]) -> int:
    """Return the number of history events of one visit to a state, such as entered and exited."""
    if state["Type"] == "Choice":
        return 2
    assert state["Type"] == "Task"
    return 6 if state["Resource"].endswith(".waitForTaskToken") else 5


@pytest.mark.parametrize(("again", "alerts"), [(1, 381), (60, 375), (1800, 370), (DAY, 365)])
def test_a_year_of_alerts_fits_easily_into_the_history(again: int, alerts: int) -> None:
    """Holds even if each wait fails after all tries: three events a try, two each for state and pause."""
    *others, waiting = visited()
    tries = 1 + max(retrier["MaxAttempts"] for retrier in waiting["Retry"])

    assert len(list(alert_times(replace(PAGER, again_after_seconds=again)))) == alerts

    events = sum(map(events_of, others))
    assert (events + events_of(waiting), tries > 1) == (18, True)
    assert 3 * alerts * (events + events_of(waiting)) < HISTORY_EVENTS_MAX
    assert alerts * (events + 2 + 3 * tries + 2) < HISTORY_EVENTS_MAX


def test_each_alert_waits_the_returned_time_before_the_next() -> None:
    """A failed wait is followed by the same pause, because immediate alerts would fill the history."""
    waiting, pause = STATES["AwaitResolution"], STATES["PauseBetweenAlerts"]
    caught = {error: catcher["Next"] for catcher in waiting["Catch"] for error in catcher["ErrorEquals"]}

    assert waiting["TimeoutSecondsPath"] == "$.wait_seconds"
    assert waiting["Retry"][0] == {"ErrorEquals": ["StepFenced", "States.Timeout"], "MaxAttempts": 0}
    assert caught["States.Timeout"] == "PrepareAlert"
    assert caught["StepFenced"] == "BeginCompensation"
    assert {caught[error] for error in caught.keys() - {"States.Timeout", "StepFenced"}} == {
        "PauseBetweenAlerts"
    }
    assert (pause["Type"], pause["SecondsPath"], pause["Next"]) == ("Wait", "$.wait_seconds", "PrepareAlert")


# The content


def alert(config: StageConfig, case: Case = CASES[Step.RELEASE], **changes: Any) -> dict[str, Any]:
    in_limbo: dict[str, Any] = {
        "status": Status.LIMBO,
        "failure": FAILURE,
        "stuck_step": "compensate:release",
        "gsi1sk": "2026-11-20T12:34:56.789Z",
        "escrow": 4820,
    }
    state = states.state(**in_limbo | changes)
    return PAGER.alert(state, case, config, number=3, execution="arn:execution")


def test_an_alert_has_all_the_facts_of_the_case(config: StageConfig) -> None:
    assert alert(config) == {
        "summary": (
            "order-2026-000101 is in LIMBO since 2026-11-20T12:34:56.789Z: 47.72 EUR at risk,"
            " compensate:release of account bob is stuck by InsufficientFunds"
        ),
        "key": "order-2026-000101",
        "case": 1,
        "account": "bob",
        "stuck_step": "compensate:release",
        "amount_at_risk": "47.72",
        "currency": "EUR",
        "failure": FAILURE,
        "since": "2026-11-20T12:34:56.789Z",
        "alert": 3,
        "execution_arn": "arn:execution",
        "runbook": "docs/runbooks/limbo.md",
        "next_command": "settle limbo show order-2026-000101",
    }


@pytest.mark.parametrize(
    ("case", "currency", "risk"),
    [
        (CASES[Step.RELEASE], "JPY", "4772 JPY at risk"),
        (CASES[Step.RELEASE], "KWD", "4.772 KWD at risk"),
        (CASES[Step.FEE], "EUR", "0.48 EUR at risk"),
        (CASES[Step.HOLD], "EUR", "48.20 EUR safe in escrow"),
        (replace(CASES[Step.HOLD], amount=4821), "EUR", "48.21 EUR at risk"),
        (replace(CASES[Step.RELEASE], amount=4820), "EUR", "48.20 EUR at risk"),
    ],
)
def test_only_a_hold_that_the_escrow_covers_is_without_risk(
    case: Case, currency: str, risk: str, config: StageConfig
) -> None:
    told = alert(config, case, currency=currency)

    assert (told["amount_at_risk"], told["currency"]) == (risk.partition(" ")[0], currency)
    assert f": {risk}, compensate" in told["summary"]


def test_an_alert_is_small_plain_json(config: StageConfig) -> None:
    """EventBridge and SNS take 256 KB; an alert with the longest names and cause is far smaller."""
    longest = replace(CASES[Step.RELEASE], account="a" * 64)

    told = alert(
        config, longest, pk=f"SETTLEMENT#{'k' * 64}", failure=FAILURE | {"cause": "\U0001f600" * 500}
    )

    assert json.loads(json.dumps(told)) == told
    assert len(json.dumps(told)) < 10_000


def test_the_pagers_configuration_is_parsed_strictly() -> None:
    text = '{"runbook": "R", "stack": "s", "again_after_seconds": 60}'

    pager = PagerConfig.from_json(text)

    assert pager == PagerConfig(runbook="R", stack="s", again_after_seconds=60)
    with pytest.raises(TypeError):
        PagerConfig.from_json(text.replace('"runbook"', '"unknown"'))


def test_a_resolutions_notice_contains_the_facts_of_its_evidence() -> None:
    entry = books.stuck(Step.RELEASE, Step.RELEASE).resolve(WRITE_OFF)

    assert resolution_notice(SETTLEMENT.key, 1, entry) == {
        "summary": f"order-2026-000101 is out of LIMBO: write-off by {WRITE_OFF.by}",
        "key": SETTLEMENT.key,
        "case": 1,
        "decided_at": "2026-11-20T13:00:00.123Z",
        "account": "bob",
        "decision": "write-off",
        "reason": WRITE_OFF.reason,
        "by": WRITE_OFF.by,
    }
