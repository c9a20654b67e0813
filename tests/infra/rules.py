"""The rules that make a page of an event, by the names that the stack gives them."""

from typing import Any

import pytest

from infra.settings import STAGES
from tests.infra.machines import name
from tests.support import templates

LIMBO = "PagingRule"
ENDED = "PagingCompensationEnded"
RULES = (LIMBO, ENDED)
"""What the machine says of LIMBO, and what AWS says of the machine's own end."""

each_rule = pytest.mark.parametrize(("stage", "rule"), [(stage, rule) for stage in STAGES for rule in RULES])


def logical_id(stage: str, rule: str) -> str:
    (found,) = (one for one in templates.resources("AWS::Events::Rule", stage) if name(one) == rule)
    return found


def properties(stage: str, rule: str) -> Any:
    return templates.resources("AWS::Events::Rule", stage)[logical_id(stage, rule)]["Properties"]


def target(stage: str, rule: str) -> Any:
    """The one target of the rule."""
    (found,) = properties(stage, rule)["Targets"]
    return found
