from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.model.errors import KycCircuitOpen
from settlement.core.store.wire import to_wire
from settlement.http.circuit import FAILED_MAX, State, Thresholds
from settlement.http.shared_circuit import CACHE_SECONDS
from settlement.kyc import circuit as kyc_circuit
from settlement.kyc.client import Refused
from tests.kyc.environments import DOWN, THRESHOLDS, Environment, Shared
from tests.world.provider import APPROVED, IN_REVIEW, REJECTED

ANSWERS = [APPROVED, REJECTED, IN_REVIEW, Refused(400), Refused(401)]


def test_the_circuit_opens_when_enough_different_payments_have_failed(shared: Shared) -> None:
    environment = shared.environment()

    for _ in range(THRESHOLDS.failures - 1):
        assert environment.ask(DOWN) is DOWN
    assert environment.announced == []
    assert environment.ask(DOWN) is DOWN

    assert environment.announced == [State.OPEN]
    assert shared.has(state="OPEN", opened_at=shared.clock.seconds, failure_count=3)
    assert "expires_at" not in (shared.row or {})  # the table's TTL: an open circuit must not vanish


def test_a_payment_that_fails_again_and_again_counts_once(shared: Shared) -> None:
    environments = [shared.environment() for _ in range(3)]

    for _ in range(THRESHOLDS.failures * 3):
        for environment in environments:
            assert environment.ask(DOWN, key="poisoned") is DOWN

    assert shared.has(state="CLOSED", failure_count=1)


def test_the_failures_of_all_environments_are_counted_together(shared: Shared) -> None:
    environments = [shared.environment() for _ in range(THRESHOLDS.failures)]

    for environment in environments:
        environment.ask(DOWN)

    assert [environment.announced for environment in environments] == [[], [], [State.OPEN]]
    newcomer = shared.environment()
    assert isinstance(newcomer.ask(), KycCircuitOpen)
    assert newcomer.calls == 0


def test_an_open_circuit_asks_nothing_and_rarely_reads_its_row(shared: Shared) -> None:
    opener = shared.opened()
    opener.client.called.clear()

    for _ in range(5):
        refusal = opener.ask(APPROVED)
        assert type(refusal) is KycCircuitOpen
        assert str(refusal) == "kyc: not asked, as the circuit is open"

    assert opener.calls == THRESHOLDS.failures
    assert opener.measured == [State.OPEN] * 5
    assert opener.client.called == []


@pytest.mark.parametrize("key", [None, "counted already"])
def test_a_stale_environment_notices_the_open_circuit_after_a_failure(
    shared: Shared, key: str | None
) -> None:
    behind = shared.environment()
    behind.ask(DOWN, key="counted already")
    shared.opened()

    assert behind.ask(DOWN, key=key) is DOWN
    assert isinstance(behind.ask(DOWN), KycCircuitOpen)

    assert behind.calls == 2
    assert (behind.announced, behind.refused) == ([], [State.OPEN])


def test_a_stale_environment_notices_the_open_circuit_after_a_while(shared: Shared) -> None:
    behind = shared.environment()
    behind.ask(APPROVED)
    shared.opened()

    shared.wait(CACHE_SECONDS - 1)
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

    assert environment.announced == ([State.OPEN] if opens else [])
    assert shared.has(failure_count=3 if opens else 1)
    for _ in range(THRESHOLDS.failures - 1):
        environment.ask(DOWN)
    assert environment.announced == [State.OPEN], "the last of those far apart was the first of these"


@pytest.mark.parametrize("answer", ANSWERS, ids=str)
def test_an_answer_resets_the_failure_count(shared: Shared, answer: Any) -> None:
    environment = shared.environment()

    for _ in range(10):
        environment.ask(DOWN)
        assert environment.ask(answer) == answer
        shared.wait(CACHE_SECONDS)

    assert environment.announced == []
    assert shared.has(state="CLOSED", failure_count=0)
    assert environment.measured == [State.CLOSED] * 10


def test_answers_older_than_the_row_do_not_reset_the_count(shared: Shared) -> None:
    answered, failing = shared.environment(), shared.environment()
    answered.ask(APPROVED)
    answered.ask(APPROVED)
    shared.wait(CACHE_SECONDS)
    failing.ask(DOWN)
    failing.ask(DOWN)

    answered.ask(DOWN)

    assert shared.state == "OPEN"


