import itertools
import json
import re
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from handlers import rooms
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.stored import MalformedRow
from settlement.events.changes import cloud_event
from settlement.payruns.changes import event, told
from settlement.payruns.run import Run, Status
from tests.unit.payruns.rows import (
    APPROVED,
    BEGUN,
    HALF,
    OVER,
    PROPOSED,
    RUNNING,
    STARTED,
)
from tests.unit.vectors import CONFIG

FINISHED = replace(OVER, status=Status.FINISHED, sequence=5)
PATH = [None, PROPOSED, replace(PROPOSED, approvals=1, sequence=2), APPROVED, RUNNING, FINISHED]


def row(run: Run | None) -> Row | None:
    return None if run is None else run.to_row()


def test_each_change_of_status_makes_one_numbered_event() -> None:
    made = [event(row(before), row(after), CONFIG) for before, after in itertools.pairwise(PATH)]

    assert [one and (one.type, one.sequence) for one in made] == [
        *(("proposed", 1), ("proposed", 2), ("approved", 3), ("running", 4), ("finished", 5)),
    ]
    assert made[0]
    known = cloud_event(made[0], source="settlement-under-test", time="2026-11-20T12:00:00.123Z")
    assert (known["type"], known["id"]) == ("payrun.proposed", f"payrun:{PROPOSED.run}:1")


@pytest.mark.parametrize("after", [BEGUN, STARTED, HALF, OVER], ids=lambda one: one.begun)
def test_progress_makes_no_event(after: Run) -> None:
    assert event(row(RUNNING), row(after), CONFIG) is None


def test_only_a_runs_own_row_makes_events() -> None:
    (room,) = (room for room in rooms.ROOMS if room.name == "payruns")
    (prefix,) = room.tells
    others = (
        keys.payrun_proposed,
        partial(keys.payrun_approved, person="bea"),
        partial(keys.payrun_line, number=2),
    )

    assert keys.payrun(PROPOSED.run)["pk"].startswith(prefix)
    assert not any(other(PROPOSED.run)["pk"].startswith(prefix) for other in others)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (RUNNING.to_row(), None, "the run's row was deleted"),
        (None, APPROVED.to_row(), "its sequence grows by 3"),
        (None, PROPOSED.to_row() | {"sequence": 0}, "its sequence grows by 0"),
        (APPROVED.to_row(), FINISHED.to_row(), "its sequence grows by 2"),
        (RUNNING.to_row(), APPROVED.to_row(), "its sequence grows by -1"),
        (RUNNING.to_row(), RUNNING.to_row() | {"status": "LOST"}, "status must be one of"),
        (RUNNING.to_row() | {"begun": 9}, FINISHED.to_row(), "contradict"),
        (RUNNING.to_row(), keys.payrun(RUNNING.run), "has no attribute"),
        (None, replace(PROPOSED, sums={"SETTLED XXX": 1}).to_row(), "which the stage does not have"),
    ],
)
def test_an_impossible_change_of_a_run_is_malformed(old: Row | None, new: Row | None, reason: str) -> None:
    with pytest.raises(MalformedRow, match=re.escape(reason)):
        event(old, new, CONFIG)


def test_an_event_has_counts_and_sums_but_no_party() -> None:
    data: dict[str, Any] = told(replace(FINISHED, cut=3), CONFIG)

    assert data == {
        "run": PROPOSED.run,
        "name": "sellers-2026-11",
        "status": "FINISHED",
        "approvals": 2,
        **dict.fromkeys(("lines", "begun", "started", "ended", "cancelled_after"), 3),
        "outcomes": [
            {"outcome": "REFUSED", "lines": 1, "sums": {"JPY": "7"}},
            {"outcome": "SETTLED", "lines": 2, "sums": {"EUR": "58.20"}},
        ],
    }
    assert not re.search("market|bob|ada", json.dumps(data))
