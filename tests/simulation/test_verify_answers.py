"""For every answer and fault, the payment settles or is refunded."""

from collections.abc import Callable

import pytest

from settlement.core.model.errors import KycCircuitOpen, KycRequestRefused, KycUnavailable, StoreUnavailable
from settlement.core.model.verdict import Verdict
from settlement.core.policy import compensation
from tests.world import picture
from tests.world.constants import KEY, NONCE
from tests.world.definitions import BOTH, COMPENSATION, EXPRESS, STANDARD
from tests.world.interpreter import TaskFailed
from tests.world.picture import STEPS, Picture
from tests.world.provider import APPROVED, IN_REVIEW, REJECTED
from tests.world.world import STARTING, Fault, World

UNAVAILABLE, REFUSED = KycUnavailable("kyc: down"), KycRequestRefused("kyc: status 422")
ANSWERS: dict[str, Verdict | Exception] = {
    "approved": APPROVED,
    "rejected": REJECTED,
    "in review": IN_REVIEW,
    "unavailable": UNAVAILABLE,
    "circuit open": KycCircuitOpen("kyc: not asked, as the circuit is open"),
    "refused": REFUSED,
}
NO_ANSWER = ("unavailable", "circuit open", "refused")
TRIES = 3

CUT_OFF = [fault for fault in Fault if fault.value[0] in compensation.CUT_OFF]
"""Faults in which Lambda or the task ends the call."""

REJECTION: dict[str, picture.Move] = {"verify": None}
"""The evidence of a rejection, which commits no step."""

ENDS: dict[str, Picture] = {
    "approved": picture.of("SETTLED", STEPS),
    "rejected": picture.compensated(["hold"], REJECTION),
    "in review": picture.of("PROCESSING", ["hold"]),
    "unavailable": picture.compensated(["hold"]),
    "circuit open": picture.compensated(["hold"]),
    "refused": picture.compensated(["hold"]),
}
ERRORS = {
    "rejected": "KycRejected",
    "unavailable": "KycUnavailable",
    "circuit open": "KycCircuitOpen",
    "refused": "KycRequestRefused",
}


def assert_ended(world: World, machine: str, answer: str) -> None:
    execution = world.machines.executions[0]
    reversing = "COMPENSATING" if machine == EXPRESS else "COMPENSATED"
    status = {"approved": "SETTLED", "in review": "PROCESSING"}.get(answer, reversing)
    assert (execution.status, execution.data["status"]) == ("SUCCEEDED", status)
    assert execution.data["failure"] == world.row().get("failure")
    assert world.picture() == ENDS[answer]
    assert ("review" in world.row()) is (answer == "in review")
    assert world.row().get("failure", {}).get("error") == ERRORS.get(answer)
    assert world.row().get("verdict") == {"approved": "APPROVED", "rejected": "REJECTED"}.get(answer)
    if answer in ERRORS:
        assert world.row()["failure"]["step"] == "verify"
        assert {name: world.available(name) for name in STARTING} == STARTING


@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize("answer", ANSWERS)
def test_each_answer_of_the_provider_leads_to_its_outcome(world: World, answer: str, machine: str) -> None:
    world.open_both()
    world.provider.answer = ANSWERS[answer]

    world.settle(machine)

    assert_ended(world, machine, answer)
    assert len(world.provider.asked) == (TRIES if answer == "unavailable" else 1)


@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_fault_in_one_verify_call_changes_no_outcome(
    world: World, answer: str, fault: Fault, machine: str
) -> None:
    world.open_both()
    world.provider.answer = ANSWERS[answer]
    world.strike("VerifyKyc", fault, times=1)

    world.settle(machine)

    assert_ended(world, machine, answer)
    asked = (TRIES - 1 if answer == "unavailable" else 1) + fault.commits
    assert len(world.provider.asked) == (asked if answer in NO_ANSWER else 1)


