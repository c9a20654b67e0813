"""BeginCompensation with a person's `reversal`: a settled or stalled settlement is reversed, on record."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.model.errors import IdempotencyConflict, InvalidRequest, NotReversible
from settlement.model.status import Status
from tests.handlers.calls import (
    CLAIMED_AT,
    KEY,
    LATER_AT,
    MALFORMED_SETTLEMENTS,
    ORDER,
    OTHER_CONTENT,
    STALLED_ORDER,
    WIRE,
    Calls,
)

BY = ORDER["by"]
OTHER_ORDER = {"reason": "asked for by the payer", "by": "arn:aws:iam::123456789012:user/bea"}
FAILURE = {
    "step": "reverse",
    "error": "ReversalRequested",
    "cause": f"sent to the wrong shop (by {BY})",
}
FOUND = {
    "settlement": WIRE,
    "steps": ["fee", "hold", "release", "verify"],
    "reversed": [],
    "finished": False,
    "in_limbo": False,
    "case": 1,
    "alerts": 0,
}
EXPECTED = [
    ({}, Status.SETTLED),
    ({"expected_status": "SETTLED"}, Status.SETTLED),
    ({"expected_status": "PROCESSING"}, Status.PROCESSING),
]
ONE_LINE = "must be one line of at most 500 printable characters, not blank$"


def test_a_settled_settlement_is_in_flight_again_and_its_orderer_is_on_record(
    calls: Calls, later: Callable[[], None]
) -> None:
    calls.after("CollectFee")
    before, others = calls.row(), calls.ledger.rows()
    later()

    assert calls.begin(reversal=ORDER) == FOUND

    assert calls.entry("reverse") == {"posted_at": LATER_AT, **ORDER}
    after = before | {
        "status": "COMPENSATING",
        "failure": FAILURE,
        "reversed_for": FAILURE,
        "resolutions": 0,
        "owner": "compensation-1",
        "in_flight_since": LATER_AT,
        "gsi1pk": "IN_FLIGHT#2",
        "gsi1sk": "2026-11-20T12:00:37.123Z",
    }
    del after["finished_at"]
    assert calls.row() == after
    untouched = [row for row in others if row != before]
    assert [row for row in calls.ledger.rows() if row in untouched] == untouched
    assert len(calls.ledger.rows()) == len(others) + 1


@pytest.mark.parametrize("again", [ORDER, OTHER_ORDER])
def test_a_second_order_to_reverse_resumes_the_first_one(
    calls: Calls, later: Callable[[], None], again: dict[str, str], counted: Callable[[], dict[str, float]]
) -> None:
    calls.after("CollectFee")
    calls.begin(reversal=ORDER)
    later()
    counted()

    with calls.writes_nothing():
        assert calls.begin(reversal=again) == FOUND

    assert counted() == {"StepCalled": 1, "StepReplayed": 1}


def test_an_order_to_reverse_after_the_end_finds_the_end(calls: Calls) -> None:
    calls.unwind(calls.reopened("RefundFee"))

    with calls.writes_nothing():
        found = calls.begin(reversal=ORDER)

    assert found == FOUND | {"reversed": ["fee", "hold", "release"], "finished": True}


@pytest.mark.parametrize(
    ("more", "expected", "status"),
    [(more, expected, status) for more, expected in EXPECTED for status in Status if status is not expected],
)
def test_a_settlement_in_another_status_than_the_person_saw_is_not_reversed(
    calls: Calls,
    more: dict[str, str],
    expected: Status,
    status: Status,
    counted: Callable[[], dict[str, float]],
) -> None:
    calls.after("ReleaseFunds")
    calls.alter(status=status)
    counted()

    with (
        calls.writes_nothing(),
        pytest.raises(
            NotReversible, match=f"^reverse: it was to be {expected}, but the settlement is {status}$"
        ),
    ):
        calls.begin(reversal=ORDER | more)

    assert counted() == {"StepCalled": 1, "NotReversible": 1}


@pytest.mark.parametrize("more", [{}, {"expected_status": "SETTLED"}])
def test_an_order_expects_a_settled_settlement_by_name_or_by_default(
    calls: Calls, more: dict[str, str]
) -> None:
    calls.after("CollectFee")

    assert calls.begin(reversal=ORDER | more) == FOUND

    assert calls.entry("reverse") == {"posted_at": CLAIMED_AT, **ORDER}
    assert calls.row()["status"] == "COMPENSATING"


@pytest.mark.parametrize(
    ("state", "committed"),
    [
        ("ClaimKey", []),
        ("HoldFunds", ["hold"]),
        ("VerifyKyc", ["hold", "verify"]),
        ("ReleaseFunds", ["hold", "release", "verify"]),
    ],
)
def test_a_stalled_settlement_is_fenced_on_order_and_due_again_later(
    calls: Calls, later: Callable[[], None], state: str, committed: list[str]
) -> None:
    calls.after(state)
    before = calls.row()
    later()

    found = calls.begin(reversal=STALLED_ORDER)

    assert found == FOUND | {"steps": committed}
    assert calls.entry("reverse") == {"posted_at": LATER_AT, **ORDER}
    assert calls.row() == before | {
        "status": "COMPENSATING",
        "failure": FAILURE,
        "reversed_for": FAILURE,
        "resolutions": 0,
        "owner": "compensation-1",
        "in_flight_since": LATER_AT,
        "gsi1pk": "IN_FLIGHT#2",
        "gsi1sk": "2026-11-20T12:00:37.123Z",
    }


@pytest.mark.parametrize("order", [ORDER, STALLED_ORDER])
def test_an_unclaimed_key_is_not_reversed_and_gets_no_tombstone(calls: Calls, order: dict[str, str]) -> None:
    with (
        calls.writes_nothing(),
        pytest.raises(NotReversible, match=f"^reverse: the key {KEY} was never claimed$"),
    ):
        calls.begin(reversal=order)


@pytest.mark.parametrize(("more", "expected"), EXPECTED)
def test_a_settlement_that_a_person_completed_out_of_limbo_is_not_reversed(
    calls: Calls, more: dict[str, str], expected: Status
) -> None:
    calls.fall("release")
    calls.resolve("complete")

    with (
        calls.writes_nothing(),
        pytest.raises(
            NotReversible,
            match=f"^reverse: it was to be {expected}, but the settlement is SETTLED"
            " and was completed out of LIMBO$",
        ),
    ):
        calls.begin(reversal=ORDER | more)


@pytest.mark.parametrize("again", [ORDER, OTHER_ORDER])
def test_a_reversal_that_a_person_ended_by_completing_is_not_resumed(
    calls: Calls, again: dict[str, str], counted: Callable[[], dict[str, float]]
) -> None:
    calls.fall("fee")
    calls.resolve("complete")
    counted()

    with (
        calls.writes_nothing(),
        pytest.raises(NotReversible, match=r"^reverse: the settlement was completed out of LIMBO since"),
    ):
        calls.begin(reversal=again)

    assert counted()["NotReversible"] == 1


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(
    ("order", "message"),
    [
        *[
            pytest.param(raw, "^reversal: must be a JSON object with reason and by$", id=repr(raw))
            for raw in (None, "because", [ORDER], 5, True)
        ],
        *[
            pytest.param(ORDER | {name: text}, rf"^reversal\.{name}: {ONE_LINE}", id=f"{name}={text!r:.12}")
            for name in ORDER
            for text in (None, 5, "", " ", "two\nlines", "a\ttab", "x" * 501, ["x"])
        ],
        *[
            pytest.param(
                ORDER | {"expected_status": status},
                r"^reversal\.expected_status: must be SETTLED or PROCESSING, or be left out$",
                id=f"expected_status={status!r}",
            )
            for status in (None, "", "settled", "LIMBO", "COMPENSATING", "REJECTED", 5, ["SETTLED"])
        ],
        pytest.param({"by": BY}, rf"^reversal\.reason: {ONE_LINE}", id="no reason"),
        pytest.param({"reason": "why"}, rf"^reversal\.by: {ONE_LINE}", id="no person"),
    ],
)
def test_a_malformed_order_is_refused(calls: Calls, order: Any, message: str) -> None:
    calls.after("CollectFee")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls.begin(reversal=order)


def test_a_reason_of_the_greatest_length_is_kept_without_the_blanks_around_it(calls: Calls) -> None:
    calls.after("CollectFee")

    calls.begin(reversal={"reason": f" {'x' * 498} ", "by": "x" * 500})

    assert (calls.entry("reverse")["reason"], calls.entry("reverse")["by"]) == ("x" * 498, "x" * 500)


@pytest.mark.parametrize("other", OTHER_CONTENT)
@pytest.mark.parametrize("begun", [True, False])
def test_other_content_is_refused(calls: Calls, other: dict[str, str], begun: bool) -> None:
    calls.after("CollectFee")
    if begun:
        calls.begin(reversal=ORDER)

    with calls.writes_nothing(), pytest.raises(IdempotencyConflict):
        calls.begin(settlement=other, reversal=ORDER)


@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
@pytest.mark.parametrize(("settlement", "message"), MALFORMED_SETTLEMENTS)
def test_a_malformed_settlement_is_refused(calls: Calls, settlement: Any, message: str) -> None:
    calls.after("CollectFee")

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        calls.begin(settlement=settlement, reversal=ORDER)
