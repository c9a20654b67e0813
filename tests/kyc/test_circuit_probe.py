"""The probe of an open circuit: after the recovery time one call passes, and decides."""

from typing import Any

import pytest
from aws_lambda_powertools.utilities.circuit_breaker import CircuitState

from settlement.adapters import kyc_circuit
from settlement.adapters.kyc_client import Refused
from settlement.model.errors import KycCircuitOpen, KycUnavailable
from tests.conftest import Ledger
from tests.kyc.environments import DOWN, THRESHOLDS, Clock, Environment, circuit_row, open_it
from tests.support.kyc import APPROVED, IN_REVIEW, REJECTED

RECOVERY = THRESHOLDS.recovery_seconds


class Frozen(Exception):
    """A stand-in for an environment that ends in the middle of its call: the circuit learns nothing."""


def state(ledger: Ledger) -> str:
    row = circuit_row(ledger)
    assert row
    return str(row["state"])


@pytest.fixture(params=["opened it", "is new"])
def prober(request: pytest.FixtureRequest, ledger: Ledger, clock: Clock) -> Environment:
    """An environment that will try again after another has opened the circuit, or it itself."""
    opener = open_it(ledger)
    chosen = opener if request.param == "opened it" else Environment.of(ledger)
    chosen.announced.clear()
    chosen.provider.asked.clear()
    return chosen


@pytest.mark.parametrize(("waited", "asked"), [(RECOVERY - 1, 0), (RECOVERY, 1), (RECOVERY * 100, 1)])
def test_a_probe_is_let_through_when_the_recovery_is_over_and_not_before(
    prober: Environment, clock: Clock, waited: int, asked: int
) -> None:
    clock.seconds += waited

    prober.ask(APPROVED)

    assert prober.calls == asked


@pytest.mark.parametrize("answer", [APPROVED, REJECTED, IN_REVIEW, Refused(400), Refused(401)], ids=str)
def test_any_answer_to_the_probe_closes_the_circuit(
    ledger: Ledger, prober: Environment, clock: Clock, answer: Any
) -> None:
    clock.seconds += RECOVERY

    assert prober.ask(answer) == answer

    assert prober.announced == [CircuitState.HALF_OPEN, CircuitState.CLOSED]
    row = circuit_row(ledger)
    assert row
    assert (row["state"], row["failure_count"]) == ("CLOSED", 0)
    assert row["probed_at"] == clock.seconds
    assert not row.keys() & {"opened_at", "half_open_owner", "probe_lease_expiry", "expires_at"}
    assert row["not_needed_after"] > clock.seconds
    assert [prober.ask(answer), Environment.of(ledger).ask(answer)] == [answer, answer]


def test_a_failed_probe_opens_the_circuit_for_another_recovery(
    ledger: Ledger, prober: Environment, clock: Clock
) -> None:
    clock.seconds += RECOVERY

    assert prober.ask(DOWN) is DOWN

    assert prober.announced == [CircuitState.HALF_OPEN, CircuitState.OPEN]
    row = circuit_row(ledger)
    assert row
    assert (row["state"], row["opened_at"]) == ("OPEN", clock.seconds)
    assert "expires_at" not in row
    for waited in (0, RECOVERY - 1):
        clock.seconds += waited
        assert isinstance(prober.ask(), KycCircuitOpen)
    assert prober.calls == 1
    clock.seconds += 1
    assert prober.ask(APPROVED) == APPROVED
    assert state(ledger) == "CLOSED"


def test_no_other_call_is_let_through_while_a_probe_is_on_its_way(
    ledger: Ledger, prober: Environment, clock: Clock
) -> None:
    """The machine asks again, as the probe may close the circuit within a second."""
    clock.seconds += RECOVERY
    other, refusals = Environment.of(ledger), []
    prober.provider.meanwhile = lambda: refusals.extend(other.ask(APPROVED) for _ in range(3))

    prober.ask(APPROVED)

    assert {(type(one), str(one)) for one in refusals} == {
        (KycUnavailable, "kyc: not asked, as a probe is under way")
    }
    assert (prober.calls, other.calls) == (1, 0)
    assert other.refused == [CircuitState.HALF_OPEN] * 3
    assert other.announced == []


@pytest.mark.parametrize("cached", [None, 1, kyc_circuit.CACHE_SECONDS], ids=["new", "knows", "looks again"])
def test_a_call_during_a_probe_is_refused_as_one_that_is_worth_a_retry(
    ledger: Ledger, clock: Clock, cached: int | None
) -> None:
    """The circuit may close within a second: its payment must not be reversed for that."""
    prober, other = open_it(ledger), Environment.of(ledger)
    clock.seconds += RECOVERY - (cached or 0)
    if cached:
        assert type(other.ask(APPROVED)) is KycCircuitOpen
        clock.seconds += cached
    refused: list[Any] = []
    prober.provider.meanwhile = lambda: refused.append(other.ask(APPROVED))

    prober.ask(APPROVED)

    assert [type(each) for each in refused] == [KycUnavailable]
    assert (other.calls, other.announced) == (0, [])


@pytest.mark.parametrize("waited", [0, 1, RECOVERY - 1])
def test_a_call_to_an_open_circuit_is_refused_for_as_long_as_no_probe_may_start(
    ledger: Ledger, prober: Environment, clock: Clock, waited: int
) -> None:
    clock.seconds += waited

    assert [type(each.ask(APPROVED)) for each in (prober, Environment.of(ledger))] == [KycCircuitOpen] * 2


