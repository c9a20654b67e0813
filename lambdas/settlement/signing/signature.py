"""The signature of a row: the proof that a function of the stage has put it.

Who can write to the table can put rows that agree with each other: an order, its entry, and a higher balance.
The signature is an HMAC of the attributes that no function changes. Its key is not in the table: the proof
has it, and so have the functions that put such rows.
"""

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass

from settlement.core.ledger.keys import Row
from settlement.journal import lines

SIGNATURE = "signature"
"""The attribute: the number of the key, a colon, and the first 96 bits of an HMAC-SHA-256 in base64."""

SIGNED = (*lines.IMMUTABLE, "SETTLEMENT#")
"""How the partition keys of signed rows begin. The proof derives the balances from these."""

_BYTES = 12
"""RFC 2104 allows 80 bits. A row is paid by its bytes, and no one can ask whether a guess is right."""


@dataclass(frozen=True)
class RowKeys:
    """Keys of a stage by their numbers: a function that signs has one, and the proof has all."""

    by_number: Mapping[str, bytes]

    @classmethod
    def from_text(cls, text: str) -> "RowKeys":
        """Return the keys of a text such as `1:KEY 2:KEY`. Raises ValueError for any other."""
        found = [part.partition(":") for part in text.split()]
        if not all(number.isdecimal() and key for number, _, key in found):
            raise ValueError("row keys: must be numbers and keys, such as 1:KEY 2:KEY")
        return cls({number: key.encode() for number, _, key in found})

    def signed(self, row: Row) -> Row:
        """Return a new row with its signature, or as it is if its kind has none.

        Raises ValueError without a key: the proof would find the row at fault.
        """
        if not row["pk"].startswith(SIGNED):
            return row
        if not self.by_number:
            raise ValueError(f"{row['pk'].partition('#')[0]}: this function has no key to sign such a row")
        return {**row, SIGNATURE: self._signature([*self.by_number][-1], _forms(row)[0])}

    def is_proven(self, row: Row) -> bool:
        """Return whether a row has the signature of its content, or is of a kind that has none."""
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
    """Return the forms of a row that a signature may cover: today's, and that of earlier releases."""
    earlier, today = lines.canonical(row, but=SIGNATURE), lines.worded(row)
    return [earlier] if today is None else [today, earlier]
