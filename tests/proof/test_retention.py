"""Remaining rows prove the books; the sealed journal proves expired entries."""

from datetime import datetime, timedelta

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.store.wire import from_wire
from settlement.journal import lines
from settlement.proof import Difference, Look, second_look, unwatched
from settlement.proof.watched_store import WatchedStore
from settlement.retention.expiry import EXPIRES
from settlement.signing.signature import RowKeys
from tests.proof.aged import DAYS, LATER, ROW_KEYS, aged, compared, put, reconciled, rows_of, sealed
from tests.proof.client import readable
from tests.proof.mutations import Mutation, Rows, singles
from tests.proof.shapes import SHAPES
from tests.proof.unknowable import is_explained
from tests.world.environment import NOW
from tests.world.memory_dynamodb import MemoryDynamoDb
from tests.world.rooms import there

ONE_OF = 60
"""The quick suite tries one in this many mutations of each shape, with a different start for each."""

SLOTS = frozenset(f"{step}_at" for step in ("hold", "release", "fee")) | {
    f"{step}_reversed_at" for step in ("hold", "release", "fee")
}
UNREVERSED = {
    "held",
    "released",
    "settled",
    "voided",
    "reversed on order",
    *there("merchants", "swept", "given back by a merchant"),
}


pytestmark = pytest.mark.usefixtures("one_segment")


def settlement_of(rows: Rows, number: int = 1) -> Row:
    found = [
        item for key, item in rows.items() if key[1] == "SETTLEMENT" and key[0].endswith(f"-{number:04}")
    ]
    return from_wire(found[0])


def entries_in(rows: Rows) -> list[tuple[str, str]]:
    return [key for key, item in rows.items() if EXPIRES in item]


def without(rows: Rows, *gone: tuple[str, str]) -> Rows:
    return {key: item for key, item in rows.items() if key not in gone}


def is_known_by_the_journal_alone(one: Mutation) -> bool:
    """Return whether only the journal shows a change: of a step's time, or of a whole payment."""
    if one.attribute in SLOTS:
        return one.change in ("changed", "swapped")
    return one[:3] == ("settlement COMPENSATED", "the row", "deleted")


@pytest.mark.parametrize("shape", SHAPES)
def test_a_table_with_expired_entries_agrees_with_the_sealed_journal(shape: str) -> None:
    rows = aged(shape)
    gone = len(rows_of(shape)) - len(rows)

    findings, found = reconciled(rows), compared(sealed(rows_of(shape)), rows)

    assert findings.conserved
    assert (findings.faults, findings.unproven, findings.in_flight) == ([], [], 0)
    assert (found.faults, found.expired, found.restored) == ([], gone, [])


@pytest.mark.parametrize("shape", SHAPES)
def test_the_proof_accepts_any_subset_of_expired_entries(shape: str) -> None:
    rows, entries = rows_of(shape), entries_in(rows_of(shape))

    for gone in (entries[:0], entries[:1], entries[1:], entries[::2], entries[1::2]):
        left = without(rows, *gone)
        assert reconciled(left).conserved
        assert compared(sealed(rows), left).faults == []
        assert reconciled(left).totals == reconciled(rows, NOW).totals


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_each_mutation_of_the_remaining_rows_is_found(shape: str) -> None:
    rows, journal = aged(shape), sealed(rows_of(shape))
    start = list(SHAPES).index(shape) % ONE_OF

    for one in list(singles(rows))[start::ONE_OF]:
        changed = one.of(rows)
        if is_explained(one.kind) or not reconciled(changed).conserved:
            continue
        assert is_known_by_the_journal_alone(one), one[:3]
        assert compared(journal, changed).faults, one[:3]


@pytest.mark.parametrize("shape", ["settled", "voided", "in LIMBO for the hold", "to be reversed on order"])
def test_the_journal_finds_changed_times_whose_entries_have_expired(shape: str) -> None:
    rows, journal = aged(shape), sealed(rows_of(shape))
    hidden = [
        one
        for one in singles(rows)
        if is_known_by_the_journal_alone(one) and reconciled(one.of(rows)).conserved
    ]

    assert len(hidden) > 1
    for one in hidden:
        assert compared(journal, one.of(rows)).faults, one[:3]


