"""The synthesised templates, made once: tests use the real stack's table and configuration."""

import hashlib
import json
import os
import sys
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk.assertions import Template

PROJECT = Path(__file__).parents[2]

CACHE = PROJECT / ".cache" / "templates"
SOURCES = ("app.py", "cdk.json", "docs/runbooks/alarms.md", "infra", "lambdas", "statemachines")
"""Files and folders that a synthesis reads."""

REACHED = {"prod": {"page_address": "oncall@example.com", "runbooks": "https://runbooks.example.com"}}
"""Context of stages that require an address for alerts and one for runbooks."""


def app(outdir: str | None = None, **context: Any) -> cdk.App:
    """Return an app that synthesises the same templates in two thirds of the usual time."""
    spared = {"aws:cdk:disable-asset-staging": True, "aws:cdk:disable-creation-stack-traces": True}
    return cdk.App(context=spared | context, outdir=outdir, stack_traces=False, tree_metadata=False)


def template(stage: str = "dev") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_text(stage))
    return found


def resources(resource_type: str, stage: str = "dev") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_found(resource_type, stage))
    return found


@cache
def kind(logical_id: str, stage: str = "dev") -> str:
    found: str = template(stage)["Resources"][logical_id]["Type"]
    return found


@cache
def table_definition() -> dict[str, Any]:
    (table,) = resources("AWS::DynamoDB::Table").values()
    properties = table["Properties"]
    kept = ("KeySchema", "AttributeDefinitions", "GlobalSecondaryIndexes", "BillingMode")
    return {name: properties[name] for name in kept}


@cache
def _found(resource_type: str, stage: str) -> str:
    every = template(stage)["Resources"].items()
    return json.dumps({name: one for name, one in every if one["Type"] == resource_type})


@cache
def _text(stage: str) -> str:
    """Return a stage's template, synthesised once for all processes and runs on the same sources."""
    file = CACHE / f"{stage}-{_sources()}.json"
    if not file.exists():
        from app import build  # noqa: PLC0415 (the CDK takes seconds to import)

        given = _context() | REACHED.get(stage, {}) | {"stage": stage}
        text = json.dumps(Template.from_stack(build(app(**given))).to_json())
        CACHE.mkdir(parents=True, exist_ok=True)
        for old in CACHE.glob(f"{stage}-*.json"):
            old.unlink(missing_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=CACHE, delete=False) as written:
            written.write(text)
        os.replace(written.name, file)
    return file.read_text()


@cache
def _sources() -> str:
    digest = hashlib.sha256(f"{version('aws-cdk-lib')} {sys.version}".encode())
    for name in SOURCES:
        found = sorted((PROJECT / name).rglob("*")) if (PROJECT / name).is_dir() else [PROJECT / name]
        for file in found:
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(f"{file.relative_to(PROJECT)}\0{file.stat().st_mode}\0".encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()[:32]


def _context() -> dict[str, Any]:
    context: dict[str, Any] = json.loads((PROJECT / "cdk.json").read_text())["context"]
    return context | {"kyc_url": "https://kyc.example.com"}
