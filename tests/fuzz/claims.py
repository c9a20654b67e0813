"""What is claimed of a function, whatever it is handed; a claim that does not hold is an AssertionError."""

import json
import re
from collections import Counter
from typing import Any

from handlers.kyc_decided import STATUSES
from settlement.errors import InvalidRequest, KycRejected, SettlementError
from settlement.rows import is_customer
from settlement.store import from_wire
from tests.fuzz.mutation import CANARY, DEEPEST, levels_left
from tests.fuzz.stage import HANDLERS, Stage
from tests.fuzz.table import Rows
from tests.handlers.calls import Context

_OF_WHO_PAYS = "AccountNotFound CurrencyMismatch InsufficientFunds"
REFUSALS = {
    "claim_key": "",
    "hold_funds": f"AccountInLimbo DeadlineExceeded {_OF_WHO_PAYS} StepFenced",
    "verify_kyc": "KycRejected DeadlineExceeded StepFenced",
    "release_funds": "AccountNotFound CapExceeded CurrencyMismatch DeadlineExceeded StepFenced",
    "collect_fee": "StepFenced",
    "reject_settlement": "StepFenced",
    "report_outcome": "StepFenced",
    "begin_compensation": "NotReversible ResolutionRefused",
    "refund_fee": "StepFenced",
    "reclaim_funds": f"{_OF_WHO_PAYS} StepFenced",
    "void_hold": "AccountNotFound CurrencyMismatch EscrowMismatch StepFenced",
    "enter_limbo": "StepFenced",
    "prepare_page": "StepFenced",
    "await_resolution": "StepFenced",
    "resolve_limbo": "ResolutionRefused StepFenced",
    "recover_stalled": "SettlementNotFound",
}
"""What a function may answer, besides InvalidRequest and IdempotencyConflict: by its state's Catch, or by its
docstring where States.ALL catches it. There are no others, as every service answers here."""

CAUSE_LENGTH_MAX = 8_192
"""Characters of a refusal as Lambda hands it to Step Functions, which bears 32,768."""

ANSWER_BYTES_MAX = 16_384
HTTP_STATUSES = {200, *STATUSES.values()} - {503}
"""What the webhook answers with where every service behind it does."""

_DEEPEST = re.compile(re.escape(json.dumps(DEEPEST)) + r"(?!\s*:)")
_INTERNAL = re.compile(r"Traceback|botocore|boto3|Error\(|\.py\b|/var/task|dynamodb|arn:aws|0x[0-9a-f]{6}")


def read(text: str) -> Any:
    """A payload as Lambda reads it; the place of `DEEPEST` takes lists as deep as just can be read here."""
    if not _DEEPEST.search(text):
        return json.loads(text)
    for depth in range(levels_left() + 64, 0, -1):
        try:
            return json.loads(_DEEPEST.sub("[" * depth + "]" * depth, text))
        except RecursionError:
            continue
    raise AssertionError("no depth is read")


def check(stage: Stage, name: str, event: Any) -> str:
    """Hand an event to a function of the machines, or to recovery; return the name of how it ended."""
    before = stage.table.rows.copy()
    try:
        answer = HANDLERS[name](event, Context())
    except SettlementError as refusal:
        told = type(refusal).__name__
        assert told in ("InvalidRequest", "IdempotencyConflict", *REFUSALS[name].split())
        check_told(f"{told}: {refusal}")
        check_nothing_done(stage, refusal)
        return told
    check_answer(answer)
    check_conserved(before, stage.table.rows)
    if name != "recover_stalled":  # which reads no settlement: its schedule's event may hold anything
        check_no_float(event)
    return "answered"


def check_not_written_by_a_fault(stage: Stage, name: str, event: Any) -> str:
    """Hand over what no definition sends: it may fail as it likes, but then it has done nothing."""
    before = stage.table.rows.copy()
    try:
        HANDLERS[name](event, Context())
    except Exception as fault:
        check_nothing_done(stage, fault)
        return type(fault).__name__
    check_conserved(before, stage.table.rows)
    return "answered"


def check_webhook(stage: Stage, event: Any) -> int:
    """Hand an HTTP request to the webhook; return the status of its answer."""
    before = stage.table.rows.copy()
    answer = HANDLERS["kyc_decided"](event, Context())
    assert answer["statusCode"] in HTTP_STATUSES
    content = json.loads(answer["body"])
    check_answer(answer)
    if answer["statusCode"] == 200:
        assert content.keys() == {"idempotency_key", "decision"}
    else:
        assert content.keys() == {"error", "message"}
        check_told(content["message"])
        check_nothing_done(stage)
    check_conserved(before, stage.table.rows)
    return int(answer["statusCode"])


def check_batch(stage: Stage, bodies: list[str]) -> str:
    """Hand messages to the start queue's function: each is started, or put aside with its reason."""
    before = stage.table.rows.copy()
    records = [
        {"messageId": f"m-{n}", "body": body, "eventSource": "aws:sqs"} for n, body in enumerate(bodies)
    ]
    answer = HANDLERS["start_settlements"]({"Records": records}, Context())
    assert answer == {"batchItemFailures": []}
    for message in stage.queues.sent:
        assert message["reason"].partition(":")[0] in ("InvalidRequest", "IdempotencyConflict")
        check_told(message["reason"])
    if len(stage.queues.sent) == len(bodies):
        check_nothing_done(stage)
    check_conserved(before, stage.table.rows)
    return "put aside" if stage.queues.sent else "answered"


def check_nothing_done(stage: Stage, refusal: Exception | None = None) -> None:
    """A refusal leaves the table as it was, and starts nothing."""
    if not isinstance(refusal, KycRejected):  # that verdict is on record
        assert stage.table.committed == 0, "a refusal has written"
    if isinstance(refusal, InvalidRequest) and not str(refusal).startswith(
        "input: "
    ):  # that is for the row to say
        assert stage.table.sent == 0, "what breaks the contract went to the table"
    assert not stage.starts.made, "a refusal has started an execution"


def check_told(message: str) -> None:
    """A refusal's message is short, printable, and about the request: nothing of ours, nothing quoted."""
    assert len(json.dumps({"errorMessage": message, "errorType": ""})) <= CAUSE_LENGTH_MAX
    assert message.isprintable()
    assert not _INTERNAL.search(message)
    assert CANARY not in message


def check_answer(answer: Any) -> None:
    """What a function returns is JSON of a bounded size, without a number that is no integer."""
    text = json.dumps(answer, ensure_ascii=False, allow_nan=False)
    assert len(text.encode()) <= ANSWER_BYTES_MAX
    json.loads(text, parse_float=_no_float)


def check_no_float(event: Any) -> None:
    """Who gets an answer has written amounts as strings."""
    payload = event.get("state", event) if isinstance(event, dict) else {}
    settlement = payload.get("settlement") if isinstance(payload, dict) else None
    for name in ("amount", "fee"):
        assert not isinstance(settlement, dict) or isinstance(settlement.get(name, ""), str)


def check_conserved(before: Rows, after: Rows) -> None:
    """Nothing that was written makes or loses money, takes a balance below zero, or has a fee above all."""
    keys = [key for key in {**before, **after} if before.get(key) is not after.get(key)]
    if keys:
        was, is_now = ({key: rows[key] for key in keys if key in rows} for rows in (before, after))
        assert _total(was) == _total(is_now)


def _total(table: Rows) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for row in map(from_wire, table.values()):
        if "available" in row or "escrow" in row:
            held = row.get("available", row.get("escrow"))
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
