"""SweepMerchants, and the release to a merchant and its refund: received, available, given back."""

import json
import os
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from handlers import sweep_merchants
from settlement.adapters.dynamodb import Store
from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.model.errors import (
    AccountNotFound,
    CurrencyMismatch,
    InsufficientFunds,
    QueueUnavailable,
    StepFenced,
    StoreUnavailable,
)
from settlement.policy import sweeps
from tests.handlers.conftest import Counted
from tests.world.constants import CLAIMED_AT, KEY, ORDER, WIRE
from tests.world.functions import FORWARD, Calls, Context
from tests.world.services import Queues, released

SHOP = WIRE | {"payee": "merchant.shop"}
ENTRY = keys.entry("merchant.shop", CLAIMED_AT, KEY, "release")


def sweep(*entries: Row) -> None:
    sweep_merchants.handler(released(*entries), Context())


@pytest.fixture
def paid(calls: Calls) -> Calls:
    """A settlement with a merchant, who has nothing: released, and not swept."""
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("merchant.shop", 0)
    for state in FORWARD[: FORWARD.index("ReleaseFunds") + 1]:
        calls(state, SHOP, claimed_at=CLAIMED_AT)
    return calls


def spoilt(calls: Calls, changed: Row) -> Row:
    """Put an entry as a foreign hand would, in the second of the release; return its key."""
    entry = calls.ledger.row(ENTRY)
    assert entry
    key = {**ENTRY, "sk": ENTRY["sk"].replace(KEY, "order-spoilt")}
    calls.ledger.put({name: value for name, value in {**entry, **key, **changed}.items() if value})
    return key


def reverse(calls: Calls) -> dict[str, Any]:
    return calls.begin(settlement=SHOP, reversal=ORDER | {"expected_status": "PROCESSING"})


def test_a_release_to_a_merchant_leaves_its_balance_alone(paid: Calls) -> None:
    assert paid.account("merchant.shop")["available"] == 0
    assert paid.ledger.row(ENTRY)
    assert (paid.row()["escrow"], paid.row()["release_at"]) == (48, CLAIMED_AT)


def test_the_highest_balance_of_the_stage_does_not_stop_a_merchants_release(calls: Calls) -> None:
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("merchant.shop", 100_000_000)

    for state in FORWARD[: FORWARD.index("ReleaseFunds") + 1]:
        calls(state, SHOP, claimed_at=CLAIMED_AT)

    assert calls.row()["release_at"] == CLAIMED_AT


@pytest.mark.parametrize(("currency", "error"), [(None, AccountNotFound), ("USD", CurrencyMismatch)])
def test_a_merchant_who_cannot_be_paid_is_refused_by_name(
    calls: Calls, currency: str | None, error: type[Exception]
) -> None:
    """No order does this to an account: HoldFunds has found it there, and in this currency."""
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("merchant.shop", 0)
    for state in FORWARD[: FORWARD.index("ReleaseFunds")]:
        calls(state, SHOP, claimed_at=CLAIMED_AT)
    calls.close("merchant.shop")
    if currency:
        calls.ledger.open("merchant.shop", 0, currency)

    with calls.writes_nothing(), pytest.raises(error, match=r"^payee: "):
        calls("ReleaseFunds", SHOP)


def test_the_streams_record_makes_a_release_available_once(paid: Calls, counted: Counted) -> None:
    counted()

    sweep(ENTRY, ENTRY)
    sweep(ENTRY)

    assert paid.account("merchant.shop")["available"] == 4772
    assert counted() == {"StepCalled": 2, "MerchantSwept": 1}


def test_a_record_of_an_entry_that_is_swept_already_writes_nothing(paid: Calls) -> None:
    sweep(ENTRY)

    with paid.writes_nothing():
        sweep(ENTRY)


def test_one_account_that_cannot_be_swept_does_not_keep_another_waiting(paid: Calls) -> None:
    gone = {**ENTRY, "pk": "ENTRIES#merchant.gone#3"}
    entry = paid.ledger.row(ENTRY)
    assert entry
    paid.ledger.put(entry | gone)

    with pytest.raises(AccountNotFound):
        sweep(gone, ENTRY)

    assert paid.account("merchant.shop")["available"] == 4772


@pytest.mark.parametrize(
    "changed",
    [
        {"amount": "many"},
        {"amount": {"1"}},
        {"amount": None},
        {"amount": -1},
        {"amount": Decimal("1.5")},
        {"currency": None},
        {"posted_at": "yesterday"},
        {"step": {"release"}},
    ],
    ids=str,
)
def test_an_entry_that_no_function_has_put_is_put_aside_and_keeps_no_other_of_its_second_waiting(
    paid: Calls, queues: Queues, changed: Row
) -> None:
    bad = spoilt(paid, changed)

    sweep(bad, ENTRY)

    assert paid.account("merchant.shop")["available"] == 4772
    (aside,) = queues.sent
    assert json.loads(aside["body"]) == [[bad["pk"], bad["sk"]]]
    assert aside["reason"]
    assert queues.to == [os.environ["SWEEPS_PUT_ASIDE"]]


