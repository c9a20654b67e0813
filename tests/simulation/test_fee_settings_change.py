"""Changed fee settings never alter a settlement in flight."""

from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest

from handlers import _dependencies
from settlement.core.model.stage_config import StageConfig
from tests.simulation.stuck import decision
from tests.world.constants import KEY, WIRE
from tests.world.definitions import BOTH, COMPENSATION, STANDARD
from tests.world.interpreter import Execution
from tests.world.picture import HOW_FAR, STEPS
from tests.world.provider import IN_REVIEW
from tests.world.world import STARTING, World

OWN_FEE = WIRE | {"fee": "1.00"}
STAGES: list[dict[str, Any]] = [
    {"fee": "schedule", "fee_basis_points": 100},
    {"fee": "client", "fee_basis_points": 0, "fee_floor_basis_points": 0, "fee_ceiling_basis_points": 10},
    {
        "fee": "client",
        "fee_basis_points": 900,
        "fee_floor_basis_points": 800,
        "fee_ceiling_basis_points": 999,
    },
    {"fee": "schedule", "fee_basis_points": 0},
]
"""Successive deployments that would refuse the settlement's fee."""

FORWARD = ["VerifyKyc", "ReleaseFunds", "CollectFee"]


def claimed(world: World) -> list[str]:
    rows = [row["pk"].partition("#") for row in world.ledger.rows()]
    return [key for kind, _, key in rows if kind == "SETTLEMENT"]


@pytest.fixture
def deploy_between_states(world: World, monkeypatch: pytest.MonkeyPatch) -> list[StageConfig]:
    """Deploy another configuration before each state after the claim. Return all of them."""
    deployed: list[StageConfig] = []
    stages = cycle(STAGES)

    def deploy(execution: Execution) -> None:
        if execution.state != "HoldFunds" or claimed(world):
            config = replace(_dependencies.config, **next(stages))
            monkeypatch.setattr(_dependencies, "config", config)
            deployed.append(config)

    world.always = deploy
    return deployed


@pytest.mark.parametrize("machine", BOTH)
def test_a_settlement_keeps_the_fee_of_its_claim(
    world: World, machine: str, deploy_between_states: list[StageConfig]
) -> None:
    world.open_both()

    execution = world.settle(machine, data=OWN_FEE)

    assert (execution.data["status"], execution.data["fee"]) == ("SETTLED", "1.00")
    assert (world.available("bob"), world.balance("fees:EUR")) == (500 + 4_720, 100)
    assert len(deploy_between_states) == len(FORWARD)


@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize("state", FORWARD)
def test_recovery_keeps_the_claimed_fee_after_any_state(
    world: World, machine: str, state: str, deploy_between_states: list[StageConfig]
) -> None:
    world.open_both()
    world.start(machine, data=OWN_FEE).run(until=state).abort()
    world.pass_time(minutes=1)

    world.recover_all()

    assert world.picture().status == "SETTLED"
    assert (world.row()["fee"], world.available("bob")) == (100, 500 + 4_720)
    assert len(deploy_between_states) >= len(FORWARD)


@pytest.mark.parametrize("steps", HOW_FAR[1:])
def test_a_reversal_returns_everything_although_the_fee_settings_changed(
    world: World, steps: int, deploy_between_states: list[StageConfig]
) -> None:
    world.open_both()
    execution = world.start(STANDARD, data=OWN_FEE)
    execution.run(until=[*FORWARD, None][steps - 1])
    if steps < len(STEPS):
        execution.abort()
    order = {"reason": "the customer asks for it", "by": "olga"}
    cause: dict[str, Any] = (
        {"reversal": order} if steps == len(STEPS) else {"error": {"Error": "States.Timeout"}}
    )

    by_hand = world.compensate(data=OWN_FEE, **cause)

    assert by_hand.data["status"] == "COMPENSATED"
    assert {name: world.available(name) for name in STARTING} == STARTING
    assert deploy_between_states


@pytest.mark.parametrize(("decided", "status"), [("write-off", "COMPENSATED"), ("complete", "SETTLED")])
def test_a_case_of_limbo_is_decided_after_the_fee_change(
    world: World, decided: str, status: str, deploy_between_states: list[StageConfig]
) -> None:
    world.open_both()
    world.open("carol", 0)
    world.settle(data=OWN_FEE)
    spent = {
        "key": "order-2026-spent-it",
        "payer": "bob",
        "payee": "carol",
        "amount": "50.00",
        "currency": "EUR",
    }
    world.settle(STANDARD, "spends", spent)
    world.compensate("ordered", OWN_FEE, reversal={"reason": "the customer asks for it", "by": "olga"})
    assert world.row()["status"] == "LIMBO"

    world.decide(decision(decided))
    world.drain()

    assert world.row()["status"] == status
    assert world.of(COMPENSATION)[-1].status == "SUCCEEDED"


def test_a_payment_settles_if_its_review_ends_after_the_change(
    world: World, deploy_between_states: list[StageConfig]
) -> None:
    world.open_both()
    world.provider.answer = IN_REVIEW
    world.settle(data=OWN_FEE)
    assert world.row()["review"] == "ver_1"

    assert world.webhook() == 200
    world.drain()

    assert (world.row()["status"], world.row()["fee"]) == ("SETTLED", 100)


def test_recovery_reverses_an_expired_settlement_after_the_change(
    world: World, deploy_between_states: list[StageConfig]
) -> None:
    world.open_both()
    world.start(STANDARD, data=OWN_FEE).run(until="VerifyKyc").abort()
    world.until_deadline()

    world.recover_all()

    assert world.row()["status"] == "COMPENSATED"
    assert {name: world.available(name) for name in STARTING} == STARTING


@pytest.mark.parametrize("machine", BOTH)
def test_a_repeated_request_is_replayed_but_a_new_one_refused(
    world: World, machine: str, deploy_between_states: list[StageConfig]
) -> None:
    world.open_both()
    world.settle(machine, data=OWN_FEE)

    again = world.settle(machine, "execution-2", OWN_FEE)
    new = world.settle(machine, "execution-3", OWN_FEE | {"key": "order-2026-000102"})

    assert (again.data["status"], again.data["replayed"], again.data["fee"]) == ("SETTLED", True, "1.00")
    assert (new.status, new.error["Error"]) == ("FAILED", "InvalidRequest")
    assert claimed(world) == [KEY]
