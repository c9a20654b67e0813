"""The published contracts, and the check of each outcome that a test receives."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs

CONTRACTS = Path(__file__).parents[2] / "docs" / "contracts"
OUTCOME = "settlement-outcome"

_OUTCOME = jsonschema_rs.validator_for(json.loads((CONTRACTS / f"{OUTCOME}.schema.json").read_text()))


def checked_outcome(outcome: Any) -> Any:
    """Return an outcome that keeps its published contract. Raises AssertionError for any other."""
    if not _OUTCOME.is_valid(outcome):
        faults = [f"{fault.instance_path}: {fault.message}" for fault in _OUTCOME.iter_errors(outcome)]
        raise AssertionError(f"{outcome} breaks the contract of an outcome: {'; '.join(faults)}")
    return outcome
