"""The opening of the circuit: which failures count, how, and for how long."""

from typing import Any

import pytest
from aws_lambda_powertools.utilities.circuit_breaker import CircuitState

from settlement.adapters import kyc_circuit
from settlement.adapters.kyc_client import Refused
from settlement.model.errors import KycCircuitOpen
from tests.conftest import Ledger
from tests.kyc.environments import DOWN, THRESHOLDS, Clock, Environment, circuit_row, open_it
from tests.support.kyc import APPROVED, IN_REVIEW, REJECTED

ANSWERS = [APPROVED, REJECTED, IN_REVIEW, Refused(400), Refused(401)]


def test_the_circuit_opens_with_the_last_failure_of_the_threshold(ledger: Ledger, clock: Clock) -> None:
    environment = Environment.of(ledger)

    for _ in range(THRESHOLDS.failures - 1):
        assert environment.ask(DOWN) is DOWN
    assert environment.announced == []
    assert environment.ask(DOWN) is DOWN

    assert environment.announced == [CircuitState.OPEN]
    row = circuit_row(ledger)
    assert row
    assert (row["state"], row["opened_at"], row["failure_count"]) == ("OPEN", clock.seconds, 3)
    assert row["not_needed_after"] > clock.seconds + THRESHOLDS.recovery_seconds
    assert "expires_at" not in row  # the table's TTL: an open circuit must not vanish


def test_the_failures_of_all_environments_are_counted_together(ledger: Ledger, clock: Clock) -> None:
    environments = [Environment.of(ledger) for _ in range(THRESHOLDS.failures)]

    for environment in environments:
        environment.ask(DOWN)

    assert [environment.announced for environment in environments] == [[], [], [CircuitState.OPEN]]
    newcomer = Environment.of(ledger)
    assert isinstance(newcomer.ask(), KycCircuitOpen)
    assert newcomer.calls == 0


def test_an_open_circuit_asks_nothing_and_each_refusal_is_measured(ledger: Ledger, clock: Clock) -> None:
    opener = open_it(ledger)

    for _ in range(5):
        refusal = opener.ask(APPROVED)
        assert type(refusal) is KycCircuitOpen
        assert str(refusal) == "kyc: not asked, as the circuit is open"

    assert opener.calls == THRESHOLDS.failures
    assert opener.measured == opener.refused == [CircuitState.OPEN] * 5


@pytest.mark.parametrize("answer", ANSWERS, ids=str)
def test_each_answered_call_is_measured_and_no_failed_one(ledger: Ledger, clock: Clock, answer: Any) -> None:
    environment = Environment.of(ledger)

    environment.ask(DOWN)
    assert environment.measured == []
    environment.ask(answer)
    environment.ask(answer)

    assert environment.measured == [CircuitState.CLOSED] * 2


def test_an_environment_that_takes_it_for_closed_learns_with_its_next_failure(
    ledger: Ledger, clock: Clock
) -> None:
    behind = Environment.of(ledger)
    assert behind.ask(APPROVED) == APPROVED
    open_it(ledger)

    assert behind.ask(DOWN) is DOWN
    assert isinstance(behind.ask(DOWN), KycCircuitOpen)

    assert behind.calls == 2
    assert (behind.announced, behind.refused) == ([], [CircuitState.OPEN])


def test_an_environment_that_takes_it_for_closed_learns_after_a_while(ledger: Ledger, clock: Clock) -> None:
    behind = Environment.of(ledger)
    behind.ask(APPROVED)
    open_it(ledger)

    clock.seconds += kyc_circuit.CACHE_SECONDS - 1
    assert behind.ask(APPROVED) == APPROVED
    clock.seconds += 1
    assert isinstance(behind.ask(APPROVED), KycCircuitOpen)


@pytest.mark.parametrize(("apart", "opens"), [(60, True), (61, False)])
def test_failures_that_are_far_apart_do_not_add_up(
    ledger: Ledger, clock: Clock, apart: int, opens: bool
) -> None:
    environment = Environment.of(ledger)

    for _ in range(THRESHOLDS.failures):
        environment.ask(DOWN)
        clock.seconds += apart

    assert environment.announced == ([CircuitState.OPEN] if opens else [])
    row = circuit_row(ledger)
    assert row
    assert row["failure_count"] == (3 if opens else 1)


@pytest.mark.parametrize("answer", ANSWERS, ids=str)
def test_after_any_answer_the_failures_before_it_are_forgotten(
    ledger: Ledger, clock: Clock, answer: Any
) -> None:
    environment = Environment.of(ledger)

    for _ in range(3):
        for _ in range(THRESHOLDS.failures - 1):
            environment.ask(DOWN)
        assert environment.ask(answer) == answer

    assert environment.announced == []
    row = circuit_row(ledger)
    assert row
    assert (row["state"], row["failure_count"]) == ("CLOSED", 0)


