"""An execution and its state's function die, in each state of each machine.

A death before a state's commit is also one after the previous state's commit.
"""

import re
from typing import Any

import pytest

from settle.orders import resolution
from settlement.core.model.orders import Decision
from tests.e2e.embedded import Embedded, new_account
from tests.e2e.provider import Payment, payment
from tests.e2e.stuck import Stuck, settled

pytestmark = pytest.mark.long

FORWARD = ["HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee"]
REVERSAL = ["RefundFee", "ReclaimFunds", "VoidHold"]
STEPS = ["hold", "verify", "release", "fee"]
STUCK = ["EnterLimbo", "PrepareAlert", "AwaitResolution"]


def die(embedded: Embedded, state: str, machine: str, name: str, content: Any) -> None:
    """Start an execution; stop it in a state and kill the state's function before it acts."""
    with embedded.frozen(state):
        arn = embedded.run(machine, content, name)
        embedded.wait_for(lambda: embedded.has_entered(arn, state))
        embedded.stop(arn)


@pytest.mark.parametrize("state", FORWARD[1:])
def test_a_settlement_whose_execution_died_continues_from_its_last_step(
    embedded: Embedded, state: str
) -> None:
    one = payment(embedded)
    die(embedded, state, "SettlementStandardArn", f"{one.key}-mine", one.request)
    assert one.row()["status"] == "PROCESSING"

    taken = embedded.recover(one.key)

    assert (taken["key"], taken["action"]) == (one.key, "settle")
    assert re.fullmatch(rf"{one.key}-r1-[0-9a-f]{{8}}", taken["execution"])
    assert one.over()["status"] == "SETTLED"
    standard = embedded.stack.outputs["SettlementStandardArn"].replace(":stateMachine:", ":execution:")
    assert embedded.ended(f"{standard}:{taken['execution']}")["status"] == "SUCCEEDED"
    assert one.balances() == ("51.80", "47.72")
    assert embedded.entries(one.key) == sorted(STEPS)
    assert embedded.conserved()


def test_an_execution_that_dies_before_its_claim_leaves_nothing(embedded: Embedded) -> None:
    one = payment(embedded)

    die(embedded, "HoldFunds", "SettlementStandardArn", f"{one.key}-mine", one.request)

    assert embedded.entries(one.key) == []
    assert one.balances() == ("100.00", "0.00")
    assert one.start()["status"] == "SETTLED"


@pytest.mark.parametrize("state", FORWARD)
def test_a_killed_function_is_called_again_by_its_machine(embedded: Embedded, state: str) -> None:
    one = payment(embedded)

    with embedded.frozen(state):
        arn = embedded.run("SettlementStandardArn", one.request, f"{one.key}-mine")
        embedded.wait_for(lambda: embedded.has_entered(arn, state))

    assert one.over()["status"] == "SETTLED"
    assert embedded.entries(one.key) == sorted(STEPS)


def test_a_reversal_that_died_before_beginning_is_decided_again(embedded: Embedded) -> None:
    """The payment is still in process, so it meets the same refusal again and is reversed."""
    rich = new_account(embedded, "rich", "1000000.00")
    one = Payment(embedded, payment(embedded).request | {"payee": rich})
    with embedded.frozen("BeginCompensation"):
        arn = embedded.run("SettlementStandardArn", one.request, f"{one.key}-mine")
        embedded.wait_for(lambda: embedded.has_entered(arn, "Compensate"))
        embedded.stop(arn)
        stop_reversal(embedded, f"{one.key}-c0-")
    assert one.row()["status"] == "PROCESSING"

    assert embedded.recover(one.key)["action"] == "settle"

    row = one.over()
    assert (row["status"], row["failure"]["error"], row["owner_epoch"]) == ("COMPENSATED", "CapExceeded", 1)
    assert embedded.available(one.request["payer"]) == "100.00"


