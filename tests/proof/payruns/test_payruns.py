from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from settlement.core.ledger.keys import Row
from settlement.core.model.stored import MalformedRow
from settlement.payruns import writes
from settlement.payruns.run import Status
from settlement.proof import payrun_rows
from tests.unit.payruns.rows import (
    APPROVED,
    BEA,
    BEGUN,
    CARL,
    HALF,
    OVER,
    PROPOSAL,
    PROPOSED,
    RUNNING,
    STARTED,
    proposal,
)
from tests.world.environment import NOW

RUN = PROPOSAL.run
CUT = replace(STARTED, cut=2)
RUNS = (
    *(PROPOSED, APPROVED, RUNNING, BEGUN, STARTED, HALF, OVER, CUT),
    replace(HALF, status=Status.PAUSED),
    replace(OVER, status=Status.FINISHED),
    replace(PROPOSED, status=Status.CANCELLED, cut=0),
)


def put(*found: Any) -> Iterator[Row]:
    return (dict(one.parameters["Item"]) for one in found if one.action == "Put")


DECISIONS = (
    *(one for one in put(*writes.propose(PROPOSAL, BEA)) if one["sk"] == "PROPOSED"),
    *(one for one in put(*writes.propose(proposal(needed=1), BEA)) if one["sk"] == "PROPOSED"),
    *put(*writes.approve(PROPOSED, PROPOSAL, CARL, NOW)),
    *put(*writes.pause(RUNNING, PROPOSAL, CARL, NOW)),
)
LINES = (
    *put(writes.taken(RUN, 2, NOW)),
    *put(writes.refused(RUN, 17, "InsufficientFunds", "payer: has too little", NOW)),
)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: f"{run.status} {run.ended}")
def test_the_row_of_each_state_of_a_run_is_accepted(run: Any) -> None:
    payrun_rows.run(run.to_row())


@pytest.mark.parametrize("row", DECISIONS, ids=lambda row: row["sk"][:8])
def test_each_recorded_row_of_a_decision_is_accepted(row: Row) -> None:
    payrun_rows.decision(row)


@pytest.mark.parametrize("row", LINES, ids=lambda row: row["sk"])
def test_each_recorded_row_of_a_line_is_accepted(row: Row) -> None:
    payrun_rows.line(row)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"pk": "PAYRUN#short"}, "no row of its kind has such a key"),
        ({"sk": "OTHER"}, "no row of its kind has such a key"),
        ({"status": "ENDED"}, "status is 'ENDED'"),
        ({"status": 7}, "status is no text"),
        ({"proposed_at": "yesterday"}, "proposed_at is no timestamp"),
        ({"changed_at": "later"}, "changed_at is no timestamp"),
        ({"sequence": 0}, "sequence is less than 1"),
        ({"approvals": -1}, "approvals is less than 0"),
        ({"lines": "3"}, "lines is no whole number"),
        ({"started": 3}, "its counts contradict each other: 1, 3, 2, 3, 3"),
        ({"cut": 1}, "its counts contradict each other: 1, 2, 2, 1, 3"),
        ({"outcomes": {"SETTLED": 2}}, "its outcomes are not those of its ended lines"),
        ({"outcomes": {"SETTLED": "1"}}, "its outcomes are not those of its ended lines"),
        ({"outcomes": "SETTLED"}, "outcomes is no dict"),
        ({"status": "APPROVED"}, "is APPROVED, but lines have begun"),
        ({"status": "FINISHED"}, "is FINISHED, but lines have not ended"),
        ({"gsi1pk": "PAYRUNS"}, "is listed in PAYRUNS, but should be in PAYRUNS_RUNNING"),
        ({"gsi1sk": "2026"}, "is listed in PAYRUNS_RUNNING, but"),
    ],
    ids=str,
)
def test_a_changed_run_row_is_malformed(changed: Row, told: str) -> None:
    with pytest.raises(MalformedRow, match=rf"^{told}"):
        payrun_rows.run({**HALF.to_row(), **changed})


@pytest.mark.parametrize(
    ("number", "changed", "told"),
    [
        (0, {"digest": "5c" * 32}, "digest, by and posted_at are none"),
        (0, {"by": ""}, "digest, by and posted_at are none"),
        (0, {"posted_at": "2026"}, "digest, by and posted_at are none"),
        (0, {"needed": 0}, "needed is less than 1"),
        (0, {"sums": {}}, "sums are none of a proposal"),
        (0, {"sums": {"EUR": 0}}, "sums are none of a proposal"),
        (0, {"kind": 1}, "kind is no text"),
        (0, {"gsi1pk": "PAYRUNS"}, "is listed in the index"),
        (2, {"sk": "APPROVED#ada"}, "no row of its kind has such a key"),
        (2, {"digest": None}, "digest is missing"),
        (3, {"order": "stop"}, "order is 'stop'"),
        (3, {"order": 1}, "order is no text"),
        (3, {"sk": "ORDERED#1"}, "no row of its kind has such a key"),
    ],
    ids=str,
)
def test_a_changed_decision_row_is_malformed(number: int, changed: Row, told: str) -> None:
    with pytest.raises(MalformedRow, match=rf"^{told}"):
        payrun_rows.decision({**DECISIONS[number], **changed})


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"sk": "17"}, "no row of its kind has such a key"),
        ({"posted_at": 1}, "posted_at is no text"),
        ({"why": 7}, "why is no str"),
        ({"refused": 7}, "refused is no str"),
        ({"gsi1sk": "2026"}, "is listed in the index"),
    ],
    ids=str,
)
def test_a_changed_line_row_is_malformed(changed: Row, told: str) -> None:
    with pytest.raises(MalformedRow, match=rf"^{told}"):
        payrun_rows.line({**LINES[1], **changed})


def test_a_refused_line_without_a_reason_is_malformed() -> None:
    row = {name: value for name, value in LINES[1].items() if name != "why"}

    with pytest.raises(MalformedRow, match=r"^refused and why are not there together"):
        payrun_rows.line(row)
