import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.assets import STATE_MACHINES

FILES: list[Path] = sorted(STATE_MACHINES.glob("*.asl.json"))
ALL: dict[str, Any] = {path.name.removesuffix(".asl.json"): json.loads(path.read_text()) for path in FILES}
OF_ROOMS = ("pay_out",)
"""Machines that settle nothing: each has its own tests in a folder of its room."""

DEFINITIONS: dict[str, Any] = {name: found for name, found in ALL.items() if name not in OF_ROOMS}
TASKS = [
    (machine, name)
    for machine, definition in DEFINITIONS.items()
    for name, state in definition["States"].items()
    if state["Type"] == "Task"
]

LAMBDA = "arn:aws:states:::lambda:invoke"
TOKEN = "arn:aws:states:::lambda:invoke.waitForTaskToken"
EVENTS = "arn:aws:states:::events:putEvents"
START = "${StartCompensation}"

CALLED = {(machine, name): DEFINITIONS[machine]["States"][name]["Resource"] for machine, name in TASKS}

INVOCATIONS = [each for each, resource in CALLED.items() if resource in (LAMBDA, TOKEN)]

WAITS = [each for each, resource in CALLED.items() if resource == TOKEN]
PUTS = [each for each, resource in CALLED.items() if resource == EVENTS]
STARTS = [each for each, resource in CALLED.items() if resource == START]

_PATH = re.compile(r"\$\$?(?:\.\w+)*")


@dataclass(frozen=True)
class Way:
    how: str
    target: str
    rule: Mapping[str, Any]


def states(machine: str) -> dict[str, Any]:
    found: dict[str, Any] = DEFINITIONS[machine]["States"]
    return found


def task(machine: str, name: str) -> Any:
    return states(machine)[name]


def ways(state: Any) -> Iterator[Way]:
    """Yield a state's transitions: `Next`, `Default`, `Choices 0`, `Catch 1`."""
    for how in ("Next", "Default"):
        if how in state:
            yield Way(how, state[how], state)
    for how in ("Choices", "Catch"):
        for number, rule in enumerate(state.get(how, ())):
            yield Way(f"{how} {number}", rule["Next"], rule)


def entrances(machine: str, target: str) -> list[tuple[str, Way]]:
    every = [(name, way) for name, state in states(machine).items() for way in ways(state)]
    return [(name, way) for name, way in every if way.target == target]


def targets(state: Any) -> list[str]:
    return [way.target for way in ways(state)]


def is_terminal(state: Any) -> bool:
    return state.get("End") is True or state["Type"] in ("Succeed", "Fail")


def paths(definition: Any) -> Iterator[list[str]]:
    pending = [[definition["StartAt"]]]
    while pending:
        path = pending.pop()
        following = dict.fromkeys(targets(definition["States"][path[-1]]))
        if not following or path[-1] in path[:-1]:
            yield path
        else:
            pending += [[*path, name] for name in following]


def caught(state: Any, error: str) -> str:
    """Return the state that follows an error after its retries."""
    (target, *_) = (
        str(entry["Next"])
        for entry in state["Catch"]
        if {error, "States.ALL"}.intersection(entry["ErrorEquals"])
    )
    return target


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, member in value.items():
            yield from leaves(member, name)
    elif isinstance(value, list):
        for member in value:
            yield from leaves(member, key)
    else:
        yield key, value


def keys(value: Any) -> Iterator[str]:
    members = value.items() if isinstance(value, dict) else [("", member) for member in value or ()]
    for name, member in members:
        yield name
        if isinstance(member, dict | list):
            yield from keys(member)


def fields_read(expression: str) -> set[str]:
    """Return the top-level fields that an expression reads; "$" for the whole input."""
    found = _PATH.findall(expression)
    return {path.split(".")[1] if "." in path else "$" for path in found if not path.startswith("$$")}
