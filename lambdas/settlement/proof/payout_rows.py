"""Parsers of payouts' rows. Each raises MalformedRow, even for a key that contradicts the row's content."""

import base64
import hashlib
import re
from collections.abc import Mapping

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import accounts
from settlement.core.model.request import ACCOUNT, KEY
from settlement.core.model.settlement import hash_of
from settlement.core.model.stored import MalformedRow
from settlement.http.caller import person_of
from settlement.proof import values
from settlement.proof.facts import (
    BankLineFacts,
    ConfirmedFacts,
    DestinationFacts,
    EntryFacts,
    FrozenFacts,
    PaidToFacts,
    PayoutCaseFacts,
    PayoutEntryFacts,
    PayoutFacts,
    PayoutLineFacts,
    PayoutReferenceFacts,
    ReservedFacts,
)

RESERVE, PAY, REFUSE, RETURN, GIVE_BACK = (
    f"payout-{move}" for move in ("reserve", "pay", "refuse", "return", "give-back")
)
_ACCOUNT, _TRANSIT, _EXTERNAL, _SUSPENSE = "account", "transit", "external", "suspense"
MOVED: Mapping[str, frozenset[tuple[str, str]]] = {
    RESERVE: frozenset({(_ACCOUNT, _TRANSIT)}),
    PAY: frozenset({(_TRANSIT, _EXTERNAL)}),
    REFUSE: frozenset({(_TRANSIT, _ACCOUNT)}),
    RETURN: frozenset({(_EXTERNAL, _ACCOUNT), (_EXTERNAL, _SUSPENSE)}),
    GIVE_BACK: frozenset({(_SUSPENSE, _ACCOUNT)}),
}
"""Kinds of account that each step debits and credits, independent of the writers' table."""

OF_PAYOUT = keys.payout("")["pk"]
VERDICTS = frozenset({"paid", "not-paid", "ask", "give-back", "close"})
OF_RETURN = "#RETURN"
_DECIDED = ("case", "digest", "verdict", "reason", "by")
DECIDED = (*_DECIDED, "approved_by", "approved_at")
_MAY_HAVE, _YES = ("account", "contradicts"), "yes"


def check_sides(step: str, debit: str, credit: str, side: str, currency: str) -> None:
    """Check an entry's accounts. If one side is a customer's account, the entry must belong to it."""
    moved = _kind(debit, currency), _kind(credit, currency)
    if moved not in MOVED[step] or side != ("debit" if moved[0] == _ACCOUNT else "credit"):
        raise MalformedRow(f"a {step} moves money from {debit} to {credit}")


def entry(row: Row, told: EntryFacts) -> PayoutEntryFacts:
    """Parse a payout's entry. `told` has the facts that every entry has."""
    if (told.step == RESERVE) != ("paid_to" in row):
        raise MalformedRow("only a reservation names the bank account, as paid_to")
    paid_to = _sha256(row, "paid_to") if told.step == RESERVE else None
    of = (told.amount, told.currency, values.text(row, "request_hash"), paid_to)
    return PayoutEntryFacts(told.key, told.step, told.posted_at, row["debit"], row["credit"], *of)


def is_payout(row: Row) -> bool:
    return bool(row["sk"] == keys.payout("")["sk"])


def key_of(name: str) -> str:
    """Return the payout's key from the name of its debit or return in a match."""
    return name.removeprefix(OF_PAYOUT).removesuffix(OF_RETURN)


def payout(row: Row) -> PayoutFacts:
    key = keys.subject(row)[1]
    account, currency, destination, request_hash, iban, holder, status, *_ = _PAYOUT(row)
    if row["pk"] != keys.payout(key)["pk"] or row["sk"] != keys.payout(key)["sk"]:
        raise MalformedRow(_WRONG_KEY)
    values.instants(row, _INSTANTS)
    paid, ended, back_at, back_to, asked, debit_line, return_line = values.optionals(row, _OPTIONAL)
    values.optionals(row, _TEXTS)
    in_suspense = values.count(row, "in_suspense", 1) if "in_suspense" in row else 0
    values.count(row, "sequence", 1)
    values.count(row, "attempts")
    for name in ("sent_sha256", "debit_line", "return_line"):
        if name in row:
            _sha256(row, name)
    return PayoutFacts(
        *(key, status, account, values.count(row, "amount", 1), currency, destination, request_hash),
        *(_paid_to(destination, iban, holder), row["reserved_at"], paid, ended, back_at, back_to, asked),
        in_suspense=in_suspense,
        debit_line=debit_line,
        return_line=return_line,
        cases=values.count(row, "cases"),
        decided=_decided(row),
    )


def paid_to(facts: PayoutFacts) -> PaidToFacts:
    return PaidToFacts(facts.destination, facts.key, facts.account, facts.paid_to, facts.reserved_at)


