"""What each function sends to DynamoDB: every write that any of its branches builds."""

import inspect
import re
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from itertools import product
from typing import Any

from settlement import compensation, items, limbo, recovery, reversals, reviews, rows, steps
from settlement.limbo import Case
from settlement.request import Settlement
from settlement.resolution import Decision, Resolution, Reversal
from settlement.rows import Row
from settlement.status import REVERSIBLE, Status, Step
from settlement.terms import Terms
from settlement.writes import Posting, Write
from tests.conftest import NOW
from tests.support.kyc import APPROVED, IN_REVIEW, REJECTED

FAILURE = {"step": "release", "error": "CapExceeded", "cause": "too much"}
ORDERS = [
    Reversal(reason="paid twice", by="arn:aws:iam::000000000000:user/carol", seen=seen)
    for seen in (Status.SETTLED, Status.PROCESSING)
]

VERDICTS = (APPROVED, REJECTED)
EVENT = reviews.Event("msg_1", "a-digest")

_WORDS = {"attribute_exists", "attribute_not_exists", "begins_with", "contains", "if_not_exists", "size"}
"""What DynamoDB's expressions say in small letters and is no attribute."""


def writes(settlement: Settlement, terms: Terms) -> dict[str, list[Write]]:
    """The writes of every function, as the steps shape them; none where it only reads."""
    later = NOW + timedelta(seconds=1)
    return {
        "ClaimKey": [items.claim(settlement, "owner", NOW, terms)],
        "HoldFunds": [*steps.hold(settlement, NOW).writes],
        "VerifyKyc": [
            *(one for verdict in VERDICTS for one in steps.verify(settlement, verdict, NOW).writes),
            parking(settlement),
        ],
        "ReleaseFunds": [*steps.release(settlement, terms, later).writes],
        "CollectFee": [*steps.fee(settlement, NOW).writes],
        "RejectSettlement": [items.reject(settlement, FAILURE, NOW)],
        "ReportOutcome": [],
        "BeginCompensation": [
            reversals.refuse_unclaimed(settlement, "execution", FAILURE, NOW),
            *(_begun(settlement, owner) for owner in ("execution", None)),
            *(one for o in ORDERS for one in compensation.requested(settlement, o, NOW, terms).writes),
            reversals.drive(settlement, "compensation"),
        ],
        "RefundFee": [*_undoing(settlement, Step.FEE)],
        "ReclaimFunds": [*_undoing(settlement, Step.RELEASE)],
        "VoidHold": [*_undoing(settlement, Step.HOLD)],
        "EnterLimbo": [*_entering(settlement)],
        "PreparePage": [],
        "AwaitResolution": [limbo.await_decision(settlement, "token", "execution")],
        "ResolveLimbo": [*_resolving(settlement, terms)],
        "KycDecided": [
            one
            for verdict in VERDICTS
            for one in steps.verdict_received(settlement, verdict, EVENT, "owner", NOW, terms)
        ],
        "RecoverStalled": [*_recovering(settlement, terms)],
        "StartSettlements": [items.claim(settlement, "owner", NOW, terms)],
    }


def parking(settlement: Settlement) -> Write:
    """What VerifyKyc does with a payment that is in review: the one step that moves a settlement's index."""
    return reviews.park(settlement, IN_REVIEW, NOW + timedelta(days=1), NOW)


def all_writes(settlement: Settlement, terms: Terms) -> list[Write]:
    return [write for of_state in writes(settlement, terms).values() for write in of_state]


def reads(state: str) -> bool:
    """Whether the handler of a state reads a row, by its source."""
    module = re.sub(r"(?<!^)(?=[A-Z])", "_", state).lower()
    return "store.read(" in inspect.getsource(import_module(f"handlers.{module}"))


def is_entry(write: Write) -> bool:
    return "posted_at" in write.parameters.get("Item", {})


def assigned(write: Write) -> set[str]:
    """The attributes that an update changes."""
    return _names(write, write.parameters["UpdateExpression"])


def names_in(write: Write) -> set[str]:
    """The attributes that an update's expressions name: what IAM counts, conditions included."""
    return assigned(write) | _names(write, write.parameters["ConditionExpression"])


def _names(write: Write, expression: str) -> set[str]:
    words = set(re.findall(r"(?<![:\w])#?[a-z]\w*", expression))
    aliases: dict[str, Any] = write.parameters.get("ExpressionAttributeNames", {})
    return {aliases.get(word, word) for word in words} - _WORDS


def stalled(settlement: Settlement, terms: Terms) -> list[Row]:
    """A settlement's row in every state out of which recovery drives it on."""
    claimed: Row = items.claim(settlement, "owner", NOW, terms).parameters["Item"]
    over = {"deadline_at": rows.timestamp(NOW)}
    return [
        claimed,
        claimed | over,
        claimed | over | {"review": IN_REVIEW.reference},
        claimed | over | {"steps": {Step.HOLD, Step.VERIFY, Step.RELEASE}},
        claimed | {"status": Status.COMPENSATING},
        claimed | {"status": Status.LIMBO},
    ]


def _recovering(settlement: Settlement, terms: Terms) -> Iterator[Write]:
    """Each takeover, and how what is driven, or cannot be understood, is looked at again later."""
    for row in stalled(settlement, terms):
        takeover = recovery.take_over(row, NOW, terms)
        assert takeover
        yield takeover.write
        yield recovery.postpone(row, NOW, terms)
    at = rows.timestamp(NOW)
    listed: Row = {**rows.settlement_key(settlement.key), **rows.in_flight_index(settlement.key, at)}
    yield recovery.set_aside(listed, NOW)


def _begun(settlement: Settlement, owner: str | None) -> Write:
    return reversals.begin(settlement, FAILURE, owner=owner, execution="compensation")


def _undoing(settlement: Settlement, step: Step) -> Iterator[Write]:
    """The reversal of a step that has committed, and the record of one that never has."""
    for committed in (list(Step), []):
        posting = compensation.undo(settlement, step, committed, [], NOW)
        assert posting
        yield from posting.writes


def _stuck(settlement: Settlement) -> Iterator[tuple[Row, Case]]:
    """A row and its case for each reversal that may be stuck, whether its step has committed or not."""
    for position, step in enumerate(REVERSIBLE):
        for committed in (set(Step), set[Step]()):
            row: Row = {
                "steps": committed,
                "reversed": committed & set(REVERSIBLE[:position]),
                "escrow": settlement.fee if committed else 0,
                "stuck_step": step.reversal,
            }
            yield row, compensation.case_of(settlement, row, step)


def _entering(settlement: Settlement) -> Iterator[Write]:
    for _, case in _stuck(settlement):
        yield from compensation.enter_limbo(settlement, case, FAILURE, NOW).writes


def _resolving(settlement: Settlement, terms: Terms) -> Iterator[Write]:
    for (row, _), decision in product(_stuck(settlement), Decision):
        case = compensation.stuck(settlement, row)
        resolution = Resolution(reason=ORDERS[0].reason, by=ORDERS[0].by, decision=decision)
        posting: Posting = compensation.resolve(settlement, case, resolution, "compensation", NOW, terms)
        yield from posting.writes
