"""The synthesised templates, made once: tests use the real stack's table and configuration."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk.assertions import Template

from app import build

PROJECT = Path(__file__).parents[2]

REACHED = {"prod": {"page_address": "oncall@example.com", "runbooks": "https://runbooks.example.com"}}
"""Arguments of stages that require addresses for pages and runbooks."""


@cache
def template(stage: str = "dev") -> Template:
    given = _context() | REACHED.get(stage, {}) | {"stage": stage}
    return Template.from_stack(build(cdk.App(context=given)))


def resources(resource_type: str, stage: str = "dev") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_found(resource_type, stage))
    return found


@cache
def kind(logical_id: str, stage: str = "dev") -> str:
    found: str = template(stage).to_json()["Resources"][logical_id]["Type"]
    return found


@cache
def table_definition() -> dict[str, Any]:
    (table,) = resources("AWS::DynamoDB::Table").values()
    properties = table["Properties"]
    kept = ("KeySchema", "AttributeDefinitions", "GlobalSecondaryIndexes", "BillingMode")
    return {name: properties[name] for name in kept}


@cache
def _found(resource_type: str, stage: str) -> str:
    return json.dumps(template(stage).find_resources(resource_type))


def _context() -> dict[str, Any]:
    context: dict[str, Any] = json.loads((PROJECT / "cdk.json").read_text())["context"]
    return context | {"kyc_url": "https://kyc.example.com"}
