from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.model.errors import (
    InsufficientFunds,
    InvalidRequest,
    PartRefused,
    SettlementNotFound,
    StoreUnavailable,
)
from tests.handlers.conftest import Calls
from tests.world.constants import HASH, KEY, LATER_AT, ORDER
from tests.world.orders import PROOF

NET = 4772
BACK: dict[str, Any] = {"key": KEY, "part": 1, "amount": "5.00", **ORDER}


@pytest.fixture
def settled(calls: Calls) -> Calls:
    """A settled payment of 48.20 with a fee of 0.48: alice has 51.80 left, bob 52.72."""
    calls.after("CollectFee")
    calls.later()
    return calls


def reverse(calls: Calls, part: int = 1, amount: str = "5.00", **more: Any) -> dict[str, Any]:
    return calls.order("reverse-part", BACK | {"part": part, "amount": amount} | more)


def balances(calls: Calls) -> tuple[int, int]:
    return calls.account("alice")["available"], calls.account("bob")["available"]


def counted_parts(calls: Calls) -> tuple[str, int, int, int]:
    row = calls.row()
    return row["status"], row.get("parts", 0), row.get("reversed_in_part", 0), row["escrow"]


def test_reversing_a_part_pays_the_payer_and_keeps_the_fee(settled: Calls) -> None:
    before = settled.row()

    answer = reverse(settled)

    known = {name: PROOF[name] for name in ("user_id", "request_id")}
    on_record = {**ORDER, **known, "posted_at": LATER_AT, "amount": "5.00", "currency": "EUR"}
    assert answer == {"key": KEY, "part": 1, "order": on_record}
    assert settled.row() == before | {"parts": 1, "reversed_in_part": 500, "sequence": before["sequence"] + 1}
    assert balances(settled) == (5180 + 500, 5272 - 500)
    assert settled.entry("reverse-part:1") == {
        "posted_at": LATER_AT,
        "amount": 500,
        **ORDER,
        **PROOF,
        **keys.orders_index(LATER_AT),
    } | {"currency": "EUR", "debit": "bob", "credit": f"escrow:{KEY}", "side": "debit"}
    assert settled.entry("refund-part:1")["credit"] == "alice"
    assert settled.step_functions.started == []


def test_the_parts_cannot_exceed_the_released_amount(settled: Calls) -> None:
    reverse(settled)
    reverse(settled, 2, "40.00")
    with settled.writes_nothing(), pytest.raises(PartRefused, match=r"^amount: is more than what is left"):
        reverse(settled, 3, "2.73")

    reverse(settled, 3, "2.72")

    assert counted_parts(settled) == ("SETTLED", 3, NET, 0)
    assert balances(settled) == (5180 + NET, 500)
    with settled.writes_nothing(), pytest.raises(PartRefused, match=r"^amount: is more than what is left"):
        reverse(settled, 4, "0.01")


def test_a_repeated_part_gets_the_recorded_answer(settled: Calls) -> None:
    first = reverse(settled)

    with settled.writes_nothing():
        again = reverse(settled, by="arn:aws:iam::123456789012:user/bea")

    assert again == first
    assert settled.counted()["StepReplayed"] == 1


@pytest.mark.parametrize(
    ("change", "field"), [({"amount": "5.01"}, "amount"), ({"reason": "another"}, "reason")]
)
def test_a_repeated_part_with_other_values_is_refused(settled: Calls, change: Any, field: str) -> None:
    reverse(settled)

    message = rf"^part: number 1 is on record since {LATER_AT} with another {field}$"
    with settled.writes_nothing(), pytest.raises(PartRefused, match=message):
        reverse(settled, **change)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"amount": "5.001"}, InvalidRequest, "amount: must be a decimal string with at most 2 decimals"),
        ({"amount": "0.00"}, InvalidRequest, "amount: must be greater than zero"),
        ({"amount": "-1.00"}, InvalidRequest, "amount: must be a decimal string"),
        ({"amount": "1e3"}, InvalidRequest, "amount: must be a decimal string"),
        ({"amount": 5}, InvalidRequest, "amount: must be a decimal string"),
        ({"amount": None}, InvalidRequest, "amount: must be a decimal string"),
        ({"amount": "47.73"}, PartRefused, "amount: is more than what is left"),
        ({"amount": "9" * 13 + ".00"}, PartRefused, "amount: is more than what is left"),
        ({"part": 0}, InvalidRequest, "part: must be the number of this part"),
        ({"part": True}, InvalidRequest, "part: must be the number of this part"),
        ({"part": "1"}, InvalidRequest, "part: must be the number of this part"),
        ({"part": 10**30}, InvalidRequest, "part: must be the number of this part"),
        ({"reason": ""}, InvalidRequest, "reason: must be one line"),
        ({"reason": "x" * 10_000}, InvalidRequest, "reason: must be one line"),
        ({"key": "short"}, InvalidRequest, "key: must be a string that matches"),
        ({"key": "order-no-such-0001"}, SettlementNotFound, "key: no request has claimed it"),
        ({"currency": "EUR"}, InvalidRequest, "currency: unknown field"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_written(
    settled: Calls, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    with settled.writes_nothing(), pytest.raises(error, match=f"^{message}"):
        settled.order("reverse-part", BACK | change)


def test_a_part_is_refused_if_the_payee_spent_the_money(settled: Calls) -> None:
    settled.ledger.put(keys.account("bob") | settled.account("bob") | {"available": 499})

    with settled.writes_nothing(), pytest.raises(InsufficientFunds, match=r"^payee: "):
        reverse(settled)

    reverse(settled, amount="4.99")
    assert counted_parts(settled) == ("SETTLED", 1, 499, 0)


def test_a_part_whose_answer_was_lost_can_be_repeated(settled: Calls) -> None:
    silent = StoreUnavailable("DynamoDB: no answer")
    with settled.fails("record", silent, after=True), pytest.raises(StoreUnavailable):
        reverse(settled)

    assert reverse(settled)["part"] == 1
    assert counted_parts(settled) == ("SETTLED", 1, 500, 0)


def test_the_outcome_shows_the_amount_reversed_in_parts(settled: Calls) -> None:
    assert "reversed_in_part" not in settled.report()
    reverse(settled)
    reverse(settled, 2, "1.5")

    assert settled.report()["reversed_in_part"] == "6.50"
    assert settled.row()["request_hash"] == HASH
