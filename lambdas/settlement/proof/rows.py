"""Parsers of all rows except settlements.

Each raises MalformedRow, also for a key that contradicts the row's content.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.kyc_review import REVIEW
from settlement.core.model import accounts
from settlement.core.model.orders import REVERSE, Decision
from settlement.core.model.request import ACCOUNT, KEY
from settlement.core.model.settlement import hash_of
from settlement.core.model.status import Step
from settlement.core.model.stored import MalformedRow
from settlement.core.model.verdict import REFERENCE, KycDecision
from settlement.http.caller import person_of
from settlement.http.circuit import NAMES as CIRCUITS
from settlement.orders.proposal import Move, ProposalStatus
from settlement.orders.requests import REVERSE_PART
from settlement.proof import payout_rows, values
from settlement.proof.facts import (
    BalanceFacts,
    EntryFacts,
    EventFacts,
    EvidenceFacts,
    LineMatchFacts,
    MatchFacts,
    OrderFacts,
    PayoutMatchFacts,
    ProposalFacts,
    SweepFacts,
    WaitingFacts,
)

_Facts = TypeVar("_Facts")


def entry(row: Row) -> EntryFacts:
    step, posted_at, side, debit, credit, currency = _ENTRY(row)
    if not values.is_instant(posted_at):
        raise MalformedRow("posted_at is no timestamp")
    amount = values.amount(row, "amount")
    if amount < 0:
        raise MalformedRow("moves less than nothing")
    key = row["sk"][len(posted_at) + 1 : -len(step) - 1]
    if side == "debit":
        account, other = debit, credit
    elif side == "credit":
        account, other = credit, debit
    else:
        raise MalformedRow(f"side is {side!r}")
    address = keys.entry(account, posted_at, key, step)
    if row["sk"] != address["sk"] or row["pk"] != address["pk"]:
        raise MalformedRow("its key is not that of its account, time, settlement and step")
    if step in payout_rows.MOVED:
        payout_rows.check_sides(step, debit, credit, side, currency)
    elif step in MOVES:
        if side != MOVES[step] or other != accounts.external(currency) or not accounts.is_customer(account):
            raise MalformedRow(f"a {step} moves money from {debit} to {credit}")
    elif other != accounts.escrow(key):
        raise MalformedRow(f"moves money from {debit} to {credit}")
    request_hash = values.text(row, "request_hash")
    return EntryFacts(key, step, posted_at, account, side, amount, currency, request_hash)


def evidence(row: Row) -> EvidenceFacts:
    key = keys.subject(row)[1]
    step, posted_at, request_hash = _EVIDENCE(row)
    if row["sk"] != keys.evidence(key, step)["sk"]:
        raise MalformedRow("its key is not that of its settlement and step")
    if not values.is_instant(posted_at):
        raise MalformedRow("posted_at is no timestamp")
    told = EvidenceFacts(key, step, posted_at, request_hash, None)
    kind = step.partition(":")[0]
    _check_listed(row, posted_at if kind in _ORDERED else None)
    if kind == "check" or step in _VERDICTS:
        decide = _of_verdict if step in _VERDICTS else _of_check
        return told._replace(decision=decide(row, step))
    if kind == "reverse":
        reason, by = _ORDER(row)
        persons = _persons(row, REVERSE, reason, by)
        return told._replace(content=values.digest(cause_of_order(reason, by)), persons=persons)
    if kind == REVERSE_PART:
        reason, by = _ORDER(row)
        persons = _persons(row, REVERSE_PART, reason, by)
        return told._replace(amount=values.count(row, "amount", 1), persons=persons)
    if kind == "limbo":
        account, error, cause = _CASE(row)
        return told._replace(account=account, content=values.digest(account, error, cause, posted_at))
    if kind == "resolve":
        account, decision, reason, by = _RESOLUTION(row)
        if decision not in _DECISIONS:
            raise MalformedRow(f"decision is {decision!r}")
        content = values.digest(decision, reason, by, posted_at)
        persons = _persons(row, decision, reason, by)
        return told._replace(decision=decision, account=account, content=content, persons=persons)
    if kind in _MOVES:
        return told._replace(persons=_move(row, step))
    raise MalformedRow(f"step is {step!r}")


def _of_verdict(row: Row, step: str) -> str:
    decision, reference, _, provider = _VERDICT(row)
    if decision not in _DECIDED:
        raise MalformedRow(f"decision is {decision!r}")
    if not REFERENCE.fullmatch(reference):
        raise MalformedRow("reference is no name of a verification")
    if (provider == "webhook") != (step == REVIEW):
        raise MalformedRow(f"provider is {provider!r}")
    return decision


def _of_check(row: Row, step: str) -> str:
    decision, reason, way, content = _CHECKED(row)
    if not values.CHECK_NAME.fullmatch(step.partition(":")[2]):
        raise MalformedRow(f"step is {step!r}")
    if decision not in (KycDecision.APPROVED, _CHECK_REFUSED):
        raise MalformedRow(f"decision is {decision!r}")
    if (reason == "") != (decision == KycDecision.APPROVED) or not _REASON.fullmatch(reason):
        raise MalformedRow("reason is none of a check")
    if way not in ("ask", "callback"):
        raise MalformedRow(f"by_way is {way!r}")
    try:
        is_object = isinstance(json.loads(content), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        raise MalformedRow("evidence is no JSON object")
    return decision


def _move(row: Row, step: str) -> str:
    decision, reason, by, digest = _MOVE(row)
    _check_proposed(decision, digest)
    if not _MOVE_STEP.fullmatch(step):
        raise MalformedRow(f"step is {step!r}")
    return values.digest(digest, decision, reason, by)


def _check_listed(row: Row, ordered_at: str | None) -> None:
    """Check the index keys: of all evidence, only orders are listed, at their time."""
    place = keys.orders_index(ordered_at) if ordered_at else {}
    if {name: row[name] for name in ("gsi1pk", "gsi1sk") if name in row} != place:
        raise MalformedRow(
            "is not listed among the orders of its time" if ordered_at else "is listed in the index"
        )


def _persons(row: Row, decision: str, reason: str, by: str) -> str:
    """The digests of all persons except the last, who decides.

    Empty if one person decides alone. Raises MalformedRow if one person counts twice.
    """
    approved_by = (values.optional(row, "approved_by", str) or "").split()
    if not approved_by:
        return ""
    arns, digest = [by, *approved_by], values.text(row, "digest")
    if len({person_of(arn) for arn in arns}) < len(arns):
        raise MalformedRow(f"one person is among {', '.join(arns)} twice")
    return " ".join(values.digest(digest, decision, reason, arn) for arn in arns[:-1])


def order(row: Row) -> OrderFacts:
    key = keys.subject(row)[1]
    if row["sk"] != keys.order(key)["sk"]:
        raise MalformedRow(WRONG_KEY)
    kind, account, by, reason, posted_at, request_hash = _ACCOUNT_ORDER(row)
    content: dict[str, object] = {"key": key, "order": kind, "account": account, "by": by, "reason": reason}
    currency, amount = None, None
    if kind not in _ORDERS:
        raise MalformedRow(f"order is {kind!r}")
    if kind in MOVES or kind == "open":
        content["currency"] = currency = values.text(row, "currency")
    if kind in MOVES:
        content["reference"] = values.text(row, "reference")
        content["amount"] = amount = values.count(row, "amount", 1)
    if not (KEY.fullmatch(key) and ACCOUNT.fullmatch(account) and values.is_instant(posted_at)):
        raise MalformedRow("key, account and posted_at are none of an order")
    if hash_of(content) != request_hash:
        raise MalformedRow("its content is not that of its request_hash")
    _check_listed(row, posted_at)
    return OrderFacts(account, key, kind, posted_at, currency, amount, request_hash)


def match(row: Row) -> MatchFacts:
    """Parse a match. A match with an order has two rows; with a payout, only the line's."""
    account, order, line, currency, side, posted_at = _MATCH(row)
    places, key = {"line": keys.bank_match(line)}, order
    if order.startswith(payout_rows.OF_PAYOUT):
        key = payout_rows.key_of(order)
    else:
        places["order"] = keys.banked(order)
    place = {name: row[name] for name in ("pk", "sk")}
    of = next((name for name, own in places.items() if own == place), None)
    if of is None:
        raise MalformedRow("its key is not that of its line or order")
    if side not in BANK_SIDES.values():
        raise MalformedRow(f"side is {side!r}")
    if not (KEY.fullmatch(key) and ACCOUNT.fullmatch(account) and values.is_instant(posted_at)):
        raise MalformedRow("order, account and posted_at are none of a match")
    _check_listed(row, None)
    return MatchFacts(account, order, line, currency, values.count(row, "amount", 1), side, posted_at, of)


