"""The writes of compensation: pure functions, pinned by golden vectors, like those of `items`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from settlement import rows
from settlement.conditions import (
    AS_SEEN,
    COMMITTED,
    COMPENSATES,
    HOLDS_EXACTLY,
    IN_PROCESS,
    NEVER_RESOLVED,
    NOT_IN_REVIEW,
    NOT_YET_COMMITTED,
    NOT_YET_REVERSED,
    NOTHING_COMMITTED,
    OWNED,
    SAME_CURRENCY,
    SAME_REQUEST,
    SUFFICIENT,
)
from settlement.errors import EscrowMismatch, InsufficientFunds, NotReversible, SettlementError, StepFenced
from settlement.refusals import account_mismatch, account_refusal, other_content, standing
from settlement.request import Settlement
from settlement.rows import Row
from settlement.status import Status, Step
from settlement.terms import Terms
from settlement.writes import Standing, Write, put, update


def refuse_unclaimed(settlement: Settlement, owner: str, failure: Mapping[str, str], now: datetime) -> Write:
    """Take a key that nobody has claimed for a finished settlement, so that a late claim finds it finished.

    A key that was claimed stands as it is.
    """
    at = rows.timestamp(now)
    row = {
        **rows.settlement_key(settlement.key),
        "status": Status.REJECTED,
        "escrow": 0,
        **settlement.to_row(),
        "owner": owner,
        "claimed_at": at,
        "deadline_at": at,
        "recoveries": 0,
        "failure": dict(failure),
        "finished_at": at,
    }
    return put(row, standing)


def begin(settlement: Settlement, failure: Mapping[str, str], *, owner: str | None, execution: str) -> Write:
    """Take PROCESSING away, which fences off every forward step. In any other status the row stands.

    From here on `execution` drives the settlement.
    So it does where `owner` asks, an execution that drives the settlement, for what goes on without it: where
    another one has become the owner, a review waits for its end, or the release has committed, after which
    there is no way but on.
    """

    def refusal(row: Row | None) -> SettlementError | Standing:
        if row is None:
            return StepFenced(f"compensate: the key {settlement.key} was never claimed")
        if row["request_hash"] != settlement.request_hash:
            return other_content(settlement)
        return Standing(row)

    asked: tuple[str, ...] = ()
    values: dict[str, Any] = {}
    if owner is not None:
        asked = (OWNED, NOT_IN_REVIEW, NOT_YET_COMMITTED)
        values = {":owner": owner, ":this": Step.RELEASE}
    return update(
        rows.settlement_key(settlement.key),
        "SET #status = :compensating, #failure = :failure, reversed_for = :failure, resolutions = :none,"
        " #owner = :execution",
        *(IN_PROCESS, SAME_REQUEST, *asked),
        values={
            ":processing": Status.PROCESSING,
            ":compensating": Status.COMPENSATING,
            ":request_hash": settlement.request_hash,
            ":failure": dict(failure),
            ":none": 0,
            ":execution": execution,
            **values,
        },
        refusal=refusal,
    )


def drive(settlement: Settlement, execution: str) -> Write:
    """Make `execution` the one that drives what is being reversed. In any other status the row stands."""

    def refusal(row: Row | None) -> SettlementError | Standing:
        if row and row["request_hash"] != settlement.request_hash:
            return other_content(settlement)
        return standing(row)

    return update(
        rows.settlement_key(settlement.key),
        "SET #owner = :execution",
        *(COMPENSATES, SAME_REQUEST),
        values={
            ":compensating": Status.COMPENSATING,
            ":request_hash": settlement.request_hash,
            ":execution": execution,
        },
        refusal=refusal,
    )


def reopen(
    settlement: Settlement, seen: Status, failure: Mapping[str, str], now: datetime, terms: Terms
) -> Write:
    """Begin to reverse on a person's order what they have seen SETTLED or PROCESSING."""

    def refusal(row: Row | None) -> SettlementError:
        if row is None:
            return NotReversible(f"reverse: the key {settlement.key} was never claimed")
        if row["request_hash"] != settlement.request_hash:
            return other_content(settlement)
        settled = row["status"] == Status.SETTLED
        completed = " and was completed out of LIMBO" * (settled and "resolution" in row)
        return NotReversible(
            f"reverse: it was to be {seen}, but the settlement is {row['status']}{completed}"
        )

    index = rows.in_flight_index(settlement.key, rows.timestamp(now + terms.time_to_recover))
    return update(
        rows.settlement_key(settlement.key),
        "SET #status = :compensating, #failure = :failure, reversed_for = :failure, resolutions = :none,"
        " in_flight_since = :now, gsi1pk = :gsi1pk, gsi1sk = :gsi1sk REMOVE finished_at",
        *(AS_SEEN, SAME_REQUEST, NEVER_RESOLVED),
        values={
            ":seen": seen,
            ":compensating": Status.COMPENSATING,
            ":request_hash": settlement.request_hash,
            ":failure": dict(failure),
            ":none": 0,
            ":now": rows.timestamp(now),
            **{f":{name}": value for name, value in index.items()},
        },
        refusal=refusal,
    )


