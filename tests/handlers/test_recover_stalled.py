import json
from collections.abc import Callable
from typing import Any

import pytest

from handlers import _dependencies
from settlement.core.ledger import keys
from tests.handlers.conftest import Calls
from tests.handlers.stalled import (
    ENDS,
    compensated,
    freeze_index,
    held,
    limbo,
    overdue,
    quietly,
    recover_later,
    resumed,
    reversing,
)
from tests.world.constants import CLAIMED_AT, KEY, NONCE
from tests.world.functions import run
from tests.world.services import Died, execution, signed, throttled, unanswered

OTHER = "order-2026-000102"
NO_TIME_LEFT = {"Error": "DeadlineExceeded", "Cause": "recover: the time to settle is over"}
REVIEW_OVER = {"Error": "DeadlineExceeded", "Cause": "recover: the review has not ended in time"}


@pytest.mark.parametrize(
    ("state", "by", "next_look"),
    [
        ("HoldFunds", {"seconds": 30}, "2026-11-20T12:01:30.123Z"),
        ("ReleaseFunds", {"days": 2}, "2026-11-22T12:01:00.123Z"),
    ],
)
def test_recovery_resumes_a_settlement_before_its_deadline_or_after_release(
    calls: Calls, state: str, by: dict[str, float], next_look: str
) -> None:
    calls.after(state)
    before = calls.row()

    counted = recover_later(calls, **by)

    assert calls.step_functions.started == [resumed()]
    assert calls.row() == before | {"owner_epoch": 1, "owner": f"{KEY}-r1-{NONCE}", "gsi1sk": next_look}
    seconds = by.get("seconds", 172_800)
    started = run(RecoveredBySettlement=1, Recoveries=1, OldestInFlightSeconds=seconds)
    assert counted == started | {"RecoveryBehindSeconds": seconds - 30}


def test_an_unreleased_settlement_past_its_deadline_is_reversed(calls: Calls) -> None:
    overdue(calls)
    before = calls.row()

    counted = recover_later(calls, minutes=15)

    assert calls.step_functions.started == [compensated(error=NO_TIME_LEFT)]
    assert calls.row() == before | {
        "owner_epoch": 1,
        "owner": f"{KEY}-c1-{NONCE}",
        "gsi1sk": "2026-11-20T12:16:00.123Z",
        "expired_at": "2026-11-20T12:15:00.123Z",
    }
    assert counted == run(RecoveredByCompensation=1, Recoveries=1, OldestInFlightSeconds=900)
    calls.unwind(calls.begin(calls.step_functions.started[0][2]))
    assert (calls.row()["status"], calls.row()["failure"]["error"]) == ("COMPENSATED", "DeadlineExceeded")


def test_a_settlement_settled_or_not_due_is_left_alone(calls: Calls) -> None:
    for state, by in (("ReleaseFunds", {"milliseconds": 29_999}), ("CollectFee", {"days": 2})):
        calls.after(state)
        calls.later(**by)
        calls.counted()

        with calls.writes_nothing():
            calls.recover()

        assert (calls.step_functions.called, calls.counted()) == ([], run())
        calls.later(seconds=0)


def test_a_settlement_in_review_is_reversed_only_after_the_review(in_review: Calls) -> None:
    in_review.later(hours=23, minutes=59, seconds=59, milliseconds=999)
    with in_review.writes_nothing():
        in_review.recover()
    in_review.later(days=1)

    in_review.recover()

    assert in_review.step_functions.started == [compensated(error=REVIEW_OVER)]
    assert (
        json.loads(json.dumps(in_review.step_functions.started[0][2]))
        == in_review.step_functions.started[0][2]
    )


@pytest.mark.parametrize("decision", ["APPROVED", "REJECTED"])
def test_recovery_resumes_a_settlement_whose_verdict_started_no_execution(
    in_review: Calls, decision: str
) -> None:
    in_review.step_functions.failing["start_execution"] = throttled("StartExecution")
    in_review.decided(signed(decision=decision))
    in_review.step_functions.failing.clear()
    in_review.later(seconds=30)

    in_review.recover()

    # Epoch 1 belongs to the execution of the webhook, which may have begun a reversal.
    assert in_review.step_functions.started == [resumed(2)]
    assert in_review("HoldFunds", execution=f"{KEY}-r2-{NONCE}")["owner_epoch"] == 2