def of_line(one: MatchFacts) -> LineMatchFacts:
    return LineMatchFacts(one.line, one.key, one.currency, one.amount, one.side)


def of_payout(one: MatchFacts) -> PayoutMatchFacts | None:
    if not one.key.startswith(payout_rows.OF_PAYOUT):
        return None
    key = payout_rows.key_of(one.key)
    return PayoutMatchFacts(key, one.key, one.line, one.account, one.currency, one.amount, one.side)


def bank_line(row: Row) -> str:
    currency, side, booked, posted_at, *_ = _BANK_LINE(row)
    if not _DIGEST.fullmatch(keys.subject(row)[1]):
        raise MalformedRow("its key is no SHA-256")
    if side not in BANK_SIDES.values():
        raise MalformedRow(f"side is {side!r}")
    if not values.is_instant(posted_at):
        raise MalformedRow("posted_at is no timestamp")
    values.count(row, "amount", 1)
    if {name: row.get(name) for name in ("gsi1pk", "gsi1sk")} != keys.bank_lines_index(booked):
        raise MalformedRow("is not listed at the bank's day")
    return currency


def bank_file(row: Row) -> str | None:
    """Check a row of a file or statement. Return a statement's currency, or None."""
    if not _DIGEST.fullmatch(keys.subject(row)[1]):
        raise MalformedRow("its key is no SHA-256")
    if not values.is_instant(posted_at := values.text(row, "posted_at")):
        raise MalformedRow("posted_at is no timestamp")
    if row["sk"] == keys.bank_file("")["sk"]:
        values.count(row, "statements", 1)
        if {name: row.get(name) for name in ("gsi1pk", "gsi1sk")} != keys.bank_files_index(posted_at):
            raise MalformedRow("is not listed at its time")
        return None
    if not _STATEMENT.fullmatch(row["sk"]):
        raise MalformedRow(WRONG_KEY)
    _check_listed(row, None)
    for name in ("opening", "closing"):
        values.amount(row, name)
    return values.text(row, "currency")


