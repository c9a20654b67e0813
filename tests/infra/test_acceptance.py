import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pytest

from infra.config import STAGES
from settle.events import tail
from settle.local.demo import cost, stuck_reversal
from tests.infra.evaluator import listed
from tests.infra.stack import properties
from tests.world.rooms import there
from tests.world.templates import PROJECT

TRIED = [stage for stage, settings in STAGES.items() if not settings.must_reach_people]
BESIDE = (tail, cost, stuck_reversal)
"""Modules besides the checks' own that call AWS for a check."""

IAM = {"stepfunctions": "states"}

ACTIONS = {"lambda:Invoke": "lambda:InvokeFunction"}


def statements(stage: str) -> list[dict[str, Any]]:
    found = properties(stage, "IAM::ManagedPolicy")["AcceptancePolicy"]["PolicyDocument"]["Statement"]
    return list(found)


def actions(stage: str) -> set[str]:
    return {action for one in statements(stage) for action in listed(one["Action"])}


def with_the_viewers(stage: str) -> set[str]:
    viewer = properties(stage, "IAM::ManagedPolicy")["PeopleViewer"]["PolicyDocument"]["Statement"]
    return actions(stage) | {action for one in viewer for action in listed(one["Action"])}


@cache
def operations(service: str) -> dict[str, str]:
    client = boto3.client(service, region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")
    return {
        method: f"{IAM.get(service, service)}:{operation}"
        for method, operation in client.meta.method_to_api_mapping.items()
    }


def called(path: Path) -> Iterator[str]:
    tree = ast.parse(path.read_text())
    texts = {
        one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and isinstance(one.value, str)
    }
    services = [
        str(one.args[0].value)
        for one in ast.walk(tree)
        if isinstance(one, ast.Call)
        and isinstance(one.func, ast.Attribute)
        and one.func.attr == "client"
        and isinstance(one.args[0], ast.Constant)
    ]
    named = {one.attr for one in ast.walk(tree) if isinstance(one, ast.Attribute)} | texts
    for service in services:
        yield from (action for method, action in operations(service).items() if method in named)


def test_a_stage_with_real_money_has_no_acceptance_policy() -> None:
    assert {"dev", "local"} <= {*TRIED}
    assert "AcceptancePolicy" not in properties("prod", "IAM::ManagedPolicy")


@pytest.mark.parametrize("stage", TRIED)
def test_the_acceptance_policy_allows_each_call_of_the_checks(stage: str) -> None:
    modules = [*(PROJECT / "settle/acceptance").glob("*.py"), *(Path(str(one.__file__)) for one in BESIDE)]
    wanted = {ACTIONS.get(action, action) for path in modules for action in called(path)}

    assert {
        "states:StartSyncExecution",
        "lambda:InvokeFunction",
        "logs:FilterLogEvents",
        "sns:Subscribe",
    } <= wanted
    assert wanted - with_the_viewers(stage) == set()


@pytest.mark.parametrize("stage", TRIED)
def test_the_acceptance_policy_allows_no_row_writes_or_deployed_changes(stage: str) -> None:
    writes = {
        one
        for one in actions(stage)
        if not re.search(r":(Describe|Get|List|Filter|Query|Scan|BatchGet)", one)
    }

    assert writes == {
        *("execute-api:Invoke", "iam:SimulatePrincipalPolicy", "cloudwatch:SetAlarmState"),
        *("states:StartExecution", "states:StartSyncExecution", "states:StopExecution"),
        *("states:TestState", "states:ValidateStateMachineDefinition", "lambda:InvokeFunction"),
        *("sns:Subscribe", "sns:Unsubscribe", *there("doors", "sqs:SendMessage")),
        *(
            f"sqs:{one}"
            for one in ("CreateQueue", "DeleteQueue", "DeleteMessage", "ReceiveMessage", "SetQueueAttributes")
        ),
        *(f"events:{one}" for one in ("DeleteRule", "PutRule", "PutTargets", "RemoveTargets")),
    }
    everywhere = {action for one in statements(stage) if one["Resource"] == ["*"] for action in one["Action"]}
    of_no_resource = {"sns:Unsubscribe", "states:TestState", "states:ValidateStateMachineDefinition"}
    assert everywhere & writes == of_no_resource


@pytest.mark.parametrize("stage", TRIED)
def test_the_acceptance_policy_may_start_payments_but_no_reversal(stage: str) -> None:
    """A reversal begins by an order, through the orders API."""
    (started,) = (one["Resource"] for one in statements(stage) if "states:StartExecution" in one["Action"])

    assert started == ["${SettlementExpress}", "${SettlementStandard}"]


@pytest.mark.parametrize("stage", TRIED)
def test_the_acceptance_policys_queues_never_match_the_stages_own(stage: str) -> None:
    """CloudFormation names a queue by the stack's name, followed by a capitalised construct."""
    (own,) = (one["Resource"] for one in statements(stage) if "sqs:DeleteQueue" in one["Action"])

    assert [re.search(r"settlement-.*", one)[0] for one in own] == [  # type: ignore[index]
        f"settlement-{stage}-tail-*",
        f"settlement-{stage}-pager-*",
    ]
    assert all(name[0].isupper() for name in properties(stage, "SQS::Queue"))
