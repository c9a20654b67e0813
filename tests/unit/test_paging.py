"""The page says all that a person needs, and comes again later and later, but daily at least."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.limbo import Case
from settlement.paging import AGAIN_AFTER_SECONDS_MAX, Paging, resolved
from settlement.resolution import Decision
from settlement.status import Step
from settlement.terms import Terms
from tests.unit.books import in_limbo
from tests.unit.vectors import CASES, ORDER, SETTLEMENT

PAGING = Paging.from_json(os.environ["PAGING"])
DAY, YEAR = 86_400, 31_536_000
"""Seconds. A Standard execution lasts a year at most."""

HISTORY_EVENTS_MAX = 25_000
ROW = {
    "failure": {"step": "compensate:release", "error": "InsufficientFunds", "cause": "payee: too little"},
    "stuck_step": "compensate:release",
    "gsi1sk": "2026-11-20T12:00:00.123Z",
    "escrow": 4820,
}
STATES: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "statemachines/compensation.asl.json").read_text()
)["States"]


# When


def page_times(paging: Paging) -> Iterator[int]:
    """Seconds from the first page to each of them, for a year."""
    at, number = 0, 1
    while at < YEAR:
        yield at
        at, number = at + paging.wait_seconds(number), number + 1


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
    assert PAGING.wait_seconds(number) == seconds


@given(again=st.integers(1, DAY), number=st.integers(1, 10**6))
def test_no_wait_is_shorter_than_the_one_before_or_longer_than_a_day(again: int, number: int) -> None:
    paging = replace(PAGING, again_after_seconds=again)

    wait, following = paging.wait_seconds(number), paging.wait_seconds(number + 1)

    assert again <= wait <= following <= DAY == AGAIN_AFTER_SECONDS_MAX
    assert following in (2 * wait, DAY)


@pytest.mark.parametrize(("again", "pages"), [(1, 381), (60, 375), (1800, 370), (DAY, 365)])
def test_the_pages_of_a_year_are_known(again: int, pages: int) -> None:
    assert len(list(page_times(replace(PAGING, again_after_seconds=again)))) == pages


def loop() -> list[str]:
    """The states between two pages, on the way that a wait without a decision takes."""
    names, name = ["PreparePage"], "PreparePage"
    while name != "AwaitResolution":
        name = STATES[name].get("Next") or STATES[name]["Default"]
        names.append(name)
    return names


def events_of(state: dict[str, Any]) -> int:
    """What one visit adds to the history: entered, scheduled, started, (submitted,) ended, exited."""
    if state["Type"] == "Choice":
        return 2
    assert state["Type"] == "Task"
    return 5 + state["Resource"].endswith(".waitForTaskToken")


@pytest.mark.parametrize("again", [1, 60, 1800, DAY])
def test_a_year_of_pages_is_far_from_the_end_of_the_history(again: int) -> None:
    events = sum(events_of(STATES[name]) for name in loop())

    pages = len(list(page_times(replace(PAGING, again_after_seconds=again))))

    assert loop() == ["PreparePage", "PageOnCall", "IsPaged", "AwaitResolution"]
    assert events == 18
    assert 3 * pages * events < HISTORY_EVENTS_MAX


def test_each_round_of_pages_waits_as_long_as_it_was_told() -> None:
    assert STATES["AwaitResolution"]["TimeoutSecondsPath"] == "$.wait_seconds"
    assert "States.Timeout" not in [
        name for retrier in STATES["AwaitResolution"]["Retry"] for name in retrier["ErrorEquals"]
    ]


def test_the_end_of_a_wait_without_a_decision_leads_to_the_next_page() -> None:
    ending = [
        catcher["Next"]
        for catcher in STATES["AwaitResolution"]["Catch"]
        if {"States.Timeout", "States.ALL"} & set(catcher["ErrorEquals"])
    ]

    assert ending[0] == "PreparePage"


def test_no_error_but_the_end_of_the_wait_leads_to_the_next_page_without_a_wait() -> None:
    """A function that cannot leave word would else page without a pause until the history is full."""
    for catcher in STATES["AwaitResolution"]["Catch"]:
        if catcher["ErrorEquals"] in (["States.Timeout"], ["StepFenced"]):
            continue
        name = catcher["Next"]
        while STATES[name]["Type"] not in ("Wait", "Fail"):
            assert name != "PageOnCall", f"{catcher['ErrorEquals']} pages again at once"
            name = STATES[name].get("Next") or STATES[name]["Default"]


def test_a_wait_that_failed_is_made_up_for_before_the_next_page() -> None:
    """The page says when it comes again, and it does: neither at once nor not at all."""
    pause = STATES["PauseBetweenPages"]

    assert (pause["Type"], pause["SecondsPath"], pause["Next"]) == ("Wait", "$.wait_seconds", "PreparePage")
    assert caught("AwaitResolution", "States.Timeout") == "PreparePage"
    assert caught("AwaitResolution", "anything else") == "PauseBetweenPages"
    assert caught("AwaitResolution", "StepFenced") == "BeginCompensation"


def caught(name: str, error: str) -> str:
    """Where an error of the state leads: the first catcher that knows it decides."""
    return next(
        str(catcher["Next"])
        for catcher in STATES[name]["Catch"]
        if {error, "States.ALL"} & set(catcher["ErrorEquals"])
    )


@pytest.mark.parametrize("again", [1, 60, 1800, DAY])
def test_a_year_in_which_every_wait_fails_of_one_cause_after_all_its_tries_fits_the_history(
    again: int,
) -> None:
    """Each try adds three events (scheduled, started, failed); two are the state's own, two the pause's."""
    tries = 1 + max(retrier["MaxAttempts"] for retrier in STATES["AwaitResolution"]["Retry"])
    others = sum(events_of(STATES[name]) for name in loop() if name != "AwaitResolution")

    pages = len(list(page_times(replace(PAGING, again_after_seconds=again))))

    assert tries > 1
    assert pages * (others + 2 + 3 * tries + 2) < HISTORY_EVENTS_MAX


# What


def page(terms: Terms, case: Case = CASES[Step.RELEASE], **changes: Any) -> dict[str, Any]:
    settlement = replace(SETTLEMENT, **changes)
    return PAGING.page(settlement, case, ROW, terms, number=3, execution="arn:execution")


def test_a_page_tells_all_that_a_person_must_know(terms: Terms) -> None:
    assert page(terms) == {
        "summary": (
            "order-2026-000101 is in LIMBO since 2026-11-20T12:00:00.123Z: 47.72 EUR at risk,"
            " compensate:release of account bob is stuck by InsufficientFunds"
        ),
        "key": "order-2026-000101",
        "case": 1,
        "account": "bob",
        "stuck_step": "compensate:release",
        "amount_at_risk": "47.72",
        "currency": "EUR",
        "failure": ROW["failure"],
        "since": "2026-11-20T12:00:00.123Z",
        "page": 3,
        "execution_arn": "arn:execution",
        "runbook": "docs/runbooks/limbo.md",
        "next_command": "settle limbo show order-2026-000101",
    }


@pytest.mark.parametrize(("currency", "amount"), [("EUR", "47.72"), ("JPY", "4772"), ("KWD", "4.772")])
def test_the_amount_at_risk_is_told_in_its_currency(currency: str, amount: str, terms: Terms) -> None:
    told = page(terms, currency=currency)

    assert (told["amount_at_risk"], told["currency"]) == (amount, currency)
    assert f"{amount} {currency} at risk" in told["summary"]


@pytest.mark.parametrize("step", CASES)
def test_a_stuck_hold_is_safe_in_escrow_and_anything_else_is_at_risk(step: Step, terms: Terms) -> None:
    what = {Step.FEE: "0.48 EUR at risk", Step.RELEASE: "47.72 EUR at risk"}

    summary = page(terms, CASES[step])["summary"]

    assert f": {what.get(step, '48.20 EUR safe in escrow')}, " in summary
    assert ("at risk" in summary) != ("safe in escrow" in summary)


def test_what_the_escrow_does_not_hold_is_at_risk_and_so_is_what_only_happens_to_be_as_much(
    terms: Terms,
) -> None:
    spent = replace(CASES[Step.HOLD], amount=ROW["escrow"] + 1)  # type: ignore[operator]
    as_much = replace(CASES[Step.RELEASE], amount=ROW["escrow"])

    for case in (spent, as_much):
        assert " EUR at risk, " in page(terms, case)["summary"]


def test_a_page_is_small_plain_json(terms: Terms) -> None:
    """EventBridge and SNS take 256 KB; a page of the longest names and cause is far from that."""
    key, account = "k" * 64, "a" * 64
    longest = replace(CASES[Step.RELEASE], account=account)
    failure = ROW["failure"] | {"cause": "\U0001f600" * 500}  # type: ignore[operator]

    told = PAGING.page(
        replace(SETTLEMENT, key=key),
        longest,
        ROW | {"failure": failure},
        terms,
        number=400,
        execution="e" * 300,
    )

    assert json.loads(json.dumps(told)) == told
    assert len(json.dumps(told)) < 10_000


def test_how_a_stage_pages_is_read_as_the_deployment_wrote_it() -> None:
    text = '{"runbook": "R", "show_command": "look {key} --stack s", "again_after_seconds": 60}'

    paging = Paging.from_json(text)

    assert paging == Paging(runbook="R", show_command="look {key} --stack s", again_after_seconds=60)
    with pytest.raises(TypeError):
        Paging.from_json(text.replace('"runbook"', '"unheard_of"'))


# The news


@pytest.mark.parametrize("decision", Decision)
def test_the_news_of_a_resolution_is_what_its_entry_has_on_record(decision: Decision) -> None:
    entry = in_limbo(3, Step.RELEASE).resolve(decision)

    assert resolved(SETTLEMENT.key, 1, entry) == {
        "summary": f"order-2026-000101 is out of LIMBO: {decision.value} by {ORDER.by}",
        "key": SETTLEMENT.key,
        "case": 1,
        "decided_at": "2026-11-20T13:00:00.123Z",
        "account": "bob",
        "decision": decision.value,
        "reason": ORDER.reason,
        "by": ORDER.by,
    }
