"""Both machines on another Step Functions, with every call mocked: each case ends as it should.

That is the embedded AWS, or Step Functions Local (compose.yaml) if STEPFUNCTIONS_LOCAL_ENDPOINT names it.
"""

import json

import pytest

from tests.statemachines.cases import CASES, EXPECTED, MACHINES
from tests.statemachines.definitions import is_terminal, task
from tests.statemachines.mocked import run
from tests.statemachines.step_functions import Ended, definition, run_all, step_functions

each_case = pytest.mark.parametrize(("machine", "case"), CASES)


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Ended]:
    """The end of each test case."""
    with step_functions(tmp_path_factory.mktemp("step-functions")) as client:
        return run_all(client)


@each_case
def test_an_execution_ends_as_it_should_through_the_expected_states(
    machine: str, case: str, ended: dict[tuple[str, str], Ended]
) -> None:
    execution = ended[machine, case]

    assert (execution.ends, execution.trail) == EXPECTED[machine][case]


@each_case
def test_an_execution_succeeds_only_with_an_outcome(
    machine: str, case: str, ended: dict[tuple[str, str], Ended]
) -> None:
    execution = ended[machine, case]
    last = task(MACHINES[machine][0], execution.trail.split()[-1].partition("*")[0])

    assert is_terminal(last)
    assert execution.status == ("FAILED" if last["Type"] == "Fail" else "SUCCEEDED")
    if execution.status == "SUCCEEDED":
        assert execution.output["key"] == "order-2026-000101"


@each_case
def test_a_failed_execution_carries_its_error(
    machine: str, case: str, ended: dict[tuple[str, str], Ended]
) -> None:
    """It has the last error, as its own or in its cause; with an unreachable pager, the alert itself."""
    execution = ended[machine, case]
    if execution.status != "FAILED":
        assert execution.error is None
        return
    thrown = run(machine, case).visits[-2].attempts

    if execution.error == "PagerUnreachable":
        assert json.loads(execution.cause)["key"] == "order-2026-000101"
    elif execution.trail.endswith("CompensationUnfinished"):
        assert execution.cause.endswith(f"did not succeed: {thrown[-1]}")
    elif execution.trail.endswith("RequestRefused"):
        assert execution.error == thrown[-1]
        assert json.loads(execution.cause)["errorType"] == thrown[-1]
    else:
        assert json.loads(execution.cause)["Error"] == thrown[-1]


@pytest.mark.parametrize("machine", MACHINES)
def test_no_definition_that_is_run_has_a_placeholder_left(machine: str) -> None:
    assert "${" not in definition(machine)


def test_a_settlement_is_run_with_each_way_to_start_its_compensation() -> None:
    resources = {
        machine: json.loads(definition(machine))["States"]["Compensate"]["Resource"]
        for machine, (name, _) in MACHINES.items()
        if name == "settlement"
    }

    assert resources == {
        "SettlementExpress": "arn:aws:states:::states:startExecution",
        "SettlementStandard": "arn:aws:states:::states:startExecution.sync:2",
    }
