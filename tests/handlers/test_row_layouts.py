"""TakeOrder reads parts of both row layouts, counts each once, and writes the stage's layout."""

from typing import Any

import pytest

from handlers import _dependencies
from settle.migrations.rows import PARTS, Direction
from settlement.core.model.errors import NotReversible, PartRefused
from tests.handlers.conftest import Calls
from tests.handlers.orders.test_reverse_part import reverse, settled

__all__ = ["settled"]

FIRST, BY_NAME = 1, 2


def migrate(calls: Calls, direction: Direction) -> None:
    write = PARTS.write(calls.row(), direction)
    assert write
    assert _dependencies.store.apply(write) == 1


def counted(calls: Calls) -> dict[str, Any]:
    names = ("parts", "reversals_in_part", "reversed_in_part", "layout")
    return {name: calls.row()[name] for name in names if name in calls.row()}


def of_first(parts: int) -> dict[str, int]:
    return {"parts": parts, "reversed_in_part": 500 * parts}


def by_name(parts: int) -> dict[str, int]:
    return {"reversals_in_part": parts, "reversed_in_part": 500 * parts, "layout": BY_NAME}


@pytest.mark.parametrize(
    ("layouts", "row"),
    [([BY_NAME], by_name(1)), ([FIRST, BY_NAME], by_name(2)), ([BY_NAME, FIRST], of_first(2))],
)
def test_each_part_writes_the_row_in_the_stages_layout(
    settled: Calls, layouts: list[int], row: dict[str, int]
) -> None:
    for part, layout in enumerate(layouts, 1):
        settled.change_config(row_layout=layout)
        reverse(settled, part)

    assert counted(settled) == row


@pytest.mark.parametrize("layout", [FIRST, BY_NAME])
def test_a_migrated_partly_reversed_row_is_reversed_only_in_parts(settled: Calls, layout: int) -> None:
    reverse(settled)
    migrate(settled, Direction.FORWARD)
    settled.change_config(row_layout=layout)

    with pytest.raises(NotReversible, match=r": 1 parts were reversed: reverse the rest in part$"):
        settled.order_reversal()
    with pytest.raises(PartRefused, match=r"^part: the next one is number 2$"):
        reverse(settled, 3)
    reverse(settled, 2)

    assert counted(settled) == (by_name(2) if layout == BY_NAME else of_first(2))


@pytest.mark.parametrize("layout", [FIRST, BY_NAME])
@pytest.mark.parametrize("direction", Direction)
def test_a_part_reversal_counts_once_if_the_row_migrates_meanwhile(
    settled: Calls, layout: int, direction: Direction
) -> None:
    reverse(settled)
    if direction is Direction.BACK:
        migrate(settled, Direction.FORWARD)
    settled.change_config(row_layout=layout)
    settled.meanwhile(_dependencies.store, "record", lambda: migrate(settled, direction))

    reverse(settled, 2)

    assert counted(settled) == (by_name(2) if layout == BY_NAME else of_first(2))


def test_a_migration_makes_no_event(settled: Calls) -> None:
    reverse(settled, 1)
    before = settled.row()["sequence"]

    migrate(settled, Direction.FORWARD)
    migrate(settled, Direction.BACK)

    assert settled.row()["sequence"] == before
    assert counted(settled) == of_first(1)


def test_a_migration_planned_earlier_keeps_parts_reversed_since_then(settled: Calls) -> None:
    reverse(settled, 1)
    late = PARTS.write(settled.row(), Direction.FORWARD)
    reverse(settled, 2)

    assert late
    assert _dependencies.store.apply(late) == 1
    assert counted(settled) == by_name(2)
    assert _dependencies.store.apply(late) is None
    assert counted(settled) == by_name(2)
