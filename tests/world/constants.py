"""The one settlement of the tests: Alice pays Bob 48.20 EUR, of which 0.48 EUR are the fee."""

import json

KEY = "order-2026-000101"
WIRE = {"key": KEY, "payer": "alice", "payee": "bob", "amount": "48.20", "currency": "EUR", "fee": "0.48"}
"""The settlement in the canonical form in which the machine carries it."""

HASH = "d13463c1e640ed9114f62760da3142c9e498ad261d55a5451e18c3ede91227a2"
"""The hash of that settlement's content."""

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
"""The start of the ARNs of the settlement machine's executions."""

EXECUTION_ARN = "arn:aws:states:eu-west-1:123456789012:execution:Compensation:compensation-1"
REJECTED_BY_KYC = {
    "Error": "KycRejected",
    "Cause": json.dumps({"errorMessage": "kyc: the provider says no", "errorType": "KycRejected"}),
}
"""The error that stopped the settlement, as the settlement machine passes it on."""

REPLAYED = {
    "Error": "AlreadyClaimed",
    "Cause": f"key: {KEY} is PROCESSING, and not for this execution to run",
}
"""The error of a hold that another execution has claimed: with it, a report is a replay."""

SPENT = {
    "Error": "InsufficientFunds",
    "Cause": json.dumps({"errorMessage": "payee: has too little", "errorType": "InsufficientFunds"}),
}
"""The error of a stuck reversal, as the compensating machine passes it on."""

ORDER = {"reason": "sent to the wrong shop", "by": "arn:aws:iam::123456789012:user/ada"}
"""A person's order: the reason, and who gives it."""

REVERSALS = {"RefundFee": "fee", "ReclaimFunds": "release", "VoidHold": "hold"}
"""The reversing states in their order, and the step that each reverses."""

STALLED_ORDER = {**ORDER, "expected_status": "PROCESSING"}
"""An order to reverse a settlement in flight that no execution runs."""

LIMBO_AFTER = {"fee": "CollectFee", "release": "ReleaseFunds", "hold": "HoldFunds", "nothing": None}
"""The last state of a settlement whose next reversal is that of the named step; None if only claimed."""

STUCK_STEPS = list(LIMBO_AFTER)

NONCE = "00c0ffee"
"""The nonce of all names of executions in the tests but those of a deployment, where it is random."""
