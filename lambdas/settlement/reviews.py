"""The writes of a verdict, and of the review that may come before it: pure, pinned by golden vectors."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeGuard

from settlement import rows
from settlement.conditions import (
    BEFORE_DEADLINE,
    IN_PROCESS,
    NO_VERDICT,
    NOT_GIVEN_UP,
    NOT_IN_REVIEW,
    PREVIOUS_COMMITTED,
    SAME_REQUEST,
    THIS_REVIEW,
)
from settlement.errors import IdempotencyConflict, KycUnavailable, SettlementError, StepFenced
from settlement.refusals import fence_refusal, other_content
from settlement.request import Settlement
from settlement.rows import Row
from settlement.status import Status, Step
from settlement.terms import Terms
from settlement.verdict import KycDecision, Verdict
from settlement.writes import Standing, Write, put, update


@dataclass(frozen=True)
class Event:
    """A webhook's event: the id that its sender gave it, and the digest of what it says."""

    id: str
    digest: str


_AWAITS_VERDICT = (
    *(IN_PROCESS, SAME_REQUEST, PREVIOUS_COMMITTED),
    *(NO_VERDICT, BEFORE_DEADLINE, NOT_GIVEN_UP),
)


def conclude(settlement: Settlement, verdict: Verdict, now: datetime) -> Write:
    """Record on the settlement's row how the provider has decided. Only an approval commits the step.

    Where another call has left the payment to a review, only the review's end decides.
    """

    def refusal(row: Row | None) -> SettlementError:
        if _is_in_process(row, settlement) and "review" in row:
            return KycUnavailable("kyc: another call was told meanwhile that the payment is in review")
        return fence_refusal(settlement, Step.VERIFY, row)

    expression, values = _conclusion(settlement, verdict, now)
    return update(
        rows.settlement_key(settlement.key),
        expression,
        *(*_AWAITS_VERDICT, NOT_IN_REVIEW),
        values=values,
        refusal=refusal,
    )


def park(settlement: Settlement, verdict: Verdict, until: datetime, now: datetime) -> Write:
    """Leave the settlement, with what it holds, to a review that ends at `until`, and its deadline with it.

    Until then it is not to move: what is late counts from there.
    Where a verdict came first, or the payment is in review already, the row stands.
    """

    def refusal(row: Row | None) -> SettlementError | Standing:
        if row and row["request_hash"] == settlement.request_hash and "verdict" in row:
            return Standing(row)
        if _is_in_process(row, settlement) and "review" in row:
            return Standing(row)
        return fence_refusal(settlement, Step.VERIFY, row)

    index = rows.in_flight_index(settlement.key, rows.timestamp(until))
    return update(
        rows.settlement_key(settlement.key),
        "SET review = :review, deadline_at = :until, in_flight_since = :until,"
        " gsi1pk = :gsi1pk, gsi1sk = :gsi1sk",
        *(*_AWAITS_VERDICT, NOT_IN_REVIEW),
        values={
            **_awaiting(settlement, now),
            ":review": verdict.reference,
            ":until": rows.timestamp(until),
            **{f":{name}": value for name, value in index.items()},
        },
        refusal=refusal,
    )


def decide(settlement: Settlement, verdict: Verdict, owner: str, now: datetime, terms: Terms) -> Write:
    """Record what the provider's webhook tells, and hand the settlement to the execution called `owner`.

    It gets the time that a new settlement would get, as the review may have taken all that there was; but a
    deadline that the request has named stands. And each owner has a number of its own (`recoveries`), by
    which the reversal is named that it may have to start.
    """

    def refusal(row: Row | None) -> SettlementError:
        if _is_in_process(row, settlement) and row.get("review", verdict.reference) != verdict.reference:
            return StepFenced("reference: the settlement waits for another verification")
        return fence_refusal(settlement, Step.VERIFY, row)

    expression, values = _conclusion(settlement, verdict, now)
    index = rows.in_flight_index(settlement.key, rows.timestamp(now + terms.time_to_recover))
    assignments = (
        "#owner = :owner, recoveries = recoveries + :one, in_flight_since = :now,"
        " gsi1pk = :gsi1pk, gsi1sk = :gsi1sk"
    )
    deadline = {}
    if settlement.deadline_seconds is None:
        assignments += ", deadline_at = :deadline"
        deadline = {":deadline": rows.timestamp(now + terms.time_to_settle(None))}
    return update(
        rows.settlement_key(settlement.key),
        expression.replace("SET ", f"SET {assignments}, "),
        *(*_AWAITS_VERDICT, THIS_REVIEW),
        values={
            **values,
            ":review": verdict.reference,
            ":owner": owner,
            ":one": 1,
            **deadline,
            **{f":{name}": value for name, value in index.items()},
        },
        refusal=refusal,
    )


def event_marker(event: Event, settlement: Settlement, now: datetime) -> Write:
    """Take the id of a webhook's event, so that it has its effect once. The same event again stands."""

    def refusal(row: Row | None) -> SettlementError | Standing:
        if row and row["digest"] == event.digest:
            return Standing(row)
        return IdempotencyConflict("webhook-id: was used before by an event with other content")

    row = {
        **rows.event_key(event.id),
        "digest": event.digest,
        "key": settlement.key,
        "received_at": rows.timestamp(now),
    }
    return put(row, refusal)


def verdict_entry(settlement: Settlement, verdict: Verdict, now: datetime) -> Write:
    """The journal entry of a webhook's verdict. One that says the same stands, another is a conflict."""

    def refusal(row: Row | None) -> SettlementError | Standing:
        if row is None or row["request_hash"] != settlement.request_hash:
            return other_content(settlement)
        if row["decision"] == verdict.decision:
            return Standing(row)
        return IdempotencyConflict(f"decision: {row['decision']} is on record, for good")

    return put(
        {
            **rows.entry_key(settlement.key, Step.VERIFY),
            "step": Step.VERIFY.value,
            "posted_at": rows.timestamp(now),
            "request_hash": settlement.request_hash,
            **verdict.evidence(),
        },
        refusal,
    )


def _conclusion(settlement: Settlement, verdict: Verdict, now: datetime) -> tuple[str, dict[str, Any]]:
    values = {**_awaiting(settlement, now), ":verdict": verdict.decision.value}
    if verdict.decision is KycDecision.APPROVED:
        return "SET verdict = :verdict REMOVE review ADD steps :steps", values | {
            ":steps": {Step.VERIFY.value}
        }
    return "SET verdict = :verdict REMOVE review", values


def _is_in_process(row: Row | None, settlement: Settlement) -> TypeGuard[Row]:
    return bool(row and row["request_hash"] == settlement.request_hash and row["status"] == Status.PROCESSING)


def _awaiting(settlement: Settlement, now: datetime) -> dict[str, Any]:
    return {
        ":processing": Status.PROCESSING,
        ":request_hash": settlement.request_hash,
        ":previous": Step.HOLD.value,
        ":now": rows.timestamp(now),
    }
