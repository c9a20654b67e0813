"""The command over a stack in memory, with hostile arguments, files and input."""

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest import mock

from botocore.exceptions import ClientError

from tests.fuzz.stage import HANDLERS, Stage, rows_of, staged  # first: it makes the functions' environment

from settle import cli  # isort: skip
from settle import stack as stacks  # isort: skip
from settle.door import Answer  # isort: skip
from settle.local import embedded_aws, presence  # isort: skip
from settle.reports.page import file as page_file
from settle.settlements import follow, snapshot

from settlement.proof import second_look  # isort: skip
from settlement.core.model.errors import AlreadyClaimed, IdempotencyConflict, InvalidRequest, SettlementError
from settlement.core.store.wire import from_wire
from tests.fuzz.mutation import TEXTS, Choices
from tests.fuzz.wires import message
from tests.settle.desk import COMPENSATION, Orders, Reached, Secrets, call
from tests.world.constants import KEY
from tests.world.contracts import checked_outcome
from tests.world.environment import NOW
from tests.world.functions import Context
from tests.world.provider import APPROVED

_WORDS = (
    *("", "-", "--", "--json", "--stack", "--reason"),
    *("-x", "--nonsense", "[/]", "[bold", "%s", "{key}", "\udcff"),
    *("retry", "write-off", "complete", "express", "standard", "0"),
    *("-1", "1", "2", "9" * 30, "1e3", "٤", "NaN"),
    *("EUR", "JPY", "XXX", "48.20", "48.2000"),
    *("-5", "alice", "carol", "fees:EUR", "escrow:x", "external:EUR"),
    *(KEY, "order-2026-000999", "short", "a" * 65, "a" * 3_000, "🦊", "a\nb", "a\x1b[31mb", "\u202e", " "),
    *("2h", "99999999d", "0s"),
    *("9" * 30 + "d", "2026-11-20T09:30:00Z", "2026-11-20", "0001-01-01T00:00:00+23:59"),
    *("status", "limbo", "resolve", "list", "account", "open", "reconcile", "kyc", "watch", "recover"),
)
_SLOTS = {
    "<key>": (KEY, KEY, KEY, "order-2026-000999", "order-2026-000101 "),
    "<decision>": ("retry", "write-off", "complete"),
    "<amount>": ("48.20", "0", "48.200", "-5", "1e3", "٤"),
    "<when>": (
        *("2h", "99999999d", "9" * 30 + "d", "2026-11-20T09:30:00Z", "2026-11-20"),
        "0001-01-01T00:00:00+23:59",
    ),
}
_LINES: tuple[tuple[str, ...], ...] = (
    ("start", "<file>"),
    ("start", "<file>", "--machine", "standard"),
    ("start", "-", "--json"),
    ("start", "-"),
    ("start", "-", "--reference", "invoice 1", "--meta", "shop=web"),
    ("status", "<key>"),
    ("status", "<key>", "--json"),
    ("reverse", "<key>", "--reason", "paid twice"),
    ("limbo", "list"),
    ("limbo", "show", "<key>"),
    ("limbo", "resolve", "<key>", "<decision>", "--reason", "paid in"),
    ("limbo", "resolve", "<key>", "<decision>", "--reason", "paid in", "--case", "1"),
    ("limbo", "list", "--account", "bob"),
    ("limbo", "resolve", "<decision>", "--all-of", "InsufficientFunds", "--reason", "paid in"),
    ("limbo", "propose", "<decision>", "--account", "bob", "--reason", "paid in", "--seen", f"1-{'0' * 32}"),
    ("limbo", "approve", "<decision>", "--account", "bob"),
    ("limbo", "withdraw", "<key>", "<decision>", "--digest", "0" * 64),
    ("account", "open", "dora", "--currency", "EUR", "--deposit", "<amount>"),
    ("account", "open", "alice", "--currency", "EUR"),
    ("account", "show", "alice"),
    ("account", "show", "fees:EUR", "--json"),
    ("list", "--since", "<when>", "--limit", "5"),
    ("list", "--in-flight"),
    ("list", "--limbo", "--json"),
    ("watch", "--once"),
    ("recover", "<key>"),
    ("reconcile", "--json"),
    ("reconcile",),
    ("audit", "--since", "<when>", "--json"),
    ("audit", "--since", "90d", "--until", "<when>", "--csv"),
    ("report", "<key>", "--redact"),
    ("report", "<key>", "-o", "<file>", "--force"),
    ("report", "--queue"),
    ("explain", "InsufficientFunds"),
    ("kyc", "status"),
    ("local", "status"),
)


@dataclass(frozen=True)
class Line:
    """A command line, its input, and the key's state."""

    arguments: tuple[str, ...]
    content: bytes
    state: str


