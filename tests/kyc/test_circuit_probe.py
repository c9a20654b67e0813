from typing import Any

import pytest

from settlement.core.model.errors import KycCircuitOpen, KycUnavailable
from settlement.http.circuit import State
from settlement.http.shared_circuit import CACHE_SECONDS
from tests.kyc.environments import DOWN, THRESHOLDS, Environment, Shared
from tests.kyc.test_circuit import ANSWERS
from tests.world.provider import APPROVED

RECOVERY = THRESHOLDS.recovery_seconds
UNDER_WAY = "kyc: not asked, as a probe is under way"


class Frozen(Exception):
    """Raised to end an environment during its call, as if it died, so the circuit learns nothing."""


@pytest.fixture(params=["opened it", "is new"])
def prober(request: pytest.FixtureRequest, shared: Shared) -> Environment:
    opener = shared.opened()
    chosen = opener if request.param == "opened it" else shared.environment()
    chosen.announced.clear()
    chosen.provider.asked.clear()
    return chosen


@pytest.mark.parametrize("waited", [0, 1, RECOVERY - 1])
def test_no_call_is_let_through_before_the_recovery_is_over(
    shared: Shared, prober: Environment, waited: int
) -> None:
    shared.wait(waited)

    assert [type(each.ask(APPROVED)) for each in (prober, shared.environment())] == [KycCircuitOpen] * 2
    assert prober.calls == 0


@pytest.mark.parametrize("answer", ANSWERS, ids=str)
@pytest.mark.parametrize("waited", [RECOVERY, RECOVERY * 100])
def test_any_answer_to_the_probe_closes_the_circuit(
    shared: Shared, prober: Environment, waited: int, answer: Any
) -> None:
    shared.wait(waited)

    assert prober.ask(answer) == answer

    assert prober.announced == [State.HALF_OPEN, State.CLOSED]
    assert shared.has(state="CLOSED", failure_count=0, probed_at=shared.clock.seconds)
    assert not (shared.row or {}).keys() & {"opened_at", "probe"}
    prober.client.called.clear()
    assert [prober.ask(answer), shared.environment().ask(answer)] == [answer, answer]
    assert prober.client.called == []


@pytest.mark.parametrize("waited", [RECOVERY, RECOVERY * 100])
def test_a_payment_that_failed_does_not_probe_but_another_does(
    shared: Shared, prober: Environment, waited: int
) -> None:
    environment = shared.environment()
    for _ in range(2):
        shared.wait(waited)
        assert environment.ask(DOWN, key="poisoned") is DOWN or shared.state == "OPEN"

    refused = environment.ask(DOWN, key="poisoned")
    assert type(refused) is KycCircuitOpen
    shared.wait(waited)
    assert type(environment.ask(DOWN, key="poisoned")) is KycCircuitOpen

    assert environment.calls == 1
    assert prober.ask(APPROVED) == APPROVED
    assert shared.state == "CLOSED"


def test_a_failed_probe_keeps_the_circuit_open_for_another_period(
    shared: Shared, prober: Environment
) -> None:
    shared.wait(RECOVERY)

    assert prober.ask(DOWN) is DOWN

    assert prober.announced == [State.HALF_OPEN, State.OPEN]
    assert shared.has(state="OPEN", opened_at=shared.clock.seconds)
    for waited in (0, RECOVERY - 1):
        shared.wait(waited)
        assert isinstance(prober.ask(), KycCircuitOpen)
    assert prober.calls == 1
    shared.wait(1)
    assert prober.ask(APPROVED) == APPROVED
    assert shared.state == "CLOSED"


