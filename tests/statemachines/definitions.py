"""The definitions as parsed JSON, and how one state leads to the next."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infra.state_machines import STATE_MACHINES

FILES: list[Path] = sorted(STATE_MACHINES.glob("*.asl.json"))
DEFINITIONS: dict[str, Any] = {
    path.name.removesuffix(".asl.json"): json.loads(path.read_text()) for path in FILES
}
TASKS = [
    (machine, name)
    for machine, definition in DEFINITIONS.items()
    for name, state in definition["States"].items()
    if state["Type"] == "Task"
]

_PATH = re.compile(r"\$\$?(?:\.\w+)*")


def task(machine: str, name: str) -> Any:
    return DEFINITIONS[machine]["States"][name]


def targets(state: Any) -> list[str]:
    """Every state that may follow `state`, in whatever way it ends."""
    transitions = [state, *state.get("Choices", []), *state.get("Catch", [])]
    return [t["Next"] for t in transitions if "Next" in t] + [
        state[name] for name in ("Default",) if name in state
    ]


def is_terminal(state: Any) -> bool:
    return state.get("End") is True or state["Type"] in ("Succeed", "Fail")


def paths(definition: Any) -> Iterator[list[str]]:
    """Every way from the start to an end. A state that would be entered again is the last of its path."""
    pending = [[definition["StartAt"]]]
    while pending:
        path = pending.pop()
        following = targets(definition["States"][path[-1]])
        if not following or path[-1] in path[:-1]:
            yield path
        else:
            pending += [[*path, name] for name in following]


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Each scalar of a JSON value with the field that holds it."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from leaves(member, name)
    elif isinstance(value, list):
        for member in value:
            yield from leaves(member, key)
    else:
        yield key, value


def keys(value: Any) -> Iterator[str]:
    """The name of each field of a JSON value, however deep."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield name
            yield from keys(member)
    elif isinstance(value, list):
        for member in value:
            yield from keys(member)


def fields_read(expression: str) -> set[str]:
    """The top-level fields of its input that a path or an intrinsic reads; "$" where it reads all of it."""
    found = _PATH.findall(expression)
    return {path.split(".")[1] if "." in path else "$" for path in found if not path.startswith("$$")}
