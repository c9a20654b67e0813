"""Tests errors' names (a contract), attributes and messages, and that refusals are not retried."""

import json
from pathlib import Path
from typing import Any

import pytest

from settlement.core.model import errors
from settlement.core.model.errors import Refusal, SettlementError
from settlement.core.model.status import REVERSIBLE, Step

MACHINES = sorted((Path(__file__).parents[2] / "statemachines").glob("*.asl.json"))
STATES: list[dict[str, Any]] = [
    state for machine in MACHINES for state in json.loads(machine.read_text())["States"].values()
]
OF_THE_PLATFORM = {"ExecutionAlreadyExists"}
"""Errors that Step Functions raises itself when it starts a machine: their names have no dot."""

OURS = {
    name: error
    for name, error in vars(errors).items()
    if isinstance(error, type) and issubclass(error, SettlementError) and not name.startswith("_")
}
BASES = {SettlementError, Refusal}

EXAMPLES: tuple[tuple[SettlementError, str, dict[str, Any]], ...] = (
    (errors.AccountNotFound("payer"), "payer: there is no such account", {"party": "payer"}),
    (errors.CurrencyMismatch("payee", "kept in USD"), "payee: kept in USD", {"party": "payee"}),
    (
        errors.InsufficientFunds("payer"),
        "payer: the account has too little available for this amount",
        {"party": "payer"},
    ),
    (
        errors.AccountInLimbo("payer"),
        "payer: the account is in LIMBO and places no holds until that is resolved",
        {"party": "payer"},
    ),
    (
        errors.CaseNotCounted("stuck party"),
        "stuck party: the account counts no open case: set its limbo_cases as settle reconcile says",
        {"party": "stuck party"},
    ),
    (
        errors.AccountFrozen("payer"),
        "payer: the account is frozen and places no holds until a person unfreezes it",
        {"party": "payer"},
    ),
    (errors.AccountClosed("payee"), "payee: the account is closed", {"party": "payee"}),
    (errors.AccountExists("account"), "account: another order has opened the account", {"party": "account"}),
    (errors.AccountNotFrozen("account"), "account: the account is not frozen", {"party": "account"}),
    (errors.AccountNotEmpty("account"), "account: the account still has money", {"party": "account"}),
    (
        errors.CapExceeded.of("payee", "EUR"),
        "payee: the account would hold more than this stage allows in EUR",
        {"party": "payee"},
    ),
    (
        errors.DeadlineExceeded("hold", "2026-11-20T12:15:00.123Z"),
        "hold: the settlement's deadline was 2026-11-20T12:15:00.123Z",
        {"step": "hold", "deadline_at": "2026-11-20T12:15:00.123Z"},
    ),
    (
        errors.RowDamaged.of(ValueError("SETTLEMENT#order-2026-000101: owner is no str")),
        "SETTLEMENT#order-2026-000101: owner is no str;"
        " mend the row, as the runbook of settle reconcile says",
        {},
    ),
    (errors.ApprovalNeeded("write-off", 2), "write-off: needs 2 persons: propose it", {}),
    (errors.StepFenced("report", "too late"), "report: too late", {"step": "report", "status": None}),
    (
        errors.StepFenced.unclaimed("hold", "order-2026-000101"),
        "hold: the key order-2026-000101 was never claimed",
        {"step": "hold", "status": None},
    ),
    (
        errors.StepFenced.at("release", "COMPENSATING", ("verify", "hold")),
        "release: the settlement is COMPENSATING with steps [hold, verify] committed",
        {"step": "release", "status": "COMPENSATING"},
    ),
    (
        errors.StepFenced.at("compensate:fee", "COMPENSATED", ("verify", "hold"), ("release", "fee")),
        "compensate:fee: the settlement is COMPENSATED with steps [hold, verify] committed"
        " and [fee, release] reversed",
        {"step": "compensate:fee", "status": "COMPENSATED"},
    ),
    (
        errors.IdempotencyConflict.of_key("order-2026-000101"),
        "key: order-2026-000101 was claimed by a request with other content",
        {},
    ),
    (
        errors.AlreadyClaimed("order-2026-000101", "SETTLED"),
        "key: order-2026-000101 is SETTLED, and not for this execution to run",
        {"status": "SETTLED"},
    ),
    (
        errors.NotCancellable("the payee is paid", "SETTLED"),
        "cancel: the payee is paid",
        {"status": "SETTLED"},
    ),
    (errors.SequenceChanged(2, 3), "If-Match: the sequence is 3, and not 2: read the outcome again", {}),
    (
        errors.NotReversible("the settlement is LIMBO", "LIMBO"),
        "reverse: the settlement is LIMBO",
        {"status": "LIMBO"},
    ),
    (errors.PayoutFenced("send", "it is PAID"), "send: it is PAID", {"move": "send"}),
    (
        errors.EscrowMismatch("compensate:hold"),
        "compensate:hold: the escrow holds something else than was held",
        {"step": "compensate:hold"},
    ),
)

