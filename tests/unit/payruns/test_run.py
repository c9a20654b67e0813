import re
from dataclasses import replace
from typing import Any

import pytest

from settlement.core.model.stored import MalformedRow
from settlement.payruns import writes
from settlement.payruns.run import Proposal, Run, Status, approvers
from tests.unit.payruns.rows import (
    ADA,
    APPROVED,
    BEA,
    BEGUN,
    CARL,
    HALF,
    OVER,
    PROPOSAL,
    PROPOSED,
    RUNNING,
    proposal,
)

CUT = replace(HALF, cut=2)
PUT: dict[str, Any] = dict(writes.propose(PROPOSAL, ADA)[0].parameters["Item"])


@pytest.mark.parametrize("run", [PROPOSED, APPROVED, RUNNING, BEGUN, HALF, CUT, OVER], ids=repr)
def test_a_runs_row_reads_as_it_was_written(run: Run) -> None:
    assert Run.from_row(run.to_row()) == run


def test_only_a_running_run_is_listed_as_running() -> None:
    listed = {status: replace(APPROVED, status=status).to_row()["gsi1pk"] for status in Status}

    assert listed.pop(Status.RUNNING) == "PAYRUNS_RUNNING"
    assert {*listed.values()} == {"PAYRUNS"}


@pytest.mark.parametrize(
    ("run", "last", "is_over"), [(HALF, 3, False), (CUT, 2, False), (OVER, 3, True), (PROPOSED, 3, False)]
)
def test_a_cancellation_makes_an_earlier_line_the_runs_last(run: Run, last: int, is_over: bool) -> None:
    assert (run.last, run.is_over) == (last, is_over)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        *[
            ({name: ...}, f"has no attribute {name!r}")
            for name in ("name", "sequence", "proposed_at", "lines")
        ],
        ({"status": ...}, "has no attribute 'status'"),
        ({"status": "LOST"}, "status must be one of PROPOSED"),
        ({"name": "a b"}, "name must match"),
        ({"name": 7}, "name must match"),
        ({"begun": "2"}, "must be whole numbers"),
        ({"cut": "2"}, "must be whole numbers"),
        ({"lines": True}, "must be whole numbers"),
        ({"ended": 3}, "contradict"),
        ({"started": 3}, "contradict"),
        ({"begun": 1}, "contradict"),
        ({"begun": 4}, "contradict"),
        ({"cut": 1}, "contradict"),
        ({"cut": 4}, "contradict"),
        ({"ended": -1}, "contradict"),
        ({"outcomes": []}, "outcomes and sums"),
        ({"outcomes": {"SETTLED": "1"}}, "outcomes and sums"),
        ({"sums": {"SETTLED EUR": None}}, "outcomes and sums"),
        ({"outcomes": {"SETTLED": 2}}, "it has 2 outcomes of 1 ended lines"),
        ({"outcomes": {}}, "it has 0 outcomes of 1 ended lines"),
    ],
    ids=str,
)
def test_a_damaged_runs_row_is_named(changed: dict[str, Any], told: str) -> None:
    row = {name: value for name, value in (HALF.to_row() | changed).items() if value is not ...}

    with pytest.raises(MalformedRow, match=f"^PAYRUN#{HALF.run}: .*{re.escape(told)}"):
        Run.from_row(row)


def test_a_proposals_row_reads_as_it_was_written() -> None:
    assert Proposal.from_row(PUT) == PROPOSAL
    mended = replace(PROPOSAL, parent="ab" * 16)
    assert Proposal.from_row(writes.propose(mended, ADA)[0].parameters["Item"]) == mended


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        *[({name: ...}, f"no attribute {name!r}") for name in ("digest", "kind", "sums", "needed", "by")],
        ({"digest": "5c"}, "digest must match"),
        ({"name": ""}, "name must match"),
        ({"payer": "a:b"}, "payer must match"),
        ({"parent": "x"}, "parent must match"),
        ({"kind": "gifts"}, "kind must be one of payments, payouts"),
        ({"lines": 0}, "lines must be from 1"),
        ({"needed": 0}, "needed must be from 1"),
        ({"lines": "3"}, "lines must be from 1"),
        ({"sums": {}}, "sums must be minor units"),
        ({"sums": {"EUR": "1"}}, "sums must be minor units"),
        ({"by": 7}, "by is no str"),
    ],
    ids=str,
)
def test_a_damaged_proposal_is_named(changed: dict[str, Any], told: str) -> None:
    row = {name: value for name, value in (PUT | changed).items() if value is not ...}

    with pytest.raises(MalformedRow, match=re.escape(told)):
        Proposal.from_row(row)


def test_a_files_approvers_are_distinct_persons_other_than_its_proposer() -> None:
    def approval(by: str, one: Proposal = PROPOSAL) -> dict[str, Any]:
        return {"by": by, "digest": one.digest}

    again = "arn:aws:sts::123456789012:assumed-role/Approver/BEA"
    other = proposal(needed=2)
    rows = [approval(BEA.by), approval(again), approval(ADA.by), {"by": CARL.by, "digest": "5c" * 32}]

    assert approvers(PROPOSAL, rows) == {"bea"}
    assert approvers(other, [*rows, approval(CARL.by)]) == {"bea", "carl"}
