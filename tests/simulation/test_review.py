"""A review ends by a webhook, whenever and however often it comes, or at its deadline."""

from collections.abc import Callable

import pytest

from tests.world import picture
from tests.world.constants import KEY, NONCE, WIRE
from tests.world.definitions import BOTH, COMPENSATION, STANDARD
from tests.world.picture import STEPS, Picture
from tests.world.provider import APPROVED, IN_REVIEW, REJECTED
from tests.world.services import Died, unanswered
from tests.world.world import STARTING, World

RESUMED = f"{KEY}-r2-{NONCE}"

SHARED = ("HoldFunds", "VerifyKyc")
WAYS = {
    "APPROVED": [*SHARED, "ReleaseFunds", "CollectFee"],
    "REJECTED": [*SHARED, "Compensate", "ReportOutcome"],
}

ENDS: dict[str, Picture] = {
    "APPROVED": picture.by_webhook(picture.of("SETTLED", STEPS)),
    "REJECTED": picture.by_webhook(picture.compensated(["hold"])),
}
OTHER = {"APPROVED": "REJECTED", "REJECTED": "APPROVED"}
TOO_EARLY = {"HoldFunds": 404}
PLACES = [*TOO_EARLY, "VerifyKyc", "ReportOutcome"]

each_decision = pytest.mark.parametrize("decision", ENDS)
each_machine = pytest.mark.parametrize("machine", BOTH)


def assert_ended(world: World, decision: str, *, answered: bool = False) -> None:
    """Check that the resumed execution ended the settlement.

    With `answered`, the provider's answer is recorded too.
    """
    (resumed,) = (one for one in world.machines.executions if one.name == RESUMED)
    assert (resumed.machine, resumed.begun_with) == (STANDARD, WIRE)
    assert (resumed.status, resumed.data["status"]) == ("SUCCEEDED", ENDS[decision].status)
    ended = ENDS[decision]
    assert world.picture() == (ended.having(entries={**ended.entries, "verify": None}) if answered else ended)
    assert (world.row()["verdict"], "review" in world.row()) == (decision, False)
    assert world.row()["owner"] == (f"{KEY}-c2-{NONCE}" if decision == "REJECTED" else RESUMED)
    balances = STARTING if decision == "REJECTED" else {"alice": 5_180, "bob": 5_272}
    assert {name: world.available(name) for name in STARTING} == balances


@each_machine
@each_decision
def test_a_review_ends_as_the_provider_decides(world: World, decision: str, machine: str) -> None:
    world.in_review(machine)
    world.pass_time(hours=23)

    assert world.webhook(decision) == 200
    world.drain()

    assert_ended(world, decision)
    resumed = world.machines.executions[1]
    assert (resumed.visited, resumed.data["replayed"]) == (WAYS[decision], False)
    assert world.provider.asked == [KEY]


@each_machine
def test_an_expired_review_refunds_the_payer(world: World, machine: str) -> None:
    world.in_review(machine)
    before = world.ledger.rows()
    for _ in range(3):
        world.pass_time(hours=7)
        world.recover_all()
    assert (world.ledger.rows(), world.step_functions.names) == (before, [])

    world.until_deadline()
    world.recover_all()

    assert world.picture() == picture.compensated(["hold"])
    assert world.row()["failure"]["error"] == "DeadlineExceeded"
    assert world.step_functions.names == [f"{KEY}-c1-{NONCE}"]
    assert world.webhook() == 409


@each_decision
def test_only_the_first_decision_of_a_review_has_an_effect(world: World, decision: str) -> None:
    world.in_review()

    statuses = [world.webhook(decision) for _ in range(2)]
    world.drain()
    before = world.ledger.rows()
    statuses += [world.webhook(decision), world.webhook(decision, "evt_2")]
    statuses += [world.webhook(OTHER[decision], "evt_3"), world.webhook(OTHER[decision])]
    world.drain()

    assert statuses == [200, 200, 200, 200, 409, 409]
    assert_ended(world, decision)
    assert world.step_functions.names == [RESUMED]
    assert world.webhook_events() == ["KYC_EVENT#evt_1"]
    assert world.ledger.rows() == before


