"""Contradictions within a settlement's row. A second look cannot resolve them."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import accounts, money
from settlement.core.model.layout import FIRST, NEWEST, PARTS_COUNTED_BY_NAME
from settlement.core.model.orders import Decision
from settlement.core.model.request import ACCOUNT, KEY
from settlement.core.model.settlement import NAMES, OPTIONAL, hash_of
from settlement.core.model.state import CANCELLED
from settlement.core.model.status import FINISHED, REVERSIBLE, Status, Step
from settlement.core.model.stored import MalformedRow
from settlement.proof import values
from settlement.proof.facts import SettlementFacts
from settlement.proof.legal import attribute_faults, slot_faults, steps_of
from settlement.proof.sequence import sequence_faults

NAMES_ERASED = "names_erased_at"
"""Attribute of a row whose names were erased, so the request can no longer be hashed.

The signature covers the other attributes.
"""


def settlement(row: Row) -> SettlementFacts:
    """Parse a settlement's row. Raises MalformedRow."""
    facts = movements(row)
    values.instants(row, _INSTANTS)
    return facts if _RARE.isdisjoint(row) else _of_reversal(row, facts)


def movements(row: Row) -> SettlementFacts:
    """Parse the row's facts, except a reversal's. Raises MalformedRow."""
    key = keys.subject(row)[1]
    if row["pk"] != keys.settlement(key)["pk"]:
        raise MalformedRow("has the sort key of a settlement")
    status, payer, payee, currency, request_hash, owner, _, _ = _TEXTS(row)
    if status not in _STATUSES:
        raise MalformedRow(f"status is {status!r}")
    hold, verify, release, fee, fee_back, release_back, hold_back, verdict, _, _ = values.optionals(
        row, _OPTIONAL
    )
    amount, own_fee = values.amount(row, "amount"), values.amount(row, "fee")
    if not owner:
        raise MalformedRow("owner is empty")
    values.count(row, "owner_epoch")
    values.count(row, "sequence", least=1)
    if not _REQUESTED.isdisjoint(row):
        values.optional(row, "deadline_seconds", int)
        for name in (*NAMES, "reference"):
            values.optional(row, name)
        if not all(isinstance(text, str) for text in (values.optional(row, "metadata", dict) or {}).values()):
            raise MalformedRow("metadata has a member that is no text")
    return SettlementFacts(
        *(key, status, payer, payee, currency, request_hash),
        *(amount, own_fee, values.amount(row, "escrow")),
        *(hold, verify, release, fee, fee_back, release_back, hold_back, verdict),
        *(0, None),
    )


def contradictions(row: Row, facts: SettlementFacts) -> Iterator[str]:
    is_completed = facts.resolution == Decision.COMPLETE
    if not 0 <= facts.fee < facts.amount < _AMOUNT_END:
        yield "amount and fee are none of a payment"
    if not (KEY.fullmatch(facts.key) and _are_parties(facts.payer, facts.payee)):
        yield "key, payer and payee are none of a payment"
    yield from slot_faults(facts, row.get("layout", FIRST))
    yield from attribute_faults(row, facts.status, is_completed)
    yield from _content_faults(row, facts)
    yield from _time_faults(row, facts)
    yield from sequence_faults(row, facts)
    if not _PARTS.isdisjoint(row):
        yield from _part_faults(row, facts)
    if "gsi1pk" in row and facts.status != Status.LIMBO:
        if row["gsi1pk"] != keys.in_flight_index(facts.key, "")["gsi1pk"]:
            yield f"is {facts.status}, but listed in {row['gsi1pk']}"
    elif "gsi1pk" in row and row["gsi1pk"] != keys.LIMBO:
        yield f"is in LIMBO, but listed in {row['gsi1pk']}"
    if "review" in row and (facts.verdict is not None or not facts.hold_at):
        yield "is in review, but decided or not held"
    if facts.status != Status.SETTLED or is_completed:
        yield from _failure_faults(row, facts)


def blocked_account(row: Row, facts: SettlementFacts) -> str | None:
    """The account blocked by an open case of LIMBO."""
    if facts.status != Status.LIMBO:
        return None
    stuck = row.get("stuck_step")
    if stuck == Step.RELEASE.reversal and facts.release_at and not facts.release_reversed_at:
        return facts.payee
    return facts.payer if stuck == Step.HOLD.reversal and facts.hold_at else None


def _are_parties(payer: str, payee: str) -> bool:
    return bool(ACCOUNT.fullmatch(payer) and ACCOUNT.fullmatch(payee)) and payer != payee