def draw(choices: Choices, states: list[str]) -> Line:
    """Draw a valid command with up to three words changed, added or removed."""
    state = states[choices.below(len(states))]
    words = [_filled(word, choices) for word in _LINES[choices.below(len(_LINES))]]
    for _ in range((0, 0, 0, 1, 1, 1, 2, 3)[choices.below(8)]):
        place = choices.below(len(words) + 1)
        match choices.below(3):
            case 0:
                words[place : place + 1] = [_word(choices)]
            case 1:
                words.insert(place, _word(choices))
            case 2:
                del words[place : place + 1]
    return Line(tuple(words), _content(choices), state)


def _filled(word: str, choices: Choices) -> str:
    pool = _SLOTS.get(word, (word,))
    return pool[choices.below(len(pool))]


def _word(choices: Choices) -> str:
    """Draw a shell word: no NUL, surrogates for invalid UTF-8."""
    pool = _WORDS if choices.below(2) else TEXTS
    raw = pool[choices.below(len(pool))][:4_096].encode(
        "utf-8", "surrogateescape" if pool is _WORDS else "replace"
    )
    return os.fsdecode(raw.replace(b"\0", b""))


def _content(choices: Choices) -> bytes:
    lines = [message("start_settlements", choices) for _ in range(1 + choices.below(2))]
    joined = "\n".join(lines).encode()
    at = choices.below(len(joined) + 1)
    return joined[:at] + b"\xff\x00" + joined[at:] if choices.below(12) == 11 else joined


class Door(Orders):
    """The orders API; its executions start on the command's machines."""

    def __init__(self, stage: Stage, machines: "Machines") -> None:
        super().__init__()
        self._stage, self._machines = stage, machines

    def send(self, decision: str, order: dict[str, Any]) -> Answer:
        with mock.patch.object(self._stage.functions, "answers", _recovered):
            answer = super().send(decision, order)
        self._machines.started += self._stage.step_functions.names
        return answer


def _recovered(event: Any) -> Any:
    return call("RecoverStalled", event)


class Machines:
    """Step Functions: Express ends after the hold; compensations never run.

    It reads no input, since an input may be as deep as a parser can read.
    """

    def __init__(self) -> None:
        self.started: list[str] = []
        self._ended: dict[str, dict[str, Any]] = {}

    def start_sync_execution(self, *, stateMachineArn: str, name: str, input: str) -> dict[str, Any]:  # noqa: A002, N803
        self._accept(name, input)
        try:
            request = json.loads(input)
        except RecursionError:  # the stack is deeper here than where the command parsed it
            return {"status": "FAILED", "error": "InvalidRequest", "cause": "nested too deep"}
        try:
            outcome = _held({"settlement": request, "execution": name, "execution_arn": name})
        except (InvalidRequest, IdempotencyConflict) as refusal:
            error = _error(refusal)
            return {"status": "FAILED", "error": error["Error"], "cause": error["Cause"]}
        return {"status": "SUCCEEDED", "output": json.dumps(outcome)}

    def start_execution(self, *, stateMachineArn: str, name: str, input: str) -> dict[str, Any]:  # noqa: A002, N803
        if stateMachineArn != COMPENSATION:
            self._ended[name] = self.start_sync_execution(
                stateMachineArn=stateMachineArn, name=name, input=input
            )
        else:
            self._accept(name, input)
        return {"executionArn": name}

    def describe_execution(self, *, executionArn: str) -> dict[str, Any]:  # noqa: N803
        if executionArn not in self._ended:
            raise ClientError(
                {"Error": {"Code": "ExecutionDoesNotExist", "Message": ""}}, "DescribeExecution"
            )
        return self._ended[executionArn]

    def _accept(self, name: str, text: str) -> None:
        assert 0 < len(name) <= 80
        assert name.isascii()
        assert len(text.encode()) <= 262_144
        self.started.append(name)


def _held(event: dict[str, Any]) -> Any:
    """Return the outcome of a machine that ends after the hold, or at its refusal."""
    report = {**event, "state": event["settlement"]}
    try:
        HANDLERS["hold_funds"](event, Context())
    except (InvalidRequest, IdempotencyConflict):
        raise
    except AlreadyClaimed as claimed:
        report["state"] = {**event["settlement"], "replayed": _error(claimed)}
    except SettlementError as refusal:
        rejected = HANDLERS["reject_settlement"]({**event, "error": _error(refusal)}, Context())
        return checked_outcome(rejected)
    return checked_outcome(HANDLERS["report_outcome"](report, Context()))


def _error(refusal: SettlementError) -> dict[str, str]:
    content = {"errorMessage": str(refusal), "errorType": type(refusal).__name__}
    return {"Error": type(refusal).__name__, "Cause": json.dumps(content)}


_UNITS = {"CapacityUnits": 1.0}