def test_an_entry_that_was_put_aside_is_swept_with_its_minute_once_it_is_mended(
    paid: Calls, queues: Queues
) -> None:
    bad = spoilt(paid, {"amount": "many"})
    sweep(bad, ENTRY)
    spoilt(paid, {"amount": 7})

    sweep(ENTRY)

    assert paid.account("merchant.shop")["available"] == 4779
    assert len(queues.sent) == 1


def test_an_entry_of_which_there_is_no_news_is_put_aside_by_no_later_sweep(
    paid: Calls, queues: Queues
) -> None:
    spoilt(paid, {"amount": "many"})

    sweep(ENTRY)

    assert queues.sent == []


@pytest.mark.parametrize(
    "body",
    [
        "no json",
        "[" * 100_000,
        "{}",
        '["ENTRIES#merchant.shop#3"]',
        '[["ENTRIES#merchant.shop#3", 1]]',
        '[["ENTRIES#merchant.shop", "2026-11-20T12:00:00.123Z#k:release"]]',
        '[["ENTRIES#alice", "2026-11-20T12:00:00.123Z#k:release"]]',
        '[["ENTRIES#merchant.shop#3", "yesterday"]]',
    ],
    ids=lambda body: body[:60],
)
def test_a_message_that_cannot_be_read_is_put_aside_with_its_reason_and_keeps_no_other_waiting(
    paid: Calls, queues: Queues, body: str
) -> None:
    event = released(ENTRY)
    event["Records"].insert(0, {"body": body})

    sweep_merchants.handler(event, Context())

    assert paid.account("merchant.shop")["available"] == 4772
    assert [one["body"] for one in queues.sent] == [body]
    assert queues.sent[0]["reason"]


@pytest.mark.parametrize(
    "changed", [{"folded": 1}, {"folded": {"57": "x"}}, {"version": Decimal("1.5")}], ids=str
)
def test_a_row_of_a_minute_that_cannot_be_read_holds_up_no_other_minute(
    paid: Calls, queues: Queues, changed: Row
) -> None:
    later = {**ENTRY, "sk": ENTRY["sk"].replace("T12:", "T13:")}
    entry = paid.ledger.row(ENTRY)
    assert entry
    paid.ledger.put({**entry, **later, "posted_at": entry["posted_at"].replace("T12:", "T13:")})
    minute = ENTRY["sk"][: keys.MINUTE]
    paid.ledger.put({**keys.swept(ENTRY["pk"], minute), "version": 1, "folded": {}, **changed})

    sweep(ENTRY, later)

    assert paid.account("merchant.shop")["available"] == 4772
    assert [json.loads(one["body"]) for one in queues.sent] == [[[ENTRY["pk"], ENTRY["sk"]]]]


def test_what_cannot_be_put_aside_comes_again(paid: Calls, queues: Queues) -> None:
    bad = spoilt(paid, {"amount": "many"})
    queues.failure = EndpointConnectionError(endpoint_url="https://sqs.invalid")

    with pytest.raises(QueueUnavailable):
        sweep(bad, ENTRY)

    assert paid.account("merchant.shop")["available"] == 4772


def test_a_batch_comes_again_if_the_table_gives_no_answer(
    paid: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*_: Any) -> Any:
        raise StoreUnavailable("DynamoDB: down")

    monkeypatch.setattr(Store, "transact", unavailable)

    with paid.writes_nothing(), pytest.raises(StoreUnavailable):
        sweep(ENTRY)


def test_a_refund_finds_its_release_although_no_sweep_has_come_to_it(paid: Calls) -> None:
    found = reverse(paid)

    paid.reverse("ReclaimFunds", found, SHOP)

    assert paid.account("merchant.shop")["available"] == 0
    assert paid.row()["release_reversed_at"] == CLAIMED_AT
    with paid.writes_nothing():
        sweep(ENTRY)
        paid.reverse("ReclaimFunds", found, SHOP)


def test_a_refund_of_what_the_merchant_has_spent_is_refused(paid: Calls) -> None:
    found = reverse(paid)
    sweep(ENTRY)
    paid.ledger.open("merchant.shop", 4771)

    with paid.writes_nothing(), pytest.raises(InsufficientFunds, match="give back"):
        paid.reverse("ReclaimFunds", found, SHOP)


def test_a_refund_of_a_settlement_that_is_not_reversed_is_fenced(paid: Calls) -> None:
    with pytest.raises(StepFenced):
        paid("ReclaimFunds", SHOP, execution="compensation-1")

    assert "release_reversed_at" not in paid.row()


def test_a_refund_to_a_customer_reads_nothing_but_what_it_needs(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = calls.reopened("ReclaimFunds")
    monkeypatch.setattr(sweeps, "before_refund", lambda state: pytest.fail("a customer is not swept"))

    calls.reverse("ReclaimFunds", found)

    assert calls.account("bob")["available"] == 500
