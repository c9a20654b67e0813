"""ResolveLimbo: the three ways out, each atomic, and on record with the person and the reason."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.ledger.keys import Row
from settlement.model.errors import IdempotencyConflict, InvalidRequest, ResolutionRefused, StepFenced
from settlement.model.status import Status
from tests.handlers.calls import (
    CLAIMED_AT,
    EXECUTION_ARN,
    KEY,
    LATER_AT,
    MALFORMED_SETTLEMENTS,
    ORDER,
    OTHER_CONTENT,
    STUCK_STEPS,
    WIRE,
    Calls,
)
from tests.handlers.test_begin_resolution import MALFORMED

BY = ORDER["by"]
ESCROW = f"escrow:{KEY}"
PARTIES = {"fee": "fees:EUR", "release": "bob", "hold": "alice", "nothing": "alice"}
DECISIONS = ["retry", "write-off", "complete"]
IN_FLIGHT = {"gsi1pk": "IN_FLIGHT#2", "gsi1sk": "2026-11-20T12:00:37.123Z"}
NOTHING_TO_COVER = r"^write-off: the escrow lacks nothing that could be covered; use retry$"
NOTHING_TO_ACCEPT = r"^complete: there is no release left that could be accepted; use retry$"


def notice(decision: str, account: str, case: int = 1, at: str = LATER_AT) -> dict[str, Any]:
    return {
        "summary": f"{KEY} is out of LIMBO: {decision} by {BY}",
        "key": KEY,
        "case": case,
        "decided_at": at,
        "account": account,
        "decision": decision,
        **ORDER,
    }


def left(before: Row, decision: str, *removed: str) -> Row:
    """Return the settlement's row after a decision: the attributes that all decisions change."""
    kept = {
        name: value
        for name, value in before.items()
        if name not in ("stuck_step", "waiting", "recover_at", *removed)
    }
    resolution = {**ORDER, "decision": decision, "decided_at": LATER_AT}
    taken_over = {"owner": "compensation-2", "in_flight_since": LATER_AT}
    return kept | {"resolutions": 1, "resolution": resolution, **taken_over}


def fallen(calls: Calls, stuck: str) -> Row:
    """Put a settlement into LIMBO, waiting for a decision and known to recovery; return its row."""
    calls.fall(stuck)
    calls("AwaitResolution", token="AQC", execution_arn=EXECUTION_ARN)
    calls.alter(recover_at=CLAIMED_AT)
    return calls.row()


@pytest.mark.parametrize("stuck", STUCK_STEPS)
def test_retry_goes_back_to_reversing_and_moves_nothing(
    calls: Calls, later: Callable[[], None], stuck: str
) -> None:
    before = fallen(calls, stuck)
    accounts = {name: calls.account(name) for name in ("alice", "bob")}
    later()

    result = calls.resolve("retry", execution="compensation-2")

    account = PARTIES[stuck]
    assert result == {"settlement": WIRE, "case": 1, "notice": notice("retry", account)}
    assert calls.entry("resolve:1") == {
        "posted_at": LATER_AT,
        "account": account,
        "decision": "retry",
        **ORDER,
    }
    status = {"status": "COMPENSATING", "failure": before["reversed_for"]}
    assert calls.row() == left(before, "retry") | IN_FLIGHT | status
    for row in accounts.values():
        row.pop("limbo_keys", None)
    assert {name: calls.account(name) for name in accounts} == accounts


@pytest.mark.parametrize(
    ("stuck", "amount", "escrow", "reversed_"),
    [("fee", 48, 48, {"fee"}), ("release", 4772, 4820, {"release"})],
)
def test_write_off_covers_the_stuck_amount_from_the_losses(
    calls: Calls, later: Callable[[], None], stuck: str, amount: int, escrow: int, reversed_: set[str]
) -> None:
    before = fallen(calls, stuck)
    later()

    result = calls.resolve("write-off", execution="compensation-2")

    account = PARTIES[stuck]
    assert result == {"settlement": WIRE, "case": 1, "notice": notice("write-off", account)}
    assert calls.entry("resolve:1") == {
        "posted_at": LATER_AT,
        "account": account,
        "decision": "write-off",
        **ORDER,
        "debit": "losses:EUR",
        "credit": ESCROW,
        "side": "debit",
        "amount": amount,
        "currency": "EUR",
        "gsi1pk": "ACCOUNT#losses:EUR#2",
        "gsi1sk": f"{LATER_AT}#{KEY}:resolve:1",
    }
    status = {"status": "COMPENSATING", "failure": before["reversed_for"]}
    moved = {"escrow": escrow, "reversed": reversed_}
    assert calls.row() == left(before, "write-off") | IN_FLIGHT | status | moved
    assert calls.account("bob") == {"available": 5272, "currency": "EUR"}


def test_a_written_off_step_is_not_reversed(calls: Calls) -> None:
    calls.fall("release")
    found = calls.begin(calls.resolve("write-off"))

    with calls.writes_nothing():
        calls.reverse("ReclaimFunds", found)
    calls.unwind(found)

    assert (calls.row()["status"], calls.row()["escrow"]) == ("COMPENSATED", 0)
    assert "compensate:release" not in calls.entries()


