"""The test cases of mocks/MockConfigFile.json, and their execution in this process.

The file lists the states of a case in the order in which they are first called. A mocked alert grants one
second to decide, because Step Functions Local really waits.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.statemachines.definitions import DEFINITIONS
from tests.world.constants import WIRE
from tests.world.contracts import checked_outcome
from tests.world.interpreter import Execution, Machines, TaskFailed

MOCK_FILE = Path(__file__).parent / "mocks" / "MockConfigFile.json"
MOCKS: dict[str, Any] = json.loads(MOCK_FILE.read_text())

START = "arn:aws:states:::states:startExecution"
MACHINES = {
    "SettlementExpress": ("settlement", START),
    "SettlementStandard": ("settlement", f"{START}.sync:2"),
    "Compensation": ("compensation", ""),
}
"""Each machine's definition, and how it starts the other one: the one difference of the two settlements."""

INPUTS: dict[str, Any] = {
    "settlement": WIRE,
    "compensation": {"settlement": WIRE, "error": {"Error": "DeadlineExceeded", "Cause": "as mocked"}},
}
MOCKED: dict[tuple[str, str], dict[str, str]] = {
    (machine, case): responses
    for machine, mocked in MOCKS["StateMachines"].items()
    for case, responses in mocked["TestCases"].items()
}
"""The name of the responses of each state that a case calls."""


@dataclass
class Visit:
    """One entry into a state with the execution's data: the errors of its attempts, None for success."""

    state: str
    data: Any
    attempts: list[str | None] = field(default_factory=list)

    def __str__(self) -> str:
        return self.state + (f"*{len(self.attempts)}" if len(self.attempts) > 1 else "")


@dataclass
class Run:
    """A finished execution, with a Visit for each state that it entered."""

    execution: Execution
    visits: list[Visit]

    @property
    def trail(self) -> str:
        """Each state as it was entered, with `*n` for n tries."""
        return " ".join(map(str, self.visits))

    @property
    def ends(self) -> str:
        """The outcome's status, or the error of an execution that failed."""
        ended = self.execution
        if ended.status != "SUCCEEDED":
            return ended.error["Error"]
        return str(checked_outcome(ended.data)["status"])


@cache
def run(machine: str, case: str) -> Run:
    """Execute a test case with the strict interpreter of `tests/world`."""
    definition, _ = MACHINES[machine]
    visits: list[Visit] = []
    calls: Counter[str] = Counter()

    def enter(execution: Execution) -> None:
        visits.append(Visit(execution.state, execution.data))

    def answer(execution: Execution, call: Callable[[], Any]) -> Any:
        state = execution.state
        mocked = _response(MOCKED[machine, case][state], calls[state])
        calls[state] += 1
        thrown = mocked.get("Throw")
        visits[-1].attempts.append(thrown and thrown["Error"])
        if thrown:
            raise TaskFailed(thrown["Error"], thrown["Cause"])
        return mocked["Return"]

    def refuse(function: str, payload: Any) -> Any:
        raise AssertionError(f"{function} was called and not mocked")

    machines = Machines(DEFINITIONS, frozenset(), refuse, around=answer, between=enter)
    execution = machines.start(definition, INPUTS[definition], case).run()
    while execution.is_waiting:  # in a Wait state, as every call is mocked
        execution.time_out()
        execution.run()
    return Run(execution, visits)


def answers(state: str) -> list[Any]:
    """Return every answer that the file has for a state, and no error."""
    names = sorted({responses[state] for responses in MOCKED.values() if state in responses})
    every = [answer for name in names for answer in MOCKS["MockedResponses"][name].values()]
    return [answer["Return"] for answer in every if "Return" in answer]


def _response(name: str, call: int) -> Any:
    """Return the file's answer to a call of a state; calls are counted from 0, retries included."""
    for numbers, answer in MOCKS["MockedResponses"][name].items():
        first, _, last = numbers.partition("-")
        if int(first) <= call <= int(last or first):
            return answer
    raise AssertionError(f"no response {call} in {name}")