class Reader:
    """The table's client, with the command's operations.

    Scans and queries return plain rows, as the command reads them.
    """

    meta = mock.Mock()

    def __init__(self, stage: Stage) -> None:
        self._table = stage.table

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._table, operation)

    def scan(self, *, Segment: int, **parameters: Any) -> dict[str, Any]:  # noqa: N803
        rows = [] if Segment else map(from_wire, self._table.rows.values())
        values = parameters.get("ExpressionAttributeValues", {})
        if values:
            rows = (
                row
                for row in rows
                if row["sk"] == values[":settlement"]["S"] and row["claimed_at"] >= values[":since"]["S"]
            )
        return {"Items": list(rows), "ConsumedCapacity": _UNITS}

    def query(self, *, ExpressionAttributeValues: Any, **parameters: Any) -> Any:  # noqa: N803
        if "IndexName" in parameters:  # recovery's query
            values = {"ExpressionAttributeValues": ExpressionAttributeValues}
            return self._table.query(**parameters, **values)
        wanted = ExpressionAttributeValues[":pk"]
        wanted["S"].encode()
        found = [row for key, row in sorted(self._table.rows.items()) if row["pk"] == wanted]
        return {"Items": [from_wire(row) for row in found], "ConsumedCapacity": _UNITS}

    def describe_table(self, **parameters: Any) -> dict[str, Any]:
        return {"Table": {"ItemCount": len(self._table.rows)}}

    def get_paginator(self, operation: str) -> "Reader":
        assert operation == "query", operation
        return self

    def paginate(self, *, ExpressionAttributeValues: Any, **parameters: Any) -> Iterator[Any]:  # noqa: N803
        wanted = ExpressionAttributeValues[":partition"]
        yield {"Items": [dict(row) for row in self._table.rows.values() if row.get("gsi1pk") == wanted]}

    def batch_get_item(self, *, RequestItems: Any) -> dict[str, Any]:  # noqa: N803
        ((table, wanted),) = RequestItems.items()
        keys = [(key["pk"]["S"], key["sk"]["S"]) for key in wanted["Keys"]]
        return {
            "Responses": {table: [dict(self._table.rows[key]) for key in keys if key in self._table.rows]}
        }


@dataclass(frozen=True)
class Ended:
    code: Any
    out: str
    err: str
    committed: int
    started: int


@contextmanager
def commanded() -> Iterator[Stage]:
    """Set up the command without its parts that manage or watch a stack."""
    with (
        staged() as stage,
        mock.patch.object(embedded_aws, "up", side_effect=OSError("not here")),
        mock.patch.object(embedded_aws, "down", return_value=False),
        mock.patch.object(presence, "running", return_value=None),
        mock.patch.object(snapshot, "snapshots", lambda stack, every: [snapshot.look(stack, NOW)]),
        mock.patch.object(follow, "FOLLOW_SECONDS_MAX", -1),
        mock.patch.object(second_look, "_PAUSE_SECONDS", 0),
        mock.patch.object(page_file, "write"),  # a drawn path may be any file of this machine
        mock.patch.dict("os.environ", {"COMPENSATION_MACHINE": COMPENSATION, "COLUMNS": "120"}),
    ):
        yield stage


def run(stage: Stage, line: Line, file: str) -> Ended:
    """Run a command line. Raises errors that a person would see as a traceback."""
    stage.set(rows_of(line.state), NOW, APPROVED)
    machines, out, err = Machines(), io.BytesIO(), io.BytesIO()
    outputs = {
        **{"TableName": "table", "CompensationArn": COMPENSATION, "OrdersUrl": "https://orders.invalid"},
        **{"SettlementExpressArn": "express", "SettlementStandardArn": "standard"},
        **{"StageConfig": os.environ["STAGE_CONFIG"], "RowKeyArns": "row-keys", "EventBusName": "events"},
    }
    clients = {"dynamodb": Reader(stage), "stepfunctions": machines, "secretsmanager": Secrets()}
    clients["cloudwatch"] = mock.Mock(get_metric_statistics=lambda **_: {"Datapoints": []})
    stack = Reached(
        "under-test", stacks.Outputs(outputs), None, clients=clients, orders=Door(stage, machines)
    )
    with open(file, "wb") as written:
        written.write(line.content)
    stdout = io.TextIOWrapper(out, "utf-8", "strict", write_through=True)
    stderr = io.TextIOWrapper(err, "utf-8", "backslashreplace", write_through=True)
    code: Any = "no exit"
    with (
        mock.patch.object(
            sys, "argv", ["settle", *(file if word == "<file>" else word for word in line.arguments)]
        ),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(line.content), "utf-8", "strict")),
        mock.patch.object(stacks, "find", return_value=stack),
        redirect_stdout(stdout),
        redirect_stderr(stderr),
    ):
        try:
            cli.main()
        except SystemExit as end:
            code = end.code or 0
    return Ended(
        code, out.getvalue().decode(), err.getvalue().decode(), stage.table.committed, len(machines.started)
    )
