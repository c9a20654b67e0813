"""The published contracts: the JSON Schemas of docs/contracts, and the faults that they find."""

import json
from typing import Any

from jsonschema import Draft202012Validator

from tests.world.contracts import CONTRACTS, OUTCOME

__all__ = ["CIRCUIT", "CONTRACTS", "ENTERED", "OUTCOME", "REQUEST", "RESOLVED", "SCHEMAS", "faults"]

SCHEMAS: dict[str, Any] = {
    path.name.removesuffix(".schema.json"): json.loads(path.read_text())
    for path in CONTRACTS.glob("*.schema.json")
}
REQUEST = "settlement-request"
ENTERED, RESOLVED, CIRCUIT = "limbo-entered", "limbo-resolved", "kyc-circuit-changed"


def faults(name: str, document: Any) -> list[str]:
    """Return the faults of a document under a contract."""
    validator = Draft202012Validator(SCHEMAS[name])
    return [error.message for error in validator.iter_errors(document)]
