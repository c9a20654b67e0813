import json
import re
from functools import cache
from typing import Any

import pytest
from aws_cdk.assertions import Template

from infra import orders, people
from infra.config import settings_of
from infra.core import HANDLERS, Room
from infra.rooms import ROOMS, handlers_of
from infra.settlement_stack import SettlementStack
from tests.infra.stack import context, each_stage_on_aws, name, readable
from tests.world.templates import app

OUTPUTS = {
    *("TableName", "SettlementExpressArn", "SettlementStandardArn", "CompensationArn", "EventBusName"),
    *("PagerTopicArn", "MorningTopicArn", "InformationTopicArn", "StageConfig"),
}
ALARMS = {
    *("CompensationFailed", "CompensationTimedOut", "CompensationAborted"),
    *("SettlementExpressFailed", "SettlementExpressTimedOut"),
    *("SettlementStandardFailed", "SettlementStandardTimedOut", "SettlementStandardAborted"),
    *("RecoveryFailed", "NotRecovered", "Recoveries", "RecoveryCutShort", "RecoveryBehind"),
    *("OldestInFlight", "LimboOpen", "LimboAge"),
    *("FunctionFailed", "StoreUnavailable", "TransactionConflict"),
    *("ForwardThrottled", "CompensatingThrottled", "TriggeredThrottled"),
    *("TableThrottled", "StatesThrottled", "DeliveryFailed"),
}


@cache
def template_alone(stage: str) -> Any:
    stack = SettlementStack(app(), settings=settings_of(context(stage)), rooms=())
    return Template.from_stack(stack).to_json()


def core_alone(stage: str) -> Any:
    found = template_alone(stage)
    named = {name(key): readable(one) for key, one in found["Resources"].items()}
    return {**found, "Resources": named}


def resources(stage: str, kind: str) -> dict[str, Any]:
    found = core_alone(stage)["Resources"]
    return {key: one["Properties"] for key, one in found.items() if one["Type"] == f"AWS::{kind}"}


@each_stage_on_aws
def test_the_core_has_exactly_its_functions_roles_and_machines(stage: str) -> None:
    assert resources(stage, "Lambda::Function").keys() == HANDLERS.keys()
    roles = {one.removesuffix("Role") for one in resources(stage, "IAM::Role") if one.endswith("Role")}
    assert HANDLERS.keys() <= roles
    assert not roles & {one for room in ROOMS for one in room.handlers}
    assert resources(stage, "StepFunctions::StateMachine").keys() == {
        *("SettlementExpress", "SettlementStandard", "Compensation")
    }


@each_stage_on_aws
def test_the_core_has_no_rooms_alarm_or_dashboard_row(stage: str) -> None:
    alarms = {one.removeprefix("Pager") for one in resources(stage, "CloudWatch::Alarm")}
    (board,) = resources(stage, "CloudWatch::Dashboard").values()
    widgets = json.loads(board["DashboardBody"])["widgets"]

    assert alarms == ALARMS
    assert not [one for one in widgets if not one["properties"].get("metrics", one["type"] == "alarm")]
    assert len({one["y"] for one in widgets}) == 7  # the alarms, five rows, and the messages to people
    assert not [one for room in ROOMS for one in room.handlers if one in board["DashboardBody"]]


@each_stage_on_aws
def test_the_core_has_no_rooms_output_policy_or_trigger(stage: str) -> None:
    assert core_alone(stage)["Outputs"].keys() == OUTPUTS
    for kind in (
        *("IAM::ManagedPolicy", "SQS::Queue", "S3::Bucket", "SecretsManager::Secret", "ApiGatewayV2::Api"),
        *("Lambda::EventSourceMapping", "Lambda::Url", "Events::Rule", "SNS::Subscription"),
    ):
        assert not resources(stage, kind), kind


@each_stage_on_aws
def test_the_core_alone_refers_only_to_its_own_resources(stage: str) -> None:
    """CloudFormation refuses a reference to a missing room's resource."""
    found = template_alone(stage)
    known = found["Resources"].keys() | found.get("Parameters", {}).keys()

    def referred(value: Any) -> set[str]:
        if isinstance(value, list):
            return {name for one in value for name in referred(one)}
        if not isinstance(value, dict):
            return set()
        own = {value["Ref"]} if "Ref" in value else set()
        own |= {value["Fn::GetAtt"][0]} if "Fn::GetAtt" in value else set()
        return own | {name for one in value.values() for name in referred(one)}

    assert {one for one in referred(found) if not one.startswith("AWS::")} <= known
    for machine in resources(stage, "StepFunctions::StateMachine").values():
        placeholders = {*re.findall(r"\$\{(\w+)\}", machine["DefinitionString"])}
        assert placeholders == machine["DefinitionSubstitutions"].keys()


@pytest.mark.long
@pytest.mark.parametrize("left_out", ROOMS, ids=lambda room: room.build.__module__)
def test_a_stage_can_be_built_without_any_single_room(left_out: Room) -> None:
    """The people's policies allow orders, so they go together with the room of orders."""
    gone = (orders.ROOM, people.ROOM) if left_out is orders.ROOM else (left_out,)
    rooms = [room for room in ROOMS if room not in gone]

    stack = SettlementStack(app(), settings=settings_of(context("dev")), rooms=rooms)

    template = Template.from_stack(stack)
    functions = {name(one) for one in template.find_resources("AWS::Lambda::Function")}
    text = json.dumps(template.to_json())
    assert functions == handlers_of(rooms).keys()
    assert not [order for order in left_out.orders if f"/orders/{order}" in text]
    assert ("SWEPT#" in text) == any("sweep" in room.orders for room in rooms)


def test_a_room_is_refused_without_the_room_it_needs() -> None:
    settings = settings_of(context("dev"))
    with pytest.raises(ValueError, match=r"^rooms: OrdersApi is missing, which a later room needs$"):
        SettlementStack(app(), settings=settings, rooms=[people.ROOM])
