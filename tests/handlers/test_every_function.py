"""Rules for all functions: refusals, replay, form of the answer, log lines, metrics."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from settlement.core import telemetry
from settlement.core.model.errors import IdempotencyConflict, InvalidRequest, SettlementError, StepFenced
from settlement.core.model.status import Status
from settlement.core.store.wire import to_wire
from tests.handlers.conftest import Calls
from tests.unit import states
from tests.world import posting, reading
from tests.world.constants import (
    CLAIMED_AT,
    EXECUTION_ARN,
    KEY,
    OTHER_CONTENT,
    REJECTED_BY_KYC,
    REPLAYED,
    REVERSALS,
    SPENT,
    WIRE,
    WITHOUT_FEE,
)
from tests.world.functions import HANDLERS, Context
from tests.world.rooms import is_there, there
from tests.world.services import signed, text
from tests.world.stream import record

TELLTALES = [
    *("alice", "bob", "ada", "wrong shop", "canary", "AQC"),
    *("48.20", "4820", "47.72", "4772", "10000", "5180", "5272"),
]
"""Texts that no output may have: parties, persons, reasons, a token, amounts, balances."""


@dataclass(frozen=True)
class Case:
    """A function that a machine calls: step, required status, arrangement, call."""

    step: str
    needs: Status | None
    arrange: Callable[[Calls], Any]
    call: Callable[[Calls, Any, Any], Any]
    done: str | None = None
    """Metric of a successful call, besides StepCalled."""

    replayed: str | None = None
    execution: str = "execution-1"


def forward(state: str, step: str, done: str | None = None) -> Case:
    return Case(
        step,
        Status.PROCESSING,
        lambda calls: calls.before(state),
        lambda calls, found, settlement: calls(state, settlement, claimed_at=CLAIMED_AT),
        done,
        "StepReplayed",
    )


def reversal(state: str, done: str | None = None) -> Case:
    return Case(
        f"compensate:{REVERSALS[state]}",
        Status.COMPENSATING,
        lambda calls: calls.reopened(state),
        lambda calls, found, settlement: calls.reverse(state, found, settlement),
        done,
        "StepReplayed",
        "compensation-1",
    )


CASES = {
    "HoldFunds": Case(
        "hold",
        None,
        lambda calls: calls.before("HoldFunds"),
        lambda calls, found, settlement: calls("HoldFunds", settlement),
        "Claimed",
        "ClaimRepeated",
    ),
    "VerifyKyc": forward("VerifyKyc", "verify"),
    "ReleaseFunds": forward("ReleaseFunds", "release"),
    "CollectFee": forward("CollectFee", "fee", "Settled"),
    "RejectSettlement": Case(
        "reject",
        None,
        lambda calls: calls.before("HoldFunds"),
        lambda calls, found, settlement: calls("RejectSettlement", settlement, error=SPENT),
        "Rejected",
    ),
    "ReportOutcome": Case(
        "report",
        None,
        lambda calls: calls.after("HoldFunds"),
        lambda calls, found, settlement: calls.report(settlement, **REPLAYED),
    ),
    "BeginCompensation": Case(
        "compensate",
        None,
        lambda calls: calls.after("HoldFunds"),
        lambda calls, found, settlement: calls.begin(settlement=settlement, error=REJECTED_BY_KYC),
        execution="compensation-1",
    ),
    "RefundFee": reversal("RefundFee"),
    "ReclaimFunds": reversal("ReclaimFunds"),
    "VoidHold": reversal("VoidHold", "Compensated"),
    "EnterLimbo": Case(
        "limbo",
        Status.COMPENSATING,
        lambda calls: calls.reopened("ReclaimFunds"),
        lambda calls, found, settlement: calls.limbo(
            {"case": 1, "reversed": []} if found is None else found, settlement
        ),
        "LimboEntered",
        "StepReplayed",
    ),
    "PrepareAlert": Case(
        "alert",
        Status.LIMBO,
        lambda calls: calls.fall(),
        lambda calls, found, settlement: calls.alert({"alerts": 0, "settlement": settlement}),
        execution="compensation-1",
    ),
    "AwaitResolution": Case(
        "await",
        Status.LIMBO,
        lambda calls: calls.fall(),
        lambda calls, found, settlement: calls(
            "AwaitResolution", settlement, token="AQC" * 300, execution_arn=EXECUTION_ARN
        ),
    ),
    "ResolveLimbo": Case(
        "resolve",
        None,
        lambda calls: (calls.fall(), calls.decide("complete")),
        lambda calls, found, settlement: calls(
            "ResolveLimbo", settlement, execution="compensation-1", resolution={"case": 1}, case=1
        ),
        execution="compensation-1",
    ),
}
"""Functions that the machines call; each case is the first effective call."""

ALERT = {"detail-type": "LimboEntered", "detail": {"key": KEY, "account": "alice", "reason": "wrong shop"}}


ROW = to_wire(states.row())
SPOILT = {"Records": [record(ROW, {**ROW, "status": {"S": "canary"}}, at=0)]}
"""A stream batch with a settlement record that cannot become an event."""


TRIGGERED: dict[str, tuple[str, Callable[[Calls], Any]]] = {
    "KycDecided": ("decide", lambda calls: calls.decided(signed(reason="canary-reason"))),
    "RecoverStalled": ("recover", lambda calls: calls.recover()),
    "TakeOrder": (
        "order",
        lambda calls: calls.administer(
            {"key": KEY, "order": "freeze", "account": "alice", "by": "ada", "reason": "wrong shop"}
        ),
    ),
    "ReadSettlements": (
        "read",
        lambda calls: calls.handlers["ReadSettlements"](reading.outcome(KEY), Context()),
    ),
    "SealJournal": ("seal", lambda calls: calls.seal("ENTRIES#canary")),
    "PublishEvents": ("publish", lambda calls: calls.handlers["PublishEvents"](SPOILT, Context())),
    "SendPage": ("page", lambda calls: calls.handlers["SendPage"](ALERT, Context())),
}
"""Functions that no machine calls: each one's step, and a call of it."""

