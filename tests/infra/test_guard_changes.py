import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from infra.preflight.guard import IN_PLACE, faults
from tests.world import templates
from tools.guard_changes import main

DEPLOYED: Any = templates.template("prod")
GUARDED = {name: one["Type"] for name, one in DEPLOYED["Resources"].items() if one["Type"] in IN_PLACE}
(TABLE,) = (name for name, kind in GUARDED.items() if kind == "AWS::DynamoDB::Table")
(KEY,) = (name for name, kind in GUARDED.items() if kind == "AWS::KMS::Key" and name.startswith("Ledger"))
POINT_IN_TIME = "PointInTimeRecoverySpecification"


def changed(change: Callable[[Any], Any], name: str = TABLE) -> list[str]:
    new = deepcopy(DEPLOYED)
    change(new["Resources"][name])
    return list(faults(DEPLOYED, new))


def put(**properties: Any) -> Callable[[Any], Any]:
    return lambda resource: resource["Properties"].update(properties)


def test_the_guard_covers_table_keys_journal_and_secrets() -> None:
    assert sorted(GUARDED.values()) == [
        *("AWS::DynamoDB::Table", *["AWS::KMS::Key"] * 4, "AWS::S3::Bucket"),
        *["AWS::SecretsManager::Secret"] * 3,
    ]


def test_an_unchanged_template_and_a_first_deployment_have_no_fault() -> None:
    assert list(faults(DEPLOYED, deepcopy(DEPLOYED))) == []
    assert list(faults({}, DEPLOYED)) == []


@pytest.mark.parametrize("name", GUARDED)
def test_removing_renaming_or_retyping_a_guarded_resource_is_refused(name: str) -> None:
    gone, renamed = deepcopy(DEPLOYED), deepcopy(DEPLOYED)
    del gone["Resources"][name]
    renamed["Resources"]["Other"] = renamed["Resources"].pop(name)

    for new in (gone, renamed):
        assert list(faults(DEPLOYED, new)) == [f"{name}: is removed, or has another logical id"]
    assert changed(lambda one: one.update(Type="AWS::DynamoDB::GlobalTable"), name) == [
        f"{name}: is replaced by a AWS::DynamoDB::GlobalTable"
    ]


@pytest.mark.parametrize("name", GUARDED)
def test_removing_a_resources_retention_is_refused(name: str) -> None:
    found = changed(lambda one: (one.pop("DeletionPolicy"), one.update(UpdateReplacePolicy="Delete")), name)

    assert found == [
        f"{name}.DeletionPolicy: was RetainExceptOnCreate, and becomes Delete",
        f"{name}.UpdateReplacePolicy: was Retain, and becomes Delete",
    ]


@pytest.mark.parametrize(
    ("name", "change", "fault"),
    [
        (TABLE, put(KeySchema=[]), "KeySchema: changes"),
        (TABLE, put(TableName="ledger"), "TableName: changes"),
        (TABLE, put(SSESpecification={"SSEEnabled": False}), "SSESpecification: changes"),
        (TABLE, put(DeletionProtectionEnabled=False), "DeletionProtectionEnabled: is switched off"),
        *(
            (TABLE, put(**{POINT_IN_TIME: one}), f"{POINT_IN_TIME}: is switched off")
            for one in ({}, {"PointInTimeRecoveryEnabled": False, "RecoveryPeriodInDays": 35})
        ),
        (
            TABLE,
            put(**{POINT_IN_TIME: {"PointInTimeRecoveryEnabled": True, "RecoveryPeriodInDays": 1}}),
            f"{POINT_IN_TIME}: reaches back 1 days, and not 35",
        ),
        (TABLE, lambda one: one.update(Condition="Never"), "Condition: changes"),
        (TABLE, put(GlobalSecondaryIndexes=[]), "GlobalSecondaryIndexes: gsi1 is removed"),
        (
            TABLE,
            lambda one: one["Properties"]["GlobalSecondaryIndexes"][0].update(Projection={}),
            "GlobalSecondaryIndexes: gsi1 is made anew",
        ),
        (KEY, put(KeySpec="RSA_4096"), "KeySpec: changes"),
        (KEY, put(Enabled=False), "Enabled: changes"),
        (KEY, put(EnableKeyRotation=False), "EnableKeyRotation: is switched off"),
    ],
)
def test_a_change_that_replaces_or_weakens_is_refused(
    name: str, change: Callable[[Any], Any], fault: str
) -> None:
    (found,) = changed(change, name)

    assert found.startswith(f"{name}.{fault}")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        (TABLE, put(WarmThroughput={"WriteUnitsPerSecond": 20_000})),
        (TABLE, put(TimeToLiveSpecification={"AttributeName": "expires_at", "Enabled": True})),
        (TABLE, put(Tags=[])),
        (KEY, put(KeyPolicy={"Statement": []})),
    ],
)
def test_a_harmless_change_of_a_guarded_resource_is_allowed(name: str, change: Callable[[Any], Any]) -> None:
    assert changed(change, name) == []


def test_resources_that_are_not_guarded_may_change() -> None:
    new = {"Resources": {name: DEPLOYED["Resources"][name] for name in GUARDED}}

    assert list(faults(DEPLOYED, new)) == []


def test_the_command_exits_1_for_faults_and_2_without_templates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty AWS answer or a missing file must not look like a faultless stack."""
    files = {"deployed": json.dumps(DEPLOYED), "none": '{"Resources": {}}', "broken": "", "list": "[]"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    path = {name: str(tmp_path / name) for name in (*files, "missing")}
    (tmp_path / "less").write_text(json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}))

    assert main([path["deployed"], path["deployed"]]) == 0
    assert main([path["deployed"], str(tmp_path / "less")]) == 1
    assert f"{TABLE}: is removed" in capsys.readouterr().err
    for wrong in ("none", "broken", "list", "missing"):
        assert main([path["deployed"], path[wrong]]) == 2
    for wrong in ("broken", "list", "missing"):
        assert main([path[wrong], path["deployed"]]) == 2
    assert main([]) == 2