def _of_reversal(row: Row, facts: SettlementFacts) -> SettlementFacts:
    failure = values.record(row, "failure", _FAILURE)
    reason = values.record(row, "reversed_for", _FAILURE)
    made = values.optional(row, "resolution", dict) or {}
    resolution = values.record(
        row, "resolution", (*_RESOLUTION, *(name for name in made if name == "covered"))
    )
    stuck_step, since = values.optional(row, "stuck_step"), values.optional(row, "in_flight_since")
    resolutions = values.count(row, "resolutions") if "resolutions" in row else 0
    resolved = ordered = stuck = None
    if resolution:
        if resolution["decision"] not in _DECISIONS or not values.is_instant(resolution["decided_at"]):
            raise MalformedRow("resolution is none")
        resolved = values.digest(*(resolution[name] for name in _RESOLUTION))
    if reason and reason["step"] == "reverse":
        ordered = values.digest(reason["cause"])
    if facts.status == Status.LIMBO and failure:
        if stuck_step not in _STUCK:
            raise MalformedRow(f"stuck_step is {stuck_step!r}")
        account = {Step.HOLD.reversal: facts.payer, Step.RELEASE.reversal: facts.payee}.get(
            stuck_step, accounts.fees(facts.currency)
        )
        stuck = values.digest(account, failure["error"], failure["cause"], row.get("gsi1sk") or "")
    if resolution or ("review" in row and not ordered):
        since = None
    layout, by_name, parts, reversed_in_part = (
        values.count(row, name) if name in row else 0
        for name in ("layout", "reversals_in_part", "parts", "reversed_in_part")
    )
    return facts._replace(
        parts=by_name if layout else parts,
        reversed_in_part=reversed_in_part,
        resolutions=resolutions,
        resolution=resolution["decision"] if resolution else None,
        covered=made.get("covered"),
        waits=values.count(row, "waits", 1) if "waits" in row else 0,
        answered=_names(row, "answered"),
        checks=_names(row, "checks"),
        **{"resolved": resolved, "ordered": ordered, "stuck": stuck, "since": since},
    )


def _content(row: Row, facts: SettlementFacts) -> dict[str, Any]:
    content = {
        "key": facts.key,
        "payer": facts.payer,
        "payee": facts.payee,
        "amount": facts.amount,
        "currency": facts.currency,
        "fee": facts.fee,
    }
    if not _REQUESTED.isdisjoint(row):
        content |= {name: row[name] for name in OPTIONAL if name in row}
    return content


def _content_faults(row: Row, facts: SettlementFacts) -> Iterator[str]:
    if NAMES_ERASED not in row:
        if hash_of(_content(row, facts)) != facts.request_hash:
            yield "its content is not that of its request_hash"
        return
    if facts.status not in FINISHED:
        yield f"is {facts.status}, but its names are erased"
    if kept := [name for name in NAMES if name in row]:
        yield f"has {', '.join(kept)}, but its names are erased"


def _time_faults(row: Row, facts: SettlementFacts) -> Iterator[str]:
    """Compare only times from one clock: of a write, and of its condition."""
    deadline, finished, expired = row["deadline_at"], row.get("finished_at"), row.get("expired_at")
    if (facts.release_at or "") >= deadline or (facts.verify_at or "") >= deadline:
        yield "a step committed after the deadline"
    for name in _SLOTS:
        if name in row and values.is_long_before(row[name], row["claimed_at"]):
            yield f"{name} is {row[name]}, but it was claimed at {row['claimed_at']}"
    if expired and (expired < deadline or facts.release_at):
        yield "has expired, but before its deadline or after its release"
    last = facts.fee_at if facts.status == Status.SETTLED else facts.hold_reversed_at
    if facts.resolution == Decision.COMPLETE:
        last = row["resolution"]["decided_at"]
    if finished and last and finished != last:
        yield f"has finished at {finished}, but its last step is of {last}"
    is_tombstone = facts.status == Status.REJECTED and row["claimed_at"] == deadline
    if is_tombstone and finished != deadline:
        yield "was never claimed, but has finished at another time"
    if "deadline_seconds" in row and not is_tombstone:
        if "deadline_extended_at" in row:
            yield "names its deadline, but that was extended"
        if not _is_named(row):
            yield "names another deadline"
    if "waits" in row and "in_flight_since" not in row:
        yield "has waited for a check, but has no in_flight_since"
    if facts.resolution or ("review" in row and not facts.ordered):
        yield from _since_faults(row, facts)


def _since_faults(row: Row, facts: SettlementFacts) -> Iterator[str]:
    """Compare `in_flight_since` with the event that last set the settlement in motion.

    - The latest decision.
    - A cancellation: its cause ends with the time.
    - A review's end: it was fixed when the review began.
    """
    since = row["resolution"]["decided_at"] if facts.resolution else row["deadline_at"]
    if not facts.resolution and _is_cancelled(row):
        since = _cancelled_at(row["reversed_for"])
    if row.get("in_flight_since") != since:
        yield f"is in flight since {row.get('in_flight_since')}, but should be since {since}"


