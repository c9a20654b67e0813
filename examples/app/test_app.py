"""Tests of the template properties on which the team relies: `pytest`."""

import json
import runpy
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

APP = Path(__file__).with_name("app.py")


@pytest.fixture(scope="module")
def resources() -> dict[str, Any]:
    made = list[Any]()
    synth = cdk.App.synth
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cdk.App, "synth", lambda app: made.append(synth(app)))
        runpy.run_path(str(APP))
    found: dict[str, Any] = made[0].get_stack_by_name("Payments").template["Resources"]
    return found


def of(resources: dict[str, Any], kind: str) -> list[Any]:
    return [one for one in resources.values() if one["Type"] == kind]


def test_the_ledger_outlives_the_stack(resources: dict[str, Any]) -> None:
    (table,) = of(resources, "AWS::DynamoDB::Table")

    assert table["UpdateReplacePolicy"] == "Retain"


def test_the_shop_starts_payments_and_reaches_no_table(resources: dict[str, Any]) -> None:
    policies = [one["Properties"] for name, one in resources.items() if name.startswith("ShopDefaultPolicy")]
    told = json.dumps(policies)

    assert "states:StartExecution" in told
    assert "dynamodb:" not in told
