"""Failure causes reach callers, terminals and logs, and never contain parties' names."""

import pytest

from settlement.core.policy.compensation import CUT_OFF
from tests.simulation.stuck import spend
from tests.world.constants import WIRE
from tests.world.definitions import STANDARD
from tests.world.interpreter import Execution
from tests.world.world import Fault, World

NAMED = WIRE | {"payer_name": "Wilhelmina Muster", "payee_name": "Balthasar Beispiel"}
STATES = ["HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee"]


def failed_without_names(execution: Execution, error: str) -> None:
    assert (execution.status, execution.error["Error"]) == ("FAILED", error)
    assert not [name for name in ("Wilhelmina", "Balthasar") if name in str(execution.error)]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("fault", Fault)
def test_a_stalled_settlements_cause_contains_no_names(world: World, state: str, fault: Fault) -> None:
    world.open_both()
    world.strike(state, fault)

    execution = world.settle(STANDARD, data=NAMED)

    if state == "VerifyKyc" and fault.value[0] in CUT_OFF:
        assert execution.data["status"] == "COMPENSATED"
    else:
        failed_without_names(execution, "SettlementStalled")


def test_a_failed_compensations_cause_contains_no_names(world: World) -> None:
    """A child execution's failure has the child's input, with names, in its cause."""
    world.open("alice", 10_000)
    world.open("bob", 100_000_000)  # the stage's highest balance: the release is refused
    world.strike("BeginCompensation", Fault.REFUSED_BY_STORE)

    execution = world.settle(STANDARD, data=NAMED)

    (child,) = (one for one in world.machines.executions if one is not execution)
    assert "Wilhelmina" in str(child.begun_with)
    failed_without_names(execution, "SettlementStalled")
    failed_without_names(child, "CompensationStalled")


def test_a_refused_alerts_cause_contains_no_names(world: World) -> None:
    world.open_both()
    world.settle(STANDARD, data=NAMED)
    spend(world)
    world.faults["PageOnCall"] = ("EventBridge.FailedEntry", False, 10**6)

    execution = world.compensate(data=NAMED, reversal={"reason": "the customer asks", "by": "olga"})

    failed_without_names(execution, "PagerUnreachable")
