"""A refused step rejects the settlement if nothing is held, else reverses it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.policy.outcome import of_state
from tests.world import picture
from tests.world.constants import KEY, NONCE, WIRE
from tests.world.definitions import BOTH, COMPENSATION, EXPRESS, STANDARD
from tests.world.interpreter import Execution
from tests.world.picture import STEPS, after
from tests.world.world import World

CAP = 100_000_000
"""The stage's balance limit in EUR, in minor units."""


def both(world: World) -> None:
    world.open_both()


def poor(world: World) -> None:
    world.open("alice", 4_819)
    world.open("bob", 500)


def no_payer(world: World) -> None:
    world.open("bob", 500)


def no_payee(world: World) -> None:
    world.open("alice", 10_000)


def payer_in_dollars(world: World) -> None:
    world.open("alice", 10_000, "USD")
    world.open("bob", 500)


def in_other_currencies(world: World) -> None:
    world.open("alice", 10_000)
    world.open("bob", 500, "USD")


def payee_without_money(world: World) -> None:
    world.open("alice", 10_000)
    world.open("bob", 0)


def payee_closes(world: World) -> None:
    order = {"key": "close-bob-000001", "order": "close", "account": "bob", "by": "olga", "reason": "asked"}
    world.order("close", order)


def payee_at_the_cap(world: World) -> None:
    world.open("alice", 10_000)
    world.open("bob", CAP - 4_771)


def too_late(world: World) -> None:
    world.pass_time(minutes=15)


def claimed_long_ago(world: World) -> None:
    """Claim the key as the queue does, long before the start."""
    world.claim()
    too_late(world)


def fence(world: World) -> None:
    world.compensation("another", error={"Error": "Recovered", "Cause": "it was due"}).advance()


def nothing(world: World) -> None:
    pass


Act = Callable[[World], None]

HOLD_REFUSALS: list[tuple[Act, Act, str]] = [
    (poor, nothing, "InsufficientFunds"),
    (no_payer, nothing, "AccountNotFound"),
    (payer_in_dollars, nothing, "CurrencyMismatch"),
    (no_payee, nothing, "AccountNotFound"),
    (in_other_currencies, nothing, "CurrencyMismatch"),
    (payee_without_money, payee_closes, "AccountClosed"),
    (both, claimed_long_ago, "DeadlineExceeded"),
]
LATER_REFUSALS: list[tuple[str, Act, Act, str]] = [
    ("VerifyKyc", both, too_late, "DeadlineExceeded"),
    ("ReleaseFunds", both, too_late, "DeadlineExceeded"),
    ("ReleaseFunds", payee_without_money, payee_closes, "AccountClosed"),
    ("ReleaseFunds", payee_at_the_cap, nothing, "CapExceeded"),
]
STATES = {"HoldFunds": 0, "VerifyKyc": 1, "ReleaseFunds": 2, "CollectFee": 3}
"""Number of steps committed before each state."""


@pytest.mark.parametrize("machine", BOTH)
def test_an_invalid_request_leaves_no_trace(world: World, machine: str) -> None:
    world.open_both()

    execution = world.settle(machine, data=WIRE | {"amount": "0.00"})

    assert (execution.status, execution.error["Error"]) == ("FAILED", "InvalidRequest")
    assert [row for row in world.ledger.rows() if row["pk"].startswith("SETTLEMENT")] == []


@pytest.mark.parametrize("machine", BOTH)
def test_a_request_with_a_used_key_leaves_the_settlement_unchanged(world: World, machine: str) -> None:
    world.open_both()
    world.settle(STANDARD)

    execution = world.settle(machine, name="execution-2", data=WIRE | {"amount": "48.21"})
    reversal = world.compensate(data=WIRE | {"amount": "48.21"})

    assert (execution.status, execution.error["Error"]) == ("FAILED", "IdempotencyConflict")
    assert (reversal.status, reversal.error["Error"]) == ("FAILED", "IdempotencyConflict")
    assert world.picture() == picture.of("SETTLED", STEPS)


@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize(("people", "event", "error"), HOLD_REFUSALS)
def test_a_refused_hold_is_rejected_and_moves_nothing(
    world: World, config: StageConfig, machine: str, people: Act, event: Act, error: str
) -> None:
    people(world)
    world.before["HoldFunds"] = lambda: event(world)

    execution = world.settle(machine)

    assert execution.status == "SUCCEEDED"
    assert execution.data == of_state(SettlementState.from_row(world.row()), config, replayed=False)
    assert (execution.data["status"], execution.data["failure"]["error"]) == ("REJECTED", error)
    assert world.picture() == picture.of("REJECTED")


@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize(("state", "people", "event", "error"), LATER_REFUSALS)
def test_a_later_refusal_reverses_all_steps_before_it(
    world: World, machine: str, state: str, people: Act, event: Act, error: str
) -> None:
    people(world)
    world.before[state] = lambda: event(world)

    execution = world.settle(machine)

    assert execution.status == "SUCCEEDED"
    assert execution.data["status"] == ("COMPENSATING" if machine == EXPRESS else "COMPENSATED")
    assert execution.data["failure"] == world.row()["failure"]
    assert world.picture() == picture.compensated(STEPS[: STATES[state]])
    assert world.row()["failure"]["error"] == error
    assert world.row()["failure"]["step"] == STEPS[STATES[state]]
    assert world.available("alice") == 10_000


