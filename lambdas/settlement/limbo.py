"""The writes into LIMBO, in it, and out of it: pure functions, pinned by golden vectors."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from settlement import rows
from settlement.conditions import (
    COMMITTED,
    COMPENSATES,
    EXISTS,
    HOLDS_EXACTLY,
    IN_LIMBO,
    NOT_YET_REVERSED,
    SAME_REQUEST,
    SAME_ROUND,
)
from settlement.errors import AccountNotFound, ResolutionRefused, SettlementError, StepFenced
from settlement.refusals import other_content
from settlement.request import Settlement
from settlement.resolution import Decision, Resolution
from settlement.reversals import fenced
from settlement.rows import Row
from settlement.status import Status, Step
from settlement.terms import Terms
from settlement.writes import Write, update


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is stuck: the reversal of `step`, which should move `amount` (minor units).

    `account` is the party that it is stuck on: the one to pay it back, or for a hold the one to receive it.
    `barred` is the customer who places no holds meanwhile, None where the account is internal or gone.
    `number` counts the cases of the settlement, from 1: as many decisions were made on it before, less one.
    `escrow` is what the settlement's escrow holds meanwhile (minor units).
    `done`: the step is reversed, it is only its function that never says so.
    """

    step: Step
    account: str
    barred: str | None
    amount: int
    number: int
    escrow: int
    done: bool = False


def enter(settlement: Settlement, case: Case, failure: Mapping[str, str], now: datetime) -> Write:
    """Put a settlement whose reversal is stuck into LIMBO."""
    conditions = [COMPENSATES, SAME_REQUEST, SAME_ROUND]
    if not case.done:
        conditions += [NOT_YET_REVERSED]
    index = rows.limbo_index(rows.timestamp(now))
    return update(
        rows.settlement_key(settlement.key),
        "SET #status = :limbo, stuck_step = :stuck, #failure = :failure, gsi1pk = :gsi1pk, gsi1sk = :gsi1sk",
        *conditions,
        values={
            ":compensating": Status.COMPENSATING,
            ":limbo": Status.LIMBO,
            ":request_hash": settlement.request_hash,
            ":resolutions": case.number - 1,
            **({} if case.done else {":this": case.step}),
            ":stuck": case.step.reversal,
            ":failure": dict(failure),
            **{f":{name}": value for name, value in index.items()},
        },
        refusal=lambda row: fenced(settlement, "limbo", row),
    )


def flag(account: str, key: str) -> Write:
    """Bar a customer's account from new holds until the settlement `key` is resolved."""
    return _mark(account, key, "ADD limbo_keys :keys")


def unflag(account: str, key: str) -> Write:
    """Take the settlement off the account, which is out of LIMBO with its last one."""
    return _mark(account, key, "DELETE limbo_keys :keys")


def await_decision(settlement: Settlement, token: str, execution: str) -> Write:
    """Note which execution waits for the decision, and the token that wakes it."""
    return update(
        rows.settlement_key(settlement.key),
        "SET waiting = :waiting",
        *(IN_LIMBO, SAME_REQUEST),
        values={
            ":limbo": Status.LIMBO,
            ":request_hash": settlement.request_hash,
            ":waiting": {"token": token, "execution": execution},
        },
        refusal=lambda row: fenced(settlement, "limbo", row),
    )


def leave(
    settlement: Settlement, case: Case, resolution: Resolution, execution: str, now: datetime, terms: Terms
) -> Write:
    """Carry out a person's decision on the settlement's row: the only write that leads out of LIMBO.

    From here on `execution` drives the settlement; one that still waits for a decision does not.
    """
    conditions = [IN_LIMBO, SAME_REQUEST, SAME_ROUND, HOLDS_EXACTLY]
    values: dict[str, Any] = {
        ":limbo": Status.LIMBO,
        ":request_hash": settlement.request_hash,
        ":resolutions": case.number - 1,
        ":held": case.escrow,
        ":number": case.number,
        ":resolution": resolution.record() | {"decided_at": rows.timestamp(now)},
        ":status": Status.COMPENSATING,
        ":execution": execution,
        ":now": rows.timestamp(now),
    }
    assignments = ["#status = :status", "resolutions = :number", "resolution = :resolution"]
    assignments += ["#owner = :execution", "in_flight_since = :now"]
    removals, additions = ["stuck_step", "waiting", "recover_at"], ""
    if resolution.decision is Decision.COMPLETE:
        conditions += [COMMITTED, NOT_YET_REVERSED]
        values |= {
            ":this": Step.RELEASE,
            ":status": Status.SETTLED,
            ":change": -case.escrow,
        }
        assignments += ["escrow = escrow + :change", "finished_at = :now"]
        removals += ["#failure", "gsi1pk", "gsi1sk"]
    else:
        due = rows.timestamp(now + terms.time_to_recover)
        index = rows.in_flight_index(settlement.key, due)
        values |= {f":{name}": value for name, value in index.items()}
        assignments += ["#failure = reversed_for", "gsi1pk = :gsi1pk", "gsi1sk = :gsi1sk"]
    if resolution.decision is Decision.WRITE_OFF:
        conditions += [COMMITTED, NOT_YET_REVERSED]
        values |= {":this": case.step, ":steps": {case.step.value}, ":change": case.amount}
        assignments += ["escrow = escrow + :change"]
        additions = " ADD reversed :steps"
    return update(
        rows.settlement_key(settlement.key),
        f"SET {', '.join(assignments)} REMOVE {', '.join(removals)}{additions}",
        *conditions,
        values=values,
        refusal=lambda row: _not_as_it_was(settlement, row),
    )


def _not_as_it_was(settlement: Settlement, row: Row | None) -> SettlementError:
    if row is None:
        return StepFenced(f"resolve: the key {settlement.key} was never claimed")
    if row["request_hash"] != settlement.request_hash:
        return other_content(settlement)
    if row["status"] == Status.LIMBO:
        return ResolutionRefused("resolution: the settlement has moved on since it was looked at")
    return StepFenced(f"resolve: the settlement is {row['status']}, not in LIMBO")


def _mark(account: str, key: str, expression: str) -> Write:
    return update(
        rows.account_key(account),
        expression,
        EXISTS,
        values={":keys": {key}},
        refusal=lambda row: AccountNotFound("stuck party: there is no such account"),
    )
