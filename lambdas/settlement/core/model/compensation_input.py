import re
from collections.abc import Mapping
from dataclasses import dataclass

from settlement.core.model.errors import InvalidRequest
from settlement.core.model.orders import REVERSE
from settlement.core.model.request import parse_settlement
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig

_NAMELESS = {"reversal", "resolution"}
"""Refused fields: an order's content, which anyone who may start the machine could forge."""

_DECIDED = re.compile(r"resolve:([1-9][0-9]{0,8})", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A failure that starts a compensation, in Step Functions' form (`Error`, `Cause`).

    `owner` is the execution that must own the settlement. None: any execution may own it.
    """

    error: Mapping[str, str]
    owner: str | None


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A recorded decision that is not yet announced."""

    case: int


@dataclass(frozen=True, kw_only=True)
class CompensationInput:
    """A settlement, and the cause of its compensation.

    - `cause`: None if the compensation has begun already, or on a person's order.
    - `unannounced_case`: a closed case that the returning execution must still announce.
    """

    settlement: Settlement
    cause: Failure | Decided | None
    unannounced_case: int | None = None


def parse_compensation(raw: object, config: StageConfig) -> CompensationInput:
    """Parse the input of the compensating machine. Raises InvalidRequest.

    If the execution returns to BeginCompensation, the input is its state, which has a `case`.
    """
    if not isinstance(raw, dict):
        raise InvalidRequest("input: must be a JSON object with a settlement")
    settlement = parse_settlement(raw.get("settlement"), config)
    if "case" in raw:
        waited = raw["case"] if type(raw["case"]) is int and "notice" not in raw else None
        return CompensationInput(settlement=settlement, cause=None, unannounced_case=waited)
    if raw.keys() & _NAMELESS:
        raise InvalidRequest("input: must have no order but the name of one on record")
    if "error" in raw and "order" in raw:
        raise InvalidRequest("input: must have one of error and order at most")
    cause: Failure | Decided | None = None
    if "error" in raw:
        cause = _parse_failure(raw)
    elif "order" in raw:
        cause = _parse_order(raw["order"])
    return CompensationInput(settlement=settlement, cause=cause)


def _parse_order(name: object) -> Decided | None:
    if name == REVERSE:
        return None
    found = _DECIDED.fullmatch(name) if isinstance(name, str) else None
    if found is None:
        raise InvalidRequest(f"order: must be {REVERSE}, or resolve: and the number of a case")
    return Decided(case=int(found[1]))


def _parse_failure(raw: dict[str, object]) -> Failure:
    error, owner = raw["error"], raw.get("owner")
    if not (owner is None or (isinstance(owner, str) and owner.isprintable())):
        raise InvalidRequest("owner: must be the name of an execution")
    if not (isinstance(error, dict) and isinstance(error.get("Error"), str)):
        error = {"Error": "CompensationRequested", "Cause": "no error was given"}
    return Failure(error=error, owner=owner)
