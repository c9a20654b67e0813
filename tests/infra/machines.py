"""The machines of a template, by their names in the stack."""

import json
import re
from typing import Any

import pytest

from infra.config import STAGES
from tests.support import templates

SETTLEMENTS = {"SettlementExpress": "EXPRESS", "SettlementStandard": "STANDARD"}
MACHINES = SETTLEMENTS | {"Compensation": "STANDARD"}
"""Each machine and its type."""

KYC_URL = "https://kyc.example.com"
"""The address of the KYC provider for the stages on AWS."""

each_stage = pytest.mark.parametrize("stage", STAGES)
each_machine = pytest.mark.parametrize(
    ("stage", "machine"), [(stage, machine) for stage in STAGES for machine in MACHINES]
)


def context(stage: str) -> dict[str, str]:
    """Return the context of a stage's deployment. On AWS it names the provider, as no settings do."""
    return {"stage": stage} | ({} if STAGES[stage].is_embedded else {"kyc_url": KYC_URL})


def name(logical_id: str) -> str:
    """Return the name of a construct in the stack: its logical id without the hash."""
    return re.sub(r"[0-9A-F]{8}$", "", logical_id)


def logical_id(stage: str, machine: str) -> str:
    (found,) = (
        one for one in templates.resources("AWS::StepFunctions::StateMachine", stage) if name(one) == machine
    )
    return found


def function_id(stage: str, function: str) -> str:
    """Return the logical id of a function."""
    (found,) = (one for one in templates.resources("AWS::Lambda::Function", stage) if name(one) == function)
    return found


def properties(stage: str, machine: str) -> Any:
    machines = templates.resources("AWS::StepFunctions::StateMachine", stage)
    return machines[logical_id(stage, machine)]["Properties"]


def executions(stage: str, machine: str) -> str:
    """Return the pattern of the ARNs of one machine's executions."""
    of_machine = f"${{{logical_id(stage, machine)}.Name}}"
    return f"arn:${{AWS::Partition}}:states:${{AWS::Region}}:${{AWS::AccountId}}:execution:{of_machine}:*"


def definition(stage: str, machine: str) -> Any:
    return json.loads(properties(stage, machine)["DefinitionString"])


def bus(stage: str) -> str:
    """Return the logical id of the one bus."""
    (found,) = templates.resources("AWS::Events::EventBus", stage)
    return found