if is_there("merchants"):
    TRIGGERED["SweepMerchants"] = ("sweep", lambda calls: calls.sweep("merchant.canary"))
if is_there("doors"):
    TRIGGERED |= {
        "StartSettlements": ("start", lambda calls: calls.receive(text(WIRE), "canary")),
        "AcceptSettlements": (
            "accept",
            lambda calls: calls.handlers["AcceptSettlements"](posting.asked(), Context()),
        ),
        "CancelSettlement": (
            "cancel",
            lambda calls: calls.handlers["CancelSettlement"](posting.cancel(), Context()),
        ),
    }

LOGGED = CASES | {
    "BeginCompensation on order": Case(
        "compensate",
        None,
        lambda calls: (calls.after("CollectFee"), calls.order_reversal()),
        lambda calls, found, settlement: calls.begin(settlement=settlement, order="reverse"),
        execution="compensation-1",
    ),
    "BeginCompensation with a decision": Case(
        "compensate",
        None,
        lambda calls: (calls.fall(), calls.decide("retry")),
        lambda calls, found, settlement: calls.begin(settlement=settlement, order="resolve:1"),
        execution="compensation-1",
    ),
}
"""`CASES`, and the other inputs that name a person."""

every_function = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
READS_BY_THE_KEY_ALONE = ("PrepareAlert", "ReportOutcome")
CLAIMING = ("HoldFunds", "RejectSettlement")
WITH_REQUEST = (*CLAIMING, "ReportOutcome")
"""Settlement-machine functions that get the client's request, which may lack a fee."""


@pytest.fixture
def in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "_detail", {"full": True})


def spoken(log: io.StringIO, capfd: pytest.CaptureFixture[str]) -> tuple[list[dict[str, Any]], str]:
    """Return all lines, the call's own last, and all output as text, both without timestamps, which vary."""
    printed = capfd.readouterr()
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    calls = [json.loads(line) for line in printed.out.splitlines()]
    for line in lines:
        del line["timestamp"]
    for line in calls:
        del line["_aws"]["Timestamp"]
    log.seek(0)
    log.truncate()
    return lines + calls, f"{lines} {calls} {printed.err}"


def no_telltale(output: str) -> bool:
    return not [word for word in TELLTALES if word in output]


def test_this_table_calls_every_function() -> None:
    """Functions that need a server, bucket, check, payout or pay run have their own tests."""
    elsewhere = {"ReconcileBooks", "ReadStatements", "CheckDecided", *there("books", "ProjectEntries")}
    elsewhere |= {*there("payouts", "ReservePayout", "ServePayouts", "FollowPayouts", "BankEvents")}
    elsewhere |= {*there("payruns", "PayLines")}
    assert CASES.keys() | TRIGGERED.keys() | elsewhere == HANDLERS.keys()


@every_function
def test_a_repeated_call_has_the_same_answer_and_writes_nothing(calls: Calls, case: Case) -> None:
    found = case.arrange(calls)
    calls.counted()

    first = case.call(calls, found, WIRE)
    assert calls.counted() == {"StepCalled": 1} | ({case.done: 1} if case.done else {})
    calls.later()
    with calls.writes_nothing():
        assert case.call(calls, found, WIRE) == first

    assert calls.counted() == {"StepCalled": 1} | ({case.replayed: 1} if case.replayed else {})
    assert json.loads(json.dumps(first)) == first, "it is no plain JSON"


@every_function
@pytest.mark.parametrize(
    ("settlement", "message"),
    [
        pytest.param(None, "request: must be a JSON object", id="null"),
        pytest.param(WIRE | {"payer_name": "canary\n"}, "payer_name: must be", id="a broken name"),
        pytest.param(WITHOUT_FEE, "fee: missing; a claimed settlement names its fee", id="no fee"),
    ],
)
def test_a_malformed_settlement_is_refused_and_writes_nothing(
    calls: Calls, case: Case, settlement: Any, message: str
) -> None:
    if settlement is WITHOUT_FEE and case in (CASES[name] for name in WITH_REQUEST):
        settlement, message = WIRE | {"fee": None}, "fee: must be a decimal string"  # it may be left out here
    found = case.arrange(calls)
    calls.counted()

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=message):
        case.call(calls, found, settlement)

    assert calls.counted() == {"StepCalled": 1, "InvalidRequest": 1}


