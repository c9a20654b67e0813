"""The proof that no money was lost or made, from the rows alone: the machines are not asked.

Per currency, the sum over all accounts must be zero. Each entry has one debit and one credit, so that holds
if every balance row equals the sum of its entries, and every settlement's row has the very entries for which
its slots stand. That is what is checked, row by row.
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