def stop_reversal(embedded: Embedded, prefix: str) -> None:
    machine = embedded.stack.outputs["CompensationArn"]

    def found() -> list[str]:
        executions = embedded.step_functions.list_executions(stateMachineArn=machine)["executions"]
        return [one["executionArn"] for one in executions if one["name"].startswith(prefix)]

    embedded.wait_for(lambda: bool(found()) and embedded.has_entered(found()[0], "BeginCompensation"))
    embedded.stop(found()[0])


def die_reversing(embedded: Embedded, state: str, one: Stuck) -> None:
    with embedded.frozen(state):
        arn = ordered(embedded, one)
        embedded.wait_for(lambda: embedded.has_entered(arn, state))
        embedded.stop(arn)


def ordered(embedded: Embedded, one: Stuck) -> str:
    answer = embedded.stack.door.send("reverse", {"key": one.key, "reason": "a test"})
    assert answer.status == 200, answer
    machine = embedded.stack.outputs["CompensationArn"]
    executions = embedded.step_functions.list_executions(stateMachineArn=machine)["executions"]
    (arn,) = (
        found["executionArn"] for found in executions if found["name"].startswith(f"{one.key}-reverse-")
    )
    return str(arn)


@pytest.mark.parametrize("state", REVERSAL)
def test_a_reversal_whose_execution_died_continues_from_its_last_step(embedded: Embedded, state: str) -> None:
    one = settled(embedded)
    one.pay_back()
    die_reversing(embedded, state, one)
    assert one.row()["status"] == "COMPENSATING"

    taken = embedded.recover(one.key)

    assert (taken["key"], taken["action"]) == (one.key, "compensate")
    assert re.fullmatch(rf"{one.key}-c1-[0-9a-f]{{8}}", taken["execution"])
    embedded.wait_for(lambda: one.row()["status"] == "COMPENSATED")
    assert one.balances() == ("100.00", "0.59")
    reversals = ["compensate:fee", "compensate:release", "compensate:hold"]
    assert embedded.entries(one.key) == sorted([*STEPS, "reverse", *reversals])
    assert embedded.conserved()


@pytest.mark.parametrize("state", STUCK)
def test_an_execution_that_died_entering_limbo_is_replaced(embedded: Embedded, state: str) -> None:
    one = settled(embedded)
    die_reversing(embedded, state, one)

    taken = embedded.recover(one.key)

    assert taken["execution"].startswith(f"{one.key}-c1-")
    embedded.wait_for(lambda: embedded.waiting(one.key).endswith(taken["execution"]))
    assert one.row()["status"] == "LIMBO"
    assert embedded.recover(one.key) == {"key": one.key, "action": "none", "execution": None}
    assert (
        resolution.resolve(embedded.stack, one.key, Decision.WRITE_OFF, "by a test")["status"]
        == "COMPENSATED"
    )
    assert embedded.conserved()


def test_reversals_blocked_by_a_broken_function_complete_after_its_repair(
    embedded: Embedded,
) -> None:
    """As after a bad deployment, each call of each execution raises an error that no definition lists."""
    ones = [settled(embedded) for _ in range(4)]
    for one in ones:
        one.pay_back()
    with embedded.without_grants("ReclaimFunds"):
        arns = [ordered(embedded, one) for one in ones]
        embedded.wait_for(lambda: all(embedded.has_failed_in(arn, "ReclaimFunds") for arn in arns))
        embedded.stop(arns[0])

    embedded.recover(ones[0].key)
    embedded.wait_for(lambda: all(one.row()["status"] == "COMPENSATED" for one in ones))

    assert all("limbo:1" not in embedded.entries(one.key) for one in ones)
    assert {one.balances() for one in ones} == {("100.00", "0.59")}
    assert embedded.conserved()


def test_recovery_leaves_a_running_reversal_alone(embedded: Embedded) -> None:
    one = settled(embedded)
    one.pay_back()
    with embedded.frozen("VoidHold"):
        arn = ordered(embedded, one)
        embedded.wait_for(lambda: embedded.has_entered(arn, "VoidHold"))

        taken = embedded.recover(one.key)

    assert taken == {"key": one.key, "action": "none", "execution": None}
    embedded.wait_for(lambda: one.row()["status"] == "COMPENSATED")
    assert one.row()["owner_epoch"] == 0