@pytest.mark.parametrize(
    ("name", "repeated"),
    [
        (name, repeated)
        for name in CASES
        for repeated in (False, True)
        if name not in READS_BY_THE_KEY_ALONE and (repeated or name not in CLAIMING)
    ],
)
def test_a_different_request_with_the_key_is_refused_writing_nothing(
    calls: Calls, name: str, repeated: bool
) -> None:
    case = CASES[name]
    calls.ledger.open("carol", 10_000)
    found = case.arrange(calls)
    if repeated:
        case.call(calls, found, WIRE)
    calls.provider.asked.clear()
    calls.counted()

    for other in OTHER_CONTENT:
        with calls.writes_nothing(), pytest.raises(IdempotencyConflict, match=f"^key: {KEY} was claimed"):
            case.call(calls, found, other)

    assert calls.counted() == {"StepCalled": len(OTHER_CONTENT), "IdempotencyConflict": len(OTHER_CONTENT)}
    assert calls.provider.asked == []


@pytest.mark.parametrize(
    ("name", "status"),
    [
        (name, status)
        for name, case in CASES.items()
        for status in Status
        if case.needs and case.needs is not status
    ],
)
def test_a_settlement_in_another_status_is_fenced(calls: Calls, name: str, status: Status) -> None:
    found = CASES[name].arrange(calls)
    calls.provider.asked.clear()
    calls.alter(status=status)
    calls.counted()

    with calls.writes_nothing(), pytest.raises(StepFenced, match=f"^{CASES[name].step}: ") as fenced:
        CASES[name].call(calls, found, WIRE)

    assert fenced.value.status == status
    assert calls.counted() == {"StepCalled": 1, "StepFenced": 1}
    assert calls.provider.asked == []


@pytest.mark.parametrize("name", [name for name in CASES if name not in (*CLAIMING, "BeginCompensation")])
def test_an_unclaimed_key_is_fenced(calls: Calls, name: str) -> None:
    calls.ledger.open("alice", 10_000)
    calls.ledger.open("bob", 10_000)
    found = {"steps": ["hold", "verify", "release", "fee"], "reversed": [], "case": 1}

    with calls.writes_nothing(), pytest.raises(StepFenced):
        CASES[name].call(calls, found, WIRE)

    assert calls.provider.asked == []


@pytest.mark.usefixtures("in_full")
@pytest.mark.parametrize("case", LOGGED.values(), ids=LOGGED)
def test_each_log_line_has_its_key_without_party_or_amount(
    calls: Calls, log: io.StringIO, capfd: pytest.CaptureFixture[str], case: Case
) -> None:
    found = case.arrange(calls)
    spoken(log, capfd)

    case.call(calls, found, WIRE)
    lines, output = spoken(log, capfd)
    assert "StepCalled" in lines[-1]
    assert not [line for line in lines if "error" in line]
    assert no_telltale(output)

    with pytest.raises(InvalidRequest):
        case.call(calls, found, WIRE | {"payee": "canary:person", "canary": 1, "payee_name": "canary\n"})
    refused, output = spoken(log, capfd)
    assert [(line["error"], line["InvalidRequest"]) for line in refused] == [("InvalidRequest", [1])]
    assert no_telltale(output)

    for line in [*lines, *refused]:
        assert (line["key"], line["step"], line["execution"]) == (KEY, case.step, case.execution)


@pytest.mark.usefixtures("in_full")
@pytest.mark.parametrize("name", [name for name, case in LOGGED.items() if case.needs])
def test_a_refused_call_logs_only_the_errors_name(
    calls: Calls, log: io.StringIO, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    case = LOGGED[name]
    found = case.arrange(calls)
    calls.alter(status=Status.COMPENSATED)
    spoken(log, capfd)

    with pytest.raises(SettlementError) as refusal:
        case.call(calls, found, WIRE)

    lines, output = spoken(log, capfd)
    assert (lines[-1]["error"], lines[-1][refusal.typename]) == (refusal.typename, [1])
    assert no_telltale(output)
    for line in lines:
        assert (line["key"], line["step"], line["execution"]) == (KEY, case.step, case.execution)


@pytest.mark.usefixtures("in_full", "s3")
@pytest.mark.parametrize(("step", "call"), TRIGGERED.values(), ids=TRIGGERED)
def test_a_triggered_function_logs_its_step_without_party_or_amount(
    in_review: Calls,
    log: io.StringIO,
    capfd: pytest.CaptureFixture[str],
    step: str,
    call: Callable[[Calls], Any],
) -> None:
    if step == "recover":
        in_review.later(days=1)
    spoken(log, capfd)

    call(in_review)

    lines, output = spoken(log, capfd)
    assert "StepCalled" in lines[-1]
    assert "error" not in lines[-1]
    assert {line["step"] for line in lines} == {step}
    assert (KEY in output) is (step != "sweep")  # which is about a merchant, not about a settlement
    assert no_telltale(output)