PLAIN = {
    errors.CallerUnknown,
    *(
        errors.InvalidRequest,
        errors.InReview,
        errors.KycRejected,
        errors.KycRequestRefused,
        errors.CheckRefused,
        errors.SignatureRefused,
    ),
    *(errors.SettlementNotFound, errors.ResolutionRefused, errors.PartRefused, errors.ProposalRefused),
    *(errors.PayoutNotFound, errors.PayoutRefused, errors.DestinationRefused, errors.LineRefused),
    *(errors.PageUnavailable, errors.EventsUnavailable),
    *(errors.StoreUnavailable, errors.KycUnavailable, errors.KycCircuitOpen, errors.CheckUnavailable),
    *(errors.QueueUnavailable, errors.StartUnavailable, errors.JournalUnavailable),
    *(errors.BooksUnavailable, errors.PayRunRefused),
}


@pytest.mark.parametrize(("error", "message", "attributes"), EXAMPLES, ids=lambda value: str(value)[:40])
def test_an_errors_message_is_made_of_its_attributes(
    error: SettlementError, message: str, attributes: dict[str, Any]
) -> None:
    assert str(error) == message
    assert vars(error) == attributes


def test_the_tests_cover_every_error() -> None:
    examined = {type(error) for error, _, _ in EXAMPLES} | PLAIN

    assert set(OURS.values()) == examined | BASES


def names_in(clause: str) -> set[str]:
    matchers = [matcher for state in STATES for matcher in state.get(clause, [])]
    return {name for matcher in matchers for name in matcher["ErrorEquals"]}


@pytest.mark.parametrize("clause", ["Retry", "Catch"])
def test_each_error_named_in_a_machine_is_known(clause: str) -> None:
    """Step Functions compares names as text: a misspelt one never matches, without a warning."""
    ours = {name for name in names_in(clause) if "." not in name}

    assert ours
    assert ours - OF_THE_PLATFORM <= OURS.keys() - {base.__name__ for base in BASES}


def test_no_machine_retries_a_refusal() -> None:
    refusals = {name for name, error in OURS.items() if issubclass(error, Refusal)}
    rules = [rule for state in STATES for rule in state.get("Retry", []) if rule["MaxAttempts"] > 0]
    retried = {name for rule in rules for name in rule["ErrorEquals"]}

    assert "States.ALL" in retried
    assert not retried & refusals
    assert {"EscrowMismatch", "InsufficientFunds", "StepFenced"} <= refusals


@pytest.mark.parametrize(
    ("step", "error", "target"),
    [
        (Step.HOLD, "EscrowMismatch", "EnterLimbo"),
        (Step.RELEASE, "InsufficientFunds", "EnterLimbo"),
        *((step, "StepFenced", "BeginCompensation") for step in REVERSIBLE),
    ],
)
def test_a_stuck_reversal_enters_limbo_and_a_fenced_one_restarts(step: Step, error: str, target: str) -> None:
    """If a mismatch were reported as a fence, the machine would repeat it forever."""
    (catchers,) = (
        state["Catch"]
        for state in STATES
        if any(catcher["ResultPath"] == f"$.stuck.{step}" for catcher in state.get("Catch", ()))
    )

    catcher = next(each for each in catchers if {error, "States.ALL"} & set(each["ErrorEquals"]))

    assert catcher["Next"] == target
