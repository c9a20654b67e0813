"""The store signs each row of a signed kind, in each way to put it."""

import pytest

from settlement.core.ledger.transaction import Write
from settlement.signing.signature import SIGNATURE, SIGNED, RowKeys
from tests.unit.vectors import named_writes
from tests.world.ledger import ROW_KEYS, Ledger, signing

REPLACING = ("sweep.fold.again[0]", "proposals.propose.again")

PUTS = {
    name: write for name, write in named_writes().items() if write.action == "Put" and name not in REPLACING
}


@pytest.mark.parametrize("name", PUTS)
@pytest.mark.parametrize("way", ["transact", "put"])
def test_a_row_is_signed_exactly_if_its_kind_must_be(ledger: Ledger, name: str, way: str) -> None:
    write: Write = PUTS[name]
    store = signing(ledger).store

    store.transact([write]) if way == "transact" else store.put(write)

    (row,) = ledger.rows()
    is_signed = row["pk"].startswith(SIGNED)
    assert (SIGNATURE in row) == is_signed
    assert row == write.parameters["Item"] | ({SIGNATURE: row[SIGNATURE]} if is_signed else {})
    assert ROW_KEYS.is_proven(row)


def test_a_store_without_keys_refuses_to_put_a_signed_kind(ledger: Ledger) -> None:
    write = next(write for write in PUTS.values() if write.parameters["Item"]["pk"].startswith(SIGNED))

    with pytest.raises(ValueError, match="has no key to sign such a row"):
        signing(ledger, RowKeys.from_text("")).store.transact([write])

    assert ledger.rows() == []
