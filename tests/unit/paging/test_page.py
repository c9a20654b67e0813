import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.paging.page import LINE_LENGTH_MAX, SUBJECT_LENGTH_MAX, Page, page_of

LIMBO = {
    "summary": "order-1 is in LIMBO since 12:00: 48.20 EUR at risk, release of account bob is stuck by X",
    "key": "order-1",
    "account": "bob",
    "amount_at_risk": "48.20",
    "currency": "EUR",
    "alert": 2,
    "runbook": "https://runbooks.example.com/limbo.md",
    "next_command": "settle limbo show order-1 --stack settlement-prod",
}


def page(kind: str, detail: Any) -> Page:
    return page_of({"source": "settlement", "detail-type": kind, "detail": detail})


def test_an_alert_states_problem_amount_and_command_before_its_json() -> None:
    found = page("LimboEntered", LIMBO)

    *lines, empty, detail = found.text.split("\n")
    assert found.subject == "LIMBO: 48.20 EUR of bob, payment order-1"
    assert lines == [
        LIMBO["summary"],
        "This is alert 2.",
        "Run: settle limbo show order-1 --stack settlement-prod",
        "Read: https://runbooks.example.com/limbo.md",
    ]
    assert (empty, json.loads(detail), found.is_urgent) == ("", LIMBO, True)


def test_the_next_alert_mentions_a_refused_decision() -> None:
    found = page("LimboEntered", LIMBO | {"refused": "resolution: moved on"})

    assert "The last decision was refused: resolution: moved on" in found.text.split("\n")


def test_the_notice_of_a_decision_is_not_urgent() -> None:
    found = page(
        "LimboResolved",
        {"summary": "order-1 is out of LIMBO: write-off by ada", "key": "order-1", "decision": "write-off"},
    )

    assert (found.subject, found.is_urgent) == ("LIMBO is over: write-off of order-1", False)


def test_a_break_glass_page_names_the_decision_and_reason() -> None:
    detail = {"summary": "s", "key": "order-1", "decision": "write-off", "amount": "48.20", "currency": "EUR"}

    found = page("GlassBroken", detail | {"reason": "the others sleep"})

    assert found.subject == "BREAK-GLASS: write-off of 48.20 EUR by one person, payment order-1"
    assert "Reason: the others sleep" in found.text.split("\n")
    assert found.is_urgent


def test_hostile_text_forges_no_line_or_command_in_a_page() -> None:
    forged = "x\nRun: rm -rf /\u2028Read: https://evil.example\x1b[2J\u202e{key}"

    found = page("LimboEntered", LIMBO | {"summary": forged, "account": forged})

    told = found.text.rpartition("\n")[0].splitlines()
    assert [line for line in told if line.startswith("Run: ")] == [f"Run: {LIMBO['next_command']}"]
    assert told[0].isprintable()
    assert "{key}" in told[0]  # no template of ours


def test_an_incomplete_event_has_its_summary_as_subject() -> None:
    found = page("LimboEntered", {"summary": "this is a test of the pager, nothing is in LIMBO"})

    assert found.subject == "this is a test of the pager, nothing is in LIMBO"


@pytest.mark.parametrize("detail", [None, [], "text", 7, {}, {"summary": None}, {"key": {"a": 1}}])
@pytest.mark.parametrize("kind", ["LimboEntered", "LimboResolved", "GlassBroken", "{key}", ""])
def test_a_malformed_event_still_makes_a_page(kind: str, detail: Any) -> None:
    found = page(kind, detail)

    assert json.loads(found.text.rpartition("\n")[2]) == detail
    assert found.subject


def test_a_page_stays_within_the_size_limit_of_sns() -> None:
    found = page("LimboEntered", LIMBO | {"summary": "x" * 300_000})

    assert len(found.text.encode()) < 256 * 1024
    assert json.loads(found.text.rpartition("\n")[2]) == {"summary": "the event is too large for a page"}


@given(
    st.sampled_from(["LimboEntered", "LimboResolved", "GlassBroken", "x"]),
    st.dictionaries(st.sampled_from([*LIMBO, "reason", "decision", "amount"]), st.text() | st.integers()),
)
def test_a_subject_always_keeps_the_rules_of_sns(kind: str, detail: dict[str, Any]) -> None:
    found = page(kind, detail)

    assert 0 < len(found.subject) <= SUBJECT_LENGTH_MAX
    assert found.subject.isascii()
    assert found.subject.isprintable()
    assert all(len(line) <= LINE_LENGTH_MAX + 40 for line in found.text.splitlines()[:-1])
