import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from settle.acceptance.deployed import MACHINES, definition
from settle.acceptance.run import Run
from settle.acceptance.verdict import NotApplicable, Refuted

ATTEMPTS = 10
"""Maximum tries. AWS throttles TestState; the check makes about 100 calls."""

UNLISTED = "AnErrorThatNoRuleNames"
"""An error that only `States.ALL` matches."""

_SETTLEMENT = {"key": "k", "payer": "a", "payee": "b", "amount": "1.00", "currency": "EUR", "fee": "0.00"}
_DATA = {
    **{
        "settlement": _SETTLEMENT,
        "claimed_at": "2026-11-24T12:00:00.000Z",
        "owner_epoch": 0,
        "nonce": "00c0ffee",
    },
    **{"steps": [], "reversed": [], "case": 1, "stuck": {}, "alert": {}, "wait_seconds": 1, "resolution": {}},
    **{"notice": {}, "error": {"Error": UNLISTED, "Cause": ""}},
}
"""Test input with all fields that any task reads."""

_CONTEXT = {
    "Execution": {"Id": "arn:of:it", "Name": "it", "Input": _SETTLEMENT},
    "State": {"Name": "its-own", "EnteredTime": "2026-11-24T12:00:00Z", "RetryCount": 0},
    "StateMachine": {"Id": "arn:of:its:machine", "Name": "its-machine"},
    "Task": {"Token": "a-token"},
}


@dataclass(frozen=True)
class Way:
    state: str
    error: str
    retries: int
    status: str
    next_state: str | None = None

    def __str__(self) -> str:
        return f"{self.state}: {self.error} after {self.retries} retries"


def states(run: Run) -> str:
    """Let each task fail with each error of its rules, by TestState. Expect it to follow the rule."""
    if run.stack.endpoint_url:
        raise NotApplicable("the embedded AWS: knows no TestState")
    client, tried = run.stack.client("stepfunctions", attempts=ATTEMPTS), 0
    for output in MACHINES[1:]:  # Express has the definition of Standard
        text = definition(run, output)
        for way in ways(json.loads(text)["States"]):
            run.waits_for = str(way)
            meet(client, text, way)
            tried += 1
    return f"{tried} rules: each error was tried again, caught or let through as the definition says"


def ways(tasks: dict[str, Any]) -> Iterator[Way]:
    """Yield how each task must react to UNLISTED, and to each retry and catch rule's first error."""
    for name, task in tasks.items():
        if task["Type"] != "Task":
            continue
        retries, catches = task.get("Retry", []), task.get("Catch", [])
        for error in dict.fromkeys([*_firsts(retries), *_firsts(catches), UNLISTED]):
            retry, catch = _matching(retries, error), _matching(catches, error)
            attempts = retry["MaxAttempts"] if retry else 0
            if attempts:
                yield Way(name, error, 0, "RETRIABLE")
            if catch:
                yield Way(name, error, attempts, "CAUGHT_ERROR", catch["Next"])
            else:
                yield Way(name, error, attempts, "FAILED")


def _firsts(rules: list[Any]) -> list[str]:
    return [rule["ErrorEquals"][0] for rule in rules if rule["ErrorEquals"] != ["States.ALL"]]


def _matching(rules: list[Any], error: str) -> Any:
    return next((one for one in rules if {error, "States.ALL"} & {*one["ErrorEquals"]}), None)


def meet(client: Any, text: str, way: Way) -> None:
    """Let a task fail with one error, by TestState. Raises Refuted for an unexpected reaction."""
    told = client.test_state(
        definition=text,
        stateName=way.state,
        input=json.dumps(_DATA),
        context=json.dumps(_CONTEXT),
        mock={"errorOutput": {"error": way.error, "cause": "{}"}},
        stateConfiguration={"retrierRetryCount": way.retries},
    )
    found = (told["error"], told["status"], told.get("nextState") if way.next_state else None)
    if found != (way.error, way.status, way.next_state):
        raise Refuted(
            f"{way}: is {_told(*found)}, and should be {_told(way.error, way.status, way.next_state)}"
        )


def _told(*parts: str | None) -> str:
    return " ".join(filter(None, parts))