@pytest.mark.parametrize(
    "shape", ["held", "settled", "voided", "reversed on order", *there("merchants", "swept")]
)
def test_an_entry_missing_before_its_expiry_is_a_fault(shape: str) -> None:
    """Except in the last day, a slack for reading time and clock skew."""
    rows = rows_of(shape)
    early = NOW + timedelta(days=DAYS - 1, hours=-1)

    for entry in entries_in(rows):
        findings = reconciled(without(rows, entry), early)
        assert any("has no entry" in fault for fault in findings.faults), entry
        assert compared(sealed(rows), without(rows, entry), early).faults == [
            f"{entry[0]} {entry[1]}: is in the sealed journal, and not in the table"
        ]


def test_a_persons_deletion_is_named_even_after_the_entrys_expiry() -> None:
    rows = rows_of("settled")
    journal, (pk, sk) = sealed(rows), entries_in(rows)[0]
    old = from_wire(rows[pk, sk])
    journal.add({"event": "REMOVE", "at": int(LATER.timestamp()), "number": "2", "old": lines.image(old)})

    (fault,) = compared(journal, aged("settled")).faults

    assert fault.startswith(f"{pk} {sk}: is in the sealed journal, and not in the table (REMOVE at ")


@pytest.mark.parametrize("days", [None, DAYS + 10])
def test_the_proof_needs_the_shortest_retention_ever_set(days: int | None) -> None:
    findings = reconciled(aged("settled"), days=days)

    assert not findings.conserved
    assert any("has no entry hold" in fault for fault in findings.faults)
    assert compared(sealed(rows_of("settled")), aged("settled"), days=days).faults


@pytest.mark.parametrize("days", [None, DAYS + 1])
def test_an_entry_with_an_impossible_expiry_is_malformed(days: int | None) -> None:
    findings = reconciled(rows_of("settled"), NOW, days)

    assert {fault.partition("malformed: ")[2] for fault in findings.faults} == {
        "expires_at is none that a function of this stage gives it"
    }


def test_a_longer_retention_keeps_entries_provable_by_the_shorter_one() -> None:
    rows = rows_of("settled", 800)

    assert reconciled(rows, LATER).conserved
    assert not reconciled(without(rows, entries_in(rows)[0]), NOW).conserved


def test_the_journal_finds_a_deleted_entry_without_expiry() -> None:
    """The rows cannot show it, because the entry could have expired."""
    rows = rows_of("settled", None)
    entry = next(key for key in rows if key[0].startswith("ENTRIES#alice") and key[1].endswith(":hold"))
    left = without(rows, entry)

    assert reconciled(left).conserved
    assert compared(sealed(rows), left).faults == [
        f"{entry[0]} {entry[1]}: is in the sealed journal, and not in the table"
    ]


@pytest.mark.parametrize("later", [-1, 1, 86_399, -86_400, 86_400])
def test_an_expiry_not_whole_days_after_posting_is_a_fault(later: int) -> None:
    rows = rows_of("settled")
    row = from_wire(rows[entries_in(rows)[0]])
    forged = put(rows, row | {EXPIRES: row[EXPIRES] + later}, ROW_KEYS)

    findings = reconciled(forged, NOW)

    assert bool(findings.faults) is (later != 86_400)  # 86,400 fits a retention one day longer


@pytest.mark.parametrize("kind", ["ACCOUNT", "SETTLEMENT", "EVIDENCE", "ORDER"])
def test_a_permanent_row_with_an_expiry_is_at_fault(kind: str) -> None:
    """DynamoDB would delete it: a settlement could be paid twice, or a balance be lost."""
    rows = rows_of("reversed on order")
    key = next(one for one in rows if one[0].startswith(kind))
    row = from_wire(rows[key]) | {EXPIRES: int((NOW + timedelta(days=DAYS)).timestamp())}

    findings = reconciled(put(rows, row, ROW_KEYS), NOW)

    assert any("expires_at is none" in fault for fault in findings.faults)


def test_a_step_dated_before_its_claim_is_a_fault() -> None:
    """Otherwise a claim of today with a forged old hold would need no entry."""
    rows = rows_of("claimed")
    row = settlement_of(rows)
    long_ago = "2025-01-01T00:00:00.000Z"
    forged = put(rows, row | {"hold_at": long_ago, "escrow": row["amount"], "sequence": 2})
    payer = from_wire(forged["ACCOUNT#alice", "BALANCE"])
    forged = put(forged, payer | {"available": payer["available"] - row["amount"]})

    findings = reconciled(forged, NOW)

    assert findings.faults == [
        f"{row['pk']}: hold_at is {long_ago}, but it was claimed at {row['claimed_at']}"
    ]


