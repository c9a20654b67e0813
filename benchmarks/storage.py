"""The bytes of a settlement in the table, and their price."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmarks.cost import GB_BYTES
from settlement.core.ledger.keys import Row
from settlement.core.store.wire import from_wire
from settlement.retention import expiry
from tests.proof import aged

_READ_UNIT_BYTES = 4_096

ROW_OVERHEAD_BYTES = 100
"""Bytes that DynamoDB bills for each row's index."""


@dataclass(frozen=True)
class Kept:
    """Bytes of a settlement's rows that stay, and of its entries, which may expire."""

    stays: int
    expires: int

    def usd_per_million_month(self, prices: Mapping[str, float], *, is_expired: bool) -> float:
        """Return the dollars a month for a million settlements, with their continuous backup."""
        rates = prices["storage_gb_month"] + prices["backup_gb_month"]
        return self._bytes(is_expired=is_expired) * 1e6 / GB_BYTES * rates

    def proof_usd_per_million_month(
        self, prices: Mapping[str, float], runs: float, *, is_expired: bool = False
    ) -> float:
        """Return the dollars of `runs` proofs a month that read a million settlements' rows."""
        units = self._bytes(is_expired=is_expired) * 1e6 / _READ_UNIT_BYTES
        return units * runs * prices["read_unit"]

    def _bytes(self, *, is_expired: bool) -> int:
        return self.stays if is_expired else self.stays + self.expires


def payment() -> list[Row]:
    """Return the rows of a settled payment with names and the caller's words, from the example ledger."""
    rows = [from_wire(item) for item in aged.rows_of("settled").values()]
    key = next(row["pk"].partition("#")[2] for row in rows if row["sk"] == "SETTLEMENT")
    return [row for row in rows if key in f"{row['pk']} {row['sk']}"]


def kept(rows: Iterable[Row]) -> Kept:
    """Return the bytes of a settlement's rows."""
    stays = expires = 0
    for row in rows:
        size = row_bytes(row) + ROW_OVERHEAD_BYTES
        if expiry.EXPIRES in row:
            expires += size
        else:
            stays += size
    return Kept(stays, expires)


def row_bytes(row: Row) -> int:
    """Return the bytes of a row by DynamoDB's rule: names and texts in UTF-8, two digits a byte."""
    return sum(len(name.encode()) + _value_bytes(value) for name, value in row.items())


def _value_bytes(value: object) -> int:
    if isinstance(value, int):
        return len(str(abs(value)).rstrip("0") or "0") // 2 + 2
    if isinstance(value, dict):
        return 3 + sum(1 + len(name.encode()) + _value_bytes(each) for name, each in value.items())
    if isinstance(value, set):
        return 3 + sum(1 + _value_bytes(each) for each in value)
    return len(str(value).encode())
