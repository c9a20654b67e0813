"""Signatures of rows. They prove that a function of the stage put the row.

Without them, a writer of the table can forge consistently: an order, its entry and a higher balance. A
signature is an HMAC of the immutable attributes. Only the proof, and functions that put such rows, have the
key.
"""

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass

from settlement.core.ledger.keys import Row
from settlement.journal import lines

SIGNATURE = "signature"
"""Attribute with the key's number, a colon and the first 96 bits of an HMAC-SHA-256 in base64."""

SIGNED = (
    *("ENTRIES#", "EVIDENCE#", "ORDER#", "SETTLEMENT#", "DESTINATION#", "PAYOUT_CASE#"),
    "PAYRUN_DECISION#",
)
"""Partition key prefixes of signed rows. The proof derives the balances from these rows. Destinations' rows
say where payouts go. Rows of cases and pay runs say who decided.
"""

_FIXED: Mapping[str, tuple[str, ...]] = {
    "DESTINATION#": (
        *("pk", "sk", "account", "iban", "holder", "added_by", "added_at"),
        *("confirmed_by", "confirmed_at", "payable_from", "by", "posted_at", "gsi1pk", "gsi1sk"),
    )
}
"""The immutable attributes of mutable rows that no journal seals."""

_BYTES = 12
"""96 bits. RFC 2104 allows 80. Each byte of a row costs money, and an attacker cannot test guesses."""


@dataclass(frozen=True)
class RowKeys:
    """Keys that sign rows, by number. A signing function has one key. The proof has all."""

    by_number: Mapping[str, bytes]

    @classmethod
    def from_text(cls, text: str) -> "RowKeys":
        """Parse text such as `1:KEY 2:KEY`. Raises ValueError."""
        found = [part.partition(":") for part in text.split()]
        if not all(number.isdecimal() and key for number, _, key in found):
            raise ValueError("row keys: must be numbers and keys, such as 1:KEY 2:KEY")
        return cls({number: key.encode() for number, _, key in found})

    def signed(self, row: Row) -> Row:
        """Sign a row, if its kind has a signature.

        Raises ValueError without a key: the proof would reject an unsigned row.
        """
        if not row["pk"].startswith(SIGNED):
            return row
        if not self.by_number:
            raise ValueError(f"{row['pk'].partition('#')[0]}: this function has no key to sign such a row")
        return {**row, SIGNATURE: self._signature([*self.by_number][-1], _forms(row)[0])}

    def is_proven(self, row: Row) -> bool:
        """Whether a row's signature is valid or not required."""
        if not row["pk"].startswith(SIGNED):
            return True
        told = row.get(SIGNATURE)
        if not isinstance(told, str):
            return False
        number = told.partition(":")[0]
        return number in self.by_number and any(
            hmac.compare_digest(self._signature(number, form).encode(), told.encode()) for form in _forms(row)
        )

    def _signature(self, number: str, form: bytes) -> str:
        digest = hmac.digest(self.by_number[number], form, "sha256")
        return f"{number}:{urlsafe_b64encode(digest[:_BYTES]).decode()}"


def _forms(row: Row) -> list[bytes]:
    if fixed := _FIXED.get(row["pk"].partition("#")[0] + "#"):
        row = {name: row[name] for name in fixed if name in row}
    earlier, today = lines.canonical(row, but=SIGNATURE), lines.worded(row)
    return [earlier] if today is None else [today, earlier]
