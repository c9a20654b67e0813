import json
import os
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from threading import Barrier
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from handlers.core import _workers
from handlers.merchants import sweep_merchants
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import QueueUnavailable, StoreUnavailable
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from settlement.merchants import sweeper, sweeps
from tests.handlers.conftest import Calls
from tests.handlers.merchants.conftest import ENTRY, SHOP
from tests.world.constants import CLAIMED_AT, KEY, ORDER
from tests.world.environment import NOW
from tests.world.functions import Context
from tests.world.services import released


def sweep(*entries: Row, left_ms: Iterator[int] | None = None) -> list[int]:
    answer = sweep_merchants.handler(released(*entries), Context(left_ms))
    return [int(one["itemIdentifier"].removeprefix("m-")) for one in answer["batchItemFailures"]]


def of_merchant(calls: Calls, account: str, minute: int = 0, **changed: Any) -> Row:
    """Put a release equal to the first one, `minute` minutes later; return its key."""
    entry = calls.ledger.row(ENTRY)
    assert entry
    at = timestamp(NOW + timedelta(minutes=minute))
    key = keys.entry(account, at, KEY, "release")
    calls.ledger.put({**entry, **key, "posted_at": at, "credit": account, **changed})
    return key


def spoilt(calls: Calls, changed: Row) -> Row:
    """Put a tampered entry in the same second as the release; return its key."""
    entry = calls.ledger.row(ENTRY)
    assert entry
    key = {**ENTRY, "sk": ENTRY["sk"].replace(KEY, "order-spoilt")}
    calls.ledger.put({name: value for name, value in {**entry, **key, **changed}.items() if value})
    return key


def reverse(calls: Calls) -> dict[str, Any]:
    return calls.begin(settlement=SHOP, reversal=ORDER | {"expected_status": "PROCESSING"})


def test_sweeping_a_release_makes_it_available_once(paid: Calls) -> None:
    paid.counted()

    sweep(ENTRY, ENTRY)
    with paid.writes_nothing():
        sweep(ENTRY)

    assert paid.account("merchant.shop")["available"] == 4772
    assert paid.counted() == {"StepCalled": 2, "MerchantSwept": 1}


def test_a_missing_merchant_does_not_delay_the_others(paid: Calls) -> None:
    gone = of_merchant(paid, "merchant.gone")
    paid.counted()

    assert sweep(gone, ENTRY) == [0]

    assert paid.account("merchant.shop")["available"] == 4772
    assert paid.counted() == {"StepCalled": 1, "AccountNotFound": 1, "MerchantSwept": 1}


