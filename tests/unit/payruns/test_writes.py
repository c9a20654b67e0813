from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.transaction import AlreadyApplied, Write
from settlement.core.model.errors import PayRunRefused
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import from_wire, to_wire
from settlement.payruns import writes
from settlement.payruns.run import Run, Status
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
    STARTED,
)
from tests.world.environment import NOW
from tests.world.memory_dynamodb import MemoryDynamoDb

LATER = NOW + timedelta(hours=1)
PLACE = f"PAYRUN#{PROPOSAL.run}", "RUN"
PAUSED = replace(BEGUN, status=Status.PAUSED, sequence=5)
CUT = replace(BEGUN, cut=2, sequence=5)
ENDED = [replace(OVER, status=Status.FINISHED, sequence=5), replace(CUT, status=Status.CANCELLED, sequence=6)]
STATES = [PROPOSED, APPROVED, RUNNING, BEGUN, STARTED, HALF, PAUSED, CUT, OVER, *ENDED]


class Desk:
    def __init__(self) -> None:
        self.table = MemoryDynamoDb()
        self.store = Store(self.table, "runs", pause=lambda tries: None)

    def be(self, run: Run) -> None:
        self.table.items.clear()
        self.table.put_item(TableName="runs", Item=to_wire(run.to_row()))

    @property
    def run(self) -> Run:
        return Run.from_row(from_wire(self.table.items[PLACE]))

    def act(self, *made: Write) -> Run:
        self.store.transact(made)
        return self.run


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_run_goes_from_its_proposal_to_its_end(desk: Desk) -> None:
    found = [desk.act(*writes.propose(PROPOSAL, ADA))]
    for caller in (BEA, CARL):
        found.append(desk.act(*writes.approve(desk.run, PROPOSAL, caller, LATER)))
    found.append(desk.act(*writes.resume(desk.run, PROPOSAL, ADA, LATER)))
    desk.act(writes.begin(desk.run, 2))
    found.append(desk.act(*writes.pause(desk.run, PROPOSAL, ADA, LATER)))
    found.append(desk.act(*writes.resume(desk.run, PROPOSAL, ADA, LATER)))
    desk.act(writes.started(desk.run))
    desk.act(writes.begin(desk.run, 1))
    desk.act(writes.started(desk.run))
    desk.act(writes.ended(desk.run, OVER))
    found.append(desk.act(writes.end(desk.run, LATER)))

    told = ["PROPOSED", "PROPOSED", "APPROVED", "RUNNING", "PAUSED", "RUNNING", "FINISHED"]
    assert [one.status for one in found] == told
    assert [one.sequence for one in found] == [*range(1, 8)]
    assert (desk.run.outcomes, desk.run.sums) == (OVER.outcomes, OVER.sums)


ORDERS: dict[str, tuple[Callable[..., Sequence[Write]], list[Run]]] = {
    "approve": (lambda run: writes.approve(run, PROPOSAL, BEA, LATER), [PROPOSED]),
    "resume": (lambda run: writes.resume(run, PROPOSAL, ADA, LATER), [APPROVED, PAUSED]),
    "pause": (lambda run: writes.pause(run, PROPOSAL, ADA, LATER), [RUNNING, BEGUN, STARTED, HALF, OVER]),
    "cancel": (
        lambda run: writes.cancel(run, PROPOSAL, ADA, LATER),
        [one for one in STATES if one not in (CUT, *ENDED)],
    ),
}


@pytest.mark.parametrize("order", ORDERS)
def test_each_order_is_taken_only_in_its_statuses(desk: Desk, order: str) -> None:
    make, takes = ORDERS[order]
    for state in STATES:
        desk.be(state)
        if state in takes:
            assert desk.act(*make(state)).sequence == state.sequence + 1
        else:
            with pytest.raises(PayRunRefused, match=r"^run: it is "):
                make(state)


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_on_an_older_row_is_refused(desk: Desk, order: str) -> None:
    make, takes = ORDERS[order]
    desk.be(replace(takes[0], sequence=9))
    with pytest.raises(PayRunRefused, match="has moved on to"):
        desk.act(*make(takes[0]))

    desk.table.items.clear()
    with pytest.raises(PayRunRefused, match="it is gone"):
        desk.act(*make(takes[0]))


@pytest.mark.parametrize("order", ORDERS)
def test_a_repeated_order_is_a_replay(desk: Desk, order: str) -> None:
    make, takes = ORDERS[order]
    desk.be(takes[0])
    after = desk.act(*make(takes[0]))

    with pytest.raises(AlreadyApplied):
        desk.act(*make(takes[0]))
    assert desk.run == after


