"""Tests that roles of machines, schedules and CDK allow exactly their definitions' needs.

Functions: test_least_privilege.py.
"""

import pytest

from tests.infra.evaluator import Request, allows, listed
from tests.infra.integrations import ANY_VERSION, BY_CDK, of_target, roles
from tests.infra.stack import EMBEDDED, MACHINES, ON_AWS, each_stage, of_role, properties, template

EACH = [(stage, role) for stage in (*ON_AWS, *EMBEDDED) for role in roles(stage)]


@pytest.mark.parametrize(("stage", "role"), EACH)
def test_a_role_allows_only_what_its_machine_or_schedule_needs(stage: str, role: str) -> None:
    """On failure, remove the grant. An unused role needs none."""
    needed = roles(stage)[role] | BY_CDK.keys()
    allowed = [
        (action, resource)
        for statement in of_role(stage, role)
        if statement["Effect"] == "Allow"
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    ]

    assert [one for one in allowed if one not in needed] == []


@pytest.mark.parametrize(("stage", "role"), EACH)
def test_a_role_allows_all_that_its_machine_or_schedule_does(stage: str, role: str) -> None:
    """The grants have no condition, because the services pass no keys with these calls."""
    own, needed = of_role(stage, role), roles(stage)[role]

    assert needed, "nothing takes the role"
    assert [one for one in needed if not allows(own, Request(*one))] == []


@each_stage
def test_each_exception_for_cdks_own_grants_is_needed(stage: str) -> None:
    published = {
        one["FunctionName"]
        for kind in ("Lambda::Version", "Lambda::Alias")
        for one in properties(stage, kind).values()
    }
    granted = {
        (action, resource)
        for role in roles(stage)
        for statement in of_role(stage, role)
        for action in listed(statement["Action"])
        for resource in listed(statement["Resource"])
    }

    scheduled = {one["Target"]["Arn"] for one in properties(stage, "Scheduler::Schedule").values()}
    assert granted >= {
        (action, resource) for action, resource in BY_CDK if resource.replace(".Arn}:*", ".Arn}") in scheduled
    }
    unpublished = {resource for (_, resource), reason in BY_CDK.items() if reason == ANY_VERSION}
    assert not {resource.replace(".Arn}:*", "}") for resource in unpublished} & published


@each_stage
def test_the_test_covers_every_machine_and_schedule(stage: str) -> None:
    """Other kinds of resources take no role that the stack makes."""
    takers = {
        found["Type"]
        for found in template(stage).values()
        if any(f"${{{role}.Arn}}" in str(found.get("Properties")) for role in roles(stage))
    }

    assert roles(stage).keys() >= {f"{machine}Role" for machine in MACHINES}
    assert takers <= {"AWS::StepFunctions::StateMachine", "AWS::Scheduler::Schedule"}


def test_a_schedule_with_an_unknown_kind_of_target_is_refused() -> None:
    with pytest.raises(ValueError, match="no schedule has a target such as"):
        of_target(ON_AWS[0], {"Arn": "${Queue.Arn}"})
