"""RecoverStalled: two runs at once, an index that lags, a start that fails, a clock that jumps."""

import json
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from handlers import _dependencies
from tests.handlers.calls import CLAIMED_AT, KEY, REJECTED_BY_KYC, Calls, run
from tests.handlers.conftest import Counted
from tests.handlers.stand_ins import Died, Starts, execution, throttled, unanswered

Later = Callable[..., None]


@pytest.mark.parametrize("loses_answers", [False, True])
@pytest.mark.parametrize("failure", [throttled("StartExecution"), unanswered(), Died()])
@pytest.mark.parametrize(("minutes", "names"), [(1, ["r1", "r2"]), (15, ["compensate-1", "compensate-2"])])
def test_a_settlement_whose_start_failed_or_was_lost_is_found_again(
    calls: Calls,
    *,
    starts: Starts,
    later: Later,
    counted: Counted,
    failure: BaseException,
    loses_answers: bool,
    minutes: int,
    names: list[str],
) -> None:
    calls.after("HoldFunds")
    later(minutes=minutes)
    starts.failure, starts.loses_answers = failure, loses_answers
    counted()
    try:
        calls.recover()
        assert counted() == run(NotRecovered=1, OldestInFlightSeconds=minutes * 60)
    except Died:
        counted()
    starts.failure = None

    with calls.writes_nothing():
        calls.recover()
    later(minutes=minutes, seconds=60)
    calls.recover()

    row = calls.row()
    if minutes == 15 and loses_answers:  # it was started after all, and a reversal is known to run
        assert (starts.names, row["owner_epoch"], row["owner"]) == (
            [f"{KEY}-{names[0]}"],
            1,
            f"{KEY}-{names[0]}",
        )
        return
    assert starts.names == [f"{KEY}-{name}" for name in names[not loses_answers :]]
    assert (row["owner_epoch"], row["owner"]) == (2, f"{KEY}-{names[1]}")
    assert row.get("expired_at") == ("2026-11-20T12:16:00.123Z" if minutes == 15 else None)


def test_a_started_settlement_is_not_started_again_before_its_next_look(
    calls: Calls, starts: Starts, later: Later
) -> None:
    calls.after("HoldFunds")
    later(minutes=15)
    calls.recover()

    with calls.writes_nothing():
        calls.recover()

    assert starts.asked == 1


def stop_at(
    monkeypatch: pytest.MonkeyPatch, owner: Any, method: str, meanwhile: Callable[[], object], *, after: bool
) -> None:
    """Have `meanwhile` happen once, before or after the next call of a method."""
    real = getattr(owner, method)

    def interleaved(*positional: Any, **named: Any) -> Any:
        monkeypatch.setattr(owner, method, real)
        if not after:
            meanwhile()
            return real(*positional, **named)
        answer = real(*positional, **named)
        meanwhile()
        return answer

    monkeypatch.setattr(owner, method, interleaved)


def held(calls: Calls) -> None:
    calls.after("HoldFunds")


def reversing(calls: Calls) -> None:
    calls.after("HoldFunds")
    calls.begin(error=REJECTED_BY_KYC)


def limbo(calls: Calls) -> None:
    calls.fall("release")


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize("method", ["read", "update", "start_execution"])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("put", "minutes", "name"),
    [(held, 1, "r1"), (held, 15, "compensate-1"), (reversing, 1, "compensate-1"), (limbo, 1, "compensate-1")],
)
def test_of_two_interleaved_runs_one_starts(
    calls: Calls,
    *,
    starts: Starts,
    later: Later,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    after: bool,
    put: Callable[[Calls], None],
    minutes: int,
    name: str,
) -> None:
    put(calls)
    later(minutes=minutes)
    owner = starts if method == "start_execution" else _dependencies.store
    stop_at(monkeypatch, owner, method, lambda: quietly(calls.recover), after=after)

    quietly(calls.recover)

    assert starts.names == [f"{KEY}-{name}"]
    assert (calls.row()["owner_epoch"], calls.row()["owner"]) == (1, f"{KEY}-{name}")


