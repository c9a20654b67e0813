from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from settlement.core.ledger.keys import Row
from settlement.core.model.saga import REVERSIBLE, Step
from tests.world.constants import KEY
from tests.world.journal import journal

ESCROW = f"escrow:{KEY}"
MONEY = tuple(step.value for step in REVERSIBLE)
"""The steps that move money, in reversal order."""

STEPS = tuple(step.value for step in Step)
HOW_FAR = range(len(STEPS) + 1)

Move = tuple[str, str, int] | None
"""Debit, credit and amount; None for evidence."""

MOVES: dict[str, Move] = {
    "hold": ("alice", ESCROW, 4820),
    "verify": None,
    "release": (ESCROW, "bob", 4772),
    "fee": (ESCROW, "fees:EUR", 48),
    "compensate:fee": ("fees:EUR", ESCROW, 48),
    "compensate:release": ("bob", ESCROW, 4772),
    "compensate:hold": (ESCROW, "alice", 4820),
}


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A settlement's state in a test. `index`: IN_FLIGHT, LIMBO or None. `escrow`: in minor units."""

    status: str
    steps: frozenset[str] = frozenset()
    reversed: frozenset[str] = frozenset()
    escrow: int = 0
    index: str | None = None
    entries: Mapping[str, Move]

    def having(self, **changes: Any) -> "Picture":
        return replace(self, **changes)


def after(step: str) -> int:
    """Return the number of steps up to and including `step`."""
    return STEPS.index(step) + 1


def seen(found: Iterable[Row], key: str) -> Picture:
    found = list(found)
    (row,) = (row for row in found if row["pk"] == f"SETTLEMENT#{key}")
    entries = {
        step: (entry["debit"], entry["credit"], entry["amount"]) if "debit" in entry else None
        for step, entry in journal(found, key).items()
    }
    return Picture(
        status=row["status"],
        steps=frozenset(step for step in STEPS if f"{step}_at" in row),
        reversed=frozenset(step for step in MONEY if f"{step}_reversed_at" in row),
        escrow=row["escrow"],
        index=row["gsi1pk"].partition("#")[0] if "gsi1pk" in row else None,
        entries=entries,
    )


def of(status: str, committed: Iterable[str] = (), entries: Mapping[str, Move] | None = None) -> Picture:
    """Return the picture of a settlement that committed these steps, with the additional `entries`."""
    steps = tuple(committed)
    all_entries = {step: MOVES[step] for step in steps} | dict(entries or {})
    index = {"PROCESSING": "IN_FLIGHT", "COMPENSATING": "IN_FLIGHT", "LIMBO": "LIMBO"}.get(status)
    return Picture(
        status=status,
        steps=frozenset(steps),
        escrow=_escrow(all_entries),
        index=index,
        entries=all_entries,
    )


def reversing(
    status: str,
    committed: Iterable[str],
    undone: Iterable[str],
    entries: Mapping[str, Move] | None = None,
    covered: Iterable[str] = (),
) -> Picture:
    """Return the picture of a settlement whose steps `undone` were reversed and `covered` written off."""
    steps, done, written_off = tuple(committed), tuple(undone), tuple(covered)
    reversals = {f"compensate:{step}": MOVES[f"compensate:{step}"] for step in done if step in steps}
    picture = of(status, steps, reversals | dict(entries or {}))
    return picture.having(reversed=frozenset(step for step in (*done, *written_off) if step in steps))


def compensated(
    committed: Iterable[str], entries: Mapping[str, Move] | None = None, covered: Iterable[str] = ()
) -> Picture:
    """Return the picture of a fully reversed settlement, in which uncommitted steps leave no trace."""
    written_off = tuple(covered)
    undone = [step for step in MONEY if step not in written_off]
    return reversing("COMPENSATED", committed, undone, entries, written_off)


def by_webhook(picture: Picture) -> Picture:
    """Return the picture with the webhook's evidence in place of the provider's."""
    moved = {step: move for step, move in picture.entries.items() if step != "verify"}
    return picture.having(entries=moved | {"review": None})


def reversed_from(steps: int, entries: Mapping[str, Move] | None = None) -> Picture:
    return compensated(STEPS[:steps], ordered(steps) | dict(entries or {}))


def ordered(steps: int) -> dict[str, Move]:
    """Return the evidence of a person's order, without which no reversal begins after 0 or all steps."""
    return {"reverse": None} if steps in (0, len(STEPS)) else {}


def _escrow(entries: Mapping[str, Move]) -> int:
    moves = [move for move in entries.values() if move]
    return sum(move[2] for move in moves if move[1] == ESCROW) - sum(
        move[2] for move in moves if move[0] == ESCROW
    )
