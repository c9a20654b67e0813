"""One name everywhere: a handler's file is a state, a placeholder, a function and a row of the grants."""

import re
from collections import Counter

import pytest

from infra.config import STAGES
from infra.functions import LAMBDAS
from infra.grants import GRANTS, TRIGGERED
from tests.statemachines.definitions import (
    CALLED,
    DEFINITIONS,
    EVENTS,
    INVOCATIONS,
    LAMBDA,
    PUTS,
    START,
    STARTS,
    TASKS,
    TOKEN,
    leaves,
    task,
)
from tests.support import templates

HANDLERS = {path.stem for path in (LAMBDAS / "handlers").glob("*.py") if not path.name.startswith("_")}
STATES = {name for _, name in INVOCATIONS}

OTHER_PLACEHOLDERS = {
    "settlement": ["StartCompensation", "Compensation"],
    "compensation": ["EventBus", "EventBus"],
}
"""A definition's placeholders besides its functions: one for each occurrence."""


def camel(module: str) -> str:
    """Return `HoldFunds` for `hold_funds`."""
    return "".join(word.capitalize() for word in module.split("_"))


def test_every_handler_is_a_state_or_has_another_trigger() -> None:
    assert {camel(module) for module in HANDLERS} == STATES | TRIGGERED.keys()


def test_the_other_triggers_are_a_webhook_the_clock_and_a_queue() -> None:
    """None of these functions is a state as well."""
    assert TRIGGERED.keys() == {"KycDecided", "RecoverStalled", "StartSettlements"}
    assert not STATES & TRIGGERED.keys()


def test_a_task_runs_a_function_unless_it_puts_an_event_or_starts_the_other_machine() -> None:
    assert {name for _, name in PUTS} == {"PageOnCall", "AnnounceResolution"}
    assert STARTS == [("settlement", "Compensate")]
    assert set(CALLED.values()) == {LAMBDA, TOKEN, EVENTS, START}
    assert sorted(INVOCATIONS + PUTS + STARTS) == sorted(TASKS)


@pytest.mark.parametrize(("machine", "name"), INVOCATIONS)
def test_a_task_invokes_the_function_of_its_own_name(machine: str, name: str) -> None:
    assert task(machine, name)["Parameters"]["FunctionName"] == f"${{{name}}}"


@pytest.mark.parametrize("machine", DEFINITIONS)
def test_every_placeholder_is_a_function_or_another_called_resource(machine: str) -> None:
    placeholders = [
        name for _, value in leaves(DEFINITIONS[machine]) for name in re.findall(r"\$\{(.*?)\}", str(value))
    ]

    functions = [name for owner, name in INVOCATIONS if owner == machine]
    assert Counter(placeholders) == Counter(functions + OTHER_PLACEHOLDERS[machine])


@pytest.mark.parametrize(("machine", "name"), PUTS)
def test_an_event_goes_to_the_bus_of_the_stage(machine: str, name: str) -> None:
    (entry,) = task(machine, name)["Parameters"]["Entries"]

    assert entry["EventBusName"] == "${EventBus}"
    assert entry["Source"] == "settlement"


@pytest.mark.parametrize(("machine", "name"), STARTS)
def test_the_started_machine_is_the_compensation(machine: str, name: str) -> None:
    assert task(machine, name)["Parameters"]["StateMachineArn"] == "${Compensation}"


def test_every_state_has_its_grants() -> None:
    assert GRANTS.keys() == STATES


@pytest.mark.parametrize("stage", STAGES)
def test_every_handler_is_deployed_as_the_function_of_its_name(stage: str) -> None:
    deployed = {
        re.sub(r"[0-9A-F]{8}$", "", logical_id): function["Properties"]["Handler"]
        for logical_id, function in templates.resources("AWS::Lambda::Function", stage).items()
    }

    assert deployed == {camel(module): f"handlers.{module}.handler" for module in HANDLERS}