@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize("fault", CUT_OFF)
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_payment_whose_call_is_always_cut_off_is_reversed(
    world: World, answer: str, fault: Fault, machine: str
) -> None:
    """The payer does not wait for the deadline; an open review continues."""
    world.open_both()
    world.provider.answer = ANSWERS[answer]
    world.strike("VerifyKyc", fault)
    committed = ["hold", "verify"] if fault.commits and answer == "approved" else ["hold"]
    entries = REJECTION if fault.commits and answer == "rejected" else {}

    execution = world.settle(machine)

    assert execution.status == "SUCCEEDED"
    if fault.commits and answer == "in review":
        assert (execution.data["status"], world.picture()) == ("PROCESSING", ENDS["in review"])
        return
    assert world.picture() == picture.compensated(committed, entries)
    assert execution.data["failure"] == world.row()["failure"]
    assert world.row()["failure"] == {
        "step": "release" if "verify" in committed else "verify",
        "error": "KycUnavailable",
        "cause": f"kyc: no verdict in time ({fault.value[0]})",
    }
    assert {name: world.available(name) for name in STARTING} == STARTING


@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize("fault", [fault for fault in Fault if fault not in CUT_OFF])
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_payment_whose_call_always_fails_expires_at_the_deadline(
    world: World, answer: str, fault: Fault, machine: str
) -> None:
    world.open_both()
    world.provider.answer = ANSWERS[answer]
    world.strike("VerifyKyc", fault)
    committed = ["hold", "verify"] if fault.commits and answer == "approved" else ["hold"]
    entries = REJECTION if fault.commits and answer == "rejected" else {}

    execution = world.settle(machine)

    assert (execution.status, execution.error["Error"]) == ("FAILED", "SettlementStalled")
    assert world.picture() == picture.of("PROCESSING", committed, entries)
    assert len(world.provider.asked) == fault.commits * (TRIES if answer in NO_ANSWER else 1)
    assert ("review" in world.row()) is (fault.commits and answer == "in review")

    world.until_deadline()
    world.recover_all()

    assert world.picture() == picture.compensated(committed, entries)
    assert world.row()["failure"]["error"] == "DeadlineExceeded"
    assert [one.name for one in world.of(COMPENSATION)] == [f"{KEY}-c1-{NONCE}"]
    assert {name: world.available(name) for name in STARTING} == STARTING


def die() -> None:
    raise TaskFailed("Runtime.ExitError")


def no_table() -> None:
    raise StoreUnavailable("DynamoDB: gone while the provider thought")


@pytest.mark.parametrize("befalls", [die, no_table])
@pytest.mark.parametrize("answer", ["approved", "rejected", "in review"])
def test_the_provider_is_asked_again_if_its_answer_was_lost(
    world: World, answer: str, befalls: Callable[[], None]
) -> None:
    world.open_both()
    world.provider.answer = ANSWERS[answer]

    def fail_twice() -> None:
        if len(world.provider.asked) < TRIES:
            befalls()

    world.provider.meanwhile = fail_twice

    world.settle(STANDARD)

    assert_ended(world, STANDARD, answer)
    assert len(world.provider.asked) == TRIES


@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_comes_after_the_fence_has_no_effect(world: World, answer: str, machine: str) -> None:
    """The provider answers only after recovery has refunded the payer."""
    world.open_both()
    world.provider.answer = ANSWERS[answer]

    def give_up() -> None:
        if world.row()["status"] == "PROCESSING":
            world.until_deadline()
            assert world.recover() == []
            world.machines.executions[-1].run()

    world.provider.meanwhile = give_up

    world.settle(machine)

    assert world.machines.executions[0].status == "SUCCEEDED"
    evidence = REJECTION if answer in ("approved", "rejected") else {}
    assert world.picture() == picture.compensated(["hold"], evidence)
    assert not world.row().keys() & {"verdict", "review"}
    assert world.provider.asked == [KEY]
    assert {name: world.available(name) for name in STARTING} == STARTING


@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize("recovers", [False, True])
def test_the_payer_is_refunded_if_the_provider_is_never_available(
    world: World, recovers: bool, machine: str
) -> None:
    world.open_both()
    world.provider.answer = UNAVAILABLE
    world.settle(machine)

    if recovers:
        world.until_deadline()
        world.recover_all()

    assert world.picture() == picture.compensated(["hold"])
    assert world.row()["escrow"] == 0
    assert len(world.provider.asked) == TRIES
    assert [one.name for one in world.of(COMPENSATION)] == [f"{KEY}-c0-{NONCE}"]
