"""The machines of a template, by the names that the stack gives them."""

import json
import re
from typing import Any

import pytest

from infra.settings import STAGES
from tests.support import templates

SETTLEMENTS = {"SettlementExpress": "EXPRESS", "SettlementStandard": "STANDARD"}
MACHINES = SETTLEMENTS | {"Compensation": "STANDARD"}
"""Each machine and its type."""

KYC_URL = "https://kyc.example.com"
"""Where the stages on AWS are told to ask about payments."""

each_stage = pytest.mark.parametrize("stage", STAGES)
each_machine = pytest.mark.parametrize(
    ("stage", "machine"), [(stage, machine) for stage in STAGES for machine in MACHINES]
)


def context(stage: str) -> dict[str, str]:
    """What the deployment of a stage is told: on AWS, whom to ask, which no settings name."""
    return {"stage": stage} | ({} if STAGES[stage].interpreter else {"kyc_url": KYC_URL})


def name(logical_id: str) -> str:
    """What the stack calls a construct of its own: the logical id without its hash."""
    return re.sub(r"[0-9A-F]{8}$", "", logical_id)


def logical_id(stage: str, machine: str) -> str:
    (found,) = (
        one for one in templates.resources("AWS::StepFunctions::StateMachine", stage) if name(one) == machine
    )
    return found


def function_id(stage: str, function: str) -> str:
    """The logical id of a function."""
    (found,) = (one for one in templates.resources("AWS::Lambda::Function", stage) if name(one) == function)
    return found


def properties(stage: str, machine: str) -> Any:
    machines = templates.resources("AWS::StepFunctions::StateMachine", stage)
    return machines[logical_id(stage, machine)]["Properties"]


def executions(stage: str, machine: str) -> str:
    """The pattern of the ARNs of a machine's executions, of that machine alone."""
    of_machine = f"${{{logical_id(stage, machine)}.Name}}"
    return f"arn:${{AWS::Partition}}:states:${{AWS::Region}}:${{AWS::AccountId}}:execution:{of_machine}:*"


def definition(stage: str, machine: str) -> Any:
    return json.loads(properties(stage, machine)["DefinitionString"])


def bus(stage: str) -> str:
    """The logical id of the one bus."""
    (found,) = templates.resources("AWS::Events::EventBus", stage)
    return found
