"""The opening of the circuit: which failures count, how, and for how long."""

from typing import Any

import pytest
from aws_lambda_powertools.utilities.circuit_breaker import CircuitState

from settlement.adapters import kyc_circuit
from settlement.adapters.kyc_client import Refused
from settlement.ledger import keys
from settlement.model.errors import KycCircuitOpen
from tests.kyc.environments import DOWN, THRESHOLDS, Shared
from tests.world.provider import APPROVED, IN_REVIEW, REJECTED

ANSWERS = [APPROVED, REJECTED, IN_REVIEW, Refused(400), Refused(401)]


def test_the_circuit_opens_with_the_last_failure_of_the_threshold(shared: Shared) -> None:
    environment = shared.environment()

    for _ in range(THRESHOLDS.failures - 1):
        assert environment.ask(DOWN) is DOWN
    assert environment.announced == []
    assert environment.ask(DOWN) is DOWN

    assert environment.announced == [CircuitState.OPEN]
    assert shared.has(state="OPEN", opened_at=shared.clock.seconds, failure_count=3)
    assert shared.row
    assert shared.row["not_needed_after"] > shared.clock.seconds + THRESHOLDS.recovery_seconds
    assert "expires_at" not in shared.row  # the table's TTL: an open circuit must not vanish


def test_the_failures_of_all_environments_are_counted_together(shared: Shared) -> None:
    environments = [shared.environment() for _ in range(THRESHOLDS.failures)]

    for environment in environments:
        environment.ask(DOWN)

    assert [environment.announced for environment in environments] == [[], [], [CircuitState.OPEN]]
    newcomer = shared.environment()
    assert isinstance(newcomer.ask(), KycCircuitOpen)
    assert newcomer.calls == 0


def test_an_open_circuit_asks_nothing_and_each_refusal_is_measured(shared: Shared) -> None:
    opener = shared.opened()

    for _ in range(5):
        refusal = opener.ask(APPROVED)
        assert type(refusal) is KycCircuitOpen
        assert str(refusal) == "kyc: not asked, as the circuit is open"

    assert opener.calls == THRESHOLDS.failures
    assert opener.measured == [CircuitState.OPEN] * 5


def test_an_environment_that_takes_it_for_closed_learns_with_its_next_failure(shared: Shared) -> None:
    behind = shared.environment()
    assert behind.ask(APPROVED) == APPROVED
    shared.opened()

    assert behind.ask(DOWN) is DOWN
    assert isinstance(behind.ask(DOWN), KycCircuitOpen)

    assert behind.calls == 2
    assert (behind.announced, behind.refused) == ([], [CircuitState.OPEN])


def test_an_environment_that_takes_it_for_closed_learns_after_a_while(shared: Shared) -> None:
    behind = shared.environment()
    behind.ask(APPROVED)
    shared.opened()

    shared.wait(kyc_circuit.CACHE_SECONDS - 1)
    assert behind.ask(APPROVED) == APPROVED
    shared.wait(1)
    assert isinstance(behind.ask(APPROVED), KycCircuitOpen)


@pytest.mark.parametrize(("apart", "opens"), [(60, True), (61, False)])
def test_failures_that_are_far_apart_do_not_add_up(shared: Shared, apart: int, opens: bool) -> None:
    environment = shared.environment()

    environment.ask(DOWN)
    for _ in range(THRESHOLDS.failures - 1):
        shared.wait(apart)
        environment.ask(DOWN)

    assert environment.announced == ([CircuitState.OPEN] if opens else [])
    assert shared.has(failure_count=3 if opens else 1)
    for _ in range(THRESHOLDS.failures - 1):
        environment.ask(DOWN)
    assert environment.announced == [CircuitState.OPEN], "the last of those far apart was the first of these"


@pytest.mark.parametrize("answer", ANSWERS, ids=str)
def test_any_answer_forgets_the_failures_before_it_and_is_measured(shared: Shared, answer: Any) -> None:
    environment = shared.environment()

    for _ in range(3):
        for _ in range(THRESHOLDS.failures - 1):
            environment.ask(DOWN)
        assert environment.ask(answer) == answer

    assert environment.announced == []
    assert shared.has(state="CLOSED", failure_count=0)
    assert environment.measured == [CircuitState.CLOSED] * 3


def test_an_answer_to_an_environment_that_knows_of_no_failures_forgets_nothing(shared: Shared) -> None:
    failing, healthy = shared.environment(), shared.environment()
    healthy.ask(APPROVED)
    failing.ask(DOWN)
    failing.ask(DOWN)

    healthy.ask(APPROVED)
    failing.ask(DOWN)

    assert failing.announced == [CircuitState.OPEN]


def test_an_answer_forgets_the_failures_of_others_that_were_read_and_does_so_once(shared: Shared) -> None:
    failing, healthy = shared.environment(), shared.environment()
    failing.ask(DOWN)
    failing.ask(DOWN)

    for _ in range(3):
        healthy.ask(APPROVED)
    failing.ask(DOWN)

    assert healthy.client.called == ["get_item", "update_item"]
    assert failing.announced == []
    assert shared.has(state="CLOSED", failure_count=1)


def test_healthy_calls_write_nothing_and_read_once_in_a_while(shared: Shared) -> None:
    environment = shared.environment()

    for _ in range(10):
        assert environment.ask(APPROVED) == APPROVED
    assert environment.client.called == ["get_item"]
    shared.wait(kyc_circuit.CACHE_SECONDS)
    environment.ask(APPROVED)

    assert environment.client.called == ["get_item"] * 2
    assert shared.row is None


def test_a_failure_is_counted_with_one_write_and_forgotten_with_another(shared: Shared) -> None:
    environment = shared.environment()

    for answer in (DOWN, DOWN, APPROVED, APPROVED):
        environment.ask(answer)

    assert environment.client.called == ["get_item", *["update_item"] * 3]


def test_an_error_that_is_no_outage_is_raised_and_not_counted(shared: Shared) -> None:
    environment, bug = shared.environment(), ZeroDivisionError()

    for _ in range(THRESHOLDS.failures * 2):
        assert environment.ask(bug) is bug

    assert environment.calls == THRESHOLDS.failures * 2
    assert shared.row is None


def test_an_answer_after_a_failure_is_returned_though_the_row_is_gone(shared: Shared) -> None:
    environment = shared.environment()
    environment.ask(DOWN)
    shared.ledger.delete(keys.circuit(kyc_circuit.CIRCUIT))

    assert environment.ask(APPROVED) == APPROVED

    assert shared.row is None


def test_a_failure_after_the_circuit_has_opened_does_not_put_off_the_probe(shared: Shared) -> None:
    late = shared.environment()

    def opened_by_another() -> None:
        shared.opened()
        shared.wait(20)

    late.provider.meanwhile = opened_by_another

    late.ask(DOWN)

    assert shared.has(state="OPEN", opened_at=shared.clock.seconds - 20)
    assert late.announced == []


def test_a_late_answer_after_a_failure_neither_closes_the_circuit_nor_is_lost(shared: Shared) -> None:
    late = shared.environment()
    late.ask(DOWN)
    late.provider.meanwhile = lambda: [shared.environment().ask(DOWN) for _ in range(2)]

    assert late.ask(APPROVED) == APPROVED

    assert shared.state == "OPEN"