@pytest.mark.parametrize("seconds", [0, 1, 3])
def test_a_call_that_met_a_probe_is_answered_when_it_is_retried(
    ledger: Ledger, clock: Clock, seconds: int
) -> None:
    """The machine retries within three seconds, and Lambda may choose the same environment again."""
    prober, other = open_it(ledger), Environment.of(ledger)
    clock.seconds += RECOVERY
    refused: list[Any] = []
    prober.provider.meanwhile = lambda: refused.append(other.ask(APPROVED))
    assert prober.ask(APPROVED) == APPROVED
    assert [type(each) for each in refused] == [KycUnavailable]

    clock.seconds += seconds

    assert other.ask(APPROVED) == APPROVED


def test_others_are_let_through_again_as_soon_as_they_look(
    ledger: Ledger, prober: Environment, clock: Clock
) -> None:
    clock.seconds += RECOVERY
    other = Environment.of(ledger)
    prober.provider.meanwhile = lambda: other.ask(APPROVED)
    prober.ask(APPROVED)

    clock.seconds += kyc_circuit.CACHE_SECONDS

    assert other.ask(APPROVED) == APPROVED


def test_a_probe_that_dies_is_replaced_when_its_time_is_over_and_not_before(
    ledger: Ledger, prober: Environment, clock: Clock
) -> None:
    clock.seconds += RECOVERY
    assert isinstance(prober.ask(Frozen()), Frozen)
    other = Environment.of(ledger)

    clock.seconds += RECOVERY - 1
    assert str(other.ask(APPROVED)) == "kyc: not asked, as a probe is under way"
    clock.seconds += kyc_circuit.CACHE_SECONDS

    assert other.ask(APPROVED) == APPROVED
    assert other.announced == [CircuitState.HALF_OPEN, CircuitState.CLOSED]
    assert state(ledger) == "CLOSED"


def test_a_failure_that_comes_late_counts_as_the_first_of_the_closed_circuit(
    ledger: Ledger, clock: Clock
) -> None:
    late = Environment.of(ledger)

    def everything_else() -> None:
        opener = open_it(ledger)
        clock.seconds += RECOVERY
        assert opener.ask(APPROVED) == APPROVED

    late.provider.meanwhile = everything_else

    assert late.ask(DOWN) is DOWN

    row = circuit_row(ledger)
    assert row
    assert (row["state"], row["failure_count"]) == ("CLOSED", 1)
    assert late.announced == []


def test_a_failure_that_comes_late_leaves_the_probe_to_its_environment(ledger: Ledger, clock: Clock) -> None:
    late, prober = Environment.of(ledger), Environment.of(ledger)

    def everything_else() -> None:
        open_it(ledger)
        clock.seconds += RECOVERY
        prober.ask(Frozen())

    late.provider.meanwhile = everything_else
    late.ask(DOWN)

    assert state(ledger) == "HALF_OPEN"
    assert late.announced == []
    assert str(late.ask()) == "kyc: not asked, as a probe is under way"
    assert prober.ask(APPROVED) == APPROVED
    assert state(ledger) == "CLOSED"


@pytest.mark.parametrize("answer", [APPROVED, DOWN], ids=["healthy", "down"])
def test_a_probe_that_comes_late_leaves_the_one_after_it_alone(
    ledger: Ledger, clock: Clock, answer: Any
) -> None:
    late, second = open_it(ledger), Environment.of(ledger)
    late.announced.clear()
    clock.seconds += RECOVERY

    def overtaken() -> None:
        clock.seconds += RECOVERY
        second.ask(Frozen())

    late.provider.meanwhile = overtaken
    assert late.ask(answer) == answer

    assert late.announced == [CircuitState.HALF_OPEN]
    row = circuit_row(ledger)
    assert row
    assert (row["state"], row["probed_at"]) == ("HALF_OPEN", clock.seconds)
    assert row["probe_lease_expiry"] == clock.seconds + RECOVERY
    assert "expires_at" not in row
    assert str(Environment.of(ledger).ask(APPROVED)) == "kyc: not asked, as a probe is under way"


def test_a_probe_whose_time_is_over_but_that_has_no_successor_still_decides(
    ledger: Ledger, clock: Clock
) -> None:
    prober = open_it(ledger)
    clock.seconds += RECOVERY
    prober.provider.meanwhile = lambda: setattr(clock, "seconds", clock.seconds + RECOVERY * 2)

    assert prober.ask(APPROVED) == APPROVED

    assert state(ledger) == "CLOSED"


def test_a_probe_whose_time_is_over_does_not_decide_for_its_successor(ledger: Ledger, clock: Clock) -> None:
    opener, second = open_it(ledger), Environment.of(ledger)
    clock.seconds += RECOVERY

    def overtaken() -> None:
        clock.seconds += RECOVERY
        assert second.ask(APPROVED) == APPROVED

    opener.provider.meanwhile = overtaken
    assert opener.ask(DOWN) is DOWN

    assert second.announced == [CircuitState.HALF_OPEN, CircuitState.CLOSED]
    assert state(ledger) == "CLOSED"
