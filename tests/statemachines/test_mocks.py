"""The mock file covers every branch of both machines: what there is to cover, the definitions say."""

import json
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from settlement import outcome, steps
from tests.conftest import NOW
from tests.statemachines.cases import CASES, EXPECTED, MACHINES, MOCK_FILE, MOCKS, response
from tests.statemachines.definitions import DEFINITIONS, INVOCATIONS, is_terminal, ways
from tests.statemachines.handlers import ANSWERS
from tests.statemachines.mocked import Run, Visit, run
from tests.support.kyc import APPROVED
from tests.support.templates import PROJECT
from tests.unit.vectors import SETTLEMENT, TERMS

Branch = tuple[str, str]
"""A state, and a way out of it, or one of its retries."""

each_case = pytest.mark.parametrize(("machine", "case"), CASES)
each_machine = pytest.mark.parametrize("machine", MACHINES)


def branches(definition: Any) -> set[Branch]:
    """All there are: every Next, End, Default, rule of a Choice, entry of a Catch and of a Retry."""
    found: set[Branch] = set()
    for name, state in definition["States"].items():
        found |= {(name, way.how) for way in ways(state)}
        found |= {(name, f"Retry {number}") for number, _ in enumerate(state.get("Retry", ()))}
        found |= {(name, "End")} if is_terminal(state) else set()
    return found


def rule(entries: Any, error: str) -> int | None:
    """The number of the first entry of a Retry or a Catch that names an error."""
    matching = (
        number
        for number, entry in enumerate(entries)
        if {error, "States.ALL"}.intersection(entry["ErrorEquals"])
    )
    return next(matching, None)


def taken(visit: Visit, following: Visit | None, state: Any) -> Iterator[Branch]:
    """The branches of one visit: each attempt but the last was retried, the last decided where to go."""
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


@cache
def ran(machine: str, case: str) -> Run:
    return run(machine, case)


def thrown(machine: str) -> set[str]:
    return {
        error
        for case in EXPECTED[machine]
        for visit in ran(machine, case).visits
        for error in visit.attempts
        if error
    }


@each_machine
def test_no_branch_of_a_machine_is_missed(machine: str) -> None:
    definition = DEFINITIONS[MACHINES[machine][0]]
    covered: set[Branch] = set()
    for case in EXPECTED[machine]:
        visits = ran(machine, case).visits
        for visit, following in pairwise([*visits, None]):
            assert visit is not None
            covered.update(taken(visit, following, definition["States"][visit.state]))

    assert branches(definition) - covered == set()
    assert covered <= branches(definition)


@each_machine
def test_every_error_that_a_machine_names_is_thrown(machine: str) -> None:
    """Each that it catches where it catches it; of those that it retries, each somewhere."""
    states = DEFINITIONS[MACHINES[machine][0]]["States"]
    last = {
        (visit.state, visit.attempts[-1])
        for case in EXPECTED[machine]
        for visit in ran(machine, case).visits
        if visit.attempts
    }
    caught = {
        (name, error)
        for name, state in states.items()
        for entry in state.get("Catch", ())
        for error in entry["ErrorEquals"]
    }
    retried = {
        error
        for state in states.values()
        for entry in state.get("Retry", ())
        for error in entry["ErrorEquals"]
    }

    assert {(name, error) for name, error in caught if error != "States.ALL"} - last == set()
    assert retried - thrown(machine) == set()


@each_machine
def test_every_retry_is_seen_to_help_and_to_give_up(machine: str) -> None:
    """A retry that is only ever given up on, or never, may as well not be there, or never end."""
    visits = [visit for case in EXPECTED[machine] for visit in ran(machine, case).visits]
    tasks = {
        name for name, state in DEFINITIONS[MACHINES[machine][0]]["States"].items() if state["Type"] == "Task"
    }
    again = [visit for visit in visits if len(visit.attempts) > 1]

    assert {visit.state for visit in again if visit.attempts[-1] is None} == tasks
    assert any(visit.attempts[-1] for visit in again)


