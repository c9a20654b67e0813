"""The writes of each function: every write that any of its branches builds."""

import inspect
import re
from collections.abc import Iterator
from datetime import timedelta
from importlib import import_module
from itertools import product
from typing import Any

from infra.functions import LAMBDAS
from settlement.ledger import forward, keys, kyc_review, limbo, reversal
from settlement.ledger.keys import Row
from settlement.ledger.transaction import StepTransaction, Write
from settlement.model.case import Case
from settlement.model.orders import Decision, Resolution, Reversal
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from settlement.model.state import SettlementState
from settlement.model.status import REVERSIBLE, Status, Step
from settlement.model.timestamps import timestamp
from settlement.policy import compensation, recovery, steps
from tests.conftest import NOW
from tests.support.kyc import APPROVED, IN_REVIEW, REJECTED

FAILURE = {"step": "release", "error": "CapExceeded", "cause": "too much"}
ORDERS = [
    Reversal(reason="paid twice", by="arn:aws:iam::000000000000:user/carol", expected_status=expected)
    for expected in (Status.SETTLED, Status.PROCESSING)
]

VERDICTS = (APPROVED, REJECTED)
EVENT = kyc_review.WebhookEvent("msg_1", "a-digest")

HELPERS = {path.stem for path in (LAMBDAS / "handlers").glob("_[a-z]*.py")}
"""The modules that handlers share."""

_WORDS = {"attribute_exists", "attribute_not_exists", "begins_with", "contains", "if_not_exists", "size"}
"""The lower-case words of DynamoDB's expressions that are no attributes."""


def writes(settlement: Settlement, config: StageConfig) -> dict[str, list[Write]]:
    """Return the writes of each function; none for a function that only reads."""
    later = NOW + timedelta(seconds=1)
    return {
        "ClaimKey": [forward.claim(settlement, "owner", NOW, config)],
        "HoldFunds": [*steps.hold(settlement, NOW).writes],
        "VerifyKyc": [
            *(one for verdict in VERDICTS for one in steps.verify(settlement, verdict, NOW).writes),
            parking(settlement),
        ],
        "ReleaseFunds": [*steps.release(settlement, config, later).writes],
        "CollectFee": [*steps.fee(settlement, NOW).writes],
        "RejectSettlement": [forward.reject(settlement, FAILURE, NOW)],
        "ReportOutcome": [],
        "BeginCompensation": [
            reversal.tombstone(settlement, "execution", FAILURE, NOW),
            *(_begun(settlement, owner) for owner in ("execution", None)),
            *(
                one
                for o in ORDERS
                for one in compensation.reverse_on_order(settlement, o, NOW, config).writes
            ),
            reversal.assign_owner(settlement, "compensation"),
        ],
        "RefundFee": [*_undoing(settlement, Step.FEE)],
        "ReclaimFunds": [*_undoing(settlement, Step.RELEASE)],
        "VoidHold": [*_undoing(settlement, Step.HOLD)],
        "EnterLimbo": [*_entering(settlement, config)],
        "PrepareAlert": [],
        "AwaitResolution": [limbo.await_decision(settlement, "token", "execution")],
        "ResolveLimbo": [*_resolving(settlement, config)],
        "KycDecided": [
            one
            for verdict in VERDICTS
            for one in steps.record_webhook_verdict(settlement, verdict, EVENT, "owner", NOW, config)
        ],
        "RecoverStalled": [*_recovering(settlement, config)],
        "StartSettlements": [forward.claim(settlement, "owner", NOW, config)],
    }


def parking(settlement: Settlement) -> Write:
    """Return VerifyKyc's write for a payment in review: the one step that moves a settlement's index."""
    return kyc_review.begin_review(settlement, IN_REVIEW, NOW + timedelta(days=1), NOW)


def all_writes(settlement: Settlement, config: StageConfig) -> list[Write]:
    return [write for of_state in writes(settlement, config).values() for write in of_state]


