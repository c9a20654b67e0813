"""Both machines on another Step Functions, with every call mocked: each case ends as it does here.

That is the embedded AWS, or the one that STEPFUNCTIONS_LOCAL_ENDPOINT names, such as Step Functions Local.
"""

from pathlib import Path

import pytest

from tests.statemachines.cases import MOCKED
from tests.statemachines.engines import step_functions
from tests.statemachines.step_functions import check, run_all


@pytest.mark.long
def test_every_case_ends_through_the_same_states_with_an_outcome_or_its_error(tmp_path: Path) -> None:
    """One test, so that one process runs all cases at the same time."""
    with step_functions(tmp_path) as client:
        ended = run_all(client)

    assert ended.keys() == MOCKED.keys()
    for (machine, case), execution in ended.items():
        check(machine, case, execution)
