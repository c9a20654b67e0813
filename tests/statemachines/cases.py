"""The test cases of mocks/MockConfigFile.json: how each must end, and through which states.

A trail names each state as it is entered, `*n` for n tries. An execution ends with the status in its outcome,
or with the name of the error by which it fails. A mocked alert grants one second to decide, because Step
Functions Local really waits.
"""

import json
from pathlib import Path
from typing import Any

MOCK_FILE = Path(__file__).parent / "mocks" / "MockConfigFile.json"
MOCKS: dict[str, Any] = json.loads(MOCK_FILE.read_text())

START = "arn:aws:states:::states:startExecution"
MACHINES = {
    "SettlementExpress": ("settlement", START),
    "SettlementStandard": ("settlement", f"{START}.sync:2"),
    "Compensation": ("compensation", ""),
}
"""Each machine's definition, and how it starts the other one: the one difference of the two settlements."""

WIRE = {
    "key": "order-2026-000101",
    "payer": "alice",
    "payee": "bob",
    "amount": "48.20",
    "currency": "EUR",
    "fee": "0.48",
}
INPUTS: dict[str, Any] = {
    "settlement": WIRE,
    "compensation": {"settlement": WIRE, "error": {"Error": "DeadlineExceeded", "Cause": "as mocked"}},
}

_HELD = "ClaimKey IsReplay HoldFunds"
_VERIFIED = f"{_HELD} VerifyKyc"
_RELEASED = f"{_VERIFIED} IsInReview ReleaseFunds"
_BACK = "Compensate ReportOutcome"

_SETTLEMENT = {
    "Settles": ("SETTLED", f"{_RELEASED} CollectFee"),
    "SettlesAtLast": (
        "SETTLED",
        "ClaimKey*3 IsReplay HoldFunds*3 VerifyKyc*3 IsInReview ReleaseFunds*3 CollectFee*3",
    ),
    "IsReplayed": ("PROCESSING", "ClaimKey IsReplay ReportOutcome"),
    "RequestIsInvalid": ("InvalidRequest", "ClaimKey RequestRefused"),
    "KeyIsTaken": ("IdempotencyConflict", "ClaimKey RequestRefused"),
    "HoldLacksFunds": ("REJECTED", f"{_HELD} RejectSettlement"),
    "HoldFindsNoAccount": ("REJECTED", f"{_HELD} RejectSettlement"),
    "HoldFindsLimbo": ("REJECTED", f"{_HELD} RejectSettlement"),
    "HoldFindsAnotherCurrency": ("REJECTED", f"{_HELD} RejectSettlement"),
    "HoldIsLate": ("REJECTED", f"{_HELD} RejectSettlement"),
    "HoldIsFenced": ("REJECTED", f"{_HELD} RejectSettlement"),
    "RejectsAtLast": ("REJECTED", f"{_HELD} RejectSettlement*3"),
    "VerifyIsLate": ("COMPENSATING", f"{_VERIFIED} {_BACK}"),
    "VerifyIsFenced": ("COMPENSATING", f"{_VERIFIED} {_BACK}"),
    "KycRejects": ("COMPENSATING", f"{_VERIFIED} {_BACK}"),
    "KycRefusesTheRequest": ("COMPENSATING", f"{_VERIFIED} {_BACK}"),
    "KycIsUnavailable": ("COMPENSATING", f"{_VERIFIED}*3 {_BACK}"),
    "KycCircuitIsOpen": ("COMPENSATING", f"{_VERIFIED} {_BACK}"),
    "KycIsBack": ("SETTLED", f"{_VERIFIED}*3 IsInReview ReleaseFunds CollectFee"),
    "IsInReview": ("PROCESSING", f"{_VERIFIED} IsInReview ReportOutcome"),
    "IsInReviewAtLast": ("PROCESSING", f"{_VERIFIED}*2 IsInReview ReportOutcome"),
    "ReleaseFindsNoAccount": ("COMPENSATING", f"{_RELEASED} {_BACK}"),
    "ReleaseExceedsTheCap": ("COMPENSATING", f"{_RELEASED} {_BACK}"),
    "ReleaseFindsAnotherCurrency": ("COMPENSATING", f"{_RELEASED} {_BACK}"),
    "ReleaseIsLate": ("COMPENSATING", f"{_RELEASED} {_BACK}"),
    "ReleaseIsFenced": ("COMPENSATING", f"{_RELEASED} {_BACK}"),
    "FeeIsFenced": ("COMPENSATING", f"{_RELEASED} CollectFee {_BACK}"),
    "RejectIsFenced": ("COMPENSATING", f"{_HELD} RejectSettlement {_BACK}"),
    "CompensatesAtLast": ("COMPENSATING", f"{_VERIFIED} Compensate*3 ReportOutcome*3"),
    "CompensationRunsAlready": ("COMPENSATING", f"{_VERIFIED} {_BACK}"),
    "CompensationRunsAlreadyOnTheEmbeddedAws": ("COMPENSATING", f"{_VERIFIED} {_BACK}"),
    "ClaimStalls": ("SettlementStalled", "ClaimKey*3 SettlementStalled"),
    "HoldStalls": ("SettlementStalled", f"{_HELD}*4 SettlementStalled"),
    "VerifyStalls": ("SettlementStalled", f"{_VERIFIED} SettlementStalled"),
    "ReleaseStalls": ("SettlementStalled", f"{_RELEASED}*3 SettlementStalled"),
    "FeeStalls": ("SettlementStalled", f"{_RELEASED} CollectFee*3 SettlementStalled"),
    "RejectStalls": ("SettlementStalled", f"{_HELD} RejectSettlement SettlementStalled"),
    "CompensationCannotStart": ("SettlementStalled", f"{_VERIFIED} Compensate*3 CompensationUnfinished"),
    "CompensationFails": ("SettlementStalled", f"{_VERIFIED} Compensate CompensationUnfinished"),
    "ReportStalls": ("SettlementStalled", f"{_VERIFIED} Compensate ReportOutcome*3 SettlementStalled"),
}