def _part_faults(row: Row, facts: SettlementFacts) -> Iterator[str]:
    layout = row.get("layout", FIRST)
    if layout > NEWEST or (layout == FIRST and "layout" in row):
        yield f"its layout is {layout}"
    elif (found := _PARTS & row.keys()) != (needed := _PARTS_OF[layout]):
        yield f"is reversed in part, with {', '.join(sorted(found))} instead of {', '.join(sorted(needed))}"
    elif not 0 < facts.parts <= facts.reversed_in_part <= facts.amount - facts.fee:
        yield f"{facts.parts} parts cannot have reversed {facts.reversed_in_part} (minor units)"


def _is_cancelled(row: Row) -> bool:
    return bool((row.get("reversed_for") or {}).get("error") == CANCELLED)


def _cancelled_at(failure: Mapping[str, str]) -> str:
    return failure["cause"].rpartition(" ")[2]


def _is_named(row: Row) -> bool:
    seconds = values.amount(row, "deadline_seconds")
    try:
        claimed, deadline = (datetime.fromisoformat(row[name]) for name in ("claimed_at", "deadline_at"))
        return deadline - claimed == timedelta(seconds=seconds)
    except (OverflowError, ValueError):  # a date that does not exist, or too many seconds
        return False


def _failure_faults(row: Row, facts: SettlementFacts) -> Iterator[str]:
    failure, reason = row.get("failure") or {}, row.get("reversed_for") or {}
    if facts.status == Status.REJECTED:
        unclaimed = ("claim",) if row["claimed_at"] == row["deadline_at"] else ()
        if failure.get("step") not in (Step.HOLD.value, *unclaimed):
            yield f"is REJECTED, but failed at {failure.get('step')}"
        if failure.get("error") == CANCELLED and _cancelled_at(failure) != row.get("finished_at"):
            yield f"is REJECTED at {row.get('finished_at')}, but was cancelled at {_cancelled_at(failure)}"
        return
    if facts.status == Status.LIMBO:
        if failure.get("step") != row.get("stuck_step"):
            yield f"is stuck at {row.get('stuck_step')}, but failed at {failure.get('step')}"
    elif facts.status in (Status.COMPENSATING, Status.COMPENSATED) and failure != reason:
        yield "its failure is not what it is reversed for"
    if facts.fee_at and reason and reason["step"] != "reverse":  # the fee's write settles
        yield "is reversed after its fee, but not on an order"
    if _is_cancelled(row) and "review" not in row:
        yield "is cancelled after its hold, but was not in review"
    slots = (facts.hold_at, facts.verify_at, facts.release_at, facts.fee_at)
    committed = sum(at is not None for at in slots)
    tried = steps_of(row.get("layout", FIRST))[: committed + 1]
    if reason and reason["step"] not in ("reverse", *tried):  # a later step may have committed meanwhile
        yield f"is reversed for {reason['step']}, but tried only {', '.join(tried)}"
    if (row.get("resolutions") == 0) != (facts.resolution is None) and "resolutions" in row:
        yield f"has {row['resolutions']} closed cases, and the decision {facts.resolution}"
    if (facts.resolution == Decision.COMPLETE) != (facts.status == Status.SETTLED and bool(reason)):
        yield f"is {facts.status} after the decision {facts.resolution}"


_STATUSES = frozenset(Status)
_DECISIONS = frozenset(decision.value for decision in Decision)
_STUCK = frozenset(step.reversal for step in REVERSIBLE)
_AMOUNT_END = 10**money.DIGITS_MAX
_REQUESTED = frozenset(OPTIONAL)
_TEXTS = values.texts(
    *("status", "payer", "payee", "currency", "request_hash", "owner", "claimed_at", "deadline_at")
)
_SLOTS = (
    *("hold_at", "verify_at", "release_at", "fee_at"),
    *("fee_reversed_at", "release_reversed_at", "hold_reversed_at"),
)
_OPTIONAL = (*_SLOTS, "verdict", "review", "gsi1pk")
_INSTANTS = (
    *("claimed_at", "deadline_at", *_SLOTS, "finished_at", "gsi1sk", "in_flight_since"),
    *("recover_at", "expired_at", "deadline_extended_at", NAMES_ERASED),
)
_FAILURE = ("step", "error", "cause")
_RESOLUTION = ("decision", "reason", "by", "decided_at")
_PARTS_OF = {
    FIRST: frozenset({"parts", "reversed_in_part"}),
    PARTS_COUNTED_BY_NAME: frozenset({"layout", "reversals_in_part", "reversed_in_part"}),
}
_PARTS = frozenset().union(*_PARTS_OF.values())


def _names(row: Row, attribute: str) -> str:
    names = row.get(attribute, frozenset())
    is_set = isinstance(names, set | frozenset) and all(isinstance(one, str) for one in names)
    if not (is_set and all(map(values.CHECK_NAME.fullmatch, names))):
        raise MalformedRow(f"{attribute} is no set of checks' names")
    return " ".join(sorted(names))


_RARE = frozenset(
    {
        *("failure", "reversed_for", "resolution", "resolutions", "stuck_step"),
        *("in_flight_since", "review", "recover_at", "waits", "answered", "checks"),
        *_PARTS,
    }
)