@each_decision
@each_machine
@pytest.mark.parametrize("place", PLACES)
def test_a_webhook_is_accepted_only_after_the_hold(
    world: World, place: str, machine: str, decision: str
) -> None:
    world.open_both()
    world.provider.answer = IN_REVIEW
    statuses = []
    world.before[place] = lambda: statuses.append(world.webhook(decision))

    world.settle(machine)
    assert statuses == [TOO_EARLY.get(place, 200)]
    if place in TOO_EARLY:
        assert (world.picture(), world.webhook_events()) == (picture.of("PROCESSING", ["hold"]), [])
        assert world.webhook(decision) == 200
        world.drain()

    assert_ended(world, decision)


@each_decision
@pytest.mark.parametrize("answer", [APPROVED, REJECTED, IN_REVIEW], ids=lambda answer: answer.decision.value)
@each_machine
def test_a_webhook_before_the_providers_answer_takes_effect(
    world: World, machine: str, answer: object, decision: str
) -> None:
    world.open_both()
    world.provider.answer = answer  # type: ignore[assignment]
    statuses = []
    world.provider.meanwhile = lambda: statuses.append(world.webhook(decision))

    world.settle(machine)

    assert statuses == [200]
    assert_ended(world, decision, answered=answer is not IN_REVIEW)
    assert len(world.provider.asked) == 1


@each_decision
def test_two_concurrent_webhooks_take_effect_once(world: World, decision: str) -> None:
    world.in_review()
    inner: list[int] = []
    world.meanwhile("transact", lambda: inner.append(world.webhook(OTHER[decision], "evt_2")))

    assert world.webhook(decision) == 409
    world.drain()

    assert inner == [200]
    assert_ended(world, OTHER[decision])


def test_a_decision_on_another_verification_is_refused(world: World) -> None:
    world.in_review()
    before = world.ledger.rows()

    assert world.webhook(reference="ver_2") == 409

    assert world.ledger.rows() == before


@each_decision
@pytest.mark.parametrize("arrives", [False, True])
@pytest.mark.parametrize("befalls", [unanswered, Died])
def test_the_next_delivery_repairs_a_failed_resume_request(
    world: World, befalls: Callable[[], BaseException], arrives: bool, decision: str
) -> None:
    world.in_review()
    world.functions.failing, world.functions.loses_answers = befalls(), arrives
    if isinstance(world.functions.failing, Died):
        with pytest.raises(Died):
            world.webhook(decision)
    else:
        assert world.webhook(decision) == 503
    world.functions.failing = None

    assert world.webhook(decision) == 200
    world.drain()

    assert_ended(world, decision)
    assert world.step_functions.names == [RESUMED]


@each_decision
def test_recovery_resumes_a_decided_settlement_at_once(world: World, decision: str) -> None:
    world.in_review()
    world.functions.delivers = None
    assert world.webhook(decision) == 200

    world.recover_all()

    assert_ended(world, decision)


@each_decision
def test_a_resume_request_after_recoverys_takeover_does_nothing(world: World, decision: str) -> None:
    world.in_review()
    world.functions.delivers = None
    assert world.webhook(decision) == 200
    world.recover_all()

    (event,) = world.functions.sent
    assert world.resume_asked(event)["action"] == "none"

    assert_ended(world, decision)
    assert world.step_functions.names == [RESUMED]


@pytest.mark.parametrize(("decision", "state"), [(name, state) for name in WAYS for state in WAYS[name]])
def test_a_resumed_execution_killed_before_a_state_is_recovered(
    world: World, decision: str, state: str
) -> None:
    world.in_review()
    assert world.webhook(decision) == 200
    world.machines.executions[1].run(until=state).abort()
    world.pass_time(minutes=2)

    world.recover_all()

    assert world.picture() == ENDS[decision]
    assert len(world.of(COMPENSATION)) == (decision == "REJECTED")