def reference(row: Row) -> PayoutReferenceFacts:
    key, name = values.text(row, "key"), keys.subject(row)[1]
    if row["sk"] != keys.payout_reference("")["sk"]:
        raise MalformedRow(_WRONG_KEY)
    if not KEY.fullmatch(key) or reference_of(key) != name:
        raise MalformedRow("its key is not that of its payout's reference")
    _check_unlisted(row)
    return PayoutReferenceFacts(key)


def reference_of(key: str) -> str:
    """The reference of a payout at the bank: 160 bits of its key's digest."""
    return base64.b32encode(hashlib.sha256(f"payout:{key}".encode()).digest()).decode()[:32]


def day(row: Row) -> ReservedFacts:
    account, day = keys.subject(row)[1], row["sk"]
    if not (ACCOUNT.fullmatch(account) and values.is_instant(f"{day}T00:00:00.000Z")):
        raise MalformedRow("its key is not that of an account and day")
    _check_unlisted(row)
    return ReservedFacts(account, day, -values.count(row, "reserved", 1))


def reserved(moved: PayoutEntryFacts) -> ReservedFacts | None:
    if moved.step != RESERVE:
        return None
    return ReservedFacts(moved.debit, moved.posted_at[:DAY], moved.amount)


def case(row: Row) -> PayoutCaseFacts:
    """Parse a verdict, proposed or approved."""
    key, (digest, verdict, reason, by, posted_at) = keys.subject(row)[1], _CASE(row)
    number = int(row["sk"][:_CASE_DIGITS]) if _CASE_KEY.match(row["sk"]) else 0
    is_approved = row["sk"] == keys.payout_approved(key, number, digest)["sk"]
    account, against = values.optional(row, "account"), _contradicts(row)
    proposed = keys.payout_proposed(key, number, digest, verdict, account, contradicts=bool(against))
    if not is_approved and row["sk"] != proposed["sk"]:
        raise MalformedRow("its key is not that of its case, digest, verdict, account and contradicts")
    if not (number and KEY.fullmatch(key) and values.is_instant(posted_at) and verdict in VERDICTS):
        raise MalformedRow("key, case, verdict and posted_at are none of a decision")
    _sha256(row, "digest")
    _check_listed(row, posted_at)
    if account is not None and not (verdict == "give-back" and ACCOUNT.fullmatch(account)):
        raise MalformedRow("account is none that gets the money back")
    content = [str(number), digest, verdict, reason, by, account or "", against]
    proposal, approval = values.digest(*content), None
    if is_approved:
        approval = values.digest(*content, _approver(row, by), posted_at)
        values.text(row, "approved_reason")
    elif "approved_by" in row:
        raise MalformedRow("is proposed, but approved_by is there")
    return PayoutCaseFacts(key, number, verdict, account, proposal, approval)


def destination(row: Row) -> DestinationFacts | ConfirmedFacts | FrozenFacts:
    name = keys.subject(row)[1]
    if not DESTINATION.fullmatch(name):
        raise MalformedRow("its key is no destination's")
    if row["sk"].startswith(keys.destination_frozen(name, "")["sk"]):
        return _frozen(row, name)
    if row["sk"] == keys.destination_confirmed(name)["sk"]:
        account, iban, holder, by = _CONFIRMED(row)
        _check_listed(row, values.instant(row, "confirmed_at"))
        _check_bank_account(iban, holder)
        confirmed_by, payable_from = _person(by), values.instant(row, "payable_from")
        return ConfirmedFacts(name, account, _paid_to(name, iban, holder), confirmed_by, payable_from)
    if row["sk"] != keys.destination(name)["sk"]:
        raise MalformedRow(_WRONG_KEY)
    return _added(row, name)


def _added(row: Row, name: str) -> DestinationFacts:
    account, iban, holder, by, _ = _DESTINATION(row)
    _check_bank_account(iban, holder)
    if not ACCOUNT.fullmatch(account):
        raise MalformedRow("account is no account's id")
    _check_listed(row, values.instant(row, "added_at"))
    values.instants(row, ("frozen_at",))
    frozen_at, frozen_by, last = values.optionals(row, ("frozen_at", "frozen_by", "last_payout"))
    if ("frozen_at" in row) != bool(frozen_by):
        raise MalformedRow("frozen_at and frozen_by are not there together")
    freeze = (frozen_at, _person(frozen_by) if frozen_by else None)
    return DestinationFacts(name, account, _paid_to(name, iban, holder), _person(by), *freeze, last)


def _frozen(row: Row, name: str) -> FrozenFacts:
    at = values.instant(row, "posted_at")
    if row["sk"] != keys.destination_frozen(name, at)["sk"]:
        raise MalformedRow(_WRONG_KEY)
    _check_listed(row, at)
    return FrozenFacts(name, at, _person(values.text(row, "by")))