def test_a_reversal_dated_before_its_order_is_a_fault() -> None:
    rows, later = rows_of("reversed on order"), LATER
    row = settlement_of(rows)
    order = from_wire(rows[f"EVIDENCE#{row['pk'][11:]}", f"{row['pk'][11:]}:reverse"])
    before = "2027-06-01T00:00:00.000Z"
    earlier = order | {"posted_at": before} | keys.orders_index(before)
    forged = put(
        put(aged("reversed on order"), earlier, ROW_KEYS), row | {"in_flight_since": earlier["posted_at"]}
    )

    assert any("but the order to reverse it is of" in fault for fault in reconciled(forged, later).faults)


def test_the_journal_finds_an_old_voided_payment_forged_as_paid() -> None:
    """The rows cannot show it, as the approval is recorded, the entries are gone and the balances agree."""
    rows = aged("voided after its approval")
    row = settlement_of(rows)
    at = row["hold_reversed_at"]
    kept = {
        name: row[name]
        for name in row
        if name not in ("hold_reversed_at", "failure", "reversed_for", "resolutions")
    }
    forged = put(rows, kept | {"status": "SETTLED", "release_at": at, "fee_at": at, "finished_at": at})
    for account, change in (("alice", -row["amount"]), ("bob", row["amount"] - row["fee"])):
        balance = from_wire(forged[f"ACCOUNT#{account}", "BALANCE"])
        forged = put(forged, balance | {"available": balance["available"] + change})

    found = compared(sealed(rows_of("voided after its approval")), forged).faults

    assert reconciled(forged).faults == []
    assert sum("but its settlement's row tells it" in fault for fault in found) == 2
    assert sum("is in the sealed journal, and not in the table" in fault for fault in found) == 1


@pytest.mark.parametrize("shape", sorted(UNREVERSED))
@pytest.mark.parametrize("entry", [0, 1])
def test_an_entry_expiring_during_the_read_is_not_a_fault(
    shape: str, entry: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scan still reads the entry; the payer's changed balance triggers a second look without it."""
    rows = rows_of(shape)
    gone, account = entries_in(rows)[entry], ("ACCOUNT#alice", "BALANCE")
    changed = without(rows, gone)
    read = second_look.look_again
    looks = []

    def expired_by_then(store: WatchedStore, difference: Difference, began: datetime) -> Look:
        looks.append(difference)
        watched = WatchedStore(readable(MemoryDynamoDb(items=changed)), "", unwatched)
        return read(watched, difference, began)

    monkeypatch.setattr("settlement.proof.table_scan.look_again", expired_by_then)
    balance = from_wire(rows[account])
    stale = put(rows, balance | {"available": balance["available"] + 1})

    findings = reconciled(stale)

    assert looks
    assert (findings.faults, findings.unproven, findings.in_flight) == ([], [], 1)
    assert findings.conserved


def test_a_wrong_balance_is_found_although_its_entries_have_expired() -> None:
    for shape in UNREVERSED:
        for account in (key for key in aged(shape) if key[0].startswith("ACCOUNT#")):
            balance = from_wire(aged(shape)[account])
            forged = put(aged(shape), balance | {"available": balance["available"] + 1})
            assert len(reconciled(forged).faults) == 1


def test_an_old_entry_without_a_settlement_is_a_fault() -> None:
    rows = rows_of("settled")
    row = settlement_of(rows)
    left = without(rows, (str(row["pk"]), "SETTLEMENT"))

    assert not reconciled(left).conserved
    assert any("has entries, but no sound row" in fault for fault in reconciled(left).faults)


def test_an_entry_signed_with_a_guessed_key_is_found() -> None:
    rows = rows_of("settled")
    row = from_wire(rows[entries_in(rows)[0]])

    forged = put(rows, row, RowKeys.from_text("1:guessed"))

    assert any("signature" in fault for fault in reconciled(forged).faults)


def test_an_unswept_release_is_reported_after_its_entry_expired() -> None:
    """No sweep can add it any more. The proof has reported it daily for 400 days."""
    findings = reconciled(aged("released to a merchant"))

    assert findings.conserved
    assert findings.unswept == reconciled(rows_of("released to a merchant"), NOW).unswept
    assert {*findings.unswept} == {"merchant.shop", "merchant.cafe"}
