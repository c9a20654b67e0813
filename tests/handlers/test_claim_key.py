"""ClaimKey is the idempotency check: one execution with one content runs, every other one learns why not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from handlers import _dependencies
from settlement.model.errors import IdempotencyConflict, InvalidRequest, StoreUnavailable
from settlement.model.status import Status
from tests.handlers.calls import CLAIMED_AT, MALFORMED, OTHER_CONTENT, WIRE, WITHOUT_FEE, Calls

ADMITTED = {"settlement": WIRE, "claimed_at": CLAIMED_AT, "replayed": False, "owner_epoch": 0}


def test_the_first_call_claims_the_key_for_its_execution(calls: Calls) -> None:
    result = calls("ClaimKey")

    assert result == ADMITTED
    (row,) = calls.ledger.rows()
    assert (row["status"], row["owner"], row["escrow"]) == ("PROCESSING", "execution-1", 0)
    assert (row["amount"], row["fee"]) == (4820, 48)


def test_the_same_execution_resumes_when_it_calls_again(
    calls: Calls, later: Callable[[], None], counted: Callable[[], dict[str, float]]
) -> None:
    calls("ClaimKey")
    later()

    with calls.writes_nothing():
        assert calls("ClaimKey") == ADMITTED

    assert counted() == {"StepCalled": 2, "Claimed": 1, "ClaimRepeated": 1}


def test_another_execution_does_not_run_a_settlement_in_flight(
    calls: Calls, later: Callable[[], None], counted: Callable[[], dict[str, float]]
) -> None:
    calls("ClaimKey")
    later()
    counted()

    with calls.writes_nothing():
        result = calls("ClaimKey", execution="execution-2")

    assert result == ADMITTED | {"replayed": True}
    assert counted() == {"IdempotencyReplay": 1, "StepCalled": 1}


@pytest.mark.parametrize("execution", ["execution-1", "execution-2"])
def test_the_caller_gets_the_owner_epoch(calls: Calls, execution: str) -> None:
    calls("ClaimKey")
    calls.alter(owner_epoch=3)

    with calls.writes_nothing():
        result = calls("ClaimKey", execution=execution)

    assert result == ADMITTED | {"owner_epoch": 3, "replayed": execution != "execution-1"}


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.PROCESSING])
@pytest.mark.parametrize("execution", ["execution-1", "execution-2"])
def test_no_execution_runs_a_settlement_that_is_past_processing(
    calls: Calls, status: Status, execution: str
) -> None:
    calls("ClaimKey")
    calls.alter(status=status)

    with calls.writes_nothing():
        result = calls("ClaimKey", execution=execution)

    assert result == ADMITTED | {"replayed": True}


@pytest.mark.parametrize(
    "spelling", [WIRE | {"amount": "48.2"}, WIRE | {"amount": "48.20"}, dict(reversed(WIRE.items()))]
)
def test_equal_requests_in_different_spellings_are_one_request(
    calls: Calls, spelling: dict[str, str]
) -> None:
    calls("ClaimKey", WIRE | {"amount": "48.2"})

    with calls.writes_nothing():
        assert calls("ClaimKey", spelling) == ADMITTED


@pytest.mark.parametrize("other", OTHER_CONTENT)
@pytest.mark.parametrize("execution", ["execution-1", "execution-2"])
def test_a_key_is_refused_to_other_content(
    calls: Calls, other: dict[str, str], execution: str, counted: Callable[[], dict[str, float]]
) -> None:
    calls("ClaimKey")
    counted()

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict, match=r"^key: order-2026-000101 "):
        calls("ClaimKey", other, execution=execution)

    assert counted() == {"StepCalled": 1, "IdempotencyConflict": 1}


def test_a_key_is_refused_to_other_content_after_the_end_too(calls: Calls) -> None:
    calls.after("CollectFee")

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        calls("ClaimKey", WIRE | {"amount": "48.21"})


@pytest.mark.parametrize(
    ("amount", "currency", "fee"),
    [("48.20", "EUR", "0.48"), ("48.99", "EUR", "0.48"), ("0.99", "EUR", "0.00"), ("4820", "JPY", "48")],
)
def test_a_request_that_names_no_fee_gets_the_scheduled_one_rounded_down(
    calls: Calls, amount: str, currency: str, fee: str
) -> None:
    result = calls("ClaimKey", WITHOUT_FEE | {"amount": amount, "currency": currency})

    assert result["settlement"]["fee"] == fee


@pytest.mark.parametrize("first", [WIRE, WITHOUT_FEE])
@pytest.mark.parametrize("second", [WIRE, WITHOUT_FEE])
def test_naming_the_scheduled_fee_or_none_is_the_same_request(
    calls: Calls, first: dict[str, str], second: dict[str, str]
) -> None:
    calls("ClaimKey", first)

    with calls.writes_nothing():
        assert calls("ClaimKey", second) == ADMITTED


def test_a_change_of_the_fee_schedule_between_two_tries_keeps_the_claimed_fee(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls("ClaimKey", WITHOUT_FEE)
    monkeypatch.setattr(_dependencies, "config", replace(_dependencies.config, fee_basis_points=200))

    with calls.writes_nothing():
        assert calls("ClaimKey", WITHOUT_FEE) == ADMITTED


def test_an_omitted_fee_takes_the_one_that_the_key_was_claimed_with(calls: Calls) -> None:
    calls("ClaimKey", WIRE | {"fee": "1.00"})

    with calls.writes_nothing():
        assert calls("ClaimKey", WITHOUT_FEE) == ADMITTED | {"settlement": WIRE | {"fee": "1.00"}}


def test_another_named_fee_is_a_conflict_even_if_the_first_request_named_none(calls: Calls) -> None:
    calls("ClaimKey", WITHOUT_FEE)

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        calls("ClaimKey", WIRE | {"fee": "0.49"})


def test_a_smaller_amount_than_the_claimed_fee_is_a_conflict_and_no_crash(calls: Calls) -> None:
    calls("ClaimKey", WIRE | {"fee": "40.00"})

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        calls("ClaimKey", WITHOUT_FEE | {"amount": "1.00"})


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("request_", "message"), MALFORMED)
def test_a_malformed_request_leaves_no_trace(
    calls: Calls, request_: Any, message: str, counted: Callable[[], dict[str, float]]
) -> None:
    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls("ClaimKey", request_)

    assert counted() == {"StepCalled": 1, "InvalidRequest": 1}


def test_a_claim_fails_closed_when_the_table_cannot_be_reached(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreachable(write: object) -> None:
        raise StoreUnavailable("DynamoDB: ReadTimeoutError")

    monkeypatch.setattr(_dependencies.store, "claim", unreachable)

    with calls.writes_nothing(), pytest.raises(StoreUnavailable):
        calls("ClaimKey")
