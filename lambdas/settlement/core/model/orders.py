from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from settlement.core.model.errors import InvalidRequest
from settlement.core.model.request import KEY, unknown_fields
from settlement.core.model.status import Status

TEXT_LENGTH_MAX = 500
"""Maximum characters of a reason, a person's name or a reference."""

REVERSE = "reverse"

REVERSAL_REQUESTED = "ReversalRequested"
"""Error name of a settlement reversed on order."""

CASES_MAX = 10**9
"""Highest number of a case or part in an order."""

_REVERSIBLE_ON_ORDER = (Status.SETTLED, Status.PROCESSING)


class Decision(StrEnum):
    """The ways out of LIMBO."""

    RETRY = "retry"
    """Reverse again, after the cause was removed."""

    WRITE_OFF = "write-off"
    """The payee keeps the stuck amount, and the losses account pays for it. The rest is reversed."""

    COMPLETE = "complete"
    """The payee keeps the net amount; the rest of the escrow becomes the fee."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """A person's order. `by` is the person's ARN, proven by AWS.

    `proof` describes the caller and the request. It may differ between tries.
    """

    reason: str
    by: str
    proof: Mapping[str, str] = field(default_factory=dict, compare=False)

    def record(self) -> dict[str, str]:
        return {"reason": self.reason, "by": self.by}

    def evidence(self) -> dict[str, str]:
        return {**self.record(), **self.proof}


@dataclass(frozen=True, kw_only=True)
class Reversal(Order):
    """An order to reverse a settlement. `expected_status` is the status that the person saw.

    PROCESSING is for a stalled settlement.
    """

    expected_status: Status = Status.SETTLED

    def __post_init__(self) -> None:
        if self.expected_status not in _REVERSIBLE_ON_ORDER:
            raise InvalidRequest(
                f"expected_status: must be {' or '.join(_REVERSIBLE_ON_ORDER)}, or be left out"
            )


@dataclass(frozen=True, kw_only=True)
class Resolution(Order):
    decision: Decision
    case: int

    def record(self) -> dict[str, str]:
        return super().record() | {"decision": self.decision.value}

    def is_on(self, entry: Mapping[str, object]) -> bool:
        return (entry["decision"], entry["reason"]) == (self.decision, self.reason)


def order_name(case: int) -> str:
    """Name of the order that decides a case. The evidence and the machine's input have it."""
    return f"resolve:{case}"


def one_line(text: object, name: str) -> str:
    """Check and trim `text`. Raises InvalidRequest, naming the field."""
    if not (isinstance(text, str) and text.strip() and len(text) <= TEXT_LENGTH_MAX and text.isprintable()):
        raise InvalidRequest(
            f"{name}: must be one line of at most {TEXT_LENGTH_MAX} printable characters, not blank"
        )
    return text.strip()


def fields_of(raw: object, names: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
    """Check an order's fields. Raises InvalidRequest."""
    if not isinstance(raw, dict):
        raise InvalidRequest(f"order: must be a JSON object with {', '.join(names)}")
    problems = [*unknown_fields(raw.keys(), names)]
    problems += [f"{name}: missing" for name in names if name not in raw and name not in optional]
    key = raw.get("key")
    if "key" in raw and not is_key(key):
        problems.append(f"key: must be a string that matches ^{KEY.pattern}$")
    if problems:
        raise InvalidRequest("; ".join(sorted(problems)))
    return raw


def is_key(value: object) -> bool:
    return isinstance(value, str) and KEY.fullmatch(value) is not None
