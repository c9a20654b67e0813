"""The steps: what goes into escrow comes out of it, and each step is the transaction that was recorded."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement import rows, steps
from settlement.errors import IdempotencyConflict
from settlement.request import Request, Settlement
from settlement.status import Status
from settlement.terms import Terms
from settlement.writes import Posting
from tests.conftest import NOW
from tests.unit.table import applied
from tests.unit.vectors import SETTLEMENT, VERDICT

REQUEST = Request(
    key=SETTLEMENT.key,
    payer="alice",
    payee="bob",
    amount=4820,
    currency="EUR",
    fee=None,
    deadline_seconds=None,
)


def postings(settlement: Settlement, terms: Terms) -> list[Posting]:
    return [
        steps.hold(settlement, NOW),
        steps.verify(settlement, VERDICT, NOW),
        steps.release(settlement, terms, NOW),
        steps.fee(settlement, NOW),
    ]


def values(posting: Posting) -> dict[str, Any]:
    return dict(posting.settlement.parameters["ExpressionAttributeValues"])


def escrow_change(posting: Posting) -> int:
    """What the settlement's row says after the step that it holds, less what it said before."""
    assert posting.settlement is not None
    after: int = applied(posting.settlement, {"escrow": 0})["escrow"]
    return after


# The money


@given(amount=st.integers(1, 10**15 - 1), data=st.data())
def test_what_goes_into_escrow_comes_out_of_it(amount: int, data: st.DataObject, terms: Terms) -> None:
    fee = data.draw(st.integers(0, amount - 1))
    settlement = replace(SETTLEMENT, amount=amount, fee=fee)

    balances = {"alice": 0, "bob": 0, "fees:EUR": 0, rows.escrow(settlement.key): 0}
    escrow = 0
    for posting in postings(settlement, terms):
        entry = posting.entry.parameters["Item"]
        escrow += escrow_change(posting)
        if "amount" in entry:
            assert entry["amount"] >= 0
            balances[entry["debit"]] -= entry["amount"]
            balances[entry["credit"]] += entry["amount"]
        assert escrow == balances[rows.escrow(settlement.key)] >= 0

    assert balances == {
        "alice": -amount,
        "bob": amount - fee,
        "fees:EUR": fee,
        rows.escrow(settlement.key): 0,
    }


def test_a_balance_moves_by_what_its_entry_says(settlement: Settlement, terms: Terms) -> None:
    hold, verify, release, fee = postings(settlement, terms)
    assert hold.balance is not None
    assert release.balance is not None

    for posting, account, update in (
        (hold, "alice", "SET available = available - :amount"),
        (release, "bob", "SET available = available + :net"),
    ):
        assert posting.balance is not None
        parameters = posting.balance.parameters
        assert parameters["Key"] == rows.account_key(account)
        assert parameters["UpdateExpression"] == update
        moved = parameters["ExpressionAttributeValues"][update.rpartition(" ")[2]]
        assert moved == posting.entry.parameters["Item"]["amount"]
    assert verify.balance is None
    assert fee.balance is None


@pytest.mark.parametrize(("currency", "cap"), [("EUR", 100_000_000), ("JPY", None)])
def test_a_release_keeps_to_the_cap_of_its_currency(
    currency: str, cap: int | None, settlement: Settlement, terms: Terms
) -> None:
    release = steps.release(replace(settlement, currency=currency), terms, NOW)

    assert release.balance is not None
    bound = release.balance.parameters["ExpressionAttributeValues"].get(":highest_before")
    assert bound == (None if cap is None else cap - settlement.net)


# The gate


def test_a_request_without_a_fee_takes_the_stages(terms: Terms) -> None:
    assert steps.requested(REQUEST, terms).fee == 48
    assert steps.requested(replace(REQUEST, fee=0), terms).fee == 0
    assert steps.requested(replace(REQUEST, fee=7), terms).fee == 7


def claimed(settlement: Settlement, **changes: Any) -> rows.Row:
    row = {
        "fee": settlement.fee,
        "request_hash": settlement.request_hash,
        "status": Status.PROCESSING,
        "owner": "me",
    }
    return row | changes


def test_the_request_that_claimed_the_key_is_admitted(settlement: Settlement) -> None:
    assert steps.admitted(replace(REQUEST, fee=48), claimed(settlement)) == settlement
    assert steps.admitted(REQUEST, claimed(settlement)) == settlement


def test_a_new_fee_schedule_does_not_make_a_retry_a_conflict(settlement: Settlement) -> None:
    earlier = replace(settlement, fee=24)

    assert steps.admitted(REQUEST, claimed(earlier)) == earlier


@pytest.mark.parametrize(
    "changes",
    [
        {"payer": "carol"},
        {"payee": "carol"},
        {"amount": 4821},
        {"amount": 1},
        {"currency": "USD"},
        {"fee": 47},
        {"fee": 0},
    ],
    ids=str,
)
def test_a_request_with_other_content_is_a_conflict(changes: dict[str, Any], settlement: Settlement) -> None:
    with pytest.raises(IdempotencyConflict, match=f"^key: {settlement.key} was claimed"):
        steps.admitted(replace(REQUEST, **changes), claimed(settlement))


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("owner", ["me", "me-too", ""])
def test_only_the_owner_of_a_settlement_in_process_drives_it(
    status: Status, owner: str, settlement: Settlement
) -> None:
    row = claimed(settlement, status=status.value, owner=owner)

    assert steps.is_replay(row, "me") == (status is not Status.PROCESSING or owner != "me")


# The end


def test_the_outcome_of_the_fee_is_what_its_transaction_leaves(settlement: Settlement, terms: Terms) -> None:
    later = NOW + timedelta(seconds=7)
    posting = steps.fee(settlement, later)
    claim = {"payer", "payee", "amount", "fee", "currency"}

    row = steps.settled(settlement, "2026-11-20T12:00:00.123Z", posting.entry.parameters["Item"])

    assert {name: row[name] for name in claim} == {name: getattr(settlement, name) for name in claim}
    assert row["status"] == values(posting)[":settled"]
    assert row["finished_at"] == values(posting)[":now"] == rows.timestamp(later)
    assert row["claimed_at"] == "2026-11-20T12:00:00.123Z"
    assert row["escrow"] == sum(map(escrow_change, postings(settlement, terms))) == 0
    committed = [values(each)[":steps"] for each in postings(settlement, terms)]
    assert row["steps"] == set().union(*committed)
