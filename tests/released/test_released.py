"""Completes in-flight payments of earlier releases by today's code.

Each file has a payment's moments under that release's code, each with the end that today's functions must
reach. As on AWS, a running reversal keeps its release's definition, and a settlement in flight has
stalled. A release's files change only until it is published. To record them:

    RECORD_RELEASE=0.1.0 pytest tests/released
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from settle.exit_codes import CommandFailed
from settle.orders import partial_reversal, resolution, reversal
from settle.settlements import recovery
from settlement.core.ledger import keys
from settlement.core.model.layout import parts_of
from settlement.core.model.orders import Decision
from settlement.core.model.state import SettlementState
from settlement.core.model.status import FINISHED, Status
from settlement.proof import table_scan
from tests.released.moments import Moment, put_back, seen, whole
from tests.settle import ways
from tests.settle.desk import STANDARD, Desk
from tests.settle.ways import COMPLETE, RETRY, WRITE_OFF, Way
from tests.world.constants import KEY, WIRE
from tests.world.definitions import COMPENSATION, STATE_MACHINES, definitions, named

WAYS: list[Way] = [
    *(ways.settled, ways.lacks_funds, ways.rejected, ways.unavailable, ways.closed),
    *(ways.approved_in_review, ways.rejected_in_review),
    *(ways.reversed_on_order, ways.reversed_before_the_hold, ways.reversed_in_flight),
    *(ways.reversed_in_part, ways.reversed_in_part_and_migrated),
    *(ways.stuck("fee"), ways.stuck("hold"), ways.stuck_before_the_hold),
    *(ways.decided("release", decision) for decision in (RETRY, WRITE_OFF, COMPLETE)),
]
"""Scripted payments. None continues another, except that one is migrated after a reversal in part."""

HERE = Path(__file__).parent
DEFINITION = "compensation.asl.json"
RECORDED = os.environ.get("RECORD_RELEASE")
RELEASES = sorted(
    {path.parent.name for path in HERE.glob(f"*/{DEFINITION}")} | ({RECORDED} if RECORDED else set())
)


def ended(desk: Desk, moment: Moment, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    put_back(desk, moment, monkeypatch)
    if not desk.ledger.row(keys.settlement(KEY)):
        return {"status": None}
    for execution in list(desk.executions):
        if execution.machine == COMPENSATION:
            execution.run()
    if desk.row()["status"] == Status.LIMBO:
        case = SettlementState.from_row(desk.row()).case_number
        resolution.resolve(desk.stack, KEY, Decision.RETRY, "the cause is gone", case=case)
    elif desk.row()["status"] not in FINISHED:
        recovery.recover(desk.stack, KEY)
    found = {"status": desk.row()["status"], "available": desk.available("alice", "bob")}
    assert table_scan.check(desk.ledger.store).conserved, found
    return found | {"outcome": again(desk)}


def again(desk: Desk) -> Any:
    """Send a finished payment again; return the answer. Nothing may be written."""
    if desk.row()["status"] not in FINISHED:
        return None
    before = desk.ledger.rows()
    sent = [one.begun_with for one in desk.executions if one.machine == STANDARD.rpartition(":")[2]]
    text = json.dumps([*sent, WIRE][0])
    desk.machines.start_execution(stateMachineArn=STANDARD, name=f"{KEY}-again", input=text)
    assert desk.ledger.rows() == before
    return desk.executions[-1].data


def record(desk: Desk, way: Way, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not os.environ.get("CI"), "CI compares with what is recorded"
    moments = seen(desk, way)
    ends = [ended(desk, moment, monkeypatch) for moment in whole(json.loads(json.dumps(moments)))]
    lines = ",\n".join(
        json.dumps(moment | {"end": end}, sort_keys=True) for moment, end in zip(moments, ends, strict=True)
    )
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"[\n{lines}\n]\n")
    (path.parent / DEFINITION).write_text((STATE_MACHINES / DEFINITION).read_text())


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("release", RELEASES)
def test_a_payment_begun_under_an_earlier_release_ends_as_recorded(
    desk: Desk, release: str, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = HERE / release / f"{way.__name__}.json"
    if release == RECORDED:
        record(desk, way, path, monkeypatch)
    moments = json.loads(path.read_text())
    old = named((path.parent / DEFINITION).read_text())
    desk.machines.machines.definitions = {**definitions(), COMPENSATION: old}

    for number, (told, moment) in enumerate(zip(moments, whole(moments), strict=True)):
        found = ended(desk, moment, monkeypatch)
        if told["end"].get("outcome"):
            found["outcome"] = {name: found["outcome"].get(name) for name in told["end"]["outcome"]}
        assert found == told["end"], f"moment {number}: a field that was told stays, with its meaning"


@pytest.mark.parametrize(
    ("way", "layout"), [(ways.reversed_in_part, None), (ways.reversed_in_part_and_migrated, 2)]
)
@pytest.mark.parametrize("release", RELEASES)
def test_rows_of_earlier_releases_can_be_reversed_in_further_parts(
    desk: Desk, release: str, way: Way, layout: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, end = whole(json.loads((HERE / release / f"{way.__name__}.json").read_text()))
    put_back(desk, end, monkeypatch)
    assert (desk.row().get("layout"), parts_of(desk.row())) == (layout, 1)

    with pytest.raises(CommandFailed, match="parts were reversed"):
        reversal.reverse(desk.stack, KEY, "sent back")
    partial_reversal.reverse_part(desk.stack, KEY, "5.00", "another came back", 2)

    assert parts_of(desk.row()) == 2
    assert table_scan.check(desk.ledger.store).conserved
