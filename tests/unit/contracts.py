"""The published contracts: the JSON Schemas of docs/contracts, and what they have against a document."""

import json
from typing import Any

from jsonschema import Draft202012Validator

from tests.support.templates import PROJECT

CONTRACTS = PROJECT / "docs" / "contracts"
SCHEMAS: dict[str, Any] = {
    path.name.removesuffix(".schema.json"): json.loads(path.read_text())
    for path in CONTRACTS.glob("*.schema.json")
}
REQUEST, OUTCOME = "settlement-request", "settlement-outcome"
ENTERED, RESOLVED, CIRCUIT = "limbo-entered", "limbo-resolved", "kyc-circuit-changed"


def faults(name: str, document: Any) -> list[str]:
    """What a contract has against a document."""
    validator = Draft202012Validator(SCHEMAS[name])
    return [error.message for error in validator.iter_errors(document)]