def listed_line(row: Row) -> PayoutLineFacts:
    """Parse a bank's line on the list for payouts: to book, refused, or taken off the list."""
    line, booked, refused = keys.subject(row)[1], values.text(row, "booked"), values.optional(row, "refused")
    if row["sk"] != keys.payout_line("")["sk"] or not _DIGEST.fullmatch(line):
        raise MalformedRow(_WRONG_KEY)
    if not values.is_instant(f"{booked}T00:00:00.000Z"):
        raise MalformedRow("booked is no day")
    place = {name: row[name] for name in ("gsi1pk", "gsi1sk") if name in row}
    listed = keys.payout_lines_index(booked, is_refused=refused is not None)
    if place != listed and (place or refused is not None):
        raise MalformedRow("is not listed among the lines to book, or refused")
    return PayoutLineFacts(line, booked, int(bool(place)))


def bank_line(row: Row) -> BankLineFacts | None:
    """Parse a bank's line that names payouts; None for others."""
    names = values.optional(row, "references", set) or set()
    if not all(isinstance(one, str) for one in names):
        raise MalformedRow("references is no set of texts")
    found = sorted({one.upper() for one in names if _NAMED.fullmatch(one)})
    if not found:
        return None
    of = (row["currency"], values.count(row, "amount", 1), row["side"], row["booked"])
    return BankLineFacts(keys.subject(row)[1], *of, " ".join(found))


def _kind(account: str, currency: str) -> str | None:
    if accounts.is_customer(account):
        return _ACCOUNT
    internal = {
        accounts.transit(currency): _TRANSIT,
        accounts.external(currency): _EXTERNAL,
        accounts.suspense(currency): _SUSPENSE,
    }
    return internal.get(account)


def _paid_to(name: str, iban: str, holder: str) -> str:
    return hash_of({"destination": name, "iban": iban, "holder": holder})


def _decided(row: Row) -> str | None:
    told = values.optional(row, "decided", dict) or {}
    found = values.record(row, "decided", (*DECIDED, *(name for name in _MAY_HAVE if name in told)))
    if found is None:
        return None
    content = (*(found[name] for name in _DECIDED), found.get("account", ""), _contradicts(found))
    return values.digest(*content, _approver(found, found["by"]), found["approved_at"])


def _contradicts(row: Row) -> str:
    found = values.optional(row, "contradicts")
    if found not in (None, _YES):
        raise MalformedRow(f"contradicts is neither {_YES} nor absent")
    return found or ""


def _approver(row: Row, proposer: str) -> str:
    by = values.text(row, "approved_by")
    if not (by and proposer) or person_of(by) == person_of(proposer):
        raise MalformedRow("approved_by is not another person")
    return by


def _person(by: str) -> str:
    if not by:
        raise MalformedRow("names no person")
    return values.digest(person_of(by))


def _check_bank_account(iban: str, holder: str) -> None:
    if not _IBAN.fullmatch(iban) or not holder.strip():
        raise MalformedRow("iban and holder are none of a bank account")


def _check_unlisted(row: Row) -> None:
    if not row.keys().isdisjoint(("gsi1pk", "gsi1sk")):
        raise MalformedRow("is listed in the index")


def _check_listed(row: Row, at: str) -> None:
    if {name: row.get(name) for name in ("gsi1pk", "gsi1sk")} != keys.payout_orders_index(at):
        raise MalformedRow("is not listed among the orders of its time")


def _sha256(row: Row, name: str) -> str:
    found = values.text(row, name)
    if not _DIGEST.fullmatch(found):
        raise MalformedRow(f"{name} is no SHA-256")
    return found


DAY = len("2026-11-29")
DESTINATION = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
_WRONG_KEY = "no row of its kind has such a key"
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}", re.ASCII)
_NAMED = re.compile(r"[A-Z2-7]{32}", re.ASCII | re.IGNORECASE)
_CASE_DIGITS = 6
_CASE_KEY = re.compile(r"[0-9]{6}#", re.ASCII)
_PAYOUT = values.texts(
    *("account", "currency", "destination", "request_hash", "iban", "holder", "status"),
    *("reference", "reserved_at"),
)
_INSTANTS = (
    *("reserved_at", "first_sent_at", "sent_at", "asked_from", "said_at", "paid_at", "ended_at"),
    *("given_back_at", "gsi1sk"),
)
_OPTIONAL = (
    *("paid_at", "ended_at", "given_back_at", "given_back_to"),
    *("asked_from", "debit_line", "return_line"),
)
_TEXTS = ("said", "detail", "trouble", "gsi1pk")
_CASE = values.texts("digest", "verdict", "reason", "by", "posted_at")
_DESTINATION = values.texts("account", "iban", "holder", "added_by", "reason")
_CONFIRMED = values.texts("account", "iban", "holder", "confirmed_by")