@pytest.mark.parametrize(
    ("stuck", "reopened", "rest"), [("release", False, 48), ("release", True, 48), ("fee", True, 0)]
)
def test_complete_accepts_the_release_and_the_rest_is_the_fee(
    calls: Calls, later: Callable[[], None], stuck: str, reopened: bool, rest: int
) -> None:
    if stuck == "release" and reopened:
        calls.limbo(calls.reopened("ReclaimFunds"))
    else:
        calls.fall(stuck)
    calls.alter(recover_at=CLAIMED_AT)
    before = calls.row()
    later()

    result = calls.resolve("complete", execution="compensation-2")

    account = PARTIES[stuck]
    assert result == {"settlement": WIRE, "case": 1, "notice": notice("complete", account)}
    assert calls.entry("resolve:1") == {
        "posted_at": LATER_AT,
        "account": account,
        "decision": "complete",
        **ORDER,
        "debit": ESCROW,
        "credit": "fees:EUR",
        "side": "credit",
        "amount": rest,
        "currency": "EUR",
        "gsi1pk": "ACCOUNT#fees:EUR#2",
        "gsi1sk": f"{LATER_AT}#{KEY}:resolve:1",
    }
    finished = {"status": "SETTLED", "escrow": 0, "finished_at": LATER_AT}
    assert calls.row() == left(before, "complete", "failure", "gsi1pk", "gsi1sk") | finished
    assert calls.account("alice") == {"available": 5180, "currency": "EUR"}
    assert calls.account("bob") == {"available": 5272, "currency": "EUR"}


def test_complete_is_refused_once_the_release_is_reversed(calls: Calls) -> None:
    calls.limbo(calls.reopened("VoidHold"), step="hold")

    with calls.writes_nothing(), pytest.raises(ResolutionRefused, match=NOTHING_TO_ACCEPT):
        calls.resolve("complete")


@pytest.mark.parametrize("stuck", ["hold", "nothing"])
@pytest.mark.parametrize(
    ("decision", "message"), [("write-off", NOTHING_TO_COVER), ("complete", NOTHING_TO_ACCEPT)]
)
def test_only_a_retry_fits_if_nothing_is_missing_from_the_escrow(
    calls: Calls, stuck: str, decision: str, message: str, counted: Callable[[], dict[str, float]]
) -> None:
    calls.fall(stuck)
    counted()

    with calls.writes_nothing(), pytest.raises(ResolutionRefused, match=message):
        calls.resolve(decision)

    assert counted() == {"StepCalled": 1, "ResolutionRefused": 1}


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("others", [set(), {"order-2026-000099"}])
def test_an_accounts_block_ends_with_its_last_case(calls: Calls, decision: str, others: set[str]) -> None:
    calls.fall("release")
    calls.ledger.open("bob", 0, limbo_keys={KEY, *others})

    calls.resolve(decision)

    assert calls.account("bob").get("limbo_keys", set()) == others
    assert ("limbo_keys" in calls.account("bob")) is bool(others)


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("gone_at", ["entry", "decision"])
def test_an_account_that_is_gone_does_not_keep_its_settlement_in_limbo(
    calls: Calls, decision: str, gone_at: str
) -> None:
    found = calls.fall("release") if gone_at == "decision" else calls.reopened("ReclaimFunds")
    calls.close("bob")
    if gone_at == "entry":
        calls.limbo(found)

    first = calls.resolve(decision)

    assert first["notice"] == notice(decision, "bob", at=CLAIMED_AT)
    assert calls.row()["status"] == ("SETTLED" if decision == "complete" else "COMPENSATING")
    with calls.writes_nothing():
        assert calls.resolve(decision) == first


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.LIMBO])
@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decision_outside_limbo_is_fenced(calls: Calls, decision: str, status: Status) -> None:
    calls.fall("release")
    calls.alter(status=status)

    with (
        calls.writes_nothing(),
        pytest.raises(StepFenced, match=f"^resolve: the settlement is {status}, not in LIMBO$"),
    ):
        calls.resolve(decision)


@pytest.mark.parametrize("other", OTHER_CONTENT)
@pytest.mark.parametrize("decision", DECISIONS)
def test_other_content_is_refused(calls: Calls, decision: str, other: dict[str, str]) -> None:
    calls.ledger.open("carol", 10_000)
    calls.fall("release")

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        calls.resolve(decision, settlement=other)


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("resolution", "message"), MALFORMED)
def test_a_malformed_decision_writes_nothing(calls: Calls, resolution: Any, message: str) -> None:
    calls.fall("release")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls("ResolveLimbo", resolution=resolution, case=1)


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("settlement", "message"), MALFORMED_SETTLEMENTS)
def test_a_malformed_settlement_is_refused(calls: Calls, settlement: Any, message: str) -> None:
    calls.fall("release")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls.resolve("retry", settlement=settlement)
