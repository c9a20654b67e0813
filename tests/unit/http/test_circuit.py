from dataclasses import replace

import pytest

from settlement.http.circuit import (
    FAILED_MAX,
    REPORTED_MAX,
    Circuit,
    State,
    Thresholds,
    after_answers,
    after_failure,
    payment,
)

LIMITS = Thresholds(failures=10, within_seconds=900, recovery_seconds=30)
NOW = 1_800_000_000
SEVEN = Circuit(count=7, failed=tuple("abcdefg"), failed_at=NOW)


@pytest.mark.parametrize(("answers", "count"), [(0, 7), (1, 6), (2, 5), (3, 5), (1_000, 5)])
def test_reported_answers_reset_at_most_two_failures(answers: int, count: int) -> None:
    """The answers may be older than an outage that other environments see, so more resets would hide it."""
    assert REPORTED_MAX == 2
    assert after_answers(SEVEN, answers) == replace(SEVEN, count=count)
    assert after_failure(SEVEN, "h", answers, NOW, LIMITS).count == count + 1


def test_answers_before_any_failure_do_not_count() -> None:
    circuit = Circuit()
    for _ in range(100):
        circuit = after_answers(circuit, 2)

    assert circuit == Circuit()
    for number in range(LIMITS.failures):
        assert circuit.state is State.CLOSED
        circuit = after_failure(circuit, f"{number}", 0, NOW, LIMITS)
    assert circuit.state is State.OPEN


def test_a_failing_payment_counts_once_although_answers_reset_the_count() -> None:
    circuit = Circuit()
    for _ in range(50):
        circuit = after_failure(circuit, "one", 0, NOW, LIMITS)
        circuit = after_failure(circuit, "two", 0, NOW, LIMITS)
        assert circuit.count <= 2
        circuit = after_answers(circuit, 2)

    assert circuit == Circuit(failed=("one", "two"), failed_at=NOW)


def test_the_circuit_opens_at_a_failure_rate_of_two_thirds() -> None:
    seldom = often = Circuit()
    for number in range(200):
        seldom = after_answers(after_failure(seldom, f"{number}", 0, NOW, LIMITS), 2)
        often = after_failure(often, f"{number}", number % 2, NOW, LIMITS)

    assert (seldom.state, often.state) == (State.CLOSED, State.OPEN)
    assert len(seldom.failed) == FAILED_MAX


def test_payments_get_short_distinct_names_in_the_circuit() -> None:
    names = {payment(f"order-{number}") for number in range(1_000)}

    assert len(names) == 1_000
    assert {len(name) for name in names} == {8}