def test_an_answer_to_an_environment_that_knows_of_no_failures_forgets_nothing(
    ledger: Ledger, clock: Clock
) -> None:
    failing, healthy = Environment.of(ledger), Environment.of(ledger)
    healthy.ask(APPROVED)
    failing.ask(DOWN)
    failing.ask(DOWN)

    healthy.ask(APPROVED)
    failing.ask(DOWN)

    assert healthy.client.called == ["get_item"]
    assert failing.announced == [CircuitState.OPEN]


def test_an_answer_forgets_the_failures_of_others_that_were_read_and_does_so_once(
    ledger: Ledger, clock: Clock
) -> None:
    failing, healthy = Environment.of(ledger), Environment.of(ledger)
    failing.ask(DOWN)
    failing.ask(DOWN)

    for _ in range(3):
        healthy.ask(APPROVED)
    failing.ask(DOWN)

    assert healthy.client.called == ["get_item", "update_item"]
    assert failing.announced == []
    row = circuit_row(ledger)
    assert row
    assert (row["state"], row["failure_count"]) == ("CLOSED", 1)


@pytest.mark.parametrize("answer", ANSWERS, ids=str)
def test_healthy_calls_write_nothing_and_read_once_in_a_while(
    ledger: Ledger, clock: Clock, answer: Any
) -> None:
    environment = Environment.of(ledger)

    for _ in range(10):
        assert environment.ask(answer) == answer
    assert environment.client.called == ["get_item"]
    clock.seconds += kyc_circuit.CACHE_SECONDS
    environment.ask(answer)

    assert environment.client.called == ["get_item"] * 2
    assert circuit_row(ledger) is None


def test_an_error_that_is_no_outage_is_raised_and_not_counted(ledger: Ledger, clock: Clock) -> None:
    environment, bug = Environment.of(ledger), ZeroDivisionError()

    for _ in range(THRESHOLDS.failures * 2):
        assert environment.ask(bug) is bug

    assert environment.calls == THRESHOLDS.failures * 2
    assert circuit_row(ledger) is None


def test_each_failure_is_counted_with_one_write_and_the_first_one_too(ledger: Ledger, clock: Clock) -> None:
    environment = Environment.of(ledger)

    environment.ask(DOWN)
    assert environment.client.called == ["get_item", "update_item"]
    environment.ask(DOWN)

    assert environment.client.called == ["get_item", "update_item", "update_item"]


def test_an_answer_resets_the_count_with_one_write(ledger: Ledger, clock: Clock) -> None:
    environment = Environment.of(ledger)
    environment.ask(DOWN)
    environment.client.called.clear()

    for _ in range(3):
        environment.ask(APPROVED)

    assert environment.client.called == ["update_item"]


@pytest.mark.parametrize("forgotten", [True, False], ids=["its row is gone", "its row is there"])
def test_an_answer_after_a_failure_is_returned_with_or_without_the_row(
    ledger: Ledger, clock: Clock, forgotten: bool
) -> None:
    environment = Environment.of(ledger)
    environment.ask(DOWN)
    if forgotten:
        ledger.client.delete_item(
            TableName=ledger.table_name, Key={"pk": {"S": "CIRCUIT"}, "sk": {"S": "kyc"}}
        )

    assert environment.ask(APPROVED) == APPROVED

    row = circuit_row(ledger)
    assert (row is None) == forgotten
    assert row is None or (row["state"] == "CLOSED" and row["not_needed_after"] > clock.seconds)


def test_a_failure_after_the_circuit_has_opened_does_not_put_off_the_probe(
    ledger: Ledger, clock: Clock
) -> None:
    late = Environment.of(ledger)
    late.provider.meanwhile = lambda: (open_it(ledger), setattr(clock, "seconds", clock.seconds + 20))

    late.ask(DOWN)
    before = circuit_row(ledger)

    assert before
    assert (before["state"], before["opened_at"]) == ("OPEN", clock.seconds - 20)
    assert late.announced == []


def test_a_late_answer_after_a_failure_neither_closes_the_circuit_nor_is_lost(
    ledger: Ledger, clock: Clock
) -> None:
    late = Environment.of(ledger)
    late.ask(DOWN)
    late.provider.meanwhile = lambda: [Environment.of(ledger).ask(DOWN) for _ in range(2)]

    assert late.ask(APPROVED) == APPROVED

    row = circuit_row(ledger)
    assert row
    assert row["state"] == "OPEN"
