"""The probe of an open circuit: after the recovery time one call passes, and decides."""

from typing import Any

import pytest
from aws_lambda_powertools.utilities.circuit_breaker import CircuitState

from settlement.adapters import kyc_circuit
from settlement.model.errors import KycCircuitOpen, KycUnavailable
from tests.kyc.environments import DOWN, THRESHOLDS, Environment, Shared
from tests.kyc.test_circuit import ANSWERS
from tests.world.provider import APPROVED

RECOVERY = THRESHOLDS.recovery_seconds
UNDER_WAY = "kyc: not asked, as a probe is under way"


class Frozen(Exception):
    """A stand-in for an environment that ends in the middle of its call: the circuit learns nothing."""


@pytest.fixture(params=["opened it", "is new"])
def prober(request: pytest.FixtureRequest, shared: Shared) -> Environment:
    """An environment that will try again after another has opened the circuit, or it itself."""
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

    assert prober.announced == [CircuitState.HALF_OPEN, CircuitState.CLOSED]
    assert shared.has(state="CLOSED", failure_count=0, probed_at=shared.clock.seconds)
    assert shared.row
    assert not shared.row.keys() & {"opened_at", "half_open_owner", "probe_lease_expiry", "expires_at"}
    assert shared.row["not_needed_after"] > shared.clock.seconds
    prober.client.called.clear()
    assert [prober.ask(answer), shared.environment().ask(answer)] == [answer, answer]
    assert prober.client.called == []


def test_a_failed_probe_opens_the_circuit_for_another_recovery(shared: Shared, prober: Environment) -> None:
    shared.wait(RECOVERY)

    assert prober.ask(DOWN) is DOWN

    assert prober.announced == [CircuitState.HALF_OPEN, CircuitState.OPEN]
    assert shared.has(state="OPEN", opened_at=shared.clock.seconds)
    assert "expires_at" not in (shared.row or {})
    for waited in (0, RECOVERY - 1):
        shared.wait(waited)
        assert isinstance(prober.ask(), KycCircuitOpen)
    assert prober.calls == 1
    shared.wait(1)
    assert prober.ask(APPROVED) == APPROVED
    assert shared.state == "CLOSED"


@pytest.mark.parametrize("cached", [None, 1, kyc_circuit.CACHE_SECONDS], ids=["new", "knows", "looks again"])
def test_calls_during_a_probe_are_refused_as_worth_a_retry_and_answered_when_it_has_closed_the_circuit(
    shared: Shared, prober: Environment, cached: int | None
) -> None:
    """The machine retries within three seconds; a payment must not be reversed for that."""
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
    assert other.refused == [CircuitState.HALF_OPEN] * 3
    assert other.ask(APPROVED) == APPROVED


def test_a_probe_that_dies_is_replaced_when_its_time_is_over_and_not_before(
    shared: Shared, prober: Environment
) -> None:
    shared.wait(RECOVERY)
    assert isinstance(prober.ask(Frozen()), Frozen)
    other = shared.environment()

    shared.wait(RECOVERY - 1)
    assert str(other.ask(APPROVED)) == UNDER_WAY
    shared.wait(kyc_circuit.CACHE_SECONDS)

    assert other.ask(APPROVED) == APPROVED
    assert other.announced == [CircuitState.HALF_OPEN, CircuitState.CLOSED]
    assert shared.state == "CLOSED"


def test_a_failure_that_comes_late_counts_as_the_first_of_the_closed_circuit(shared: Shared) -> None:
    late = shared.environment()

    def everything_else() -> None:
        opener = shared.opened()
        shared.wait(RECOVERY)
        assert opener.ask(APPROVED) == APPROVED

    late.provider.meanwhile = everything_else

    assert late.ask(DOWN) is DOWN

    assert shared.has(state="CLOSED", failure_count=1)
    assert late.announced == []


def test_a_failure_that_comes_late_leaves_the_probe_to_its_environment(shared: Shared) -> None:
    late, prober = shared.environment(), shared.environment()

    def everything_else() -> None:
        shared.opened()
        shared.wait(RECOVERY)
        prober.ask(Frozen())

    late.provider.meanwhile = everything_else
    late.ask(DOWN)

    assert shared.state == "HALF_OPEN"
    assert late.announced == []
    assert str(late.ask()) == UNDER_WAY
    assert prober.ask(APPROVED) == APPROVED
    assert shared.state == "CLOSED"


@pytest.mark.parametrize("answer", [APPROVED, DOWN], ids=["healthy", "down"])
def test_a_probe_that_comes_late_leaves_the_one_after_it_alone(shared: Shared, answer: Any) -> None:
    late, second = shared.opened(), shared.environment()
    late.announced.clear()
    shared.wait(RECOVERY)

    def overtaken() -> None:
        shared.wait(RECOVERY)
        second.ask(Frozen())

    late.provider.meanwhile = overtaken
    assert late.ask(answer) == answer

    now = shared.clock.seconds
    assert late.announced == [CircuitState.HALF_OPEN]
    assert shared.has(state="HALF_OPEN", probed_at=now, probe_lease_expiry=now + RECOVERY)
    assert "expires_at" not in (shared.row or {})
    assert str(shared.environment().ask(APPROVED)) == UNDER_WAY


def test_a_probe_whose_time_is_over_but_that_has_no_successor_still_decides(shared: Shared) -> None:
    prober = shared.opened()
    shared.wait(RECOVERY)
    prober.provider.meanwhile = lambda: shared.wait(RECOVERY * 2)

    assert prober.ask(APPROVED) == APPROVED

    assert shared.state == "CLOSED"


def test_a_probe_whose_time_is_over_does_not_decide_for_its_successor(shared: Shared) -> None:
    opener, second = shared.opened(), shared.environment()
    shared.wait(RECOVERY)

    def overtaken() -> None:
        shared.wait(RECOVERY)
        assert second.ask(APPROVED) == APPROVED

    opener.provider.meanwhile = overtaken
    assert opener.ask(DOWN) is DOWN

    assert second.announced == [CircuitState.HALF_OPEN, CircuitState.CLOSED]
    assert shared.state == "CLOSED"
