"""Signatures reveal a forged row, even if it agrees with all others."""

from collections.abc import Callable
from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.journal import lines
from settlement.signing.signature import _FIXED as FIXED
from settlement.signing.signature import SIGNATURE, SIGNED, RowKeys
from tests.proof.client import reconciled
from tests.proof.mutations import Mutation, singles
from tests.proof.shapes import SHAPES, town
from tests.proof.test_forged_money import AMOUNT, FORGED, raised, sound_rows
from tests.proof.town import Town, external, order
from tests.world.ledger import ROW_KEYS

AT = "2026-11-20T13:00:00.123Z"
ROW: Row = {**keys.evidence("order-2026-000101", "verify"), "step": "verify", "decision": "APPROVED"}
ONE_OF = 40


pytestmark = pytest.mark.usefixtures("one_segment")


@pytest.fixture
def signed() -> Town:
    signed = Town(row_keys=ROW_KEYS)
    signed.open("alice", 2 * AMOUNT)
    signed.open("mallory", 1)
    return signed


def named(signed: Town) -> set[str]:
    return {fault.partition(": ")[0] for fault in reconciled(signed.rows(), ROW_KEYS).faults}


def deposit_to_mallory(signed: Town) -> set[str]:
    signed.row_keys = None
    recorded = order("deposit-forged-0001", "deposit", "mallory", AT, "EUR", AMOUNT)
    entry = external("deposit-forged-0001", "deposit", "mallory", AMOUNT, "EUR", AT)
    entry |= {"request_hash": recorded["request_hash"]}
    for row in (recorded, entry, raised(signed, "mallory", AMOUNT)):
        signed.put(row)
    return {recorded["pk"], entry["pk"]}


def pay_mallory(signed: Town) -> set[str]:
    signed.row_keys = None
    rows = [row for row in sound_rows().values() if row["pk"].startswith(SIGNED)]
    rows = [row for row in rows if FORGED.key in row["pk"] + row["sk"]]
    for row in (*rows, raised(signed, "mallory", FORGED.net), raised(signed, "alice", -AMOUNT)):
        signed.put(row)
    return {row["pk"] for row in rows}


@pytest.mark.parametrize("forge", [deposit_to_mallory, pay_mallory])
def test_only_signatures_reveal_a_complete_set_of_forged_rows(
    signed: Town, forge: Callable[[Town], set[str]]
) -> None:
    assert named(signed) == set()

    forged = forge(signed)

    assert named(signed) == forged
    assert reconciled(signed.rows()).conserved


def covers(mutation: Mutation) -> bool:
    for (pk, _), item in mutation.rows.items():
        kind = pk.partition("#")[0] + "#"
        if item is None or kind not in SIGNED:
            return False
        fixed = lines.CREATED.get(kind) or FIXED.get(kind) or (mutation.attribute,)
        if mutation.attribute not in ("the row", SIGNATURE, *fixed):
            return False
    return True


@pytest.mark.long
@pytest.mark.parametrize("shape", SHAPES)
def test_every_change_of_a_signed_attribute_is_found(shape: str) -> None:
    rows = town(shape, ROW_KEYS).rows()
    assert reconciled(rows, ROW_KEYS).conserved
    start = list(SHAPES).index(shape) % ONE_OF
    tried = [one for one in singles(rows) if covers(one)][start::ONE_OF]

    missed = [one[:3] for one in tried if reconciled(one.of(rows), ROW_KEYS).conserved]

    assert len(tried) > 3
    assert missed == []


@pytest.mark.parametrize(
    "told",
    [
        None,
        "",
        7,
        "1:",
        "2:" + "A" * 16,
        "1:" + "A" * 16,
        "1:\N{FULLWIDTH DIGIT ZERO}" + "A" * 15,
        ":" + "A" * 16,
        {"1"},
    ],
)
def test_an_invalid_signature_proves_nothing(told: Any) -> None:
    assert not ROW_KEYS.is_proven(ROW if told is None else ROW | {SIGNATURE: told})


def test_a_signature_is_valid_for_one_row_only() -> None:
    signed = ROW_KEYS.signed(ROW)

    assert ROW_KEYS.is_proven(signed)
    assert ROW_KEYS.signed(signed) == signed
    for change in ({"decision": "REJECTED"}, {"sk": "another"}, {"by": "mallory"}):
        assert not ROW_KEYS.is_proven(signed | change)


def test_the_last_key_signs_and_each_earlier_key_still_proves() -> None:
    later = RowKeys.from_text("1:the-key-of-the-tests 2:another")

    assert later.is_proven(ROW_KEYS.signed(ROW))
    assert later.signed(ROW)[SIGNATURE].startswith("2:")
    assert not ROW_KEYS.is_proven(later.signed(ROW))
    assert not RowKeys.from_text("1:another").is_proven(ROW_KEYS.signed(ROW))


@pytest.mark.parametrize("text", ["key", "1:", ":key", "one:key", "1:key two"])
def test_keys_without_a_number_or_a_content_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^row keys: must be numbers and keys"):
        RowKeys.from_text(text)


def test_a_function_without_keys_cannot_sign_a_row() -> None:
    none = RowKeys.from_text("")

    with pytest.raises(ValueError, match=r"^EVIDENCE: this function has no key to sign such a row$"):
        none.signed(ROW)
    assert none.signed(keys.waiting("k")) == keys.waiting("k")
    assert not none.is_proven(ROW_KEYS.signed(ROW))


def test_a_settlement_keeps_its_signature_when_its_status_changes() -> None:
    row = {**keys.settlement("k"), "request_hash": "h", "claimed_at": AT, "status": "PROCESSING"}
    signed = ROW_KEYS.signed(row)

    assert ROW_KEYS.is_proven(signed | {"status": "SETTLED", "escrow": 0})
    assert not ROW_KEYS.is_proven(signed | {"payee": "mallory"})


WORDS = {"reference": "invoice 7", "metadata": {"shop": "web"}}
CLAIMED: Row = {**keys.settlement("k"), "request_hash": "h", "claimed_at": AT, "status": "PROCESSING"}


@pytest.mark.parametrize("words", [{}, WORDS, {"reference": "invoice 7"}])
@pytest.mark.parametrize("other", [{"reference": "invoice 8"}, {"metadata": {"shop": "till"}}])
def test_a_signature_covers_the_callers_reference_and_metadata(words: Row, other: Row) -> None:
    signed = ROW_KEYS.signed(CLAIMED | words)

    assert ROW_KEYS.is_proven(signed)
    assert not ROW_KEYS.is_proven(signed | other)
    for name in words:
        assert not ROW_KEYS.is_proven({one: signed[one] for one in signed if one != name})


def test_a_signature_made_by_an_earlier_release_is_still_valid() -> None:
    """The signature omits reference and metadata; the request's hash proves them until names are erased."""
    earlier = CLAIMED | WORDS | {SIGNATURE: ROW_KEYS._signature("1", lines.canonical(CLAIMED))}

    assert ROW_KEYS.is_proven(earlier)
    assert not ROW_KEYS.is_proven(earlier | {"payee": "mallory"})
