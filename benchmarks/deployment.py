"""Facts of the deployed stack that decide its price, from its template and definitions."""

from dataclasses import dataclass
from typing import Any

from tests.world import definitions, templates

_STAGE = "prod"


@dataclass(frozen=True)
class Deployment:
    """The functions' memory and log settings, the services' own logs, and the states of the happy path."""

    memory_mb: int
    log_detail: str
    logs_platform: bool
    logs_states: bool
    states: tuple[str, ...]


def read() -> Deployment:
    """Return the facts of the stage for production."""
    functions = templates.resources("AWS::Lambda::Function", _STAGE)
    (hold,) = (each["Properties"] for name, each in functions.items() if name.startswith("HoldFunds"))
    machines = templates.resources("AWS::StepFunctions::StateMachine", _STAGE)
    (express,) = (
        each["Properties"]
        for each in machines.values()
        if each["Properties"].get("StateMachineType") == "EXPRESS"
    )
    return Deployment(
        memory_mb=hold["MemorySize"],
        log_detail=hold["Environment"]["Variables"]["LOG_DETAIL"],
        logs_platform=hold.get("LoggingConfig", {}).get("SystemLogLevel") != "WARN",
        logs_states=express["LoggingConfiguration"]["Level"] == "ALL",
        states=happy_path(definitions.definitions()[definitions.EXPRESS]),
    )


def happy_path(definition: Any) -> tuple[str, ...]:
    """Return the states from the start to the end if each task succeeds."""
    names, path = definition["States"], [definition["StartAt"]]
    while not (state := names[path[-1]]).get("End") and state["Type"] not in ("Succeed", "Fail"):
        path.append(state.get("Next") or state["Default"])
    return tuple(path)