def bank_order(row: Row) -> None:
    key, (digest, by, posted_at) = keys.subject(row)[1], _BANK_ORDER(row)
    if row["sk"] not in (keys.bank_proposed("")["sk"], keys.bank_approved("")["sk"]):
        raise MalformedRow(WRONG_KEY)
    if not (KEY.fullmatch(key) and _DIGEST.fullmatch(digest) and by and values.is_instant(posted_at)):
        raise MalformedRow("key, digest, by and posted_at are none of a booking")
    _check_listed(row, None)


def cause_of_order(reason: str, by: str) -> str:
    return f"{reason} (by {by})"


def balance(row: Row) -> BalanceFacts:
    account = keys.subject(row)[1]
    if row["pk"] != keys.account(account)["pk"]:
        raise MalformedRow("has the sort key of an account")
    if not ACCOUNT.fullmatch(account):
        raise MalformedRow("has no account's id")
    limbo_cases = values.count(row, "limbo_cases") if "limbo_cases" in row else 0
    currency, available = values.text(row, "currency"), values.amount(row, "available")
    values.instants(row, _ACCOUNT_TIMES)
    opened, frozen, closed = values.optionals(row, _ACCOUNT_TIMES)
    last = values.text(row, "last_order")
    if not KEY.fullmatch(last):
        raise MalformedRow("last_order is no key of an order")
    return BalanceFacts(account, currency, available, limbo_cases, opened, frozen, closed, last)


