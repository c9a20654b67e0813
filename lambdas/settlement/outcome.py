"""What a caller is told about a settlement: the output of the state machines and of `settle status`."""

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from settlement import money
from settlement.rows import Row
from settlement.status import Step
from settlement.terms import Terms

ERROR_LENGTH_MAX, CAUSE_LENGTH_MAX = 100, 500
"""Characters of an error's name and of its cause that are kept: an outcome has a bounded size."""


def of_settlement(key: str, row: Row, terms: Terms, *, replayed: bool) -> dict[str, Any]:
    """The outcome contract, from the settlement's row. `replayed`: this call did not drive the settlement."""
    exponent = terms.currencies[row["currency"]]
    return {
        "key": key,
        "status": str(row["status"]),
        "payer": row["payer"],
        "payee": row["payee"],
        "amount": money.render(row["amount"], exponent),
        "fee": money.render(row["fee"], exponent),
        "currency": row["currency"],
        "escrow": money.render(row["escrow"], exponent),
        "steps": [step.value for step in Step if step in row.get("steps", ())],
        "reversed": sorted(row.get("reversed", ())),
        "failure": row.get("failure"),
        "replayed": replayed,
        "claimed_at": row["claimed_at"],
        "finished_at": row.get("finished_at"),
    }


def of_entry(entry: Row, terms: Terms) -> dict[str, str]:
    """A step's result, from its journal entry alone: the first call and every replay give the same."""
    result = {name: str(value) for name, value in entry.items() if name not in _INTERNAL}
    if "amount" in entry:
        result["amount"] = money.render(entry["amount"], terms.currencies[entry["currency"]])
    return result


def failure(step: str, error: Mapping[str, str]) -> dict[str, str]:
    """Why a settlement did not go through, from a state machine's error (`Error`, `Cause`).

    A Lambda function's cause is JSON with the exception's message; any other cause is kept as it is.
    """
    cause = error.get("Cause", "")
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        cause = json.loads(cause)["errorMessage"]
    return {
        "step": step,
        "error": _text(error["Error"])[:ERROR_LENGTH_MAX],
        "cause": _text(cause)[:CAUSE_LENGTH_MAX],
    }


def _text(value: object) -> str:
    """A value as text that can go on record; half a surrogate pair is none."""
    return str(value).encode("utf-8", "replace").decode()


_INTERNAL = frozenset({"pk", "sk", "gsi1pk", "gsi1sk", "request_hash", "side"})
