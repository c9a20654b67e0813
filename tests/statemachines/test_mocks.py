"""The mock file covers every branch of both machines, as the definitions list them."""

import json
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from tests.statemachines.cases import CASES, EXPECTED, MACHINES, MOCK_FILE, MOCKS, response
from tests.statemachines.definitions import CALLED, DEFINITIONS, INVOCATIONS, TOKEN, is_terminal, ways
from tests.statemachines.handlers import ANSWERS, answered, answers_nothing
from tests.statemachines.mocked import Run, Visit, run
from tests.support.templates import PROJECT

Branch = tuple[str, str]
"""A state, and a way out of it, or one of its retries."""

each_case = pytest.mark.parametrize(("machine", "case"), CASES)
each_machine = pytest.mark.parametrize("machine", MACHINES)


def branches(definition: Any) -> set[Branch]:
    """Return every Next, End, Default, rule of a Choice, entry of a Catch and of a Retry."""
    found: set[Branch] = set()
    for name, state in definition["States"].items():
        found |= {(name, way.how) for way in ways(state)}
        found |= {(name, f"Retry {number}") for number, _ in enumerate(state.get("Retry", ()))}
        found |= {(name, "End")} if is_terminal(state) else set()
    return found


def rule(entries: Any, error: str) -> int | None:
    """Return the number of the first entry of a Retry or a Catch that names an error."""
    matching = (
        number
        for number, entry in enumerate(entries)
        if {error, "States.ALL"}.intersection(entry["ErrorEquals"])
    )
    return next(matching, None)


def taken(visit: Visit, following: Visit | None, state: Any) -> Iterator[Branch]:
    """Yield the branches of one visit: a retry for each attempt but the last, which decides what follows."""
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
    """Each caught error in the state that catches it; each retried error in any state."""
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
def test_every_retry_helps_in_one_case_and_ends_in_failure_in_another(machine: str) -> None:
    """A retry that always ends in failure may as well be absent; one that never does may have no end."""
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


@pytest.mark.parametrize("machine", [each for each in MACHINES if MACHINES[each][0] == "settlement"])
def test_a_report_has_the_error_that_stopped_the_settlement_and_no_other(machine: str) -> None:
    """Neither an error of the start of its compensation, nor one that a retry has overcome."""
    stopped = set()
    for case in EXPECTED[machine]:
        visits = ran(machine, case).visits
        states = [visit.state for visit in visits]
        if "ReportOutcome" not in states:
            continue
        reported = visits[states.index("ReportOutcome")].data.get("error", {}).get("Error")
        if "Compensate" in states:
            stopped_by = visits[states.index("Compensate") - 1].attempts[-1]
            assert reported == stopped_by, case
            stopped.add(stopped_by)
        else:
            assert reported is None, case

    assert stopped >= {"KycRejected", "KycCircuitOpen", "KycUnavailable", "AccountNotFound", "CapExceeded"}


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


def test_the_two_settlements_differ_in_the_state_of_their_compensation() -> None:
    """The rest is one file: the Express machine learns that it was started, the Standard one how it ended."""
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
    """It has all the fields of the handler's answer; a mock with more of them would prove nothing."""
    for machine, mocked in MOCKS["StateMachines"].items():
        for case, states in mocked["TestCases"].items():
            answer = response(machine, case, name, 0) if name in states else {}
            if "Return" in answer:
                assert answer["Return"]["StatusCode"] == 200
                extra = answer["Return"]["Payload"].keys() - ANSWERS[name]
                assert answer["Return"]["Payload"].keys() >= ANSWERS[name], (machine, case)
                assert extra <= {"resolution"}, (machine, case)


@pytest.mark.parametrize("name", sorted(name for _, name in INVOCATIONS if answers_nothing(name)))
def test_a_mocked_function_answers_null_if_its_handler_returns_nothing(name: str) -> None:
    answers = [
        answer["Return"]
        for mocked in MOCKS["StateMachines"].values()
        for states in mocked["TestCases"].values()
        if name in states
        for answer in MOCKS["MockedResponses"][states[name]].values()
        if "Return" in answer
    ]

    assert answers
    if CALLED.get(("compensation", name)) == TOKEN:  # the answer of this task is the decision that ends it
        assert all(answer.keys() >= {"decision", "reason", "by"} for answer in answers)
    else:
        assert all(answer == {"StatusCode": 200, "Payload": None} for answer in answers)


def test_a_mocked_verdict_is_one_that_its_handler_gives() -> None:
    """It says whether the payment is in review, and no more: the verdict stays in the journal."""
    shapes = [
        answer["Return"]["Payload"]
        for machine, mocked in MOCKS["StateMachines"].items()
        for case, states in mocked["TestCases"].items()
        if "VerifyKyc" in states
        for answer in MOCKS["MockedResponses"][states["VerifyKyc"]].values()
        if "Return" in answer
    ]

    assert {frozenset(shape) for shape in shapes} == set(map(frozenset, answered("VerifyKyc")))
    assert {shape["in_review"] for shape in shapes} == {True, False}


def test_step_functions_local_is_given_the_mock_file() -> None:
    """Under the file name that its container gets."""
    compose = (PROJECT / "compose.yaml").read_text()
    folder = MOCK_FILE.parent.relative_to(PROJECT)

    assert f"./{folder}:/mocks:ro" in compose
    assert f"SFN_MOCK_CONFIG: /mocks/{MOCK_FILE.name}" in compose
    assert '"127.0.0.1:8083:8083"' in compose
    assert json.loads(MOCK_FILE.read_text()).keys() == {"StateMachines", "MockedResponses"}
