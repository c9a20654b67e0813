import json
from dataclasses import replace
from functools import cache
from typing import Any

from aws_cdk import App
from aws_cdk.assertions import Template

from infra.config import settings_of
from infra.settlement_stack import SettlementStack
from tests.infra.stack import FUNCTIONS, context, readable, template
from tests.infra.stack import name as name_of
from tests.world import templates
from tools.guard_changes import faults

NAME, LABEL = "settlement-prod-restored", "2026-11-23T06:00:00.000"
ARN = f"arn:${{AWS::Partition}}:dynamodb:${{AWS::Region}}:${{AWS::AccountId}}:table/{NAME}"
OWN = "LedgerTable"


@cache
def synthesised() -> Any:
    settings = replace(settings_of(context("prod")), restored_table=NAME, restored_stream=LABEL)
    flags = json.loads((templates.PROJECT / "cdk.json").read_text())["context"]
    stack = SettlementStack(App(context=flags | {"stage": "prod"}), settings=settings)
    return Template.from_stack(stack).to_json()


@cache
def restored() -> dict[str, Any]:
    return {name_of(one): readable(found) for one, found in synthesised()["Resources"].items()}


def of_kind(kind: str) -> dict[str, Any]:
    return {one: found for one, found in restored().items() if found["Type"] == f"AWS::{kind}"}


def test_nothing_points_to_the_stacks_own_table() -> None:
    pointing = [one for one, found in restored().items() if f"${{{OWN}" in json.dumps(found) and one != OWN]

    assert pointing == []
    assert f"${{{OWN}" in json.dumps(template("prod"))
    assert readable(synthesised()["Outputs"]["TableName"]["Value"]) == NAME


def test_the_stacks_own_table_and_key_stay_unchanged() -> None:
    """So neither the restore nor its end deletes or makes a table, and the guard accepts both."""
    deployed = templates.template("prod").to_json()

    for one in (OWN, "LedgerKey"):
        assert restored()[one] == template("prod")[one]
    assert list(faults(deployed, synthesised())) == []
    assert list(faults(synthesised(), deployed)) == []


def test_each_function_settles_on_the_restored_table() -> None:
    functions = of_kind("Lambda::Function")

    for one in FUNCTIONS:
        assert functions[one]["Properties"]["Environment"]["Variables"]["TABLE_NAME"] == NAME


def test_the_readers_of_the_stream_read_the_restored_ones() -> None:
    def streams(found: Any) -> list[str]:
        arns = (one["Properties"]["EventSourceArn"] for one in found.values() if "Mapping" in one["Type"])
        return [arn for arn in arns if "dynamodb" in arn or "StreamArn" in arn]

    assert set(streams(restored())) == {f"{ARN}/stream/{LABEL}"}
    assert len(streams(restored())) == len(streams(template("prod"))) > 0


def test_each_role_has_the_same_rights_on_the_restored_table() -> None:
    """The key is the same: rows are restored under their table's key."""
    of_the_own = {
        f"${{{OWN}.StreamArn}}": f"{ARN}/stream/{LABEL}",
        f"${{{OWN}.Arn}}": ARN,
        f"${{{OWN}}}": NAME,
    }

    for one, found in template("prod").items():
        if found["Type"] not in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy"):
            continue
        wanted = json.dumps(found)
        for own, other in of_the_own.items():
            wanted = wanted.replace(own, other)
        assert restored()[one] == json.loads(wanted)
