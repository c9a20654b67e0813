import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from aws_cdk import App
from aws_cdk.assertions import Template

from infra import layouts
from infra.config import STAGES, settings_of
from infra.settlement_stack import SettlementStack
from settle.migrations.rows import MIGRATIONS
from settlement.core.model.layout import NEWEST
from tests.infra.stack import context, readable
from tests.infra.stack import name as name_of
from tests.world import templates

NAME = "parts-by-name"


@cache
def synthesised() -> Any:
    settings = replace(settings_of(context("prod")), migration=NAME, row_layout=2)
    flags = json.loads((templates.PROJECT / "cdk.json").read_text())["context"]
    stack = SettlementStack(App(context=flags | {"stage": "prod"}), settings=settings)
    return Template.from_stack(stack).to_json()


def resources() -> dict[str, Any]:
    return {name_of(one): readable(found) for one, found in synthesised()["Resources"].items()}


def test_the_settings_know_what_the_functions_know() -> None:
    assert layouts.LAYOUTS == NEWEST
    assert {name: one.attributes for name, one in MIGRATIONS.items()} == layouts.MIGRATIONS


@pytest.mark.parametrize("stage", STAGES)
def test_no_stage_has_a_role_that_it_does_not_need(stage: str) -> None:
    assert (STAGES[stage].migration, STAGES[stage].row_layout) == (None, 1)


def test_the_role_writes_only_the_attributes_of_the_migration() -> None:
    (policy,) = (
        found["Properties"]["PolicyDocument"]["Statement"]
        for name, found in resources().items()
        if found["Type"] == "AWS::IAM::Policy" and name.startswith("Migration")
    )
    by_action = {str(one["Action"]): one for one in policy}

    written = by_action["dynamodb:UpdateItem"]["Condition"]
    assert written == {
        "ForAllValues:StringEquals": {
            "dynamodb:Attributes": ["pk", "sk", "parts", "reversals_in_part", "layout"]
        },
        "ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["SETTLEMENT#*"]},
    }
    read = by_action["dynamodb:Scan"]["Condition"]
    assert read["StringEquals"] == {"dynamodb:Select": "SPECIFIC_ATTRIBUTES"}
    assert "status" in read["ForAllValues:StringEquals"]["dynamodb:Attributes"]
    own = by_action[str(["dynamodb:GetItem", "dynamodb:PutItem"])]["Condition"]
    assert own == {"ForAllValues:StringEquals": {"dynamodb:LeadingKeys": [f"MIGRATION#{NAME}"]}}
    assert {one["Effect"] for one in policy} == {"Allow"}
    assert "MigrationRoleArn" in synthesised()["Outputs"]
    config = json.loads(synthesised()["Outputs"]["StageConfig"]["Value"])
    assert config["row_layout"] == 2
