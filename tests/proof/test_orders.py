"""Each deposit, withdrawal and account state has its order."""

from datetime import timedelta

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.timestamps import timestamp
from settlement.proof import table_scan
from tests.proof.client import readable, reconciled
from tests.proof.town import Town, external, order
from tests.world.environment import NOW

FREEZE, UNFREEZE, CLOSE = "freeze-of-dave-00001", "unfreeze-of-dave-001", "close-of-dave-000001"


@pytest.fixture
def town() -> Town:
    town = Town()
    town.open("alice", 1_000)
    town.open("dave", 0)
    town.open("erin", 300)
    town.withdraw("withdraw-of-alice-001", "alice", 400)
    town.withdraw("withdraw-of-erin-0001", "erin", 300)
    town.state("freeze", FREEZE, "dave")
    town.state("unfreeze", UNFREEZE, "dave")
    town.state("freeze", f"{FREEZE}-again", "dave")
    town.state("close", CLOSE, "erin")
    return town


def test_the_proof_accepts_orders_and_their_effects(town: Town) -> None:
    findings = reconciled(town.table.items)

    assert (findings.faults, findings.unproven, findings.in_flight) == ([], [], 0)
    assert findings.totals["EUR"] == {"customers": 600, "external": -600}
    assert findings.conserved


def test_money_moved_without_an_order_is_found(town: Town) -> None:
    """Without orders, this agreeing entry and balance would be a lawful deposit."""
    alice = town.row(keys.account("alice"))
    town.put(alice | {"available": alice["available"] + 900})
    forged = external("deposit-unordered-01", "deposit", "alice", 900, "EUR", timestamp(NOW))
    town.put(forged | {"request_hash": "0" * 64})

    findings = reconciled(town.table.items)

    assert findings.faults == ["ACCOUNT#alice: no order explains its deposit deposit-unordered-01"]


@pytest.mark.parametrize(
    "place",
    [
        {},
        keys.orders_index("2026-11-20T11:00:00.000Z"),
        keys.orders_index(timestamp(NOW)) | {"gsi1pk": keys.LIMBO},
    ],
)
def test_an_order_missing_from_the_index_is_found(town: Town, place: Row) -> None:
    """Otherwise the audit, which reads the index, would miss the order."""
    order_row = town.row(keys.order(CLOSE))
    town.put({name: order_row[name] for name in order_row if not name.startswith("gsi1")} | place)

    assert (
        f"ORDER#{CLOSE}: ORDER is malformed: is not listed among the orders of its time"
        in reconciled(town.table.items).faults
    )


def test_raising_a_deposit_and_its_balance_together_is_found(town: Town) -> None:
    alice = town.row(keys.account("alice"))
    town.put(alice | {"available": alice["available"] + 1})
    (key,) = (at for at in town.table.items if at[0] == "ENTRIES#alice" and at[1].endswith(":deposit"))
    entry = town.row({"pk": key[0], "sk": key[1]})
    town.put(entry | {"amount": entry["amount"] + 1})

    assert [fault.partition(":")[0] for fault in reconciled(town.table.items).faults] == ["ACCOUNT#alice"]


@pytest.mark.parametrize(
    ("account", "changes"),
    [
        ("alice", {"opened_at": timestamp(NOW - timedelta(days=1))}),
        ("alice", {"opened_at": None}),
        ("alice", {"frozen_at": timestamp(NOW)}),
        ("alice", {"closed_at": timestamp(NOW)}),
        ("dave", {"frozen_at": None}),
        ("dave", {"frozen_at": timestamp(NOW)}),
        ("erin", {"closed_at": None}),
        ("erin", {"closed_at": timestamp(NOW)}),
        ("dave", {"currency": "JPY"}),
        ("dave", {"last_order": UNFREEZE}),
        ("erin", {"last_order": "open-of-erin-000000"}),
        ("alice", {"last_order": "withdraw-of-alice-001"}),
    ],
)
def test_an_account_state_that_no_order_set_is_found(town: Town, account: str, changes: Row) -> None:
    changed = town.row(keys.account(account)) | changes
    town.put({name: value for name, value in changed.items() if value is not None})

    findings = table_scan.check(readable(town.table))

    assert [fault.partition(":")[0] for fault in findings.faults] == [f"ACCOUNT#{account}"]


@pytest.mark.parametrize(
    "key",
    ["open-of-alice-000000", "deposit-of-alice-0000", "withdraw-of-alice-001", FREEZE, UNFREEZE, CLOSE],
)
def test_a_deleted_order_is_found(town: Town, key: str) -> None:
    del town.table.items[f"ORDER#{key}", "ORDER"]

    assert len(reconciled(town.table.items).faults) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"amount": 399},
        {"amount": 0},
        {"account": "dave"},
        {"currency": "USD"},
        {"reference": "another"},
        {"by": "mallory"},
        {"reason": "another"},
        {"posted_at": timestamp(NOW)},
        {"request_hash": "0" * 64},
        {"order": "deposit"},
        {"order": "give"},
    ],
)
def test_an_order_that_contradicts_its_effect_is_found(town: Town, changes: Row) -> None:
    town.put(town.row(keys.order("withdraw-of-alice-001")) | changes)

    assert not reconciled(town.table.items).conserved
    assert reconciled(town.table.items).faults


def test_an_order_without_any_effect_is_found(town: Town) -> None:
    town.put(order("deposit-of-alice-001", "deposit", "alice", timestamp(NOW), "EUR", 5))

    assert reconciled(town.table.items).faults == [
        "ACCOUNT#alice: its order deposit-of-alice-001 has no entry of the deposit"
    ]


def test_a_deposit_made_during_the_scan_is_not_a_fault(town: Town) -> None:
    for number, first in enumerate(("ACCOUNT", "ORDER", "ENTRIES"), 1):
        before = {key: item for key, item in town.table.items.items() if key[0].startswith(first)}
        key = f"deposit-meanwhile-{number:04}"
        town.deposit(key, "alice", 50, at=timestamp(town.tick()))
        store = readable(town.table)
        scanned = store.client.scan
        after = dict(town.table.items)
        town.table.items.update(before)
        for new in after.keys() - before.keys():
            if new[0].startswith(first):
                del town.table.items[new]

        def scan(scanned: object = scanned, after: object = after, **parameters: object) -> object:
            answer = scanned(**parameters)  # type: ignore[operator]
            if parameters["Segment"] == 0:
                town.table.items.update(after)  # type: ignore[call-overload]
            return answer

        store.client.scan = scan
        findings = table_scan.check(store)

        assert (findings.faults, findings.unproven) == ([], [])
        assert findings.conserved
        town.table.items.update(after)
