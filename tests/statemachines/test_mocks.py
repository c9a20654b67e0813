from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from tests.statemachines.cases import MACHINES, MOCK_FILE, MOCKED, MOCKS, Run, Visit, answers, run
from tests.statemachines.definitions import DEFINITIONS, INVOCATIONS, WAITS, is_terminal, ways
from tests.statemachines.handlers import ANSWERS, answered
from tests.world.templates import PROJECT

Branch = tuple[str, str]
"""A state, and its transition or retry."""

SILENT = {name for _, name in INVOCATIONS if not answered(name)}
"""The functions that return None, which Lambda sends as null."""

each_machine = pytest.mark.parametrize("machine", MACHINES)


def runs(machine: str) -> dict[str, Run]:
    return {case: run(machine, case) for of, case in MOCKED if of == machine}


def visits(machine: str) -> list[Visit]:
    return [visit for one in runs(machine).values() for visit in one.visits]


def states(machine: str) -> dict[str, Any]:
    found: dict[str, Any] = DEFINITIONS[MACHINES[machine][0]]["States"]
    return found


def branches(machine: str) -> set[Branch]:
    found: set[Branch] = set()
    for name, state in states(machine).items():
        found |= {(name, way.how) for way in ways(state)}
        retries = enumerate(state.get("Retry", ()))
        found |= {(name, f"Retry {number}") for number, retry in retries if retry["MaxAttempts"]}
        found |= {(name, "End")} if is_terminal(state) else set()
    return found


def rule(entries: Any, error: str) -> int | None:
    """Return the index of the first matching Retry or Catch entry."""
    matching = (
        number
        for number, entry in enumerate(entries)
        if {error, "States.ALL"}.intersection(entry["ErrorEquals"])
    )
    return next(matching, None)


def taken(visit: Visit, following: Visit | None, state: Any) -> Iterator[Branch]:
    """Yield the branches that a visit takes: its retries, then its way out."""
    for error in visit.attempts[:-1]:
        assert error is not None
        yield visit.state, f"Retry {rule(state['Retry'], error)}"
    last = visit.attempts[-1] if visit.attempts else None
    if last:
        yield visit.state, f"Catch {rule(state['Catch'], last)}"
    elif following is None:
        yield visit.state, "End"
    else:
        (how,) = (
            way.how
            for way in ways(state)
            if way.target == following.state and not way.how.startswith("Catch")
        )
        yield visit.state, how


@each_machine
def test_the_mocked_cases_take_every_branch_of_a_machine(machine: str) -> None:
    covered: set[Branch] = set()
    for one in runs(machine).values():
        for visit, following in pairwise([*one.visits, None]):
            assert visit is not None
            covered.update(taken(visit, following, states(machine)[visit.state]))

    assert branches(machine) - covered == set()
    assert covered <= branches(machine)


@each_machine
def test_every_error_that_a_machine_names_is_thrown(machine: str) -> None:
    """Each caught error is thrown in the state that catches it; each retried error in any state."""
    thrown = {error for visit in visits(machine) for error in visit.attempts if error}
    last = {(visit.state, visit.attempts[-1]) for visit in visits(machine) if visit.attempts}
    named = {
        (rules, name, error)
        for rules in ("Catch", "Retry")
        for name, state in states(machine).items()
        for entry in state.get(rules, ())
        for error in entry["ErrorEquals"]
        if error != "States.ALL"
    }

    assert {(name, error) for rules, name, error in named if rules == "Catch"} - last == set()
    assert {error for rules, _, error in named if rules == "Retry"} - thrown == set()


@each_machine
def test_every_retry_helps_in_one_case_and_fails_in_another(machine: str) -> None:
    """A retry that always fails is useless; one that never fails may be endless."""
    tasks = {name for name, state in states(machine).items() if state["Type"] == "Task"}
    again = [visit for visit in visits(machine) if len(visit.attempts) > 1]

    assert {visit.state for visit in again if visit.attempts[-1] is None} == tasks
    assert any(visit.attempts[-1] for visit in again)


@pytest.mark.parametrize(("machine", "case"), MOCKED)
def test_a_mocked_case_calls_exactly_its_states_in_order(machine: str, case: str) -> None:
    called = [visit.state for visit in run(machine, case).visits if visit.attempts]

    assert list(dict.fromkeys(called)) == list(MOCKED[machine, case])


@each_machine
def test_the_mocked_cases_reach_every_end_of_a_machine(machine: str) -> None:
    """An Express machine reports that the compensation was started, a Standard one how it ended."""
    ends = {one.ends for one in runs(machine).values()}
    refused = {"InvalidRequest", "IdempotencyConflict"}

    if machine == "Compensation":
        refused |= {"NotReversible", "ResolutionRefused"}
        assert ends == {"COMPENSATED", "CompensationStalled", "PagerUnreachable", *refused}
    else:
        reversed_ = "COMPENSATING" if machine == "SettlementExpress" else "COMPENSATED"
        assert ends == {"SETTLED", "REJECTED", "PROCESSING", reversed_, "SettlementStalled", *refused}


def test_every_mocked_response_is_used() -> None:
    used = {name for responses in MOCKED.values() for name in responses.values()}

    assert MOCKS.keys() == {"StateMachines", "MockedResponses"}
    assert MOCKS["StateMachines"].keys() == MACHINES.keys()
    assert used == MOCKS["MockedResponses"].keys()


@pytest.mark.parametrize("name", sorted({*ANSWERS, *SILENT}))
def test_a_mocked_response_has_the_fields_of_its_handler(name: str) -> None:
    """It may also have `resolution`. A field that no handler returns would prove nothing."""
    found = answers(name)

    assert found
    if ("compensation", name) in WAITS:
        assert all(answer.keys() >= {"decision", "reason", "by"} for answer in found)
        return
    payloads = [answer["Payload"] for answer in found]
    assert {answer["StatusCode"] for answer in found} == {200}
    if name in SILENT:
        assert set(payloads) == {None}
    else:
        for payload in payloads:
            assert payload.keys() >= ANSWERS[name]
            assert payload.keys() - ANSWERS[name] <= {"resolution"}


def test_step_functions_local_is_given_the_mock_file() -> None:
    compose = (PROJECT / "compose.yaml").read_text()

    assert f"./{MOCK_FILE.parent.relative_to(PROJECT)}:/mocks:ro" in compose
    assert f"SFN_MOCK_CONFIG: /mocks/{MOCK_FILE.name}" in compose
    assert '"127.0.0.1:8083:8083"' in compose
