"""ResolveLimbo: the three ways out, each decided once, and on record with the person and the reason."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.ledger.keys import Row
from settlement.model.errors import InvalidRequest, ResolutionRefused, StepFenced
from tests.handlers.conftest import Counted, Later
from tests.world.constants import CLAIMED_AT, HASH, KEY, LATER_AT, ORDER, WIRE
from tests.world.functions import Calls, Found

DECISIONS = ["retry", "write-off", "complete"]
CLOSED = f"^resolve: case 1 of {KEY} was closed in another way$"
MOVED = {
    "retry": {},
    "write-off": {
        "debit": "losses:EUR",
        "credit": f"escrow:{KEY}",
        "side": "debit",
        "amount": 4772,
        "pk": "ENTRIES#losses:EUR#2",
    },
    "complete": {
        "debit": f"escrow:{KEY}",
        "credit": "fees:EUR",
        "side": "credit",
        "amount": 48,
        "pk": "ENTRIES#fees:EUR#2",
    },
}
REVERSING = {"status": "COMPENSATING", "gsi1pk": "IN_FLIGHT#2", "gsi1sk": "2026-11-20T12:00:37.123Z"}
AFTER: dict[str, dict[str, Any]] = {
    "retry": REVERSING,
    "write-off": REVERSING | {"escrow": 4820, "release_reversed_at": LATER_AT},
    "complete": {"status": "SETTLED", "escrow": 0, "finished_at": LATER_AT},
}


def notice(decision: str, case: int = 1, at: str = LATER_AT) -> dict[str, Any]:
    return {
        "summary": f"{KEY} is out of LIMBO: {decision} by {ORDER['by']}",
        "key": KEY,
        "case": case,
        "decided_at": at,
        "account": "bob",
        "decision": decision,
        **ORDER,
    }


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decision_closes_the_case_and_its_execution_owns_the_settlement(
    calls: Calls, later: Later, counted: Counted, decision: str
) -> None:
    calls.fall()
    calls("AwaitResolution", token="AQC", execution_arn="arn")
    before = calls.row()
    later()
    counted()

    result = calls.resolve(decision, settlement=WIRE | {"amount": "48.2"}, execution="the-second")

    assert result == {"settlement": WIRE, "case": 1, "notice": notice(decision)}
    common = {"step": "resolve:1", "posted_at": LATER_AT, "request_hash": HASH}
    evidence = {"pk": f"EVIDENCE#{KEY}", "sk": f"{KEY}:resolve:1", **common}
    rows: list[Row] = [evidence | {"account": "bob", "decision": decision, **ORDER}]
    if MOVED[decision]:
        entry = {"currency": "EUR", "sk": f"{LATER_AT}#{KEY}:resolve:1", **common}
        rows += [MOVED[decision] | entry]
    written = [row for row in calls.ledger.rows() if row.get("step") == "resolve:1"]
    assert sorted(written, key=str) == sorted(rows, key=str)
    ended = {"failure", "gsi1pk", "gsi1sk"} if decision == "complete" else set()
    kept = {name: before[name] for name in before if name not in {"stuck_step", *ended}}
    decided = {"resolutions": 1, "resolution": {**ORDER, "decision": decision, "decided_at": LATER_AT}}
    decided |= {"owner": "the-second", "in_flight_since": LATER_AT}
    failure = {} if ended else {"failure": before["reversed_for"]}
    assert calls.row() == kept | decided | failure | AFTER[decision]
    bob = calls.account("bob")
    assert (bob["available"], "limbo_keys" in bob) == (5272, False)
    assert counted() == {"StepCalled": 1} | ({"Settled": 1} if decision == "complete" else {})


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("gone_at", ["entry", "decision"])
def test_an_account_that_is_gone_does_not_keep_its_settlement_in_limbo(
    calls: Calls, decision: str, gone_at: str
) -> None:
    found = calls.fall() if gone_at == "decision" else calls.reopened("ReclaimFunds")
    calls.close("bob")
    if gone_at == "entry":
        calls.limbo(found)

    first = calls.resolve(decision, execution="the-second")

    assert first["notice"] == notice(decision, at=CLAIMED_AT)
    assert (calls.row()["status"], calls.row()["owner"]) == (AFTER[decision]["status"], "the-second")
    with calls.writes_nothing():
        assert calls.resolve(decision) == first


@pytest.mark.parametrize("decision", ["write-off", "complete"])
def test_a_decision_that_does_not_fit_is_refused(calls: Calls, counted: Counted, decision: str) -> None:
    calls.fall("hold")
    counted()

    with calls.writes_nothing(), pytest.raises(ResolutionRefused, match=f"^{decision}: .*; use retry$"):
        calls.resolve(decision)

    assert counted() == {"StepCalled": 1, "ResolutionRefused": 1}


@pytest.mark.parametrize("resolution", [None, {**ORDER, "decision": "give up"}])
def test_a_malformed_decision_writes_nothing(calls: Calls, resolution: Any) -> None:
    calls.fall()

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=r"^resolution"):
        calls("ResolveLimbo", resolution=resolution, case=1)


# Repeated, or too late


@pytest.mark.parametrize("first", DECISIONS)
@pytest.mark.parametrize("raced", [True, False])
def test_a_case_is_decided_once_and_the_same_decision_by_the_same_person_returns_the_same_notice(
    calls: Calls, later: Later, freeze_reads: Callable[[], None], first: str, raced: bool
) -> None:
    calls.fall()
    if raced:
        freeze_reads()
    answer = calls.resolve(first)
    before = calls.ledger.rows()
    later(days=1)

    assert calls.resolve(first) == answer
    others: list[dict[str, Any]] = [{"decision": second} for second in DECISIONS if second != first]
    for other in [*others, {"reason": "because"}, {"by": "arn:aws:iam::123456789012:user/bea"}]:
        with pytest.raises(StepFenced, match=CLOSED):
            calls.resolve(**{"decision": first, **other})

    assert calls.ledger.rows() == before


@pytest.mark.parametrize(
    ("decision", "since"),
    [
        (decision, since)
        for decision in DECISIONS
        for since in ({"escrow": 47}, {"resolutions": 1}, {"release_reversed_at": LATER_AT})
        if decision != "retry" or "release_reversed_at" not in since  # a retry fits with any reversal
    ],
)
def test_a_decision_on_a_case_that_has_changed_since_it_was_read_is_refused(
    calls: Calls, freeze_reads: Callable[[], None], decision: str, since: dict[str, Any]
) -> None:
    calls.fall()
    freeze_reads()
    calls.alter(**since)

    message = r"has moved on since it was looked at$"
    with calls.writes_nothing(), pytest.raises(ResolutionRefused, match=message):
        calls.resolve(decision)


def second_case(calls: Calls) -> Found:
    """Get stuck, decide to retry, get stuck again; return the answer to the first decision."""
    calls.fall()
    first: Found = calls.resolve("retry")
    calls.limbo(calls.begin(first))
    return first


@pytest.mark.parametrize("named", [{}, {"case": 2}, {"case": None}])
def test_a_second_case_is_decided_by_its_own_number(calls: Calls, named: dict[str, Any]) -> None:
    second_case(calls)

    result = calls("ResolveLimbo", resolution={**ORDER, "decision": "retry", **named}, case=2)

    assert result["notice"] == notice("retry", case=2, at=CLAIMED_AT)
    assert calls.row()["resolutions"] == 2


def test_a_decision_means_the_case_that_it_names_and_not_the_one_that_the_machine_waits_on(
    calls: Calls,
) -> None:
    first = second_case(calls)

    with calls.writes_nothing():
        named = {**ORDER, "decision": "retry", "case": 1}
        assert calls("ResolveLimbo", resolution=named, case=2) == first
        with pytest.raises(StepFenced, match=CLOSED):
            calls.resolve("write-off", case=1)


def test_a_decision_on_a_future_case_is_refused(calls: Calls) -> None:
    calls.fall()

    message = r"^resolution: the open case is number 1, not 2$"
    with calls.writes_nothing(), pytest.raises(ResolutionRefused, match=message):
        calls.resolve("retry", case=2)


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decision_whose_execution_died_is_carried_out_by_the_next_one_that_starts_with_it(
    calls: Calls, decision: str
) -> None:
    calls.fall()
    first = calls.resolve(decision)
    found = calls.begin(resolution={**ORDER, "decision": decision})

    with calls.writes_nothing():
        assert calls("ResolveLimbo", resolution=found["resolution"], case=found["case"]) == first
        found = calls.begin(first)
    if not found["finished"]:
        calls.unwind(found)

    assert calls.row()["status"] == ("SETTLED" if decision == "complete" else "COMPENSATED")
