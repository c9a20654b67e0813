"""Finds a document's faults by the JSON Schemas of docs/contracts."""

import json
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from tests.world.contracts import CONTRACTS, EVENT, OUTCOME, PAYOUT_EVENT, PAYRUN_EVENT

__all__ = [
    "CIRCUIT",
    "CONTRACTS",
    "ENTERED",
    "EVENT",
    "GLASS",
    "OUTCOME",
    "PAYOUT_EVENT",
    "PAYRUN_EVENT",
    "REQUEST",
    "RESOLVED",
    "SCHEMAS",
    "faults",
]

SCHEMAS: dict[str, Any] = {
    path.name.removesuffix(".schema.json"): json.loads(path.read_text())
    for path in CONTRACTS.glob("*.schema.json")
}
_ALL: Registry[Any] = Registry().with_resources(
    (schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS.values()
)
REQUEST = "settlement-request"
ENTERED, RESOLVED, GLASS, CIRCUIT = "limbo-entered", "limbo-resolved", "glass-broken", "kyc-circuit-changed"


def faults(name: str, document: Any) -> list[str]:
    validator = Draft202012Validator(SCHEMAS[name], registry=_ALL)
    return [error.message for error in validator.iter_errors(document)]
