"""Checks each JSON document on the docs' pages against the contract of its kind."""

from collections.abc import Callable
from typing import Any

import botocore.session
import jsonschema_rs
import yaml

from settlement.core.model.compensation_input import parse_compensation
from settlement.core.model.request import KEY
from settlement.core.model.status import Status
from tests.unit.vectors import CONFIG
from tests.world.contracts import CONTRACTS, checked_event, schema


def of_openapi(contract: str, name: str) -> Callable[[Any], None]:
    """Return a check of documents against a named schema of an OpenAPI contract."""
    whole = yaml.safe_load((CONTRACTS / f"{contract}.openapi.yaml").read_text())
    outcome = schema("settlement-outcome")
    registry = jsonschema_rs.Registry(
        [(f"file:///{contract}", whole), ("file:///settlement-outcome.schema.json", outcome)],
        draft=jsonschema_rs.Draft202012,
    )
    validator = jsonschema_rs.validator_for(
        {"$ref": f"file:///{contract}#/components/schemas/{name}"}, registry=registry
    )
    return validator.validate


def request(found: Any) -> None:
    jsonschema_rs.validator_for(schema("settlement-request")).validate(found)


def part_of_a_request(found: Any) -> None:
    """Check an excerpt of a request, because pages show some optional fields alone."""
    whole = {"key": "order-2026-000101", "payer": "a", "payee": "b", "amount": "1.00", "currency": "EUR"}
    request(whole | found)


def policy(found: Any) -> None:
    services = {"states": "stepfunctions", "sqs": "sqs"}
    for statement in found["Statement"]:
        service, action = statement["Action"].split(":")
        model = botocore.session.get_session().get_service_model(services[service])
        assert action in model.operation_names
    assert found["Version"] == "2012-10-17"


def pattern(found: Any) -> None:
    """Check an EventBridge pattern that selects our events (docs/calling/events.md)."""
    assert found.keys() == {"source", "detail"}
    assert found["detail"].keys() == {"data"}
    assert {*found["detail"]["data"]["status"]} <= {*Status}


def task(found: Any) -> None:
    """Check the Task by which another state machine starts the Standard machine."""
    given = {name.removesuffix(".$") for name in found["Parameters"]["Input"]}
    known = schema("settlement-request")
    assert (
        {*known["required"]} <= given <= {*known["properties"], "AWS_STEP_FUNCTIONS_STARTED_BY_EXECUTION_ID"}
    )


def payout(found: Any) -> None:
    """Check an input of a state machine that makes a payout."""
    assert found.keys() == {"payout"}
    of_openapi("settlements", "PayoutRequest")(found["payout"])


def key_alone(found: Any) -> None:
    """Check a state machine's input that only names a reserved payout's key."""
    assert found.keys() == {"key"}
    assert KEY.fullmatch(found["key"])


def compensation(found: Any) -> None:
    parse_compensation(found, CONFIG)


KINDS: dict[str, Callable[[Any], object]] = {
    "specversion": checked_event,
    "Statement": policy,
    "detail": pattern,
    "entries": of_openapi("settlements", "Journal"),
    "order": of_openapi("orders", "AccountOrder"),
    "payer": request,
    "metadata": part_of_a_request,
    "Parameters": task,
    "payout": payout,
    "key": key_alone,
}
"""Checks of documents: the first of these fields that a document has selects its check."""


def check_document(found: dict[str, Any]) -> None:
    compensates = found.keys() & {"settlement"}
    kind = compensation if compensates else next((KINDS[name] for name in KINDS if name in found), None)
    assert kind, f"no contract for a document with {sorted(found)}: add its kind to KINDS"
    kind(found)
