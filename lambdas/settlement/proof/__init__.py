"""Proof, from the table's rows, that no money was lost or made.

In each currency, all accounts must sum to zero. Each entry has one debit and one credit, so two checks
suffice. A balance row equals the sum of its entries. A settlement's row has exactly the entries of its slots.
"""

from settlement.proof.findings import Difference, Findings, Look, describe
from settlement.proof.proof import UNKNOWN, Stage, reconcile
from settlement.proof.retention import KEEPS_ALL, Retention
from settlement.proof.watch import CutOff, Watch, unwatched

__all__ = [
    "KEEPS_ALL",
    "UNKNOWN",
    "CutOff",
    "Difference",
    "Findings",
    "Look",
    "Retention",
    "Stage",
    "Watch",
    "describe",
    "reconcile",
    "unwatched",
]
