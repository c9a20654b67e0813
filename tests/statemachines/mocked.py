"""An execution of a test case in this process, on the mock file's responses."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.statemachines.cases import INPUTS, MACHINES, response
from tests.statemachines.definitions import DEFINITIONS
from tests.support.contracts import checked_outcome
from tests.support.interpreter import Execution, Machines, TaskFailed


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
        return " ".join(map(str, self.visits))

    @property
    def ends(self) -> str:
        """The outcome's status, or the error of an execution that failed."""
        ended = self.execution
        if ended.status != "SUCCEEDED":
            return ended.error["Error"]
        return str(checked_outcome(ended.data)["status"])


def run(machine: str, case: str) -> Run:
    """Execute a test case with the strict interpreter of `tests/support`."""
    definition, _ = MACHINES[machine]
    visits: list[Visit] = []
    calls: Counter[str] = Counter()

    def enter(execution: Execution) -> None:
        visits.append(Visit(execution.state, execution.data))

    def answer(execution: Execution, call: Callable[[], Any]) -> Any:
        state = execution.state
        mocked = response(machine, case, state, calls[state])
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
