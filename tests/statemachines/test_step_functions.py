"""Both machines on another Step Functions, with every call mocked: each case ends as it does here.

That is the embedded AWS, or Step Functions Local (compose.yaml) if STEPFUNCTIONS_LOCAL_ENDPOINT names it.
"""

import json
from pathlib import Path

from tests.statemachines.cases import MACHINES, MOCKED, run
from tests.statemachines.definitions import is_terminal, task
from tests.statemachines.step_functions import Ended, run_all, step_functions
from tests.world.constants import KEY


def test_every_case_ends_through_the_same_states_with_an_outcome_or_its_error(tmp_path: Path) -> None:
    """One test, so that one process runs all cases at the same time."""
    with step_functions(tmp_path) as client:
        ended = run_all(client)

    assert ended.keys() == MOCKED.keys()
    for (machine, case), execution in ended.items():
        check(machine, case, execution)


def check(machine: str, case: str, execution: Ended) -> None:
    """A failure has the last error, or that in its cause; with an unreachable pager, the alert."""
    here = run(machine, case)
    last = task(MACHINES[machine][0], here.visits[-1].state)

    assert (execution.ends, execution.trail) == (here.ends, here.trail), case
    assert is_terminal(last)
    assert execution.status == ("FAILED" if last["Type"] == "Fail" else "SUCCEEDED"), case
    if execution.status == "SUCCEEDED":
        assert (execution.output["key"], execution.error) == (KEY, None), case
        return
    thrown = here.visits[-2].attempts[-1:]
    if execution.error == "PagerUnreachable":
        assert json.loads(execution.cause)["key"] == KEY
    elif here.visits[-1].state == "CompensationUnfinished":
        assert execution.cause.endswith(f"did not succeed: {thrown[0]}"), case
    elif here.visits[-1].state == "RequestRefused":
        assert [execution.error] == [json.loads(execution.cause)["errorType"]] == thrown, case
    else:
        assert [json.loads(execution.cause)["Error"]] == thrown, case