def test_an_environment_resets_no_count_before_reading_the_row(shared: Shared) -> None:
    """Its answers can be older than the failures that other environments counted."""
    failing, healthy = shared.environment(), shared.environment()
    healthy.ask(APPROVED)
    failing.ask(DOWN)
    failing.ask(DOWN)

    healthy.ask(APPROVED)
    failing.ask(DOWN)

    assert failing.announced == [State.OPEN]


def test_an_answer_resets_failures_of_other_environments_only_at_intervals(shared: Shared) -> None:
    failing, healthy = shared.environment(), shared.environment()
    failing.ask(DOWN)
    failing.ask(DOWN)

    for _ in range(4):
        healthy.ask(APPROVED)

    assert healthy.client.called == ["get_item", "put_item"]
    assert shared.has(state="CLOSED", failure_count=1)
    shared.wait(CACHE_SECONDS)
    healthy.ask(APPROVED)
    assert shared.has(state="CLOSED", failure_count=0)


def test_successful_calls_write_nothing_and_rarely_read(shared: Shared) -> None:
    environment = shared.environment()

    for _ in range(10):
        assert environment.ask(APPROVED) == APPROVED
    assert environment.client.called == ["get_item"]
    shared.wait(CACHE_SECONDS)
    environment.ask(APPROVED)

    assert environment.client.called == ["get_item"] * 2
    assert shared.row is None


def test_counting_a_failure_costs_at_most_two_writes(shared: Shared) -> None:
    environment, other = shared.environment(), shared.environment()

    environment.ask(DOWN)
    assert environment.client.called == ["get_item", "put_item"]
    other.ask(APPROVED)
    environment.ask(APPROVED)
    other.client.called.clear()
    other.ask(DOWN)

    assert len(other.client.called) <= 2
    assert set(other.client.called) == {"put_item"}


def test_an_error_other_than_an_outage_is_raised_uncounted(shared: Shared) -> None:
    environment, bug = shared.environment(), ZeroDivisionError()

    for _ in range(THRESHOLDS.failures * 2):
        assert environment.ask(bug) is bug

    assert environment.calls == THRESHOLDS.failures * 2
    assert shared.row is None


def test_an_answer_is_returned_although_the_circuits_row_is_deleted(shared: Shared) -> None:
    environment = shared.environment()
    environment.ask(DOWN)
    shared.ledger.delete(keys.circuit(kyc_circuit.CIRCUIT.name))

    assert environment.ask(APPROVED) == APPROVED

    assert shared.row is None


def test_a_failure_after_the_opening_does_not_delay_the_probe(shared: Shared) -> None:
    late = shared.environment()
    late.provider.meanwhile = lambda: shared.opened() and None
    late.ask(DOWN)
    before = shared.row

    late.provider.meanwhile = lambda: None
    late.ask(DOWN)

    assert shared.row == before


def test_a_late_answer_does_not_close_an_open_circuit(shared: Shared) -> None:
    late = shared.environment()
    late.ask(DOWN)
    late.provider.meanwhile = lambda: [shared.environment().ask(DOWN) for _ in range(2)]

    assert late.ask(APPROVED) == APPROVED

    assert shared.state == "OPEN"


def test_the_row_stays_small_however_many_payments_fail(shared: Shared) -> None:
    failing = Environment(
        shared.ledger,
        shared.clock.now,
        thresholds=Thresholds(failures=10_000, within_seconds=60, recovery_seconds=30),
    )

    for _ in range(FAILED_MAX + 20):
        failing.ask(DOWN)

    row = shared.row or {}
    assert (len(row["failed"].split()), row["failure_count"]) == (FAILED_MAX, FAILED_MAX + 20)
    assert len(str(to_wire(row))) < 1_300  # with the names of types; a write unit is 1,024 bytes of content
    assert sum(len(name) + len(str(value)) for name, value in row.items()) < 1_024


def test_a_row_of_an_earlier_release_is_read_and_replaced(shared: Shared) -> None:
    old = {"state": "CLOSED", "failure_count": 2, "failed_at": shared.clock.seconds, "not_needed_after": 9}
    shared.ledger.put(keys.circuit(kyc_circuit.CIRCUIT.name) | old)

    shared.environment().ask(DOWN)

    assert shared.has(state="OPEN", version=1, failure_count=3)
