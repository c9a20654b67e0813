"""One name everywhere: a handler's file is a state, a placeholder, a function and a row of the grants."""

import re

import pytest

from infra.functions import LAMBDAS
from infra.settings import STAGES
from infra.settlement_stack import GRANTS
from tests.statemachines.definitions import DEFINITIONS, TASKS, leaves, task
from tests.support import templates

HANDLERS = {path.stem for path in (LAMBDAS / "handlers").glob("*.py") if not path.name.startswith("_")}
STATES = {name for _, name in TASKS}


def camel(module: str) -> str:
    """`hold_funds` is `HoldFunds`."""
    return "".join(word.capitalize() for word in module.split("_"))


def test_every_handler_is_a_state_and_every_task_a_handler() -> None:
    assert {camel(module) for module in HANDLERS} == STATES


@pytest.mark.parametrize(("machine", "name"), TASKS)
def test_a_task_invokes_the_function_of_its_own_name(machine: str, name: str) -> None:
    assert task(machine, name)["Parameters"]["FunctionName"] == f"${{{name}}}"


@pytest.mark.parametrize("machine", DEFINITIONS)
def test_there_is_no_placeholder_but_for_functions(machine: str) -> None:
    placeholders = [
        name for _, value in leaves(DEFINITIONS[machine]) for name in re.findall(r"\$\{(.*?)\}", str(value))
    ]

    assert sorted(placeholders) == sorted(name for owner, name in TASKS if owner == machine)


def test_every_state_has_its_grants() -> None:
    assert GRANTS.keys() == STATES


@pytest.mark.parametrize("stage", STAGES)
def test_every_handler_is_deployed_as_the_function_of_its_name(stage: str) -> None:
    deployed = {
        re.sub(r"[0-9A-F]{8}$", "", logical_id): function["Properties"]["Handler"]
        for logical_id, function in templates.resources("AWS::Lambda::Function", stage).items()
    }

    assert deployed == {camel(module): f"handlers.{module}.handler" for module in HANDLERS}