def waiting(row: Row) -> WaitingFacts:
    key, _, execution = _WAITING(row)
    if row["pk"] != keys.waiting(key)["pk"] or row["sk"] != keys.waiting(key)["sk"]:
        raise MalformedRow("its key is not that of its settlement")
    if not execution.startswith("arn:"):
        raise MalformedRow("execution is no ARN")
    return WaitingFacts(key, values.count(row, "case", 1))


def proposal(row: Row) -> ProposalFacts:
    key, decision, _, digest, proposer, _, status = _PROPOSAL(row)
    if row["pk"] != keys.proposal(key)["pk"] or row["sk"] != keys.proposal(key)["sk"]:
        raise MalformedRow("its key is not that of its settlement")
    _check_proposed(decision, digest)
    if status not in list(ProposalStatus):
        raise MalformedRow(f"status is {status!r}")
    for name in ("proposed_at", "valid_until"):
        values.instant(row, name)
    values.count(row, "case", 0 if decision in (REVERSE, REVERSE_PART) else 1)
    if decision == REVERSE_PART:
        values.count(row, "part", 1)
        values.count(row, "amount", 1)
    number = values.count(row, "proposal_number", 1)
    lacking = values.count(row, "needed", 2) - 1 - values.count(row, "approvals")
    persons = values.optional(row, "persons", set) or set()
    if len(persons) != row["approvals"] + 1 or proposer not in persons:
        raise MalformedRow("its persons are not the proposer and as many others as it counts")
    if status != ProposalStatus.WITHDRAWN and (lacking == 0) != (status == ProposalStatus.DONE):
        raise MalformedRow(f"is {status} with {row['approvals']} of {row['needed'] - 1} approvals")
    is_done = status == ProposalStatus.DONE
    approvals = row["approvals"] - is_done
    return ProposalFacts(key, number, approvals, status == ProposalStatus.WITHDRAWN, is_done)


def _check_proposed(decision: str, digest: str) -> None:
    if decision not in _PROPOSABLE:
        raise MalformedRow(f"decision is {decision!r}")
    if not _DIGEST.fullmatch(digest):
        raise MalformedRow("digest is no SHA-256")


def event(row: Row) -> EventFacts:
    digest, key = _EVENT(row)
    if row["sk"] != keys.event("")["sk"]:
        raise MalformedRow(WRONG_KEY)
    if not _DIGEST.fullmatch(digest):
        raise MalformedRow("digest is no SHA-256")
    if not KEY.fullmatch(key):
        raise MalformedRow("key is no settlement's")
    return EventFacts(key, values.instant(row, "received_at"), keys.subject(row)[1])


def circuit(row: Row) -> None:
    if row["sk"] not in CIRCUITS:
        raise MalformedRow(WRONG_KEY)
    state = values.text(row, "state")
    if state not in _CIRCUIT_NEEDS:
        raise MalformedRow(f"state is {state!r}")
    for name in _CIRCUIT_COUNTS:
        if name in row or name in _CIRCUIT_NEEDS[state]:
            values.count(row, name)
    for name in _CIRCUIT_TEXTS:
        if name in row:
            values.text(row, name)


def migration(row: Row) -> None:
    if row["sk"] != "MIGRATION":
        raise MalformedRow(WRONG_KEY)
    for name in ("version", "read", "changed", "left"):
        values.count(row, name)
    for name in ("began_at", "leased_until"):
        values.instant(row, name)


def received(entry: EntryFacts) -> SweepFacts | None:
    if entry.step != Step.RELEASE or not accounts.is_merchant(entry.account):
        return None
    partition = keys.entry(entry.account, entry.posted_at, entry.key, entry.step)["pk"]
    return SweepFacts(entry.account, f"{partition} {entry.posted_at[:_SECOND]}", entry.amount)


