"""On-call alerts: their content, and the time between them, which doubles up to a day."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.model.case import Case
from settlement.model.orders import Decision
from settlement.model.stage_config import StageConfig
from settlement.model.status import Status, Step
from settlement.policy.pager import AGAIN_AFTER_SECONDS_MAX, PagerConfig, resolution_notice
from tests.unit import states
from tests.unit.books import in_limbo
from tests.unit.vectors import CASES, ORDER, SETTLEMENT

PAGER = PagerConfig.from_json(os.environ["PAGER"])
DAY, YEAR = 86_400, 31_536_000
"""Seconds. A Standard execution lasts a year at most."""

HISTORY_EVENTS_MAX = 25_000
FAILURE = {"step": "compensate:release", "error": "InsufficientFunds", "cause": "payee: too little"}
STATES: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "statemachines/compensation.asl.json").read_text()
)["States"]


# The time


def alert_times(pager: PagerConfig) -> Iterator[int]:
    """Yield the seconds from the first alert to each of them, for a year."""
    at, number = 0, 1
    while at < YEAR:
        yield at
        at, number = at + pager.wait_seconds(number), number + 1


@pytest.mark.parametrize(
    ("number", "seconds"),
    [
        (1, 30 * 60),
        (2, 60 * 60),
        (3, 2 * 60 * 60),
        (4, 4 * 60 * 60),
        (5, 8 * 60 * 60),
        (6, 16 * 60 * 60),
        (7, DAY),
        (8, DAY),
        (21, DAY),
        (22, DAY),
        (370, DAY),
        (10**9, DAY),
    ],
)
def test_the_wait_doubles_from_half_an_hour_up_to_a_day(number: int, seconds: int) -> None:
    assert PAGER.wait_seconds(number) == seconds


@given(again=st.integers(1, DAY), number=st.integers(1, 10**6))
def test_no_wait_is_shorter_than_the_one_before_or_longer_than_a_day(again: int, number: int) -> None:
    pager = replace(PAGER, again_after_seconds=again)

    wait, following = pager.wait_seconds(number), pager.wait_seconds(number + 1)

    assert again <= wait <= following <= DAY == AGAIN_AFTER_SECONDS_MAX
    assert following in (2 * wait, DAY)


@pytest.mark.parametrize(("again", "alerts"), [(1, 381), (60, 375), (1800, 370), (DAY, 365)])
def test_the_alerts_of_a_year_are_known(again: int, alerts: int) -> None:
    assert len(list(alert_times(replace(PAGER, again_after_seconds=again)))) == alerts


def loop() -> list[str]:
    """Return the states between two alerts if no decision comes."""
    names, name = ["PrepareAlert"], "PrepareAlert"
    while name != "AwaitResolution":
        name = STATES[name].get("Next") or STATES[name]["Default"]
        names.append(name)
    return names


def events_of(state: dict[str, Any]) -> int:
    """Return the events of one visit: entered, scheduled, started, (submitted,) ended, exited."""
    if state["Type"] == "Choice":
        return 2
    assert state["Type"] == "Task"
    return 5 + state["Resource"].endswith(".waitForTaskToken")


@pytest.mark.parametrize("again", [1, 60, 1800, DAY])
def test_a_year_of_alerts_is_far_from_the_end_of_the_history(again: int) -> None:
    events = sum(events_of(STATES[name]) for name in loop())

    alerts = len(list(alert_times(replace(PAGER, again_after_seconds=again))))

    assert loop() == ["PrepareAlert", "PageOnCall", "IsPaged", "AwaitResolution"]
    assert events == 18
    assert 3 * alerts * events < HISTORY_EVENTS_MAX


def test_each_alert_waits_for_the_time_that_its_function_returned() -> None:
    assert STATES["AwaitResolution"]["TimeoutSecondsPath"] == "$.wait_seconds"
    assert "States.Timeout" not in [
        name for retrier in STATES["AwaitResolution"]["Retry"] for name in retrier["ErrorEquals"]
    ]


def test_the_end_of_a_wait_without_a_decision_leads_to_the_next_alert() -> None:
    ending = [
        catcher["Next"]
        for catcher in STATES["AwaitResolution"]["Catch"]
        if {"States.Timeout", "States.ALL"} & set(catcher["ErrorEquals"])
    ]

    assert ending[0] == "PrepareAlert"


def test_no_error_but_the_end_of_the_wait_leads_to_the_next_alert_without_a_wait() -> None:
    """A function that fails to record its wait would else alert without a pause until the history ends."""
    for catcher in STATES["AwaitResolution"]["Catch"]:
        if catcher["ErrorEquals"] in (["States.Timeout"], ["StepFenced"]):
            continue
        name = catcher["Next"]
        while STATES[name]["Type"] not in ("Wait", "Fail"):
            assert name != "PageOnCall", f"{catcher['ErrorEquals']} alerts again at once"
            name = STATES[name].get("Next") or STATES[name]["Default"]


def test_a_failed_wait_is_replaced_by_a_pause_before_the_next_alert() -> None:
    """The alert names the time of the next one, which comes then: neither at once nor never."""
    pause = STATES["PauseBetweenAlerts"]

    assert (pause["Type"], pause["SecondsPath"], pause["Next"]) == ("Wait", "$.wait_seconds", "PrepareAlert")
    assert caught("AwaitResolution", "States.Timeout") == "PrepareAlert"
    assert caught("AwaitResolution", "anything else") == "PauseBetweenAlerts"
    assert caught("AwaitResolution", "StepFenced") == "BeginCompensation"


def caught(name: str, error: str) -> str:
    """Return the state to which an error leads: that of the first catcher that matches."""
    return next(
        str(catcher["Next"])
        for catcher in STATES[name]["Catch"]
        if {error, "States.ALL"} & set(catcher["ErrorEquals"])
    )


@pytest.mark.parametrize("again", [1, 60, 1800, DAY])
def test_a_year_in_which_every_wait_fails_after_all_its_tries_fits_the_history(again: int) -> None:
    """Each try adds three events (scheduled, started, failed), the state itself two, the pause two."""
    tries = 1 + max(retrier["MaxAttempts"] for retrier in STATES["AwaitResolution"]["Retry"])
    others = sum(events_of(STATES[name]) for name in loop() if name != "AwaitResolution")

    alerts = len(list(alert_times(replace(PAGER, again_after_seconds=again))))

    assert tries > 1
    assert alerts * (others + 2 + 3 * tries + 2) < HISTORY_EVENTS_MAX


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


@pytest.mark.parametrize(("currency", "amount"), [("EUR", "47.72"), ("JPY", "4772"), ("KWD", "4.772")])
def test_the_amount_at_risk_has_the_decimals_of_its_currency(
    currency: str, amount: str, config: StageConfig
) -> None:
    told = alert(config, currency=currency)

    assert (told["amount_at_risk"], told["currency"]) == (amount, currency)
    assert f"{amount} {currency} at risk" in told["summary"]


@pytest.mark.parametrize("step", CASES)
def test_a_stuck_hold_is_safe_in_escrow_and_any_other_step_is_at_risk(
    step: Step, config: StageConfig
) -> None:
    risk = {Step.FEE: "0.48 EUR at risk", Step.RELEASE: "47.72 EUR at risk"}

    summary = alert(config, CASES[step])["summary"]

    assert f": {risk.get(step, '48.20 EUR safe in escrow')}, " in summary
    assert ("at risk" in summary) != ("safe in escrow" in summary)


def test_an_amount_that_the_escrow_does_not_hold_or_only_happens_to_equal_is_at_risk(
    config: StageConfig,
) -> None:
    spent = replace(CASES[Step.HOLD], amount=4821)
    equal = replace(CASES[Step.RELEASE], amount=4820)

    for case in (spent, equal):
        assert " EUR at risk, " in alert(config, case)["summary"]


def test_an_alert_is_small_plain_json(config: StageConfig) -> None:
    """EventBridge and SNS take 256 KB; an alert with the longest names and cause is far from that."""
    longest = replace(CASES[Step.RELEASE], account="a" * 64)
    state = states.state(
        replace(SETTLEMENT, key="k" * 64),
        status=Status.LIMBO,
        failure=FAILURE | {"cause": "\U0001f600" * 500},
        stuck_step="compensate:release",
        gsi1sk="2026-11-20T12:34:56.789Z",
    )

    told = PAGER.alert(state, longest, config, number=400, execution="e" * 300)

    assert json.loads(json.dumps(told)) == told
    assert len(json.dumps(told)) < 10_000


def test_the_pagers_configuration_is_read_as_the_deployment_wrote_it() -> None:
    text = '{"runbook": "R", "show_command": "look {key} --stack s", "again_after_seconds": 60}'

    pager = PagerConfig.from_json(text)

    assert pager == PagerConfig(runbook="R", show_command="look {key} --stack s", again_after_seconds=60)
    with pytest.raises(TypeError):
        PagerConfig.from_json(text.replace('"runbook"', '"unknown"'))


# The notice


@pytest.mark.parametrize("decision", Decision)
def test_the_notice_of_a_resolution_has_the_facts_of_its_entry(decision: Decision) -> None:
    entry = in_limbo(3, Step.RELEASE).resolve(decision)

    assert resolution_notice(SETTLEMENT.key, 1, entry) == {
        "summary": f"order-2026-000101 is out of LIMBO: {decision.value} by {ORDER.by}",
        "key": SETTLEMENT.key,
        "case": 1,
        "decided_at": "2026-11-20T13:00:00.123Z",
        "account": "bob",
        "decision": decision.value,
        "reason": ORDER.reason,
        "by": ORDER.by,
    }