@pytest.mark.parametrize("loses_answers", [False, True])
@pytest.mark.parametrize("failure", [unanswered(), Died()])
@pytest.mark.parametrize(
    ("put", "minutes", "names"),
    [(held, 1, ["r1", "r2"]), (overdue, 15, ["c1", "c2"])],
)
def test_recovery_retries_a_start_that_failed_or_was_lost(
    calls: Calls,
    failure: BaseException,
    loses_answers: bool,
    put: Callable[[Calls], None],
    minutes: int,
    names: list[str],
) -> None:
    put(calls)
    calls.later(minutes=minutes)
    calls.step_functions.failing["start_execution"] = failure
    calls.step_functions.loses_answers = loses_answers
    calls.counted()
    try:
        calls.recover()
        metrics = calls.counted()
        assert (metrics["NotRecovered"], metrics["Recoveries"]) == (1, 0)
        assert metrics["OldestInFlightSeconds"] == minutes * 60
    except Died:
        calls.counted()
    calls.step_functions.failing.clear()

    with calls.writes_nothing():
        calls.recover()
    calls.later(minutes=minutes, seconds=60)
    calls.recover()

    # A reversal runs if it was started after all; other executions are not looked up.
    expected = names[:1] if loses_answers and minutes == 15 else names[not loses_answers :]
    assert calls.step_functions.names == [f"{KEY}-{name}-{NONCE}" for name in expected]
    assert calls.row()["owner"] == f"{KEY}-{expected[-1]}-{NONCE}"
    assert calls.row()["owner_epoch"] == int(expected[-1][-1])


@pytest.mark.parametrize("method", ["read", "update", "start_execution"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("put", "minutes", "name"),
    [
        (held, 1, "r1"),
        (overdue, 15, "c1"),
        (reversing, 1, "c1"),
        (limbo, 1, "c1"),
    ],
)
def test_two_interleaved_runs_start_one_execution(
    calls: Calls, method: str, after: bool, put: Callable[[Calls], None], minutes: int, name: str
) -> None:
    put(calls)
    calls.later(minutes=minutes)
    owner = calls.step_functions if method == "start_execution" else _dependencies.store
    calls.meanwhile(owner, method, lambda: quietly(calls.recover), after=after)

    quietly(calls.recover)

    assert calls.step_functions.names == [f"{KEY}-{name}-{NONCE}"]
    assert (calls.row()["owner_epoch"], calls.row()["owner"]) == (1, f"{KEY}-{name}-{NONCE}")


@pytest.mark.parametrize(
    "since",
    [
        {"gsi1sk": "2026-11-20T12:20:00.000Z"},
        {"status": "SETTLED"},
        {"status": "COMPENSATING", "gsi1sk": "2026-11-20T12:15:00.124Z"},
        {"status": "LIMBO"},
    ],
    ids=str,
)
def test_nothing_is_decided_by_a_stale_index(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, since: dict[str, Any]
) -> None:
    overdue(calls)
    calls.later(minutes=15)
    freeze_index(calls, monkeypatch)
    calls.alter(**since)
    calls.counted()

    with calls.writes_nothing():
        calls.recover()

    assert (calls.step_functions.called, calls.counted()) == ([], run())


def test_a_listed_key_without_a_row_is_skipped(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    calls.fall()
    calls.ledger.put(calls.row() | keys.settlement(OTHER) | keys.in_flight_index(OTHER, CLAIMED_AT))
    monkeypatch.setattr(_dependencies.store, "read", lambda key: None)
    calls.later(minutes=15)
    calls.counted()

    with calls.writes_nothing():
        calls.recover()

    ages = ("OldestLimboSeconds", "RecoveryBehindSeconds")
    assert (calls.step_functions.called, calls.counted()) == (
        [],
        run(LimboOpen=1, **dict.fromkeys(ages, 900)),
    )


@pytest.mark.parametrize("end", [None, *ENDS])
def test_an_expired_settlement_is_left_to_its_running_compensation(calls: Calls, end: str | None) -> None:
    """The settlement stays PROCESSING until that execution begins, perhaps minutes later."""
    overdue(calls)
    calls.later(minutes=15)
    calls.recover()
    if end:
        calls.step_functions.end(execution(f"{KEY}-c1-{NONCE}"), end)
    calls.later(minutes=16)

    calls.recover()
    calls.recover_now(KEY)

    expected = ["c1", *(["c2"] if end else [])]
    assert calls.step_functions.names == [f"{KEY}-{name}-{NONCE}" for name in expected]
    assert calls.row()["gsi1sk"] > "2026-11-20T12:16:00.123Z"
