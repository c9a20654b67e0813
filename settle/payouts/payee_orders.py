from collections.abc import Mapping
from datetime import datetime
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.order import check_order, give
from settle.payouts import payee
from settle.payouts.payout import masked
from settle.stack import Stack
from settlement.payouts.destination import parse_destination
from settlement.payouts.iban import is_iban

_OWN_PAPERS = {"account": "<ACCOUNT>", "iban": "<IBAN>", "holder": "<HOLDER>"}
"""Placeholders. The other person must type the data from the payee's own papers, not paste them."""


def typed_iban(text: str) -> str:
    """Return the IBAN without blanks. Raises CommandFailed for an invalid IBAN."""
    found = "".join(text.split())
    if not is_iban(found):
        raise CommandFailed(Exit.USAGE, "iban: must be an IBAN in capitals; check its digits")
    return found


def add(stack: Stack, given: Mapping[str, str]) -> dict[str, Any]:
    """Add a bank account; return it as recorded, with the other person's command. Safe to repeat."""
    order = dict(given)
    check_order(lambda raw, _: parse_destination(raw), order)
    answer = give(stack, "add-payee", order)
    command = stack.command("payee confirm", given["id"], **_OWN_PAPERS)
    return answer | {"iban": masked(given["iban"]), "confirm": command}


def confirm(stack: Stack, typed: dict[str, str], now: datetime) -> dict[str, Any]:
    """Confirm the bank account that another person has added; return it. Safe to repeat.

    `typed` has the fields of the order. Raises CommandFailed, and MalformedRow before anything is confirmed.
    """
    found = payee.show(stack, typed["id"], now)
    answer = give(stack, "confirm-payee", typed)
    kept = ("id", "account", "iban", "holder", "added_by", "added_at", "reason")
    return {one: found[one] for one in kept if one in found} | answer


def freeze(stack: Stack, name: str) -> dict[str, Any]:
    """Stop payouts to a bank account. Safe to repeat."""
    return give(stack, "freeze-payee", {"id": name})
