"""The verdict on a life, from its balances and its pages."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from benchmarks.rivals import AMOUNT, FEE

SETTLED = {"alice": -AMOUNT, "bob": AMOUNT - FEE, "fees": FEE, "escrow": 0}
REVERSED = dict.fromkeys(SETTLED, 0)
"""The changes of the balances by a settled and by a reversed payment, in minor units."""


class Verdict(StrEnum):
    """The possible ends of a life."""

    RIGHT = "right"
    DOUBLED = "doubled"
    LOST = "lost"
    SILENT = "stuck and silent"
    PAGED = "stuck and paged"


@dataclass(frozen=True)
class End:
    """The end of a life: changes of the balances, the way's own report, and whether it has paged."""

    moved: Mapping[str, int]
    report: str
    is_paged: bool


@dataclass(frozen=True)
class Outcome:
    """A played life."""

    seed: int
    verdict: Verdict
    end: End
    told: list[str]


def judge(end: End) -> Verdict:
    """Return the worst verdict that fits.

    Doubled: an account has moved more than once, or was paid though the payer has the money again. Lost: the
    sum of all balances differs. Stuck: the escrow is not empty, or the fee is missing.
    """
    moved = end.moved
    if any(moved[name] not in (0, SETTLED[name]) for name in ("alice", "bob", "fees")):
        return Verdict.DOUBLED
    if moved["alice"] == 0 and (moved["bob"] or moved["fees"]):
        return Verdict.DOUBLED
    if sum(moved.values()):
        return Verdict.LOST
    if moved in (SETTLED, REVERSED):
        return Verdict.RIGHT
    return Verdict.PAGED if end.is_paged else Verdict.SILENT
