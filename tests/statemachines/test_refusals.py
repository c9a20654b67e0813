"""A state catches by name exactly the refusals of its writes."""

from functools import cache

import pytest

from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, Write
from settlement.core.model.state import AccountState, SettlementState
from settlement.core.model.status import REVERSIBLE, Status, Step
from settlement.core.policy.compensation import CUT_OFF
from tests.infra.writes import CLAIMED, FENCED, ORDERED, WRITES, entering, resolving, reversing, stuck_at
from tests.statemachines.definitions import INVOCATIONS, STARTS, TASKS, task
from tests.statemachines.handlers import errors_raised
from tests.unit.conditions import admits
from tests.unit.every_row import rows_met_by
from tests.unit.vectors import SETTLEMENT

CONFLICT = "IdempotencyConflict"
"""The error for another request's row, which this execution neither rejects nor reverses."""

ALREADY_STARTED = {"StepFunctions.ExecutionAlreadyExistsException", "ExecutionAlreadyExists"}
"""A repeated start's error on AWS, and on the embedded AWS."""

ASKING = (
    "handlers/kyc/_provider",
    "settlement/kyc/shared_secrets",
    "settlement/kyc/client",
    "settlement/http/connection",
    "settlement/http/exchange",
    "settlement/http/shared_circuit",
    "settlement/kyc/circuit",
    "handlers/checks/_checks",
)

WITHIN = {
    "_Refused",
    "OSError",
    "NoAnswer",
    "NotAdmitted",
    "StoreUnavailable",
    "CheckUnavailable",
    "MalformedRow",
    CONFLICT,
}
"""Errors that VerifyKyc's modules raise, but that are not extra refusals.

The circuit and the client catch the first four, the next three stall the machine, and writes raise the last.
"""

OF_PROVIDER = errors_raised("handlers/core/_verification", *ASKING) - WITHIN
"""VerifyKyc's extra refusals, by the provider's answer or its absence."""

OF_CLAIM = errors_raised("handlers/core/hold_funds", "handlers/core/_claim")
"""HoldFunds' extra refusals: of the request, or of another execution's key."""

REPORTED = {"AlreadyClaimed": "$", "InReview": "$.in_review"}
"""Refusals that are only reported, each with its result path.

AlreadyClaimed replaces the state, because the execution's input has the request.
"""

FORWARD = {
    "HoldFunds": "RejectSettlement",
    "VerifyKyc": "Compensate",
    "ReleaseFunds": "Compensate",
    "CollectFee": "Compensate",
}

REVERSALS = {"RefundFee": Step.FEE, "ReclaimFunds": Step.RELEASE, "VoidHold": Step.HOLD}
CASE = stuck_at(Step.RELEASE, set(Step))
LIMBO = {
    "EnterLimbo": entering(CASE),
    "AwaitResolution": WRITES["AwaitResolution"],
    "ResolveLimbo": resolving(CASE),
}
"""The writes about one example case, because all cases have the same refusals."""


RAISED: dict[str, set[str]] = {
    **{
        name: {"StepFenced", CONFLICT}
        for name in (*FORWARD, "RejectSettlement", "RefundFee", "after an error")
    },
    "ReclaimFunds": {"StepFenced", CONFLICT, "AccountNotFound", "CurrencyMismatch", "InsufficientFunds"},
    "VoidHold": {"StepFenced", CONFLICT, "AccountNotFound", "CurrencyMismatch", "EscrowMismatch"},
    "on an order": {"NotReversible", CONFLICT},
    "EnterLimbo": {"StepFenced"},
    "AwaitResolution": {"StepFenced"},
    "ResolveLimbo": {"StepFenced", "ResolutionRefused", "AccountNotFound", "CaseNotCounted"},
}
"""Minimum refusals of each write, which prove that the tests examine enough rows."""


@cache
def raised(which: str) -> set[str]:
    return {
        type(answer).__name__
        for write in (WRITES | LIMBO | {"on an order": ORDERED, "after an error": FENCED})[which]
        for row in (None, *in_the_way_of(write))
        if not admits(write, row) and not isinstance(answer := meaning(write, row), AlreadyApplied)
    }


def meaning(write: Write, row: Row | None) -> Exception | AlreadyApplied:
    if row is None:
        return write.on_failure(None)
    if row["pk"].startswith("ACCOUNT#"):
        return write.on_failure(AccountState.from_row(row))
    return write.on_failure(SettlementState.from_row(CLAIMED | row) if "status" in row else row)


def in_the_way_of(write: Write) -> list[Row]:
    key = write.parameters.get("Key") or write.parameters["Item"]
    if key["pk"].startswith("ACCOUNT#"):
        marks: list[Row] = [{"frozen_at": "then"}, {"closed_at": "then"}]
        marks += [{}, {"limbo_cases": 1}]
        return [
            {"pk": key["pk"], "currency": currency, "available": available} | mark
            for currency in ("EUR", "USD")
            for available in (0, 10_000, 100_000_000)
            for mark in marks
        ]
    if key["sk"] == "WAITING":
        return [dict(key) | {"case": case} for case in (1, 2)]
    if key["sk"] == "SETTLEMENT":
        return [{"pk": key["pk"], "owner_epoch": 0} | row for row in rows_met_by(write)]
    return [{"pk": key["pk"], "request_hash": hash_} for hash_ in (SETTLEMENT.request_hash, "another")]


