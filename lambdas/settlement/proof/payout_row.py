"""Contradictions within a payout's row. A second look cannot resolve them."""

from collections.abc import Iterator, Mapping

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import money
from settlement.core.model.request import ACCOUNT, KEY
from settlement.core.model.settlement import hash_of
from settlement.proof import values
from settlement.proof.facts import PayoutFacts
from settlement.proof.payout_rows import DESTINATION, reference_of

_SENT = frozenset({"first_sent_at", "sent_at", "sent_sha256"})
_PAID, _ENDED = frozenset({"paid_at"}), frozenset({"ended_at"})
_BACK = frozenset({"in_suspense", "given_back_at", "given_back_to"})
_LINES = frozenset({"debit_line", "return_line"})
_LEFT = _PAID | _ENDED | _BACK | _LINES
_CASE = frozenset({"trouble"})
_WORD = frozenset({"said", "said_at"})

_NEEDED: Mapping[str, frozenset[str]] = {
    "RESERVED": frozenset(),
    "SENDING": _SENT,
    "UNKNOWN": frozenset(),
    "ACCEPTED": _SENT | _WORD,
    "PAID": _SENT | _PAID,
    "CONFIRMED": _SENT | _PAID | _ENDED | {"debit_line"},
    "REFUSED": _ENDED,
    "RETURNED": _SENT | _PAID | _ENDED,
    "LIMBO": _CASE,
}
_BARRED: Mapping[str, frozenset[str]] = {
    "RESERVED": _SENT | _LEFT | _CASE | _WORD | {"asked_from", "decided"},
    "SENDING": _LEFT | _CASE | _WORD | {"detail"},
    "UNKNOWN": _LEFT | _CASE,
    "ACCEPTED": _LEFT | _CASE,
    "PAID": _ENDED | _BACK,
    "CONFIRMED": _BACK | _CASE,
    "REFUSED": _PAID | _BACK | _CASE | _LINES,
    "RETURNED": frozenset(),
    "LIMBO": _LEFT,
}
_WORDS_OF: Mapping[str, frozenset[str]] = {
    "UNKNOWN": frozenset({"never seen"}),
    "ACCEPTED": frozenset({"accepted", "returned"}),
}
"""Words of the bank that a status allows. Statuses not listed here allow each word."""

_AT_REST = frozenset({"CONFIRMED", "REFUSED", "RETURNED"})
_WORDS = frozenset({"accepted", "paid", "refused", "returned", "never seen", "unknown"})
_OUTCOMES: Mapping[str, tuple[str, ...]] = {
    "paid": ("paid_at",),
    "not-paid": ("ended_at",),
    "ask": ("asked_from",),
    "give-back": ("given_back_at",),
    "close": ("sent_at",),
}
"""Attributes that the row must have after each verdict."""

_AMOUNT_END = 10**money.DIGITS_MAX


def contradictions(row: Row, facts: PayoutFacts) -> Iterator[str]:
    yield from _content_faults(row, facts)
    if facts.status not in _NEEDED:
        yield f"its status is {facts.status}"
        return
    if missing := sorted(_NEEDED[facts.status] - row.keys()):
        yield f"is {facts.status}, but has no {', '.join(missing)}"
    if barred := sorted(_BARRED[facts.status] & row.keys()):
        yield f"is {facts.status}, but has {', '.join(barred)}"
    yield from _bank_faults(row, facts)
    yield from _time_faults(row, facts)
    yield from _case_faults(row, facts)
    yield from _listing_faults(row, facts)


def _content_faults(row: Row, facts: PayoutFacts) -> Iterator[str]:
    content = {"account": facts.account, "amount": facts.amount, "currency": facts.currency}
    content |= {"key": facts.key, "destination": facts.destination}
    if hash_of(content) != facts.request_hash:
        yield "its content is not that of its request_hash"
    if row["reference"] != reference_of(facts.key):
        yield "its reference is not that of its key"
    if not (KEY.fullmatch(facts.key) and ACCOUNT.fullmatch(facts.account)):
        yield "key and account are none of a payout"
    if not (DESTINATION.fullmatch(facts.destination) and facts.amount < _AMOUNT_END):
        yield "destination and amount are none of a payout"


