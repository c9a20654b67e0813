"""RefundFee: the fee goes back to the escrow, and no customer's balance moves."""

from collections.abc import Callable

from tests.handlers.calls import KEY, LATER_AT, Calls


def test_the_first_call_gives_the_fee_back_to_the_escrow(calls: Calls, later: Callable[[], None]) -> None:
    found = calls.reopened("RefundFee")
    before = calls.row()
    later()

    assert calls.reverse("RefundFee", found) is None

    assert calls.entry("compensate:fee") == {
        "posted_at": LATER_AT,
        "debit": "fees:EUR",
        "credit": f"escrow:{KEY}",
        "side": "debit",
        "amount": 48,
        "currency": "EUR",
        "gsi1pk": "ACCOUNT#fees:EUR#2",
        "gsi1sk": f"{LATER_AT}#{KEY}:compensate:fee",
    }
    assert calls.row() == before | {"escrow": 48, "reversed": {"fee"}}


def test_no_customers_balance_moves(calls: Calls) -> None:
    found = calls.reopened("RefundFee")

    calls.reverse("RefundFee", found)

    assert calls.account("alice") == {"available": 5180, "currency": "EUR"}
    assert calls.account("bob") == {"available": 5272, "currency": "EUR"}