def swept(row: Row) -> list[SweepFacts]:
    """Parse a sweep's row: the sums folded in each second, as negative changes."""
    partition, minute, folded = keys.subject(row)[1], row["sk"], values.optional(row, "folded", dict)
    account = partition.partition("#")[2].rpartition("#")[0]
    if not (accounts.is_merchant(account) and partition in keys.entry_partitions(account)):
        raise MalformedRow("is of no partition of a merchant's entries")
    if not values.is_instant(f"{minute}:00.000Z"):
        raise MalformedRow("is of no minute")
    if not folded:
        raise MalformedRow("folded is missing")
    if at_fault := next((second for second in folded if not _IN_MINUTE.fullmatch(second)), None):
        raise MalformedRow(f"folded has no second {at_fault!r}")
    values.count(row, "version", 1)
    return [
        SweepFacts(account, f"{partition} {minute}:{second}", -values.count(folded, second, 1))
        for second in folded
    ]


def sound(kind: Callable[[Row], _Facts], rows: Iterable[Row]) -> Iterator[_Facts]:
    for row in rows:
        with suppress(MalformedRow):
            yield kind(row)


WRONG_KEY = "no row of its kind has such a key"
MOVES = {"deposit": "credit", "withdraw": "debit"}
"""Orders that move money, and the account's side. The order's name is also the step of its entry."""

BANK_SIDES = {"deposit": "in", "withdraw": "out"}

_ORDERS = frozenset({"open", "deposit", "withdraw", "freeze", "unfreeze", "close"})
_ACCOUNT_TIMES = ("opened_at", "frozen_at", "closed_at")
_MOVES = frozenset({Move.PROPOSE.value, Move.APPROVE.value, Move.WITHDRAW.value})
_MOVE_STEP = re.compile(r"((propose|withdraw):|approve:[1-9]\d{0,8}:)[1-9]\d{0,8}", re.ASCII)
_ORDERED = _MOVES | {"resolve", REVERSE, REVERSE_PART}
"""Steps of persons' orders, without their numbers."""

_MOVE = values.texts("decision", "reason", "by", "digest")
_PROPOSAL = values.texts("key", "decision", "reason", "seen", "proposer", "proposed_by", "status")
_ACCOUNT_ORDER = values.texts("order", "account", "by", "reason", "posted_at", "request_hash")

_SECOND = len("2026-11-22T06:04:57")
_IN_MINUTE = re.compile(r"[0-5][0-9]", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_VERDICTS = frozenset({Step.VERIFY.value, REVIEW})
_DECIDED = frozenset({KycDecision.APPROVED.value, KycDecision.REJECTED.value})
_DECISIONS = frozenset(decision.value for decision in Decision)
_PROPOSABLE = _DECISIONS | {REVERSE, REVERSE_PART}
_CIRCUIT_COUNTS = (
    *("failure_count", "version", "failed_at", "opened_at", "probed_at"),
    *("not_needed_after", "probe_lease_expiry"),
)
_CIRCUIT_TEXTS = ("failed", "probe", "half_open_owner")
"""Texts of the circuit's row. The last name here and in `_CIRCUIT_COUNTS` is an earlier release's."""

_CIRCUIT_NEEDS: dict[str, tuple[str, ...]] = {
    "CLOSED": ("failure_count",),
    "OPEN": ("failure_count", "opened_at"),
    "HALF_OPEN": ("failure_count", "opened_at", "probed_at"),
}
"""Numbers that the row needs in each state."""

_ENTRY = values.texts("step", "posted_at", "side", "debit", "credit", "currency")
_EVIDENCE = values.texts("step", "posted_at", "request_hash")
_CHECK_REFUSED = "REFUSED"
_CHECKED = values.texts("decision", "reason", "by_way", "evidence")
_REASON = re.compile(r"([a-z][a-z0-9_]{0,49})?", re.ASCII)
_VERDICT = values.texts("decision", "reference", "reason", "provider")
_ORDER = values.texts("reason", "by")
_CASE = values.texts("account", "error", "cause")
_RESOLUTION = values.texts("account", "decision", "reason", "by")
_WAITING = values.texts("key", "token", "execution")
_EVENT = values.texts("digest", "key")
_MATCH = values.texts("account", "order", "line", "currency", "side", "posted_at")
_BANK_ORDER = values.texts("digest", "by", "posted_at")
_BANK_LINE = values.texts("currency", "side", "booked", "posted_at", "bank_account", "valued", "file")
_STATEMENT = re.compile(r"STATEMENT#[0-9]{6}", re.ASCII)
