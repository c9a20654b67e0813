"""Every mocked case ends on an engine as in this process.

The engine is the embedded AWS, or the one at STEPFUNCTIONS_LOCAL_ENDPOINT.
"""

from pathlib import Path

import pytest

from tests.statemachines.cases import MOCKED
from tests.statemachines.engines import step_functions
from tests.statemachines.step_functions import check, run_all


@pytest.mark.long
def test_every_mocked_case_visits_the_same_states_on_the_engine(tmp_path: Path) -> None:
    """One test, so one process runs all cases in parallel."""
    with step_functions(tmp_path) as client:
        ended = run_all(client)

    assert ended.keys() == MOCKED.keys()
    for (machine, case), execution in ended.items():
        check(machine, case, execution)
