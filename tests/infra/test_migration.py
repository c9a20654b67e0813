import json

import pytest

from infra import layouts
from infra.config import STAGES
from settle.migrations.rows import MIGRATIONS
from settlement.core.model.layout import NEWEST
from tests.infra.stack import changed, changed_template

NAME = "parts-by-name"
MIGRATING = {"migration": NAME, "row_layout": 2}


def test_settings_and_functions_know_the_same_row_layouts() -> None:
    assert layouts.LAYOUTS == NEWEST
    assert {name: one.attributes for name, one in MIGRATIONS.items()} == layouts.MIGRATIONS


@pytest.mark.parametrize("stage", STAGES)
def test_no_stage_migrates_or_has_a_second_row_layout(stage: str) -> None:
    assert (STAGES[stage].migration, STAGES[stage].row_layout) == (None, 1)


def test_the_migration_role_writes_only_layout_attributes_of_settlements() -> None:
    (policy,) = (
        found["Properties"]["PolicyDocument"]["Statement"]
        for name, found in changed(**MIGRATING).items()
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
    outputs = changed_template(**MIGRATING)["Outputs"]
    assert "MigrationRoleArn" in outputs
    assert json.loads(outputs["StageConfig"]["Value"])["row_layout"] == 2