def caught_by_name(machine: str, name: str) -> dict[str, tuple[str, str | None]]:
    """Return each error caught by name, with its target and place."""
    named = [(error, entry) for entry in task(machine, name)["Catch"][:-1] for error in entry["ErrorEquals"]]
    found = {error: (entry["Next"], entry["ResultPath"]) for error, entry in named}
    assert len(found) == len(named), "only the first catch of an error counts"
    return found


def expected(machine: str, name: str) -> dict[str, tuple[str, str | None]]:
    """Return the errors that a state must catch by name.

    A refused request replaces the input, as nothing is written. A repeated start's error is dropped, so
    `error` stays the compensation's reason. Other errors are put next to the input.
    """
    if (machine, name) in STARTS:
        return dict.fromkeys(ALREADY_STARTED, ("ReportOutcome", None))
    if name == "RejectSettlement":  # another execution has claimed the key
        assert raised(name) == {"StepFenced", CONFLICT}
        assert errors_raised("handlers/core/reject_settlement") == {"AlreadyClaimed"}
        claimed = dict.fromkeys(("AlreadyClaimed", "StepFenced"), ("ReportOutcome", "$"))
        return {**claimed, CONFLICT: ("RequestRefused", "$")}
    if name == "BeginCompensation":  # an unclaimed key gets a tombstone before it is fenced
        refusals = (
            raised("on an order")
            | raised("after an error") - {"StepFenced"}
            | {"InvalidRequest", "ResolutionRefused"}
        )
        return dict.fromkeys(refusals, ("RequestRefused", "$"))
    if name in FORWARD:
        added = {"HoldFunds": OF_CLAIM, "VerifyKyc": OF_PROVIDER | {*CUT_OFF}}.get(name, set())
        found: dict[str, tuple[str, str | None]]
        found = dict.fromkeys(raised(name) - {CONFLICT} | added, (FORWARD[name], "$.error"))
        found |= {error: ("ReportOutcome", where) for error, where in REPORTED.items() if error in added}
        if name == "HoldFunds":
            found |= dict.fromkeys({"InvalidRequest", CONFLICT}, ("RequestRefused", "$"))
        return found
    others = {"States.Timeout": ("PrepareAlert", "$.error")} if name == "AwaitResolution" else {}
    if name in REVERSALS:  # a retry does not return money that the payee has spent
        stuck = raised(name) - {"StepFenced"}
        others = dict.fromkeys(stuck, ("EnterLimbo", f"$.stuck.{REVERSALS[name].value}"))
    if name in {*REVERSALS, *LIMBO, "PrepareAlert"}:  # look at the row again
        return {"StepFenced": ("BeginCompensation", "$.error"), **others}
    return {}


@pytest.mark.parametrize(("machine", "name"), TASKS)
def test_each_state_catches_exactly_its_writes_refusals(machine: str, name: str) -> None:
    """All other errors stall the machine, because an attempt that may still commit is not a refusal."""
    assert caught_by_name(machine, name) == expected(machine, name)


@pytest.mark.parametrize(("machine", "name"), INVOCATIONS)
def test_a_state_retries_every_error_but_a_final_one(machine: str, name: str) -> None:
    """AWS has more names for failed attempts than any list."""
    final, *rules = [rule for rule in task(machine, name)["Retry"] if rule["MaxAttempts"] == 0] or [None]

    assert not rules
    assert sorted(final["ErrorEquals"] if final else ()) == sorted(finals(machine, name))
    assert final in (None, task(machine, name)["Retry"][0])


def finals(machine: str, name: str) -> set[str]:
    if name == "ResolveLimbo":  # the next alert shows the person the reason
        return raised(name) | {"InvalidRequest", CONFLICT}
    if name == "VerifyKyc":  # ask the provider again; after the last try the settlement is compensated
        return expected(machine, name).keys() - {"KycUnavailable", *CUT_OFF}
    return set(expected(machine, name))


def test_provider_and_claim_refusals_are_those_listed_here() -> None:
    reasons = {"KycRejected", "KycRequestRefused", "KycUnavailable", "KycCircuitOpen", "CheckRefused"}

    assert reasons | {"InReview"} == OF_PROVIDER
    assert {"AlreadyClaimed", "InvalidRequest"} == OF_CLAIM


@pytest.mark.parametrize("which", RAISED)
def test_the_writes_raise_at_least_the_listed_refusals(which: str) -> None:
    assert raised(which) >= RAISED[which]


def is_due(step: Step, row: Row) -> bool:
    return step.slot in row and step.reversal_slot not in row


@pytest.mark.parametrize("name", REVERSALS)
def test_a_reversal_still_due_is_never_fenced(name: str) -> None:
    """After StepFenced, the machine reads the row again. If this step were still due, it would loop."""
    step = REVERSALS[name]
    committed = reversing(step)
    same = [
        row
        for row in in_the_way_of(committed.settlement)
        if row["status"] == Status.COMPENSATING
        and row["request_hash"] == SETTLEMENT.request_hash
        and next((each for each in REVERSIBLE if is_due(each, row)), None) is step
    ]

    assert same
    for row in same:
        if not admits(committed.settlement, row):
            assert type(meaning(committed.settlement, row)).__name__ != "StepFenced", row