@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize("state", [state for state in STATES if state != "HoldFunds"])
def test_a_fenced_step_reports_the_running_compensation(world: World, machine: str, state: str) -> None:
    world.open_both()
    world.before[state] = lambda: fence(world)

    execution = world.settle(machine)

    assert execution.status == "SUCCEEDED"
    assert execution.data["status"] == ("COMPENSATING" if machine == EXPRESS else "COMPENSATED")
    assert execution.data["failure"] == world.row()["failure"]
    assert world.picture() == picture.compensated(STEPS[: STATES[state]])
    assert world.row()["failure"]["error"] == "Recovered"


@pytest.mark.parametrize("machine", BOTH)
def test_a_fenced_hold_reports_the_rejection(world: World, machine: str) -> None:
    world.open_both()
    world.before["HoldFunds"] = lambda: fence(world)

    execution = world.settle(machine)

    assert execution.status == "SUCCEEDED"
    assert (execution.data["status"], execution.data["replayed"]) == ("REJECTED", True)
    assert world.picture() == picture.of("REJECTED")
    assert world.row()["failure"]["error"] == "Recovered"


@pytest.mark.parametrize("machine", BOTH)
def test_a_hold_that_commits_after_its_refusal_is_not_rejected(world: World, machine: str) -> None:
    """An abandoned first try commits late, and recovery resumes the settlement."""
    poor(world)
    late = partial(world.invoke, "HoldFunds", _held_by("execution-1"))

    def money_comes() -> None:
        assert world.pay("bob", "alice", "0.01", "order-2026-the-missing-cent").data["status"] == "SETTLED"
        late()

    world.before["RejectSettlement"] = money_comes

    execution = world.settle(machine)

    assert (execution.status, execution.data["status"]) == ("SUCCEEDED", "PROCESSING")
    assert (execution.data["failure"], execution.data["replayed"]) == (None, False)
    world.pass_time(minutes=1)
    world.recover_all()
    assert world.picture() == picture.of("SETTLED", STEPS)


@pytest.mark.parametrize("machine", BOTH)
def test_a_refused_hold_does_not_reject_another_executions_new_claim(world: World, machine: str) -> None:
    poor(world)
    other = WIRE | {"amount": "1.00", "fee": "0.00"}
    world.before["RejectSettlement"] = lambda: world.start(STANDARD, "another", other).run()

    execution = world.settle(machine)

    assert (execution.status, execution.error["Error"]) == ("FAILED", "IdempotencyConflict")
    assert (world.row()["status"], world.row()["amount"]) == ("SETTLED", 100)


@pytest.mark.parametrize("machine", BOTH)
def test_a_compensation_that_runs_already_is_not_started_again(world: World, machine: str) -> None:
    world.open_both()
    world.before["ReleaseFunds"] = lambda: world.compensation(f"{KEY}-c0-{NONCE}").advance()

    execution = world.settle(machine)

    assert (execution.status, execution.data["status"]) == ("SUCCEEDED", "COMPENSATING")
    assert execution.data["failure"] == world.row()["failure"]
    assert world.picture() == picture.compensated(STEPS[: after("verify")])
    assert [one.name for one in world.machines.executions if one.machine == COMPENSATION] == [
        f"{KEY}-c0-{NONCE}"
    ]


@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize(
    ("starts", "times", "status"),
    [(False, 2, "SUCCEEDED"), (True, 2, "SUCCEEDED"), (False, 3, "FAILED"), (True, 3, "FAILED")],
)
def test_an_unanswered_start_of_the_compensation_loses_nothing(
    world: World, machine: str, starts: bool, times: int, status: str
) -> None:
    world.open_both()
    world.before["ReleaseFunds"] = lambda: too_late(world)
    world.faults["Compensate"] = ("StepFunctions.SdkClientException", starts, times)

    execution = world.settle(machine)

    assert execution.status == status
    if status == "FAILED":
        assert execution.error["Error"] == "SettlementStalled"
    if not starts and status == "FAILED":
        assert world.picture() == picture.of("PROCESSING", STEPS[: after("verify")])
        world.compensate()
    assert world.picture() == picture.compensated(STEPS[: after("verify")])


@pytest.mark.parametrize("ending", ["fails", "is aborted"])
def test_a_standard_settlement_whose_compensation_dies_fails(world: World, ending: str) -> None:
    world.open_both()
    world.before["ReleaseFunds"] = lambda: too_late(world)
    if ending == "fails":
        world.faults["BeginCompensation"] = ("StoreUnavailable", False, 10**6)
    else:
        world.before["VoidHold"] = lambda: _compensation_of(world).abort()

    execution = world.settle(STANDARD)

    assert (execution.status, execution.error["Error"]) == ("FAILED", "SettlementStalled")
    assert world.picture().escrow == 4_820
    world.faults.clear()
    world.compensate()
    assert world.picture() == picture.compensated(STEPS[: after("verify")])


def _held_by(execution: str) -> dict[str, Any]:
    return {"settlement": WIRE, "execution": execution, "execution_arn": f"arn:{execution}"}


def _compensation_of(world: World) -> Execution:
    (found,) = (one for one in world.machines.executions if one.machine == COMPENSATION)
    return found