_BEGUN = "BeginCompensation IsDecided"
_REVERSED = f"{_BEGUN} RefundFee ReclaimFunds VoidHold"
_STUCK = f"{_BEGUN} RefundFee ReclaimFunds"
_DONE = f"{_BEGUN} ReportOutcome"
_ALERTED = "PrepareAlert PageOnCall IsPaged AwaitResolution"
_RESOLVED = f"ResolveLimbo AnnounceResolution {_DONE}"
_LIMBO = f"{_ALERTED} {_RESOLVED}"

_COMPENSATION = {
    "Reverses": ("COMPENSATED", f"{_REVERSED} ReportOutcome"),
    "ReversesAtLast": (
        "COMPENSATED",
        "BeginCompensation*3 IsDecided RefundFee*3 ReclaimFunds*3 VoidHold*3 ReportOutcome*3",
    ),
    "IsFinished": ("COMPENSATED", _DONE),
    "RequestIsInvalid": ("InvalidRequest", "BeginCompensation RequestRefused"),
    "KeyIsTaken": ("IdempotencyConflict", "BeginCompensation RequestRefused"),
    "IsNotReversible": ("NotReversible", "BeginCompensation RequestRefused"),
    "IsNotResolvable": ("ResolutionRefused", "BeginCompensation RequestRefused"),
    "BeginStalls": ("CompensationStalled", "BeginCompensation*9 CompensationStalled"),
    "RefundIsFenced": ("COMPENSATED", f"{_BEGUN} RefundFee {_DONE}"),
    "ReclaimIsFenced": ("COMPENSATED", f"{_STUCK} {_DONE}"),
    "VoidIsFenced": ("COMPENSATED", f"{_REVERSED} {_DONE}"),
    "RefundIsStuck": ("COMPENSATED", f"{_BEGUN} RefundFee*9 EnterLimbo {_LIMBO}"),
    "ReclaimIsStuck": ("COMPENSATED", f"{_STUCK} EnterLimbo {_LIMBO}"),
    "VoidIsStuck": ("COMPENSATED", f"{_REVERSED} EnterLimbo {_LIMBO}"),
    "LimboIsFenced": ("COMPENSATED", f"{_STUCK} EnterLimbo {_DONE}"),
    "LimboStalls": ("CompensationStalled", f"{_STUCK} EnterLimbo*10 CompensationStalled"),
    "IsInLimbo": ("COMPENSATED", f"{_BEGUN} {_LIMBO}"),
    "BringsADecision": ("COMPENSATED", f"{_BEGUN} {_RESOLVED}"),
    "BringsADecisionOnAClosedCase": ("COMPENSATED", f"{_BEGUN} {_RESOLVED}"),
    "AlertIsFenced": ("COMPENSATED", f"{_BEGUN} PrepareAlert {_DONE}"),
    "AlertStalls": ("CompensationStalled", f"{_BEGUN} PrepareAlert*9 CompensationStalled"),
    "BusIsAway": ("PagerUnreachable", f"{_BEGUN} PrepareAlert PageOnCall*10 PagerUnreachable"),
    "AlertIsNotTaken": ("PagerUnreachable", f"{_BEGUN} PrepareAlert PageOnCall IsPaged PagerUnreachable"),
    "NoDecisionAtFirst": ("COMPENSATED", f"{_BEGUN} {_ALERTED} {_LIMBO}"),
    "WaitFails": ("COMPENSATED", f"{_BEGUN} {_ALERTED} PauseBetweenAlerts {_LIMBO}"),
    "WaitIsFenced": ("COMPENSATED", f"{_BEGUN} {_ALERTED} {_DONE}"),
    "DecisionIsRefused": ("COMPENSATED", f"{_BEGUN} {_ALERTED} ResolveLimbo {_LIMBO}"),
    "DecisionIsFenced": ("COMPENSATED", f"{_BEGUN} {_ALERTED} ResolveLimbo {_DONE}"),
    "NoticeIsNotTaken": ("COMPENSATED", f"{_BEGUN} {_ALERTED} ResolveLimbo AnnounceResolution*3 {_DONE}"),
    "ResolvesAtLast": (
        "COMPENSATED",
        f"{_STUCK} EnterLimbo*3 PrepareAlert*3 PageOnCall*6 IsPaged AwaitResolution*4"
        f" ResolveLimbo*3 AnnounceResolution*3 {_DONE}",
    ),
    "ReportStalls": ("CompensationStalled", f"{_BEGUN} ReportOutcome*9 CompensationStalled"),
}


def _waited_for(ends: str) -> str:
    """Return the status that a settlement reports after it has waited for its compensation."""
    return {"COMPENSATING": "COMPENSATED"}.get(ends, ends)


EXPECTED = {
    "SettlementExpress": _SETTLEMENT,
    "SettlementStandard": {name: (_waited_for(ends), trail) for name, (ends, trail) in _SETTLEMENT.items()},
    "Compensation": _COMPENSATION,
}
CASES = [(machine, case) for machine, cases in EXPECTED.items() for case in cases]


def response(machine: str, case: str, state: str, call: int) -> Any:
    """Return the mock file's answer to a call of a state; calls are counted from 0, retries included."""
    name = MOCKS["StateMachines"][machine]["TestCases"][case][state]
    for numbers, answer in MOCKS["MockedResponses"][name].items():
        first, _, last = numbers.partition("-")
        if int(first) <= call <= int(last or first):
            return answer
    raise AssertionError(f"{machine}#{case}: no response {call} in {name}")