@each_case
def test_a_test_case_ends_as_it_should_by_the_states_that_it_should(machine: str, case: str) -> None:
    finished = ran(machine, case)

    assert (finished.ends, finished.trail) == EXPECTED[machine][case]


@each_case
def test_a_test_case_mocks_the_states_that_it_calls_and_no_other(machine: str, case: str) -> None:
    called = {visit.state for visit in ran(machine, case).visits if visit.attempts}

    assert MOCKS["StateMachines"][machine]["TestCases"][case].keys() == called


def test_every_test_case_has_an_expectation_and_every_response_a_use() -> None:
    cases = {machine: set(mocked["TestCases"]) for machine, mocked in MOCKS["StateMachines"].items()}
    used = {
        name
        for mocked in MOCKS["StateMachines"].values()
        for case in mocked["TestCases"].values()
        for name in case.values()
    }

    assert cases == {machine: set(expected) for machine, expected in EXPECTED.items()}
    assert used == MOCKS["MockedResponses"].keys()


def test_the_two_settlements_differ_in_what_the_compensation_has_come_to() -> None:
    """All else is the same file: the Express machine is told of a start, the Standard one of an end."""
    express, standard = (
        MOCKS["StateMachines"][machine]["TestCases"]
        for machine in ("SettlementExpress", "SettlementStandard")
    )
    differing = {
        state
        for case, responses in express.items()
        for state, name in responses.items()
        if standard[case][state] != name
    }

    assert differing == {"Compensate", "ReportOutcome"}
    assert {case: list(states) for case, states in express.items()} == {
        case: list(states) for case, states in standard.items()
    }


@pytest.mark.parametrize("name", sorted({name for _, name in INVOCATIONS} & ANSWERS.keys()))
def test_a_mocked_function_answers_as_its_handler_does(name: str) -> None:
    """With all the fields of the handler's answer; a mock that promises more would prove nothing."""
    for machine, mocked in MOCKS["StateMachines"].items():
        for case, states in mocked["TestCases"].items():
            answer = response(machine, case, name, 0) if name in states else {}
            if "Return" in answer:
                assert answer["Return"]["StatusCode"] == 200
                extra = answer["Return"]["Payload"].keys() - ANSWERS[name]
                assert answer["Return"]["Payload"].keys() >= ANSWERS[name], (machine, case)
                assert extra <= {"resolution"}, (machine, case)


def test_a_mocked_verdict_is_one_that_its_handler_gives() -> None:
    """A payment in review has nothing to tell but that; any other has its journal entry, without its keys."""
    posting = steps.verify(SETTLEMENT, APPROVED, NOW)
    entry = outcome.of_entry(posting.entry.parameters["Item"], TERMS)
    shapes = {
        frozenset(answer["Return"]["Payload"].items())
        for machine, mocked in MOCKS["StateMachines"].items()
        for case, states in mocked["TestCases"].items()
        if "VerifyKyc" in states
        for answer in MOCKS["MockedResponses"][states["VerifyKyc"]].values()
        if "Return" in answer
    }

    assert shapes == {
        frozenset({"in_review": True}.items()),
        frozenset(({"in_review": False} | entry).items()),
    }


def test_step_functions_local_is_given_the_mock_file() -> None:
    """Under the name that it is told, in the container."""
    compose = (PROJECT / "compose.yaml").read_text()
    folder = MOCK_FILE.parent.relative_to(PROJECT)

    assert f"./{folder}:/mocks:ro" in compose
    assert f"SFN_MOCK_CONFIG: /mocks/{MOCK_FILE.name}" in compose
    assert '"127.0.0.1:8083:8083"' in compose
    assert json.loads(MOCK_FILE.read_text()).keys() == {"StateMachines", "MockedResponses"}
