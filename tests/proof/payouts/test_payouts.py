"""A payout's rows are known, and its money is in the sums."""

from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.store.wire import from_wire
from settlement.payouts import destination, moves, writes
from settlement.payouts.moves import Move
from settlement.proof import Findings, table_scan
from tests.proof.client import readable
from tests.proof.town import Town
from tests.unit.payouts.rows import ADA, GIVEN, LIMITS, NOTES, PAYABLE, PAYOUT, SAID, SHA256

PATHS: dict[str, tuple[Move, ...]] = {
    "reserved": (),
    "paid": (Move.SEND, Move.ACCEPT, Move.PAY),
    "refused": (Move.SEND, Move.REFUSE),
    "returned": (Move.SEND, Move.ACCEPT, Move.PAY, Move.RETURN),
}


def lived(*path: Move, to_suspense: bool = False) -> Town:
    town = Town()
    town.open("alice", 10_000)
    town.put(
        {**destination.add(GIVEN, ADA, town.now).parameters["Item"], "payable_from": PAYABLE.payable_from}
    )
    now = town.tick()
    town.store.transact(writes.reserve(PAYOUT, PAYABLE, LIMITS, now))
    state = writes.reserved(PAYOUT, PAYABLE, now)
    for move in path:
        now = town.tick()
        noted: dict[str, Any] = dict(SAID) if move is Move.ACCEPT else NOTES.get(move, {})
        after = moves.after(state, move, now, **noted)
        is_last = to_suspense and move is path[-1]
        town.store.transact(writes.move(state, after, move, now, to_suspense=is_last))
        state = after
    assert state.sent_sha256 in (None, SHA256)
    return town


def proven(town: Town) -> Findings:
    return table_scan.check(readable(town.table))


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("to_suspense", [False, True])
def test_each_state_of_a_payout_is_proven(name: str, to_suspense: bool) -> None:
    is_back = name in ("refused", "returned")
    found = proven(lived(*PATHS[name], to_suspense=to_suspense and is_back))

    amount = PAYOUT.amount
    at_customer = 10_000 if is_back and not to_suspense else 10_000 - amount
    assert (found.faults, found.unproven, found.conserved) == ([], [], True)
    assert {kind: sum_ for kind, sum_ in found.totals["EUR"].items() if sum_} == {
        "customers": at_customer,
        "external": -10_000 + (amount if name == "paid" else 0),
        **({"transit": amount} if name == "reserved" else {}),
        **({"suspense": amount} if is_back and to_suspense else {}),
    }


@pytest.mark.parametrize(
    "changed",
    [
        {"credit": "external:EUR"},
        {"credit": "transit:USD"},
        {"credit": "escrow:payout-2026-000101"},
        {"step": "payout-refuse"},
        {"amount": -1},
    ],
    ids=str,
)
def test_an_entry_that_no_payout_makes_is_a_fault(changed: dict[str, Any]) -> None:
    town = lived()
    (entry,) = (
        from_wire(item) for item in town.table.items.values() if item.get("step") == {"S": "payout-reserve"}
    )

    town.put(entry | changed)

    assert any("is malformed" in fault for fault in proven(town).faults)


@pytest.mark.parametrize(
    ("key", "changed"),
    [
        (keys.payout(PAYOUT.key), {"amount": 0}),
        (keys.payout(PAYOUT.key), {"account": "fees:EUR"}),
        (keys.payout(PAYOUT.key), {"reserved_at": "today"}),
        (keys.payout(PAYOUT.key), {"sk": "BALANCES"}),
        (keys.destination("landlord"), {"sk": "OTHER"}),
        (keys.payout_reference(PAYOUT.reference), {"sk": "OTHER"}),
    ],
    ids=str,
)
def test_a_malformed_row_is_a_fault(key: dict[str, str], changed: dict[str, Any]) -> None:
    town = lived()
    row = town.store.read(key)
    assert row

    town.put(dict(row) | changed)

    assert len([fault for fault in proven(town).faults if "is malformed" in fault]) == 1