def undo(settlement: Settlement, step: Step, *, escrow_change: int, now: datetime) -> Write:
    """Record on the settlement's row that `step` is reversed, and what that moves into (+) or out of escrow.

    The hold is the last to be reversed: it empties the escrow and finishes the settlement in the same write.
    """

    def refusal(row: Row | None) -> SettlementError:
        if row and row["status"] == Status.COMPENSATING and _is_due(settlement, step, row):
            return EscrowMismatch(f"{step.reversal}: the escrow holds something else than was held")
        return fenced(settlement, step.reversal, row)

    conditions = [COMPENSATES, SAME_REQUEST, COMMITTED, NOT_YET_REVERSED]
    values: dict[str, Any] = {
        ":compensating": Status.COMPENSATING,
        ":request_hash": settlement.request_hash,
        ":this": step,
        ":steps": {step.value},
        ":change": escrow_change,
    }
    assignments, removals = ["escrow = escrow + :change"], ""
    if step is Step.HOLD:
        conditions += [HOLDS_EXACTLY]
        assignments += ["#status = :compensated", "finished_at = :now"]
        removals = " REMOVE gsi1pk, gsi1sk"
        values |= {
            ":held": settlement.amount,
            ":compensated": Status.COMPENSATED,
            ":now": rows.timestamp(now),
        }
    return update(
        rows.settlement_key(settlement.key),
        f"SET {', '.join(assignments)}{removals} ADD reversed :steps",
        *conditions,
        values=values,
        refusal=refusal,
    )


def conclude(settlement: Settlement, now: datetime) -> Write:
    """Finish a settlement of which nothing was ever held."""
    return update(
        rows.settlement_key(settlement.key),
        "SET #status = :compensated, finished_at = :now REMOVE gsi1pk, gsi1sk",
        *(COMPENSATES, SAME_REQUEST, NOTHING_COMMITTED),
        values={
            ":compensating": Status.COMPENSATING,
            ":compensated": Status.COMPENSATED,
            ":request_hash": settlement.request_hash,
            ":now": rows.timestamp(now),
        },
        refusal=lambda row: fenced(settlement, Step.HOLD.reversal, row),
    )


def pass_over(settlement: Settlement, step: Step) -> Write:
    """Demand that there is nothing to reverse: the step never committed, and is fenced off. The row stays."""
    return update(
        rows.settlement_key(settlement.key),
        "SET escrow = escrow",
        *(COMPENSATES, SAME_REQUEST, NOT_YET_COMMITTED),
        values={
            ":compensating": Status.COMPENSATING,
            ":request_hash": settlement.request_hash,
            ":this": step,
        },
        refusal=lambda row: fenced(settlement, step.reversal, row),
    )


def debit_payee(settlement: Settlement) -> Write:
    """Take the net amount back from the payee, who may have spent it."""

    def refusal(row: Row | None) -> SettlementError:
        return account_refusal("payee", settlement.currency, row) or InsufficientFunds(
            "payee: the account has too little available to give back what it received"
        )

    return update(
        rows.account_key(settlement.payee),
        "SET available = available - :amount",
        *(SAME_CURRENCY, SUFFICIENT),
        values={":amount": settlement.net, ":currency": settlement.currency},
        refusal=refusal,
    )


def credit_payer(settlement: Settlement) -> Write:
    """Give the amount back to the payer, whatever the stage's highest balance: it was theirs before."""
    return update(
        rows.account_key(settlement.payer),
        "SET available = available + :amount",
        SAME_CURRENCY,
        values={":amount": settlement.amount, ":currency": settlement.currency},
        refusal=lambda row: account_mismatch("payer", settlement.currency, row),
    )


def fenced(settlement: Settlement, what: str, row: Row | None) -> SettlementError:
    """Why the settlement's row does not admit a write of its compensation: somebody else has gone on."""
    if row is None:
        return StepFenced(f"{what}: the key {settlement.key} was never claimed")
    if row["request_hash"] != settlement.request_hash:
        return other_content(settlement)
    committed, reversed_ = (sorted(row.get(name, ())) for name in ("steps", "reversed"))
    return StepFenced(
        f"{what}: the settlement is {row['status']} with steps [{', '.join(committed)}] committed"
        f" and [{', '.join(reversed_)}] reversed"
    )


def _is_due(settlement: Settlement, step: Step, row: Row) -> bool:
    same_request = row["request_hash"] == settlement.request_hash
    return same_request and step in row.get("steps", ()) and step not in row.get("reversed", ())
