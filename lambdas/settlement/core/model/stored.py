from collections.abc import Mapping
from typing import Any

from settlement.core.model.saga import REVERSIBLE, Step
from settlement.core.model.stage_config import StageConfig


class MalformedRow(ValueError):
    """A row lacks an attribute, or an attribute has a wrong type or value."""


class Stored(dict[str, Any]):
    """A row as read. A missing attribute raises MalformedRow, with the row's name."""

    def __missing__(self, name: str) -> Any:
        raise MalformedRow(f"{subject_of(self)}: has no attribute {name!r}")


def subject_of(row: Mapping[str, Any]) -> str:
    """The row's name for messages. It never contains an account."""
    name = str(row.get("pk"))
    kind = name.partition("#")[0]
    return kind if kind in _OF_ACCOUNTS else name


def sound(row: Mapping[str, Any]) -> Stored:
    """Check the type of each known attribute. Raises MalformedRow.

    A circuit's row is left to its own parser, because its times are numbers.
    """
    if row.get("pk") == "CIRCUIT":
        return Stored(row)
    for name, value in row.items():
        wanted = _TYPES.get(name, object)
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            raise MalformedRow(f"{subject_of(row)}: {name} is no {wanted.__name__}")
    for name in (name for name in _MEMBERS if name in row):
        members, kind = row[name], _MEMBERS[name]
        values = members.values() if isinstance(members, dict) else members
        if not all(isinstance(one, kind) for one in values):
            raise MalformedRow(f"{subject_of(row)}: {name} has a member that is no {kind.__name__}")
    return Stored(row)


def exponent_of(subject: str, currency: str, config: StageConfig) -> int:
    """A currency's exponent. Raises MalformedRow if the stage lacks the currency."""
    if currency not in config.currencies:
        raise MalformedRow(f"{subject}: currency is {currency!r}, which the stage does not have")
    return config.currencies[currency]


_OF_ACCOUNTS = ("ACCOUNT", "ENTRIES", "PAYOUT_DAY", "SWEPT")

_MAPS = ("failure", "reversed_for", "resolution", "metadata")
_INTEGERS = (
    *("amount", "fee", "deadline_seconds", "escrow", "owner_epoch", "resolutions", "available"),
    *("limbo_cases", "parts", "reversals_in_part", "reversed_in_part", "sequence", "layout"),
)
_TEXTS = (
    *("pk", "gsi1sk", "payer", "payee", "payer_name", "payee_name", "reference", "currency"),
    *("request_hash", "status", "owner", "verdict", "review", "stuck_step"),
    *("claimed_at", "deadline_at", "in_flight_since", "recover_at", "expired_at", "finished_at"),
    *("deadline_extended_at", "opened_at", "frozen_at", "closed_at"),
    *(step.slot for step in Step),
    *(step.reversal_slot for step in REVERSIBLE),
)
STATE_TYPES: dict[str, type] = {
    **dict.fromkeys(_INTEGERS, int),
    **dict.fromkeys(_MAPS, dict),
    **dict.fromkeys(_TEXTS, str),
    "checks": set,
}

_TYPES = STATE_TYPES | {
    **dict.fromkeys(("version", "case", "part", "needed", "approvals", "proposal_number", "expires_at"), int),
    **dict.fromkeys(
        (
            *("step", "posted_at", "debit", "credit", "side", "account", "order", "execution", "token"),
            *("decision", "reason", "by", "user_id", "request_id", "source_ip", "approved_by", "approved_in"),
            *("break_glass", "digest", "error", "cause", "provider", "last_order", "names_erased_at"),
            *("key", "seen", "proposer", "proposed_by", "proposed_at", "valid_until"),
        ),
        str,
    ),
    "folded": dict,
    **dict.fromkeys(("answered", "persons"), set),
}
"""Types of known attributes. A later release may add some."""

_MEMBERS: dict[str, type] = {**dict.fromkeys((*_MAPS, "answered", "checks", "persons"), str), "folded": int}