def _bank_faults(row: Row, facts: PayoutFacts) -> Iterator[str]:
    if {*_SENT & row.keys()} != (_SENT if row["attempts"] else set()):
        yield f"was sent {row['attempts']} times, with {', '.join(sorted(_SENT & row.keys())) or 'no trace'}"
    if len(_WORD & row.keys()) == 1 or row.get("said", "unknown") not in _WORDS:
        yield "said and said_at are none of the bank's last word"
    elif "said" in row and row["said"] not in _WORDS_OF.get(facts.status, _WORDS):
        yield f"is {facts.status}, but the bank has said {row['said']}"
    if facts.status == "UNKNOWN" and not row["attempts"] and not facts.asked_from:
        yield "is UNKNOWN, but nothing was sent, and nobody asked for it again"
    if facts.debit_line and facts.debit_line == facts.return_line:
        yield "has one line as its debit and its return"
    least = 1 + row["attempts"] + len({"paid_at", "given_back_at"} & row.keys())
    least += facts.status in _AT_REST or facts.status == "LIMBO"
    if row["sequence"] < least:
        yield f"its sequence is {row['sequence']}, but it has made {least} moves or more"


def _time_faults(row: Row, facts: PayoutFacts) -> Iterator[str]:
    for name, earlier in _AFTER.items():
        if name in row and earlier in row and values.is_long_before(row[name], row[earlier]):
            yield f"{name} is {row[name]}, but {earlier} is {row[earlier]}"
    if row["attempts"] == 1 and row.get("sent_at") != row.get("first_sent_at"):
        yield "was sent once, at two times"


def _case_faults(row: Row, facts: PayoutFacts) -> Iterator[str]:
    if "trouble" in row and facts.cases < 1:
        yield "has an open case, but counts none"
    if facts.in_suspense not in (0, 1) or (facts.in_suspense and "trouble" not in row):
        yield "its money is in suspense, without an open case"
    if (facts.given_back_at is None) != (facts.given_back_to is None):
        yield "given_back_at and given_back_to are not there together"
    if facts.in_suspense and facts.given_back_at:
        yield "its money is in suspense, but given back"
    decided = row.get("decided")
    if decided is None:
        if facts.asked_from or facts.given_back_at:
            yield "has no decision, but the trace of one"
        return
    number = decided["case"]
    if not (number.isdecimal() and 1 <= int(number) <= facts.cases):
        yield f"case {number} is decided, and the last one is {facts.cases}"
    if number == str(facts.cases) and "trouble" in row:
        yield f"its case {number} is decided, but open"
    needed = _OUTCOMES.get(decided["verdict"])
    if needed is None or not row.keys() >= {*needed}:
        yield f"two persons have decided {decided['verdict']}, which did not happen"


def _listing_faults(row: Row, facts: PayoutFacts) -> Iterator[str]:
    """Check the index keys. A payout in the wrong place is never looked at again."""
    place, found = _place(row, facts), row.get("gsi1pk")
    if found != place or (place is None) != ("gsi1sk" not in row):
        yield f"is listed in {found}, but should be in {place}"


def _place(row: Row, facts: PayoutFacts) -> str | None:
    if "trouble" in row:
        return keys.PAYOUT_CASES
    decided = row.get("decided") or {}
    is_closed = (decided.get("case"), decided.get("verdict")) == (str(facts.cases), "close")
    lacks_return = facts.status == "RETURNED" and facts.debit_line and not facts.return_line
    if is_closed or (facts.status in _AT_REST and not lacks_return):
        return None
    place: str = keys.payouts_index(facts.key, "")["gsi1pk"]
    return place


_AFTER: Mapping[str, str] = {
    "first_sent_at": "reserved_at",
    "sent_at": "first_sent_at",
    "asked_from": "reserved_at",
    "said_at": "reserved_at",
    "paid_at": "first_sent_at",
    "ended_at": "reserved_at",
    "given_back_at": "ended_at",
}
"""Each attribute with a time, and the attribute whose time must not be later."""