def test_a_cancellation_cuts_the_run_after_its_begun_lines(desk: Desk) -> None:
    for before, status in ((BEGUN, Status.RUNNING), (PAUSED, Status.RUNNING), (APPROVED, Status.CANCELLED)):
        desk.be(before)
        after = desk.act(*writes.cancel(before, PROPOSAL, ADA, LATER))
        assert (after.cut, after.status) == (before.begun, status)
        with pytest.raises(PayRunRefused):
            desk.act(writes.begin(replace(before, status=Status.RUNNING), 1))


def test_a_cancellation_is_refused_if_lines_begin_meanwhile(desk: Desk) -> None:
    desk.be(RUNNING)
    desk.act(writes.begin(RUNNING, 2))

    with pytest.raises(PayRunRefused, match="look at it again"):
        desk.act(*writes.cancel(RUNNING, PROPOSAL, ADA, LATER))
    assert desk.run.cut is None


def test_a_cancelled_run_ends_with_the_status_cancelled(desk: Desk) -> None:
    desk.be(replace(OVER, cut=3))

    assert desk.act(writes.end(desk.run, LATER)).status is Status.CANCELLED


@pytest.mark.parametrize(
    ("now", "write"),
    [
        (PAUSED, writes.begin(BEGUN, 1)),
        (CUT, writes.begin(BEGUN, 1)),
        (replace(BEGUN, begun=3), writes.begin(BEGUN, 1)),
        (STARTED, writes.started(BEGUN)),
        (replace(BEGUN, begun=3), writes.started(BEGUN)),
        (HALF, writes.ended(STARTED, HALF)),
        (replace(OVER, sequence=9), writes.end(OVER, LATER)),
    ],
    ids=["paused", "cut", "begun", "started", "begun more", "ended", "moved"],
)
def test_progress_of_an_older_row_changes_nothing(desk: Desk, now: Run, write: Write) -> None:
    desk.be(now)

    with pytest.raises(PayRunRefused, match="moved on"):
        desk.act(write)
    assert desk.run == now


def test_progress_is_recorded_despite_a_change_of_status(desk: Desk) -> None:
    desk.be(PAUSED)

    assert desk.act(writes.started(BEGUN)) == replace(PAUSED, started=2)


def test_a_file_is_proposed_once(desk: Desk) -> None:
    desk.act(*writes.propose(PROPOSAL, ADA))

    for caller in (ADA, BEA):
        with pytest.raises(AlreadyApplied):
            desk.act(*writes.propose(replace(PROPOSAL, by=caller.by), caller))
    place = keys.payrun_proposed(PROPOSAL.run)
    proposed = from_wire(desk.table.items[place["pk"], place["sk"]])
    assert (proposed["by"], proposed["user_id"]) == (ADA.by, ADA.user_id)


def test_a_person_counts_once_whatever_the_role(desk: Desk) -> None:
    desk.act(*writes.propose(PROPOSAL, ADA))
    desk.act(*writes.approve(desk.run, PROPOSAL, BEA, LATER))

    with pytest.raises(AlreadyApplied):
        desk.act(*writes.approve(desk.run, PROPOSAL, replace(BEA, by="arn:x:assumed-role/R/BEA"), LATER))
    assert desk.run.approvals == 1


def test_another_persons_approval_is_not_a_replay(desk: Desk) -> None:
    """Two approvals in one millisecond write equal rows, but the second is refused."""
    desk.act(*writes.propose(PROPOSAL, ADA))
    seen = desk.run
    desk.act(*writes.approve(seen, PROPOSAL, BEA, LATER))

    with pytest.raises(PayRunRefused):
        desk.act(*writes.approve(seen, PROPOSAL, CARL, LATER))


def test_an_order_does_not_overwrite_another_persons_record(desk: Desk) -> None:
    """This holds even if the run's row was set back by hand."""
    desk.be(APPROVED)
    desk.act(*writes.resume(APPROVED, PROPOSAL, ADA, LATER))
    desk.table.put_item(TableName="runs", Item=to_wire(APPROVED.to_row()))

    with pytest.raises(PayRunRefused, match=f"{ADA.by} has moved it to sequence"):
        desk.act(*writes.resume(APPROVED, PROPOSAL, BEA, LATER))
    assert desk.run == APPROVED


def test_a_line_is_refused_or_taken_never_both(desk: Desk) -> None:
    run = PROPOSAL.run
    taken, refused = writes.taken(run, 3, NOW), writes.refused(run, 3, "InsufficientFunds", "too little", NOW)
    desk.store.transact([refused])
    with pytest.raises(PayRunRefused, match="it was refused: too little"):
        desk.store.transact([taken])
    with pytest.raises(AlreadyApplied):
        desk.store.transact([refused])

    desk.table.items.clear()
    desk.store.transact([taken])
    with pytest.raises(AlreadyApplied):
        desk.store.transact([refused])
    place = keys.payrun_line(run, 3)
    assert "refused" not in desk.table.items[place["pk"], place["sk"]]