def quietly(recover: Callable[[], None]) -> None:
    """The first of two runs in one process publishes the metrics of both."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        recover()


@pytest.mark.parametrize("state", ["HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee"])
@pytest.mark.parametrize("method", ["update", "start_execution"])
def test_a_step_of_a_slow_owner_that_commits_meanwhile_is_not_lost(
    calls: Calls, starts: Starts, later: Later, monkeypatch: pytest.MonkeyPatch, state: str, method: str
) -> None:
    calls.before(state)
    later(seconds=31)
    owner = starts if method == "start_execution" else _dependencies.store
    stop_at(
        monkeypatch, owner, method, lambda: quietly(lambda: calls(state, claimed_at=CLAIMED_AT)), after=False
    )

    quietly(calls.recover)
    calls("ClaimKey", execution=f"{KEY}-r1")
    for following in ("HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee"):
        calls(following, claimed_at=CLAIMED_AT)

    finished_first = (state, method) == ("CollectFee", "update")
    assert starts.names == ([] if finished_first else [f"{KEY}-r1"])
    assert (calls.row()["status"], calls.row()["escrow"]) == ("SETTLED", 0)
    assert calls.account("alice") == {"available": 10_000 - 4820, "currency": "EUR"}
    assert calls.account("bob") == {"available": 500 + 4772, "currency": "EUR"}


def test_a_release_that_commits_before_the_settlement_expires_is_not_reversed(
    calls: Calls, starts: Starts, later: Later, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.after("VerifyKyc")

    def released() -> None:
        later(minutes=14)
        quietly(lambda: calls("ReleaseFunds"))

    later(minutes=15)
    stop_at(monkeypatch, _dependencies.store, "update", released, after=False)

    quietly(calls.recover)
    assert (starts.made, calls.row()["owner_epoch"]) == ([], 0)
    later(minutes=15)
    calls.recover()

    assert starts.names == [f"{KEY}-r1"]


@pytest.mark.parametrize(
    "meanwhile",
    [
        {"gsi1sk": "2026-11-20T12:20:00.000Z"},
        {"status": "SETTLED"},
        {"status": "COMPENSATED"},
        {"status": "REJECTED"},
        {"status": "COMPENSATING", "gsi1sk": "2026-11-20T12:15:00.124Z"},
        {"status": "LIMBO", "recover_at": "2026-11-20T12:15:00.124Z"},
    ],
)
def test_an_index_that_lags_behind_decides_nothing(
    calls: Calls, starts: Starts, later: Later, monkeypatch: pytest.MonkeyPatch, meanwhile: dict[str, Any]
) -> None:
    calls.after("HoldFunds")
    later(minutes=15)
    listed_alone(calls, monkeypatch)
    calls.alter(**meanwhile)

    with calls.writes_nothing():
        calls.recover()

    assert starts.asked == 0


@pytest.mark.parametrize(
    ("meanwhile", "name"),
    [
        ({"deadline_at": "2026-11-21T12:00:00.123Z"}, "r1"),
        ({"steps": {"hold", "verify", "release"}}, "r1"),
        ({"status": "COMPENSATING"}, "compensate-1"),
        ({"owner_epoch": 4, "owner": f"{KEY}-r4"}, "compensate-5"),
    ],
)
def test_recovery_decides_by_the_row_and_not_by_the_index(
    calls: Calls,
    starts: Starts,
    later: Later,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: dict[str, Any],
    name: str,
) -> None:
    calls.after("HoldFunds")
    later(minutes=15)
    listed_alone(calls, monkeypatch)
    calls.alter(**meanwhile)

    calls.recover()

    assert starts.names == [f"{KEY}-{name}"]


def test_a_listed_key_without_a_row_is_skipped(
    calls: Calls, starts: Starts, later: Later, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.after("HoldFunds")
    listed_alone(calls, monkeypatch)
    monkeypatch.setattr(_dependencies.store, "read", lambda key: None)
    later(minutes=15)
    counted()

    with calls.writes_nothing():
        calls.recover()

    assert (starts.asked, counted()) == (0, run())


@pytest.mark.parametrize("put", [held, reversing])
def test_a_clock_that_was_ahead_delays_recovery_and_does_not_end_it(
    calls: Calls, starts: Starts, later: Later, put: Callable[[Calls], None]
) -> None:
    put(calls)
    later(minutes=10)
    calls.recover()
    first = list(starts.names)
    later(seconds=40)
    with calls.writes_nothing():
        calls.recover()
    starts.ended = {execution(name): "FAILED" for name in first}

    later(minutes=11)
    calls.recover()

    assert (len(first), len(starts.names)) == (1, 2)


def test_a_clock_that_is_behind_counts_no_negative_age(
    calls: Calls, starts: Starts, later: Later, counted: Counted
) -> None:
    limbo(calls)
    later(hours=-1)
    counted()

    calls.recover()

    assert counted() == run(LimboOpen=1, Recoveries=1, RecoveredByAlert=1)


def listed_alone(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    """Freeze the index: it lists the settlement as it is now, despite later writes."""
    stale = calls.row()
    monkeypatch.setattr(
        _dependencies.store, "listed", lambda partition, **_: iter([stale] * (partition == stale["gsi1pk"]))
    )


def test_the_input_of_a_started_execution_is_plain_json(
    in_review: Calls, starts: Starts, later: Later
) -> None:
    later(days=1)
    in_review.recover()

    assert json.loads(json.dumps(starts.made[0][2])) == starts.made[0][2]
