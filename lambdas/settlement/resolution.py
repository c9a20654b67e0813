"""What a person orders about a settlement, checked: the only way from JSON into the domain."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from settlement.errors import InvalidRequest
from settlement.status import Status

TEXT_LENGTH_MAX = 500
"""Characters of a reason, and of the name of who gives it."""

_OPEN_TO_ORDERS = (Status.SETTLED, Status.PROCESSING)


class Decision(StrEnum):
    """How a settlement may leave LIMBO."""

    RETRY = "retry"
    """Try the stuck reversal again, after its cause was removed."""

    WRITE_OFF = "write-off"
    """Cover the stuck amount from the losses and reverse the rest: the payer is whole, the payee keeps it."""

    COMPLETE = "complete"
    """Accept what was released, and finish: the payee keeps it, the escrow's rest is the fee."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """What a person asks for: why, and who they are."""

    reason: str
    by: str

    def record(self) -> dict[str, str]:
        """The order as attributes of its journal entry."""
        return {"reason": self.reason, "by": self.by}


@dataclass(frozen=True, kw_only=True)
class Reversal(Order):
    """An order to reverse a settlement that was `seen` SETTLED, or PROCESSING with nobody to drive it."""

    seen: Status = Status.SETTLED

    def __post_init__(self) -> None:
        """Refuse what no order may be given on: above all LIMBO, which only a decision leaves."""
        if self.seen not in _OPEN_TO_ORDERS:
            raise InvalidRequest(f"reversal.seen: must be {' or '.join(_OPEN_TO_ORDERS)}, or be left out")


@dataclass(frozen=True, kw_only=True)
class Resolution(Order):
    """An order that settles a case of LIMBO: the one with this number, else the one that is open."""

    decision: Decision
    case: int | None = None

    def record(self) -> dict[str, str]:
        """The decision as attributes of its journal entry, whose name has the case's number."""
        return super().record() | {"decision": self.decision.value}

    def is_on(self, entry: Mapping[str, object]) -> bool:
        """Whether this decision, by this person for this reason, is what an entry has on record."""
        return self.record().items() <= entry.items()


def parse_reversal(raw: object) -> Reversal:
    """Check an order to reverse a settlement. Raises InvalidRequest, naming what is wrong with it."""
    if not isinstance(raw, dict):
        raise InvalidRequest("reversal: must be a JSON object with reason and by")
    reason, by = (_text(raw, "reversal", name) for name in ("reason", "by"))
    seen = raw.get("seen", Status.SETTLED)
    return Reversal(reason=reason, by=by, seen=Status(seen) if seen in list(Status) else seen)


def parse_resolution(raw: object) -> Resolution:
    """Check a resolution. Raises InvalidRequest, naming what is wrong with it."""
    if not isinstance(raw, dict):
        raise InvalidRequest("resolution: must be a JSON object with decision, reason and by")
    decision, case = raw.get("decision"), raw.get("case")
    reason, by = (_text(raw, "resolution", name) for name in ("reason", "by"))
    if decision not in list(Decision):
        raise InvalidRequest(f"resolution.decision: must be one of {', '.join(Decision)}")
    if not (case is None or (type(case) is int and case > 0)):
        raise InvalidRequest("resolution.case: must be the number of a case, or be left out")
    return Resolution(reason=reason, by=by, decision=Decision(decision), case=case)


def _text(raw: dict[str, object], what: str, name: str) -> str:
    text = raw.get(name)
    if not (isinstance(text, str) and text.strip() and len(text) <= TEXT_LENGTH_MAX and text.isprintable()):
        raise InvalidRequest(
            f"{what}.{name}: must be one line of at most {TEXT_LENGTH_MAX} printable characters, not blank"
        )
    return text.strip()
