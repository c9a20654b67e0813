"""Rows without personal data, for a report that leaves the company.

It works by lists of allowed attributes, so a new attribute stays hidden.
"""

from typing import Any

from settlement.core.ledger.keys import Row

LEFT_OUT = "[left out]"

SHOWN = frozenset(
    {
        *("pk", "sk", "gsi1pk", "gsi1sk", "step", "posted_at", "expires_at", "expired"),
        *("payer", "payee", "amount", "fee", "currency", "deadline_seconds", "status", "escrow"),
        *("debit", "credit", "side", "account", "key", "case", "order"),
        *("hold_at", "verify_at", "release_at", "fee_at"),
        *("fee_reversed_at", "release_reversed_at", "hold_reversed_at"),
        *("owner", "owner_epoch", "claimed_at", "deadline_at", "deadline_extended_at", "in_flight_since"),
        *("recover_at", "expired_at", "finished_at", "names_erased_at", "sequence", "checks"),
        *("verdict", "failure", "reversed_for", "stuck_step", "resolutions", "resolution", "error"),
        *(
            "parts",
            "reversals_in_part",
            "layout",
            "reversed_in_part",
            "covered",
            "decision",
            "decided_at",
            "provider",
            "break_glass",
            "by_way",
            "waits",
            "answered",
        ),
        *("proposal_number", "part", "proposed_at", "valid_until", "withdrawn_at", "needed", "approvals"),
    }
)
"""Attributes of a settlement without a person, a reason or a name from the provider."""

PERSONS = frozenset({"by", "proposed_by", "approved_by", "withdrawn_by"})
"""Attributes with ARNs, separated by spaces. Only the ARNs' account and role are shown."""


def redacted(row: Row, shown: frozenset[str] = SHOWN) -> Row:
    return {name: _value(name, value, shown) for name, value in row.items()}


def _value(name: str, value: Any, shown: frozenset[str]) -> Any:
    if name in PERSONS and isinstance(value, str):
        return " ".join(map(_person, value.split(" ")))
    if name not in shown:
        return {"members": LEFT_OUT} if isinstance(value, dict) else LEFT_OUT
    return redacted(value, shown) if isinstance(value, dict) else value


def _person(arn: str) -> str:
    """Return an ARN without its last part: a session's or IAM user's name."""
    if not arn:
        return ""
    kind, slash, _ = arn.rpartition("/")
    return f"{kind}/{LEFT_OUT}" if slash and kind.startswith("arn:") else LEFT_OUT