@pytest.mark.parametrize("cached", [None, 1, CACHE_SECONDS], ids=["new", "knows", "looks again"])
def test_other_calls_are_refused_as_retryable_while_a_probe_runs(
    shared: Shared, prober: Environment, cached: int | None
) -> None:
    """The machine retries within three seconds, so no payment is reversed because of the probe."""
    other = shared.environment()
    shared.wait(RECOVERY - (cached or 0))
    if cached:
        assert type(other.ask(APPROVED)) is KycCircuitOpen
        other.measured.clear()
        shared.wait(cached)
    refused: list[Any] = []
    prober.provider.meanwhile = lambda: refused.extend(other.ask(APPROVED) for _ in range(3))

    assert prober.ask(APPROVED) == APPROVED

    assert {(type(each), str(each)) for each in refused} == {(KycUnavailable, UNDER_WAY)}
    assert (prober.calls, other.calls, other.announced) == (1, 0, [])
    assert other.refused == [State.HALF_OPEN] * 3
    assert other.ask(APPROVED) == APPROVED


def test_a_dead_probe_is_replaced_only_after_its_lease(shared: Shared, prober: Environment) -> None:
    shared.wait(RECOVERY)
    assert isinstance(prober.ask(Frozen()), Frozen)
    other = shared.environment()

    shared.wait(RECOVERY - 1)
    assert str(other.ask(APPROVED)) == UNDER_WAY
    shared.wait(CACHE_SECONDS)

    assert other.ask(APPROVED) == APPROVED
    assert other.announced == [State.HALF_OPEN, State.CLOSED]
    assert shared.state == "CLOSED"


def test_a_failure_from_before_the_circuit_closed_counts_as_one(shared: Shared) -> None:
    late = shared.environment()

    def everything_else() -> None:
        opener = shared.opened()
        shared.wait(RECOVERY)
        assert opener.ask(APPROVED) == APPROVED

    late.provider.meanwhile = everything_else

    assert late.ask(DOWN) is DOWN

    assert shared.has(state="CLOSED", failure_count=1)
    assert late.announced == []


def test_a_late_failure_does_not_disturb_a_running_probe(shared: Shared) -> None:
    late, prober = shared.environment(), shared.environment()

    def everything_else() -> None:
        shared.opened()
        shared.wait(RECOVERY)
        prober.ask(Frozen())

    late.provider.meanwhile = everything_else
    late.ask(DOWN)

    assert shared.state == "HALF_OPEN"
    assert late.announced == []
    assert str(late.ask()) == str(prober.ask(APPROVED)) == UNDER_WAY
    shared.wait(RECOVERY)
    assert prober.ask(APPROVED) == APPROVED
    assert shared.state == "CLOSED"


@pytest.mark.parametrize("answer", [APPROVED, DOWN], ids=["healthy", "down"])
def test_a_late_probes_answer_does_not_disturb_its_successor(shared: Shared, answer: Any) -> None:
    late, second = shared.opened(), shared.environment()
    late.announced.clear()
    shared.wait(RECOVERY)

    def overtaken() -> None:
        shared.wait(RECOVERY)
        second.ask(Frozen())

    late.provider.meanwhile = overtaken
    assert late.ask(answer) == answer

    assert late.announced == [State.HALF_OPEN]
    assert shared.has(state="HALF_OPEN", probed_at=shared.clock.seconds)
    assert str(shared.environment().ask(APPROVED)) == UNDER_WAY


def test_an_overdue_probe_without_a_successor_still_decides(shared: Shared) -> None:
    prober = shared.opened()
    shared.wait(RECOVERY)
    prober.provider.meanwhile = lambda: shared.wait(RECOVERY * 2)

    assert prober.ask(APPROVED) == APPROVED

    assert shared.state == "CLOSED"


def test_an_overdue_probes_failure_does_not_reopen_its_successors_circuit(shared: Shared) -> None:
    opener, second = shared.opened(), shared.environment()
    shared.wait(RECOVERY)

    def overtaken() -> None:
        shared.wait(RECOVERY)
        assert second.ask(APPROVED) == APPROVED

    opener.provider.meanwhile = overtaken
    assert opener.ask(DOWN) is DOWN

    assert second.announced == [State.HALF_OPEN, State.CLOSED]
    assert shared.state == "CLOSED"
