"""Claims that hold for any input. A broken claim raises AssertionError."""

import json
import re
from collections import Counter
from typing import Any

from handlers.kyc._webhook import STATUSES
from settlement.core.model.accounts import is_customer
from settlement.core.model.errors import InReview, InvalidRequest, KycRejected, SettlementError
from settlement.core.store.wire import from_wire
from tests.fuzz.mutation import CANARY, DEEPEST, levels_left
from tests.fuzz.stage import HANDLERS, Stage
from tests.fuzz.table import Rows
from tests.world.contracts import checked_outcome
from tests.world.functions import Context

_OF_A_DEBITED_ACCOUNT = "AccountNotFound CurrencyMismatch InsufficientFunds"
_OUT_OF_USE = "AccountClosed AccountFrozen AccountInLimbo"
REFUSALS = {
    "hold_funds": f"AlreadyClaimed {_OUT_OF_USE} DeadlineExceeded {_OF_A_DEBITED_ACCOUNT} StepFenced",
    "verify_kyc": "InReview KycRejected CheckUnavailable DeadlineExceeded StepFenced",
    "release_funds": "AccountClosed AccountNotFound CapExceeded CurrencyMismatch DeadlineExceeded StepFenced",
    "collect_fee": "StepFenced",
    "reject_settlement": "AlreadyClaimed StepFenced",
    "report_outcome": "StepFenced",
    "begin_compensation": "ResolutionRefused",
    "refund_fee": "StepFenced",
    "reclaim_funds": f"{_OF_A_DEBITED_ACCOUNT} StepFenced",
    "void_hold": "AccountNotFound CurrencyMismatch EscrowMismatch StepFenced",
    "enter_limbo": "StepFenced",
    "prepare_alert": "StepFenced",
    "await_resolution": "StepFenced",
    "resolve_limbo": "StepFenced",
    "recover_stalled": "SettlementNotFound",
}
"""Allowed refusals besides InvalidRequest and IdempotencyConflict, while all services answer.

They are in the state's Catch, or in the function's docstring if States.ALL catches them.
"""

OUTCOMES = ("collect_fee", "reject_settlement", "report_outcome")

CAUSE_LENGTH_MAX = 8_192
"""Maximum characters of a refusal; Step Functions accepts 32,768."""

ANSWER_BYTES_MAX = 16_384
HTTP_STATUSES = {200, *STATUSES.values()} - {503}
"""The webhook's statuses while all services answer."""

_DEEPEST = re.compile(re.escape(json.dumps(DEEPEST)) + r"(?!\s*:)")
_INTERNAL = re.compile(r"Traceback|botocore|boto3|Error\(|\.py\b|/var/task|dynamodb|arn:aws|0x[0-9a-f]{6}")


def read(text: str) -> Any:
    """Parse a payload; `DEEPEST` becomes the deepest readable lists."""
    if not _DEEPEST.search(text):
        return json.loads(text)
    for depth in range(levels_left() + 64, 0, -1):
        try:
            return json.loads(_DEEPEST.sub("[" * depth + "]" * depth, text))
        except RecursionError:
            continue
    raise AssertionError("no depth is read")


def check(stage: Stage, name: str, event: Any) -> str:
    """Pass an event to a machine's function or recovery; return "answered" or the refusal."""
    before = stage.table.rows.copy()
    try:
        answer = HANDLERS[name](event, Context())
    except SettlementError as refusal:
        raised = type(refusal).__name__
        assert raised in ("InvalidRequest", "IdempotencyConflict", *REFUSALS[name].split())
        check_message(f"{raised}: {refusal}")
        check_nothing_done(stage, refusal)
        return raised
    check_answer(answer)
    if name in OUTCOMES:
        checked_outcome(answer)
    check_conserved(before, stage.table.rows)
    if name != "recover_stalled":  # it reads no settlement from its event
        check_no_float(event)
    return "answered"


def check_not_written_by_a_fault(stage: Stage, name: str, event: Any) -> str:
    """Pass an event that no definition sends: it may fail with any error, but then writes nothing."""
    before = stage.table.rows.copy()
    try:
        HANDLERS[name](event, Context())
    except Exception as fault:
        check_nothing_done(stage, fault)
        return type(fault).__name__
    check_conserved(before, stage.table.rows)
    return "answered"


def check_webhook(stage: Stage, event: Any) -> int:
    return _check_signed(stage, "kyc_decided", event, {"idempotency_key", "decision"})


def check_callback(stage: Stage, event: Any) -> int:
    return _check_signed(stage, "check_decided", event, {"check", "decision", "key"})


def _check_signed(stage: Stage, function: str, event: Any, told: set[str]) -> int:
    before = stage.table.rows.copy()
    answer = HANDLERS[function](event, Context())
    assert answer["statusCode"] in HTTP_STATUSES
    content = json.loads(answer["body"])
    check_answer(answer)
    if answer["statusCode"] == 200:
        assert content.keys() == told
    else:
        assert content.keys() == {"error", "message"}
        check_message(content["message"])
        check_nothing_done(stage)
    check_conserved(before, stage.table.rows)
    return int(answer["statusCode"])