def reads(state: str) -> bool:
    """Return whether the handler of a state, or a helper that it imports, reads a row, by their source."""
    module = re.sub(r"(?<!^)(?=[A-Z])", "_", state).lower()
    source = inspect.getsource(import_module(f"handlers.{module}"))
    helpers = set(re.findall(r"\b(_[a-z_]+)\.", source)) & HELPERS
    sources = [source, *(inspect.getsource(import_module(f"handlers.{helper}")) for helper in helpers)]
    return any(re.search(r"\bstore\.(settlement|account|entry|read)\(", one) for one in sources)


def is_entry(write: Write) -> bool:
    return "posted_at" in write.parameters.get("Item", {})


def assigned(write: Write) -> set[str]:
    """Return the attributes that an update changes."""
    return _names(write, write.parameters["UpdateExpression"])


def names_in(write: Write) -> set[str]:
    """Return the attributes that an update's expressions name. IAM counts those of conditions too."""
    return assigned(write) | _names(write, write.parameters["ConditionExpression"])


def _names(write: Write, expression: str) -> set[str]:
    words = set(re.findall(r"(?<![:\w])#?[a-z]\w*", expression))
    aliases: dict[str, Any] = write.parameters.get("ExpressionAttributeNames", {})
    return {aliases.get(word, word) for word in words} - _WORDS


def stalled(settlement: Settlement, config: StageConfig) -> list[SettlementState]:
    """Return a settlement in each state from which recovery resumes it."""
    claimed: Row = forward.claim(settlement, "owner", NOW, config).parameters["Item"]
    over = {"deadline_at": timestamp(NOW)}
    rows: list[Row] = [
        claimed,
        claimed | over,
        claimed | over | {"review": IN_REVIEW.reference},
        claimed | over | {"steps": {Step.HOLD, Step.VERIFY, Step.RELEASE}},
        claimed | {"status": Status.COMPENSATING},
        claimed | {"status": Status.LIMBO},
    ]
    return [SettlementState.from_row(row) for row in rows]


def _recovering(settlement: Settlement, config: StageConfig) -> Iterator[Write]:
    """Yield each takeover, and the deferrals of a running settlement and of an unprocessable row."""
    for state in stalled(settlement, config):
        takeover = recovery.take_over(state, NOW, config)
        assert takeover
        yield takeover.write
        yield recovery.postpone(state, NOW, config)
    at = timestamp(NOW)
    listed: Row = {**keys.settlement(settlement.key), **keys.in_flight_index(settlement.key, at)}
    yield recovery.defer_unprocessable(listed, NOW)


def _begun(settlement: Settlement, owner: str | None) -> Write:
    return reversal.begin(settlement, FAILURE, owner=owner, execution="compensation")


def _undoing(settlement: Settlement, step: Step) -> Iterator[Write]:
    """Yield the reversal of a committed step, and the record of a skipped one."""
    for committed in (list(Step), []):
        transaction = compensation.reverse_step(settlement, step, committed, [], NOW)
        assert transaction
        yield from transaction.writes


def _stuck(settlement: Settlement, config: StageConfig) -> Iterator[tuple[SettlementState, Case]]:
    """Yield a state and its case for each stuck reversal, of a committed step and of one that is not."""
    claimed: Row = forward.claim(settlement, "owner", NOW, config).parameters["Item"]
    for position, step in enumerate(REVERSIBLE):
        for committed in (set(Step), set[Step]()):
            row = claimed | {
                "status": Status.LIMBO,
                "steps": committed,
                "reversed": committed & set(REVERSIBLE[:position]),
                "escrow": settlement.fee if committed else 0,
                "stuck_step": step.reversal,
            }
            state = SettlementState.from_row(row)
            yield state, compensation.case_of(state, step)


def _entering(settlement: Settlement, config: StageConfig) -> Iterator[Write]:
    for _, case in _stuck(settlement, config):
        yield from compensation.enter_limbo(settlement, case, FAILURE, NOW).writes


def _resolving(settlement: Settlement, config: StageConfig) -> Iterator[Write]:
    for (state, _), decision in product(_stuck(settlement, config), Decision):
        case = compensation.stuck_case(state)
        resolution = Resolution(reason=ORDERS[0].reason, by=ORDERS[0].by, decision=decision)
        transaction: StepTransaction = compensation.resolve(
            settlement, case, resolution, "compensation", NOW, config
        )
        yield from transaction.writes
