"""The tests' settlement: Alice pays Bob 48.20 EUR, including a fee of 0.48 EUR."""

import json

KEY = "order-2026-000101"
WIRE = {"key": KEY, "payer": "alice", "payee": "bob", "amount": "48.20", "currency": "EUR", "fee": "0.48"}
"""The settlement in the machine's canonical form."""

HASH = "d13463c1e640ed9114f62760da3142c9e498ad261d55a5451e18c3ede91227a2"

OTHER_CONTENT = [
    WIRE | {"amount": "48.21"},
    WIRE | {"fee": "0.49"},
    WIRE | {"payer": "carol"},
    WIRE | {"payee": "carol"},
    WIRE | {"currency": "USD"},
    WIRE | {"reference": "another"},
    WIRE | {"metadata": {"cart": "another"}},
]
CLAIMED_AT = "2026-11-20T12:00:00.123Z"
LATER_AT = "2026-11-20T12:00:07.123Z"

WITHOUT_FEE = {name: text for name, text in WIRE.items() if name != "fee"}
SETTLEMENT_ARN = "arn:aws:states:eu-west-1:123456789012:execution:SettlementStandard"

EXECUTION_ARN = "arn:aws:states:eu-west-1:123456789012:execution:Compensation:compensation-1"
REJECTED_BY_KYC = {
    "Error": "KycRejected",
    "Cause": json.dumps({"errorMessage": "kyc: the provider says no", "errorType": "KycRejected"}),
}
"""The error that stopped the settlement, as the settlement machine forwards it."""

REPLAYED = {
    "Error": "AlreadyClaimed",
    "Cause": f"key: {KEY} is PROCESSING, and not for this execution to run",
}
"""The error of a hold claimed by another execution; a report with it is a replay."""

SPENT = {
    "Error": "InsufficientFunds",
    "Cause": json.dumps({"errorMessage": "payee: has too little", "errorType": "InsufficientFunds"}),
}
"""The error of a stuck reversal, as the compensating machine forwards it."""

ORDER = {"reason": "sent to the wrong shop", "by": "arn:aws:iam::123456789012:user/ada"}

REVERSALS = {"RefundFee": "fee", "ReclaimFunds": "release", "VoidHold": "hold"}
"""The reversing states in order, each with the step that it reverses."""

STALLED_ORDER = {**ORDER, "expected_status": "PROCESSING"}
"""An order to reverse a settlement in flight that no execution runs."""

LIMBO_AFTER = {"fee": "CollectFee", "release": "ReleaseFunds", "hold": "HoldFunds", "nothing": None}
"""For each stuck reversal's step, the last forward state to run; None if the key is only claimed."""

STUCK_STEPS = list(LIMBO_AFTER)

NONCE = "00c0ffee"
"""The nonce of execution names; only a deployment has a random one."""
