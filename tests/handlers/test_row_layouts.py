"""TakeOrder on both row layouts: each part counts once, in the function's own layout."""

from dataclasses import replace
from typing import Any

import pytest

from handlers import _dependencies
from settle.migrations.rows import PARTS, Direction
from settlement.core.model.errors import NotReversible, PartRefused
from tests.handlers.conftest import Calls
from tests.world.constants import KEY, ORDER

FIRST, BY_NAME = 1, 2


@pytest.fixture
def settled(calls: Calls) -> Calls:
    """A settled payment of 48.20 with a fee of 0.48."""
    calls.after("CollectFee")
    calls.later()
    return calls


@pytest.fixture
def write(monkeypatch: pytest.MonkeyPatch) -> Any:
    def deploy(layout: int) -> None:
        monkeypatch.setattr(_dependencies, "config", replace(_dependencies.config, row_layout=layout))

    return deploy


def reverse(calls: Calls, part: int, amount: str = "5.00") -> dict[str, Any]:
    return calls.order("reverse-part", {"key": KEY, "part": part, "amount": amount, **ORDER})


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


def test_a_first_part_gives_the_row_the_stages_layout(settled: Calls, write: Any) -> None:
    write(BY_NAME)
    reverse(settled, 1)

    assert counted(settled) == by_name(1)


def test_a_later_part_gives_an_older_row_the_stages_layout(settled: Calls, write: Any) -> None:
    reverse(settled, 1)
    assert counted(settled) == of_first(1)
    write(BY_NAME)
    reverse(settled, 2)

    assert counted(settled) == by_name(2)


def test_a_part_returns_a_row_after_the_stage_went_back(settled: Calls, write: Any) -> None:
    write(BY_NAME)
    reverse(settled, 1)
    write(FIRST)
    reverse(settled, 2)

    assert counted(settled) == of_first(2)


@pytest.mark.parametrize("layout", [FIRST, BY_NAME])
def test_a_migrated_row_is_reversed_further_in_parts_only(settled: Calls, write: Any, layout: int) -> None:
    reverse(settled, 1)
    migrate(settled, Direction.FORWARD)
    write(layout)

    with pytest.raises(NotReversible, match=r": 1 parts were reversed: reverse the rest in part$"):
        settled.order("reverse", {"key": KEY, **ORDER})
    with pytest.raises(PartRefused, match=r"^part: the next one is number 2$"):
        reverse(settled, 3)
    reverse(settled, 2)

    assert counted(settled) == (by_name(2) if layout == BY_NAME else of_first(2))


@pytest.mark.parametrize("layout", [FIRST, BY_NAME])
@pytest.mark.parametrize("direction", Direction)
def test_a_part_on_a_row_migrated_meanwhile_counts_once(
    settled: Calls, write: Any, layout: int, direction: Direction, monkeypatch: pytest.MonkeyPatch
) -> None:
    reverse(settled, 1)
    if direction is Direction.BACK:
        migrate(settled, Direction.FORWARD)
    write(layout)
    migrating_before(settled, direction, monkeypatch)

    reverse(settled, 2)

    assert counted(settled) == (by_name(2) if layout == BY_NAME else of_first(2))


def migrating_before(calls: Calls, direction: Direction, monkeypatch: pytest.MonkeyPatch) -> None:
    """Migrate the row once, between the function's read and its write."""
    record, done = _dependencies.store.record, list[bool]()

    def record_late(writes: Any) -> Any:
        if not done:
            done.append(True)
            migrate(calls, direction)
        return record(writes)

    monkeypatch.setattr(_dependencies.store, "record", record_late)


def test_a_migration_makes_no_event(settled: Calls) -> None:
    reverse(settled, 1)
    before = settled.row()["sequence"]

    migrate(settled, Direction.FORWARD)
    migrate(settled, Direction.BACK)

    assert settled.row()["sequence"] == before
    assert counted(settled) == of_first(1)


def test_a_late_migration_keeps_later_parts_and_repeats_without_change(settled: Calls) -> None:
    reverse(settled, 1)
    late = PARTS.write(settled.row(), Direction.FORWARD)
    reverse(settled, 2)

    assert late
    assert _dependencies.store.apply(late) == 1
    assert counted(settled) == by_name(2)
    assert _dependencies.store.apply(late) is None
    assert counted(settled) == by_name(2)
