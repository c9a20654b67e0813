"""Refuses persons on a sanction list in this file, without a network. A new list needs a deployment."""

from settlement.checks.check import Answer, Approve, Check, Payment, Refuse, Tools

LISTED = frozenset({"mallory", "eve"})
VERSION = "2026-11-01"


def ask(payment: Payment, token: str, tools: Tools) -> Answer:
    names = (payment.payer, payment.payee, payment.payer_name or "", payment.payee_name or "")
    found = sorted(LISTED & {name.casefold().strip() for name in names})
    return Refuse("listed", {"list": VERSION}) if found else Approve({"list": VERSION})


CHECK = Check(name="sanctions", refusals=("listed",), ask=ask)
