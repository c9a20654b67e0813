"""Writes of a migration. They change settlements' rows to a new layout or back, and the migration's own row.

No write touches a row in flight or moves money. Each write requires the row as it was read. So repeats and
late writes change nothing. See docs/operating/migrating.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.conditions import ABSENT, Condition
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, Write, put, update
from settlement.core.model.layout import PARTS_COUNTED_BY_NAME
from settlement.core.model.status import Status
from settlement.core.model.stored import MalformedRow
from settlement.core.model.timestamps import timestamp


class Direction(StrEnum):
    FORWARD = "forward"
    BACK = "back"


class Phase(StrEnum):
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    DONE = "DONE"


@dataclass(frozen=True)
class Migration:
    """One change of finished rows.

    - `attributes`: all attributes that the writes name, besides the keys.
    - `needs`: the attribute that only unmigrated rows have, by direction.
    """

    name: str
    layout: int
    attributes: tuple[str, ...]
    needs: Mapping[Direction, str]
    _write: Callable[[Row, Direction], Write]

    def write(self, row: Row, direction: Direction) -> Write | None:
        """Return the write that migrates a row. None: the row is not SETTLED, or already migrated."""
        if row.get("status") != Status.SETTLED or self.needs[direction] not in row:
            return None
        return self._write(row, direction)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """A migration's row: its only runner, and its progress.

    - `leased_until`: afterwards another runner may continue.
    - `deployment`: the newest deployment at `began_at`. A later deployment may have written the old layout to
      rows already read.
    - `after`: the key of the last row read.
    - `read`, `changed` and `left`: numbers of settlements' rows. The `left` rows were changed by others after
      they were read.
    - `reason`: explains a pause.
    """

    name: str
    direction: Direction
    phase: Phase
    version: int
    runner: str
    leased_until: str
    began_at: str
    deployment: str
    after: Row | None = None
    read: int = 0
    changed: int = 0
    left: int = 0
    reason: str | None = None

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "Progress":
        try:
            return cls(
                name=row["pk"].partition("#")[2],
                direction=Direction(row["direction"]),
                phase=Phase(row["phase"]),
                after={"pk": row["after_pk"], "sk": row["after_sk"]} if "after_pk" in row else None,
                reason=row.get("reason"),
                **{name: row[name] for name in _TOLD},
            )
        except (KeyError, ValueError) as error:
            raise MalformedRow(f"{row.get('pk')}: {type(error).__name__}: {error}") from None

    def to_row(self) -> Row:
        row = {
            **keys.migration(self.name),
            "direction": self.direction,
            "phase": self.phase,
            **{name: getattr(self, name) for name in _TOLD},
        }
        if self.after:
            row |= {"after_pk": self.after["pk"], "after_sk": self.after["sk"]}
        return row if self.reason is None else row | {"reason": self.reason}

    def is_leased(self, runner: str, now: datetime) -> bool:
        return self.phase is Phase.RUNNING and self.runner != runner and timestamp(now) < self.leased_until


_TOLD = ("version", "runner", "leased_until", "began_at", "deployment", "read", "changed", "left")


def save(progress: Progress) -> Write:
    """Return the write of `progress`. It replaces only the version that was read, or creates the row."""
    unchanged = Condition("version = :was", {":was": progress.version}) if progress.version else ABSENT
    row = replace(progress, version=progress.version + 1).to_row()
    return put(row, on_failure=_left, condition=unchanged)


def _left(found: Any) -> AlreadyApplied:
    return AlreadyApplied(found)


def count_parts_by_name(row: Row, direction: Direction) -> Write:
    """Return the write that renames the row's count of reversals: `parts` to `reversals_in_part`, or back.

    Only a SETTLED row has these attributes. So the write need not name the status, which the role must not
    change.
    """
    if direction is Direction.FORWARD:
        expression, name = "SET reversals_in_part = parts, layout = :layout REMOVE parts", "parts"
        values: dict[str, Any] = {":layout": PARTS_COUNTED_BY_NAME}
    else:
        expression, name = (
            "SET parts = reversals_in_part REMOVE reversals_in_part, layout",
            "reversals_in_part",
        )
        values = {}
    conditions = [Condition(f"attribute_exists({name})")]
    key = {"pk": row["pk"], "sk": row["sk"]}
    return update(key, expression, values=values, conditions=conditions, on_failure=_left)


PARTS = Migration(
    "parts-by-name",
    PARTS_COUNTED_BY_NAME,
    ("parts", "reversals_in_part", "layout"),
    {Direction.FORWARD: "parts", Direction.BACK: "reversals_in_part"},
    count_parts_by_name,
)

MIGRATIONS = {one.name: one for one in (PARTS,)}