def check_order(stage: Stage, event: Any) -> int:
    before = stage.table.rows.copy()
    answer = HANDLERS["take_order"](event, Context())
    content = json.loads(answer["body"])
    if answer["statusCode"] == 200:
        check_answer({**answer, "body": ""})  # it repeats the recorded order
    else:
        assert answer["statusCode"] in (400, 403, 404, 409, 422)
        assert content.keys() == {"error", "message"}
        check_answer(answer)
        check_message(content["message"])
        check_nothing_done(stage)
        assert not stage.pages.events, "a refused order has paged"
    check_conserved(before, stage.table.rows)
    return int(answer["statusCode"])


def check_reading(stage: Stage, event: Any) -> int:
    """Pass a call to the readers' API; the table must not change."""
    before = stage.table.rows.copy()
    answer = HANDLERS["read_settlements"](event, Context())
    content = json.loads(answer.get("body", "null"))
    assert answer["statusCode"] in (200, 304, 400, 404)
    if answer["statusCode"] >= 400:
        assert content.keys() == {"error", "message"}
        check_answer(answer)
        check_message(content["message"])
    assert stage.table.rows == before
    check_nothing_done(stage)
    return int(answer["statusCode"])


def check_post(stage: Stage, event: Any) -> int:
    before = stage.table.rows.copy()
    answer = HANDLERS["accept_settlements"](event, Context())
    content = json.loads(answer["body"])
    assert answer["statusCode"] in (200, 202, 400, 409)
    if answer["statusCode"] >= 400:
        assert content.keys() == {"error", "message"}
        check_answer(answer)
        check_message(content["message"])
        check_nothing_done(stage)
    else:
        assert answer["headers"]["location"] == f"/settlements/{content['key']}"
    check_conserved(before, stage.table.rows)
    return int(answer["statusCode"])


def check_cancel(stage: Stage, event: Any) -> int:
    before = stage.table.rows.copy()
    answer = HANDLERS["cancel_settlement"](event, Context())
    content = json.loads(answer["body"])
    assert answer["statusCode"] in (200, 202, 400, 404, 409, 412)
    if answer["statusCode"] >= 400:
        assert content.keys() == {"error", "message"}
        check_answer(answer)
        check_message(content["message"])
        assert stage.table.rows == before
        check_nothing_done(stage)
    else:
        assert content["failure"]["error"] == "Cancelled"
    check_conserved(before, stage.table.rows)
    return int(answer["statusCode"])


def check_batch(stage: Stage, bodies: list[str]) -> str:
    """Pass messages to StartSettlements: each starts, or is a dead letter with a reason."""
    before = stage.table.rows.copy()
    records = [
        {"messageId": f"m-{n}", "body": body, "eventSource": "aws:sqs"} for n, body in enumerate(bodies)
    ]
    answer = HANDLERS["start_settlements"]({"Records": records}, Context())
    assert answer == {"batchItemFailures": []}
    for message in stage.queues.sent:
        assert message["reason"].partition(":")[0] in ("InvalidRequest", "IdempotencyConflict")
        check_message(message["reason"])
    if len(stage.queues.sent) == len(bodies):
        check_nothing_done(stage)
    check_conserved(before, stage.table.rows)
    return "a dead letter" if stage.queues.sent else "answered"


def check_nothing_done(stage: Stage, refusal: Exception | None = None) -> None:
    if not isinstance(refusal, KycRejected | InReview):  # that verdict or review is recorded
        assert stage.table.committed == 0, "a refusal has written"
    if isinstance(refusal, InvalidRequest) and not str(refusal).startswith(
        "input: "
    ):  # these may depend on the row
        assert stage.table.sent == 0, "a request against the contract reached the table"
    assert not stage.step_functions.started, "a refusal has started an execution"
    assert not stage.functions.sent, "a refusal has asked for a resumption"


def check_message(message: str) -> None:
    """Check that a message is short, printable, and without internals and hostile values."""
    assert len(json.dumps({"errorMessage": message, "errorType": ""})) <= CAUSE_LENGTH_MAX
    assert message.isprintable()
    assert not _INTERNAL.search(message)
    assert CANARY not in message


def check_answer(answer: Any) -> None:
    """Check that an answer is bounded JSON without fractions."""
    text = json.dumps(answer, ensure_ascii=False, allow_nan=False)
    assert len(text.encode()) <= ANSWER_BYTES_MAX
    json.loads(text, parse_float=_no_float)


def check_no_float(event: Any) -> None:
    """Check that an accepted request has amounts as strings."""
    payload = event.get("state", event) if isinstance(event, dict) else {}
    settlement = payload.get("settlement") if isinstance(payload, dict) else None
    for name in ("amount", "fee"):
        assert not isinstance(settlement, dict) or isinstance(settlement.get(name, ""), str)


def check_conserved(before: Rows, after: Rows) -> None:
    keys = [key for key in {**before, **after} if before.get(key) is not after.get(key)]
    if keys:
        was, is_now = ({key: rows[key] for key in keys if key in rows} for rows in (before, after))
        assert _total(was) == _total(is_now)


def _total(table: Rows) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for row in map(from_wire, table.values()):
        if "available" in row or "escrow" in row:
            held = row["available"] if "available" in row else row["escrow"]
            assert held >= 0
            assert 0 <= row.get("fee", 0) < row.get("amount", 1)
            sums[row["currency"]] += held
        for side, sign in (("credit", 1), ("debit", -1)):
            account = row.get(side, "")
            if "amount" in row and not is_customer(account) and not account.startswith("escrow:"):
                sums[row["currency"]] += sign * row["amount"]
    return {currency: amount for currency, amount in sums.items() if amount}


def _no_float(text: str) -> None:
    raise AssertionError(f"an answer has the number {text}")
