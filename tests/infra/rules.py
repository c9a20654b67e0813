"""The rules that turn an event into an alert, by their names in the stack."""

from typing import Any

import pytest

from infra.config import STAGES
from tests.infra.machines import name
from tests.support import templates

LIMBO = "PagerRule"
ENDED = "PagerCompensationEnded"
RULES = (LIMBO, ENDED)
"""The rules for the machine's events about LIMBO, and for AWS's events about the machine's end."""

each_rule = pytest.mark.parametrize(("stage", "rule"), [(stage, rule) for stage in STAGES for rule in RULES])


def logical_id(stage: str, rule: str) -> str:
    (found,) = (one for one in templates.resources("AWS::Events::Rule", stage) if name(one) == rule)
    return found


def properties(stage: str, rule: str) -> Any:
    return templates.resources("AWS::Events::Rule", stage)[logical_id(stage, rule)]["Properties"]


def target(stage: str, rule: str) -> Any:
    """Return the one target of the rule."""
    (found,) = properties(stage, rule)["Targets"]
    return found
