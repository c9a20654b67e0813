"""A person's orders about a settlement, checked: the only way from JSON into the domain."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from settlement.model.errors import InvalidRequest
from settlement.model.status import Status

TEXT_LENGTH_MAX = 500
"""Most characters of a reason, of a person's name, and of a reference."""

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
    """A person's order: the reason, and who gives it."""

    reason: str
    by: str

    def record(self) -> dict[str, str]:
        """Return the order as attributes of its journal entry."""
        return {"reason": self.reason, "by": self.by}


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
                f"reversal.expected_status: must be {' or '.join(_REVERSIBLE_ON_ORDER)}, or be left out"
            )


@dataclass(frozen=True, kw_only=True)
class Resolution(Order):
    """An order that closes a case of LIMBO: the one with the number `case`, or else the open one."""

    decision: Decision
    case: int | None = None

    def record(self) -> dict[str, str]:
        """Return the decision as attributes of its journal entry, whose name has the case number."""
        return super().record() | {"decision": self.decision.value}

    def is_on(self, entry: Mapping[str, object]) -> bool:
        """Return whether an entry has this decision on record, by this person and for this reason."""
        return self.record().items() <= entry.items()


def parse_reversal(raw: object) -> Reversal:
    """Check an order to reverse a settlement. Raises InvalidRequest, naming the field at fault."""
    if not isinstance(raw, dict):
        raise InvalidRequest("reversal: must be a JSON object with reason and by")
    reason, by = (_text(raw, "reversal", name) for name in ("reason", "by"))
    expected = raw.get("expected_status", Status.SETTLED)
    return Reversal(
        reason=reason, by=by, expected_status=Status(expected) if expected in list(Status) else expected
    )


def parse_resolution(raw: object) -> Resolution:
    """Check a resolution. Raises InvalidRequest, naming the field at fault."""
    if not isinstance(raw, dict):
        raise InvalidRequest("resolution: must be a JSON object with decision, reason and by")
    decision, case = raw.get("decision"), raw.get("case")
    reason, by = (_text(raw, "resolution", name) for name in ("reason", "by"))
    if decision not in list(Decision):
        raise InvalidRequest(f"resolution.decision: must be one of {', '.join(Decision)}")
    if not (case is None or (type(case) is int and case > 0)):
        raise InvalidRequest("resolution.case: must be the number of a case, or be left out")
    return Resolution(reason=reason, by=by, decision=Decision(decision), case=case)


def one_line(text: object, name: str) -> str:
    """Return a person's text without blanks at its ends. Raises InvalidRequest, naming the field."""
    if not (isinstance(text, str) and text.strip() and len(text) <= TEXT_LENGTH_MAX and text.isprintable()):
        raise InvalidRequest(
            f"{name}: must be one line of at most {TEXT_LENGTH_MAX} printable characters, not blank"
        )
    return text.strip()


def _text(raw: dict[str, object], order: str, name: str) -> str:
    return one_line(raw.get(name), f"{order}.{name}")
