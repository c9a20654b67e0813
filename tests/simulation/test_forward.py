"""After a fault, the row has the committed steps, and the payer can be refunded."""

import pytest

from settlement.core.model.errors import StoreUnavailable
from settlement.core.policy.compensation import CUT_OFF
from tests.world import picture
from tests.world.definitions import BOTH, EXPRESS
from tests.world.picture import STEPS
from tests.world.world import STARTING, Fault, World

STATES = {
    "HoldFunds": "hold",
    "VerifyKyc": "verify",
    "ReleaseFunds": "release",
    "CollectFee": "fee",
}
SETTLED = picture.of("SETTLED", STEPS)


def steps_before(state: str) -> tuple[str, ...]:
    return STEPS[: list(STATES).index(state)]


def steps_with(state: str) -> tuple[str, ...]:
    return STEPS[: list(STATES).index(state) + 1]


STALLING = [
    (state, fault)
    for state in STATES
    for fault in Fault
    if state != "HoldFunds" and not (state == "VerifyKyc" and fault.value[0] in CUT_OFF)
]
"""Faults that stall a settlement. One that cuts off VerifyKyc reverses it instead: test_verify_answers.py."""


@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("state", STATES)
def test_a_transient_fault_has_no_effect(
    world: World, machine: str, state: str, fault: Fault, times: int
) -> None:
    world.open_both()
    world.strike(state, fault, times=times)

    execution = world.settle(machine)

    assert (execution.status, execution.data["status"]) == ("SUCCEEDED", "SETTLED")
    assert world.picture() == SETTLED
    assert (world.available("alice"), world.available("bob")) == (5_180, 5_272)


@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize(("state", "fault"), STALLING)
def test_a_permanent_fault_leaves_a_settlement_that_can_be_refunded(
    world: World, machine: str, state: str, fault: Fault
) -> None:
    world.open_both()
    world.strike(state, fault)
    committed = steps_with(state) if fault.commits else steps_before(state)
    is_settled = len(committed) == len(STEPS)

    execution = world.settle(machine)

    assert (execution.status, execution.error["Error"]) == ("FAILED", "SettlementStalled")
    assert fault.value[0] in execution.error["Cause"]
    assert world.picture() == (SETTLED if is_settled else picture.of("PROCESSING", committed))

    by_hand = world.compensate()

    if is_settled:
        assert (by_hand.status, by_hand.data["status"]) == ("SUCCEEDED", "SETTLED")
        assert world.picture() == SETTLED
        world.compensate("ordered", reversal={"reason": "the customer asks", "by": "olga"})
    more = {"reverse": None} if is_settled else {}
    assert world.picture() == picture.compensated(committed, more)
    assert {name: world.available(name) for name in STARTING} == STARTING


@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize("fault", Fault)
def test_a_hold_without_answer_is_fenced_whether_committed_or_not(
    world: World, machine: str, fault: Fault
) -> None:
    world.open_both()
    world.strike("HoldFunds", fault)

    execution = world.settle(machine)

    assert (execution.status, execution.error["Error"]) == ("FAILED", "SettlementStalled")
    if fault.commits:
        assert world.picture() == picture.of("PROCESSING", ["hold"])
    else:
        assert [row for row in world.ledger.rows() if row["pk"].startswith("SETTLEMENT")] == []

    by_hand = world.compensate()

    expected = picture.compensated(["hold"]) if fault.commits else picture.of("REJECTED")
    assert (by_hand.status, by_hand.data["status"]) == ("SUCCEEDED", expected.status)
    assert world.picture() == expected

    world.faults.clear()
    late = world.settle(machine, name="execution-1-again")
    assert (late.data["status"], late.data["replayed"]) == (expected.status, True)
    assert world.picture() == expected
    assert {name: world.available(name) for name in STARTING} == STARTING


@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("state", ["RejectSettlement", "ReportOutcome"])
def test_an_execution_whose_report_is_lost_reports_no_wrong_outcome(
    world: World, machine: str, fault: Fault, state: str
) -> None:
    world.open("alice", 10)
    world.open("bob", 500)
    if state == "ReportOutcome":
        world.settle(machine, name="execution-0")
        before = world.picture()
    world.strike(state, fault)

    execution = world.settle(machine)

    assert (execution.status, execution.error["Error"]) == ("FAILED", "SettlementStalled")
    if state == "ReportOutcome":
        assert world.picture() == before
    else:
        claimed = [row for row in world.ledger.rows() if row["pk"].startswith("SETTLEMENT")]
        assert len(claimed) == fault.commits
        world.faults.clear()
        world.compensate()
        assert world.picture() == picture.of("REJECTED")


@pytest.mark.parametrize("machine", BOTH)
def test_recovery_settles_a_payment_whose_payers_row_was_busy(
    world: World, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.open_both()

    def conflict(writes: object) -> None:
        raise StoreUnavailable("DynamoDB: TransactionConflict in each of 6 tries")

    with monkeypatch.context() as busy:
        busy.setattr(world.ledger.store, "transact", conflict)
        stalled = world.settle(machine)
    assert (stalled.status, stalled.error["Error"]) == ("FAILED", "SettlementStalled")
    assert world.picture() == picture.of("PROCESSING")

    world.pass_time(minutes=1)
    world.recover_all()

    assert world.picture() == SETTLED


def test_two_express_executions_of_one_name_settle_once(world: World) -> None:
    world.open_both()
    twins = [world.start(EXPRESS), world.start(EXPRESS)]

    while any(twin.status == "RUNNING" for twin in twins):
        for twin in twins:
            if twin.status == "RUNNING":
                twin.advance()

    assert [twin.data["status"] for twin in twins] == ["SETTLED", "SETTLED"]
    assert world.picture() == SETTLED
    world.assert_conserved()
