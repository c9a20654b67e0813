"""The test cases of mocks/MockConfigFile.json, executed in this process.

A case lists states in the order of first calls. A mocked alert allows one second to decide, since Step
Functions Local really waits.
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
"""Each machine's definition, and how it starts the other: the settlement machines' only difference."""

INPUTS: dict[str, Any] = {
    "settlement": WIRE,
    "compensation": {"settlement": WIRE, "error": {"Error": "DeadlineExceeded", "Cause": "as mocked"}},
}
MOCKED: dict[tuple[str, str], dict[str, str]] = {
    (machine, case): responses
    for machine, mocked in MOCKS["StateMachines"].items()
    for case, responses in mocked["TestCases"].items()
}


@dataclass
class Visit:
    """One entry into a state; `attempts` has an error per try, None for success."""

    state: str
    data: Any
    attempts: list[str | None] = field(default_factory=list)

    def __str__(self) -> str:
        return self.state + (f"*{len(self.attempts)}" if len(self.attempts) > 1 else "")


@dataclass
class Run:
    execution: Execution
    visits: list[Visit]

    @property
    def trail(self) -> str:
        """The entered states in order, with `*n` for n tries."""
        return " ".join(map(str, self.visits))

    @property
    def ends(self) -> str:
        """The outcome's status, or the failed execution's error."""
        ended = self.execution
        if ended.status != "SUCCEEDED":
            return ended.error["Error"]
        return str(checked_outcome(ended.data)["status"])


@cache
def run(machine: str, case: str) -> Run:
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
    names = sorted({responses[state] for responses in MOCKED.values() if state in responses})
    every = [answer for name in names for answer in MOCKS["MockedResponses"][name].values()]
    return [answer["Return"] for answer in every if "Return" in answer]


def _response(name: str, call: int) -> Any:
    """Return the file's answer to a call; calls count from 0, with retries."""
    for numbers, answer in MOCKS["MockedResponses"][name].items():
        first, _, last = numbers.partition("-")
        if int(first) <= call <= int(last or first):
            return answer
    raise AssertionError(f"no response {call} in {name}")
