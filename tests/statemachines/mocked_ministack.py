"""MiniStack, reading the mock file as Step Functions Local does: one response per call.

MiniStack itself counts entries into a state, so a retry would repeat a mocked error.
"""

from contextvars import ContextVar
from typing import Any

from ministack import app  # type: ignore[import-untyped]  # it has no types
from ministack.services import stepfunctions as engine  # type: ignore[import-untyped]

_current: ContextVar[tuple[Any, Any]] = ContextVar("current")
"""The execution at a task, and its context object."""

_execute_task = engine._execute_task
_response = engine._get_mock_response


def _remember(state: Any, data: Any, execution: Any, context: Any) -> Any:
    _current.set((execution, context))
    return _execute_task(state, data, execution, context)


def _answer(*call: Any) -> Any:
    execution, context = _current.get()
    state, calls = context["State"]["Name"], execution["mockAttempts"]
    number = calls.get(state, 0)
    calls[state] = number + 1
    mocked = _response(context["StateMachine"]["Name"], execution["testCase"], state, number)
    if mocked is None:
        raise engine._ExecutionError("NotMocked", f"{state} has no response {number}")
    if "Throw" in mocked:
        raise engine._ExecutionError(mocked["Throw"]["Error"], mocked["Throw"]["Cause"])
    return mocked["Return"]


if __name__ == "__main__":
    engine._execute_task = _remember
    engine._get_mock_response = lambda *call: None
    for call in ("_invoke_resource", "_invoke_resource_with_timeout", "_invoke_with_callback"):
        assert hasattr(engine, call), call
        setattr(engine, call, _answer)
    app.main()