def test_a_busy_merchant_is_tried_once_without_delaying_others(
    paid: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other writers keep changing its balance; the next merchant is swept after it."""
    paid.ledger.open("merchant.zoo", 0)
    entries = [ENTRY, of_merchant(paid, "merchant.shop", 1), of_merchant(paid, "merchant.zoo")]
    transact = Store.transact

    def busy(store: Store, writes: Any) -> Any:
        if any(write.parameters.get("Key") == keys.account("merchant.shop") for write in writes):
            raise StoreUnavailable("DynamoDB: TransactionConflict")
        return transact(store, writes)

    monkeypatch.setattr(Store, "transact", busy)
    paid.counted()

    assert sweep(*entries) == [0, 1]

    assert paid.account("merchant.zoo")["available"] == 4772
    assert paid.counted() == {"StepCalled": 1, "StoreUnavailable": 1, "MerchantSwept": 1}


def test_entries_without_time_left_are_redelivered(paid: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_workers, "THREADS", 1)
    paid.ledger.open("merchant.zoo", 0)
    entries = [of_merchant(paid, "merchant.zoo"), of_merchant(paid, "merchant.shop", 1), ENTRY]

    assert sweep(*entries, left_ms=iter([50_000, 1, 1])) == [0, 1]

    assert (paid.account("merchant.shop")["available"], paid.account("merchant.zoo")["available"]) == (
        4772,
        0,
    )


def test_merchants_are_swept_in_parallel(paid: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    together = Barrier(_workers.THREADS)
    fold = sweeper.fold

    def meets(*arguments: Any) -> int:
        together.wait(60)
        return fold(*arguments)

    monkeypatch.setattr(sweeper, "fold", meets)
    names = [f"merchant.m{number}" for number in range(_workers.THREADS)]
    for name in names:
        paid.ledger.open(name, 0)

    assert sweep(*(of_merchant(paid, name) for name in names)) == []

    assert [paid.account(name)["available"] for name in names] == [4772] * len(names)


def test_the_shortest_possible_merchant_name_is_swept(paid: Calls) -> None:
    paid.ledger.open("merchant.", 0)

    sweep(of_merchant(paid, "merchant."), ENTRY)

    assert paid.account("merchant.")["available"] == 4772
    assert paid.queues.sent == []


@pytest.mark.parametrize(
    "changed",
    [
        {"amount": "many"},
        {"amount": {"1"}},
        {"amount": None},
        {"amount": -1},
        {"amount": Decimal("1.5")},
        {"currency": None},
        {"currency": "JPY"},
        {"posted_at": "yesterday"},
        {"step": {"release"}},
    ],
    ids=str,
)
def test_only_a_forged_entry_is_put_aside(paid: Calls, changed: Row) -> None:
    bad = spoilt(paid, changed)

    sweep(bad, ENTRY)

    assert paid.account("merchant.shop")["available"] == 4772
    (aside,) = paid.queues.sent
    assert json.loads(aside["body"]) == [[bad["pk"], bad["sk"]]]
    assert aside["reason"]
    assert paid.queues.to == [os.environ["SWEEPS_PUT_ASIDE"]]


def test_an_entry_other_than_a_release_is_ignored(paid: Calls) -> None:
    spoilt(paid, {"step": "deposit", "currency": None, "amount": None})

    assert sweep(ENTRY) == []

    assert paid.account("merchant.shop")["available"] == 4772
    assert paid.queues.sent == []


@pytest.mark.parametrize("amount", [100, 4772, 5000])
def test_a_late_release_beside_a_tampered_release_is_put_aside(paid: Calls, amount: int) -> None:
    """The first release was swept before the tampering; once it is repaired, the late release is swept."""
    sweep(ENTRY)
    entry = paid.ledger.row(ENTRY)
    assert entry
    paid.ledger.put({**entry, "amount": "many"})
    late = spoilt(paid, {"amount": amount})

    assert sweep(late) == []

    assert paid.account("merchant.shop")["available"] == max(4772, amount)
    assert [json.loads(one["body"]) for one in paid.queues.sent] == [[[late["pk"], late["sk"]]]]
    paid.ledger.put(entry)
    sweep(ENTRY)
    assert paid.account("merchant.shop")["available"] == 4772 + amount


def test_a_corrected_entry_is_swept_with_its_minutes_other_entries(paid: Calls) -> None:
    bad = spoilt(paid, {"amount": "many"})
    sweep(bad, ENTRY)
    spoilt(paid, {"amount": 7})

    sweep(ENTRY)

    assert paid.account("merchant.shop")["available"] == 4779
    assert len(paid.queues.sent) == 1


def test_a_sweep_puts_only_entries_of_its_message_aside(paid: Calls) -> None:
    spoilt(paid, {"amount": "many"})

    sweep(ENTRY)

    assert paid.queues.sent == []


@pytest.mark.parametrize(
    "body",
    [
        "no json",
        "[" * 100_000,
        "{}",
    ],
    ids=lambda body: body[:60],
)
def test_only_an_unreadable_message_is_put_aside_with_its_reason(paid: Calls, body: str) -> None:
    event = released(ENTRY)
    event["Records"].insert(0, {"messageId": "m-1", "body": body})

    sweep_merchants.handler(event, Context())

    assert paid.account("merchant.shop")["available"] == 4772
    assert [one["body"] for one in paid.queues.sent] == [body]
    assert paid.queues.sent[0]["reason"]


@pytest.mark.parametrize(
    "changed", [{"folded": 1}, {"folded": {"57": "x"}}, {"version": Decimal("1.5")}], ids=str
)
def test_an_unreadable_sweep_row_delays_only_its_own_minute(paid: Calls, changed: Row) -> None:
    later = {**ENTRY, "sk": ENTRY["sk"].replace("T12:", "T13:")}
    entry = paid.ledger.row(ENTRY)
    assert entry
    paid.ledger.put({**entry, **later, "posted_at": entry["posted_at"].replace("T12:", "T13:")})
    minute = ENTRY["sk"][: keys.MINUTE]
    paid.ledger.put({**keys.swept(ENTRY["pk"], minute), "version": 1, "folded": {}, **changed})

    sweep(ENTRY, later)

    assert paid.account("merchant.shop")["available"] == 4772
    assert [json.loads(one["body"]) for one in paid.queues.sent] == [[[ENTRY["pk"], ENTRY["sk"]]]]


def test_a_message_that_cannot_be_put_aside_is_redelivered(paid: Calls) -> None:
    bad = spoilt(paid, {"amount": "many"})
    paid.queues.failure = EndpointConnectionError(endpoint_url="https://sqs.invalid")

    with pytest.raises(QueueUnavailable):
        sweep(bad, ENTRY)

    assert paid.account("merchant.shop")["available"] == 4772


@pytest.mark.parametrize(
    "wrong",
    [
        "ENTRIES#merchant.shop#3",
        ["ENTRIES#merchant.shop#3", 1],
        ["ENTRIES#merchant.shop", "2026-11-20T12:00:00.123Z#k:release"],
        ["ENTRIES#alice", "2026-11-20T12:00:00.123Z#k:release"],
        ["ENTRIES#merchant.shop#3", "yesterday"],
    ],
    ids=str,
)
def test_only_an_invalid_reference_to_a_release_is_put_aside(paid: Calls, wrong: Any) -> None:
    event = released(ENTRY)
    event["Records"][0]["body"] = json.dumps([wrong, *json.loads(event["Records"][0]["body"])])

    assert sweep_merchants.handler(event, Context()) == {"batchItemFailures": []}

    assert paid.account("merchant.shop")["available"] == 4772
    assert [json.loads(one["body"]) for one in paid.queues.sent] == [[wrong]]


def test_a_refund_before_any_sweep_uses_the_unswept_release(paid: Calls) -> None:
    found = reverse(paid)

    paid.reverse("ReclaimFunds", found, SHOP)

    assert paid.account("merchant.shop")["available"] == 0
    assert paid.row()["release_reversed_at"] == CLAIMED_AT
    with paid.writes_nothing():
        sweep(ENTRY)
        paid.reverse("ReclaimFunds", found, SHOP)


def test_a_refund_to_a_customer_sweeps_nothing(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    found = calls.reopened("ReclaimFunds")
    monkeypatch.setattr(sweeps, "before_refund", lambda state: pytest.fail("a customer is not swept"))

    calls.reverse("ReclaimFunds", found)

    assert calls.account("bob")["available"] == 500
