"""The input of the compensating machine, checked."""

from collections.abc import Mapping
from dataclasses import dataclass

from settlement.model.errors import InvalidRequest
from settlement.model.orders import Resolution, Reversal, parse_resolution, parse_reversal
from settlement.model.request import parse_settlement
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig

_CAUSES = {"error", "reversal", "resolution"}


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A failure that stopped a settlement: `error` as Step Functions reports it (`Error`, `Cause`).

    `owner` is the execution that asks; None asks for every owner.
    """

    error: Mapping[str, str]
    owner: str | None


@dataclass(frozen=True, kw_only=True)
class CompensationInput:
    """A settlement, and the cause of its compensation.

    The cause is a failure, a person's order to reverse it, a person's resolution of a case of LIMBO, or
    None: then a compensation is resumed, by a new execution or by one that returns to its first state.
    """

    settlement: Settlement
    cause: Failure | Reversal | Resolution | None


def parse_compensation(raw: object, config: StageConfig) -> CompensationInput:
    """Check the input, or the state of an execution that returns (it has a `case`). Raises InvalidRequest."""
    if not isinstance(raw, dict):
        raise InvalidRequest("input: must be a JSON object with a settlement")
    if "case" in raw and "reversal" in raw:
        raise InvalidRequest("input: must not have a reversal if it has a case")
    causes = set() if "case" in raw else raw.keys() & _CAUSES
    if len(causes) > 1:
        raise InvalidRequest("input: must have one of error, reversal and resolution at most")
    settlement = parse_settlement(raw.get("settlement"), config)
    cause: Failure | Reversal | Resolution | None = None
    if "error" in causes:
        cause = _parse_failure(raw)
    elif "reversal" in causes:
        cause = parse_reversal(raw["reversal"])
    elif "resolution" in causes:
        cause = parse_resolution(raw["resolution"])
    return CompensationInput(settlement=settlement, cause=cause)


def _parse_failure(raw: dict[str, object]) -> Failure:
    error, owner = raw["error"], raw.get("owner")
    if not (owner is None or (isinstance(owner, str) and owner.isprintable())):
        raise InvalidRequest("owner: must be the name of an execution")
    if not (isinstance(error, dict) and isinstance(error.get("Error"), str)):
        error = {"Error": "CompensationRequested", "Cause": "no error was given"}
    return Failure(error=error, owner=owner)
