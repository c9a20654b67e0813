"""What each function's role may do: what its step sends, to the one table, and never to an entry."""

import re
from datetime import timedelta
from typing import Any

import pytest

from infra.settings import STAGES
from infra.settlement_stack import GRANTS
from settlement import items, kyc, steps
from settlement.request import Settlement
from settlement.terms import Terms
from settlement.writes import Write
from tests.conftest import NOW
from tests.infra.iam import Statement, attribute, statements
from tests.infra.test_functions import properties
from tests.support import templates

ACTIONS = {"Put": "dynamodb:PutItem", "Update": "dynamodb:UpdateItem"}
KEY_ATTRIBUTES = {"pk", "sk"}

each_role = pytest.mark.parametrize(
    ("stage", "state"), [(stage, state) for stage in STAGES for state in GRANTS]
)

each_updating_role = pytest.mark.parametrize(
    ("stage", "state"),
    [(stage, state) for stage in STAGES for state in GRANTS if "dynamodb:UpdateItem" in GRANTS[state]],
)


def granted(stage: str, state: str) -> list[Statement]:
    return statements(attribute(properties(stage, state)["Role"]), stage)


def about(service: str, found: list[Statement], effect: str = "Allow") -> list[Statement]:
    return [
        one
        for one in found
        if one.effect == effect and any(action.split(":")[0] in (service, "*") for action in one.actions)
    ]


def writes(settlement: Settlement, terms: Terms) -> dict[str, list[Write]]:
    """What each state's function sends to DynamoDB, as the steps shape it."""
    return {
        "ClaimKey": [items.claim(settlement, "owner", NOW, terms)],
        "HoldFunds": [*steps.hold(settlement, NOW).writes],
        "VerifyKyc": [*steps.verify(settlement, kyc.decide(settlement), NOW).writes],
        "ReleaseFunds": [*steps.release(settlement, terms, NOW + timedelta(seconds=1)).writes],
        "CollectFee": [*steps.fee(settlement, NOW).writes],
        "RejectSettlement": [items.reject(settlement, {"step": "hold"}, NOW)],
        "ReportOutcome": [],
    }


@each_role
def test_a_role_may_do_what_its_grants_say_to_the_table_and_nothing_else(stage: str, state: str) -> None:
    (table,) = templates.resources("AWS::DynamoDB::Table", stage)

    (allowed,) = about("dynamodb", granted(stage, state))

    assert allowed.actions == set(GRANTS[state])
    assert allowed.resources == (table,)


def test_the_grants_are_what_the_steps_send(settlement: Settlement, terms: Terms) -> None:
    sent = {
        state: {ACTIONS[write.action] for write in of_state} or {"dynamodb:GetItem"}
        for state, of_state in writes(settlement, terms).items()
    }

    assert {state: set(actions) for state, actions in GRANTS.items()} == sent


@each_role
def test_no_role_may_delete_scan_query_or_batch(stage: str, state: str) -> None:
    allowed = {action for one in about("dynamodb", granted(stage, state)) for action in one.actions}

    assert allowed <= {"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"}


@each_role
def test_a_role_reaches_nothing_but_the_table_its_key_its_logs_and_traces(stage: str, state: str) -> None:
    services = {action.split(":")[0] for one in granted(stage, state) for action in one.actions}

    assert services == {"dynamodb", "kms", "logs", "xray"}


@each_role
def test_only_traces_are_granted_without_a_resource(stage: str, state: str) -> None:
    """X-Ray has no resources to name."""
    for one in granted(stage, state):
        if any("*" in resource for resource in one.resources):
            assert one.actions == {"xray:PutTelemetryRecords", "xray:PutTraceSegments"}


@each_role
def test_a_role_writes_to_its_own_log_group_only(stage: str, state: str) -> None:
    (allowed,) = about("logs", granted(stage, state))

    assert allowed.actions == {"logs:CreateLogStream", "logs:PutLogEvents"}
    assert allowed.resources == (properties(stage, state)["LoggingConfig"]["LogGroup"]["Ref"],)


@each_role
def test_the_key_is_used_through_dynamodb_only(stage: str, state: str) -> None:
    (key,) = templates.resources("AWS::KMS::Key", stage)

    (allowed,) = about("kms", granted(stage, state))

    assert allowed.resources == (key,)
    assert allowed.actions <= {
        "kms:Decrypt",
        "kms:DescribeKey",
        "kms:Encrypt",
        "kms:GenerateDataKey*",
        "kms:ReEncrypt*",
    }
    region = {"Fn::Join": ["", ["dynamodb.", {"Ref": "AWS::Region"}, ".amazonaws.com"]]}
    assert allowed.conditions == {"StringEquals": {"kms:ViaService": region}}


@each_updating_role
def test_a_role_that_may_update_rows_may_not_update_an_entry(stage: str, state: str) -> None:
    """The Deny holds for every row that has such an attribute, and only entries do."""
    (table,) = templates.resources("AWS::DynamoDB::Table", stage)

    (denied,) = about("dynamodb", granted(stage, state), "Deny")

    assert denied.actions == {"dynamodb:UpdateItem"}
    assert denied.resources == (table,)
    assert {"credit", "debit", "posted_at", "side", "step"} <= denied_attributes(denied)


def test_no_role_may_change_any_attribute_of_an_entry(settlement: Settlement, terms: Terms) -> None:
    """Append-only, for whatever an entry holds that no step's own update has to touch elsewhere."""
    sent = [write for of_state in writes(settlement, terms).values() for write in of_state]
    entries = [write.parameters["Item"] for write in sent if write.action == "Put" and is_entry(write)]
    touched = {name for write in sent if write.action == "Update" for name in names_in(write)}
    of_entries = {name for entry in entries for name in entry} - KEY_ATTRIBUTES

    (denied,) = about("dynamodb", granted("prod", "HoldFunds"), "Deny")

    assert of_entries - touched - denied_attributes(denied) == set()


def test_no_step_needs_an_update_that_is_denied(settlement: Settlement, terms: Terms) -> None:
    """IAM counts the attributes of conditions, too; a refused step would stall every settlement."""
    sent = [write for of_state in writes(settlement, terms).values() for write in of_state]
    touched = {name for write in sent if write.action == "Update" for name in names_in(write)}

    (denied,) = about("dynamodb", granted("prod", "HoldFunds"), "Deny")

    assert {"escrow", "steps", "available", "request_hash", "status"} <= touched
    assert touched & denied_attributes(denied) == set()


def denied_attributes(denied: Statement) -> set[str]:
    assert denied.conditions.keys() == {"ForAnyValue:StringEquals"}
    return set(denied.conditions["ForAnyValue:StringEquals"]["dynamodb:Attributes"])


def is_entry(write: Write) -> bool:
    return "posted_at" in write.parameters["Item"]


def names_in(write: Write) -> set[str]:
    """The attributes that an update's expressions name."""
    parameters: Any = write.parameters
    text = f"{parameters['UpdateExpression']} {parameters['ConditionExpression']}"
    words = set(re.findall(r"(?<![:\w])#?[a-z]\w*", text))
    aliases = parameters.get("ExpressionAttributeNames", {})
    return {aliases.get(word, word) for word in words} - {
        "attribute_not_exists",
        "attribute_exists",
        "contains",
    }
