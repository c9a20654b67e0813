"""A person's orders about a settlement, and the text and the fields that every order of a person has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from settlement.core.model.errors import InvalidRequest
from settlement.core.model.request import KEY, unknown_fields
from settlement.core.model.status import Status

TEXT_LENGTH_MAX = 500
"""Most characters of a reason, of a person's name, and of a reference."""

REVERSE = "reverse"
"""The order to reverse a whole settlement."""

REVERSAL_REQUESTED = "ReversalRequested"
"""The error of a settlement that is reversed by a person's order."""

CASES_MAX = 10**9
"""The highest number of a case, or of a part, that an order may name."""

_REVERSIBLE_ON_ORDER = (Status.SETTLED, Status.PROCESSING)


class Decision(StrEnum):
    """The ways out of LIMBO."""

    RETRY = "retry"
    """Try the stuck reversal again, after its cause was removed."""

    WRITE_OFF = "write-off"
    """Cover the stuck amount from the losses and reverse the rest: the payer is whole, the payee keeps it."""

    COMPLETE = "complete"
    """Accept the release and finish: the payee keeps the net amount, the rest of the escrow is the fee."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """A person's order: the reason, and who gives it.

    `by` is the ARN that AWS has proven, and `proof` has what else is known of the caller and the request.
    Two tries of one order differ in their proofs alone.
    """

    reason: str
    by: str
    proof: Mapping[str, str] = field(default_factory=dict, compare=False)

    def record(self) -> dict[str, str]:
        """Return the order as the settlement's row has it."""
        return {"reason": self.reason, "by": self.by}

    def evidence(self) -> dict[str, str]:
        """Return the order as attributes of its evidence."""
        return {**self.record(), **self.proof}


@dataclass(frozen=True, kw_only=True)
class Reversal(Order):
    """An order to reverse a settlement, if it still has the status in which the person saw it.

    `expected_status` is SETTLED, or PROCESSING for one that has stalled.
    """

    expected_status: Status = Status.SETTLED

    def __post_init__(self) -> None:
        """Refuse every other status, above all LIMBO, which only a decision leaves."""
        if self.expected_status not in _REVERSIBLE_ON_ORDER:
            raise InvalidRequest(
                f"expected_status: must be {' or '.join(_REVERSIBLE_ON_ORDER)}, or be left out"
            )


@dataclass(frozen=True, kw_only=True)
class Resolution(Order):
    """An order that closes the case of LIMBO with the number `case`."""

    decision: Decision
    case: int

    def record(self) -> dict[str, str]:
        """Return the decision as the settlement's row has it, beside the number of closed cases."""
        return super().record() | {"decision": self.decision.value}

    def is_on(self, entry: Mapping[str, object]) -> bool:
        """Return whether an entry has this decision on record, for this reason; the first person stays."""
        return (entry["decision"], entry["reason"]) == (self.decision, self.reason)


def order_name(case: int) -> str:
    """Return the name of the decision on a case: that of its evidence, and what wakes a machine."""
    return f"resolve:{case}"


def one_line(text: object, name: str) -> str:
    """Return a person's text without blanks at its ends. Raises InvalidRequest, naming the field."""
    if not (isinstance(text, str) and text.strip() and len(text) <= TEXT_LENGTH_MAX and text.isprintable()):
        raise InvalidRequest(
            f"{name}: must be one line of at most {TEXT_LENGTH_MAX} printable characters, not blank"
        )
    return text.strip()


def fields_of(raw: object, names: Sequence[str], optional: Sequence[str] = ()) -> dict[str, Any]:
    """Return a JSON object with these fields and no others, among them a well-formed key."""
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
    """Return whether a value is a well-formed key of a settlement."""
    return isinstance(value, str) and KEY.fullmatch(value) is not None
