"""Logs and metrics: enough to find a settlement by, and nothing of what it holds."""

import importlib
import io
import json
import pkgutil
import traceback
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from boto3.dynamodb.types import TypeSerializer
from botocore.exceptions import ClientError, EndpointConnectionError

import handlers
from handlers import _runtime
from settlement import errors, telemetry
from settlement.errors import InsufficientFunds, SettlementError
from settlement.store import Store

CONTEXT = SimpleNamespace(
    function_name="under-test",
    memory_limit_in_mb=512,
    invoked_function_arn="arn:aws:lambda:eu-west-1:000000000000:function:under-test",
    aws_request_id="request-1",
)
KEY = "order-2026-000101"
EXECUTION = "execution-1"
WIRE = {
    "key": KEY,
    "payer": "canary-payer",
    "payee": "canary-payee",
    "amount": "918273.64",
    "currency": "EUR",
    "fee": "5647.38",
}
CANARIES = ["canary", "918273", "91827364", "5647", "912626", "91262626", "73737373"]
"""Ids and amounts of the settlement, its net amount and the balance of the payer, as sent and as stored."""

EVENT = {
    "settlement": WIRE,
    "execution": EXECUTION,
    "claimed_at": "2026-11-20T12:00:00.123Z",
    "replayed": True,
    "error": {"Error": "InsufficientFunds", "Cause": '{"errorMessage": "payer: canary-payer has 918273"}'},
}
ROW = {
    **{name: WIRE[name] for name in ("payer", "payee", "currency")},
    "status": "COMPENSATING",
    "request_hash": "another",
    "amount": 91827364,
    "fee": 564738,
    "available": 73737373,
    "escrow": 91827364,
    "claimed_at": "2026-11-20T12:00:00.123Z",
    "owner": EXECUTION,
}
STEPS = {
    "claim_key": "claim",
    "hold_funds": "hold",
    "verify_kyc": "verify",
    "release_funds": "release",
    "collect_fee": "fee",
    "reject_settlement": "reject",
    "report_outcome": "report",
}


class Output:
    """What an invocation leaves in its log group: the logger's lines and the metrics' lines."""

    def __init__(self, log: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
        self._log, self._capsys = log, capsys

    def take(self) -> tuple[list[dict[str, Any]], list[str], str]:
        """The log lines, the names of the metrics, and all of the text, since the last time."""
        text, printed = self._log.getvalue(), self._capsys.readouterr()
        self._log.seek(0)
        self._log.truncate()
        lines = [json.loads(line) for line in text.splitlines()]
        blobs = [json.loads(line) for line in printed.out.splitlines() if '"_aws"' in line]
        names = [
            metric["Name"]
            for blob in blobs
            for directive in blob["_aws"]["CloudWatchMetrics"]
            for metric in directive["Metrics"]
            for _ in blob[metric["Name"]]
        ]
        return lines, names, text + printed.out + printed.err


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Output]:
    # The command-line tool switches metrics off for its whole process, which may be this one.
    monkeypatch.delenv("POWERTOOLS_METRICS_DISABLED", raising=False)
    log = io.StringIO()
    monkeypatch.setattr(telemetry.logger.registered_handler, "stream", log)
    telemetry.metrics.clear_metrics()
    yield Output(log, capsys)
    telemetry.metrics.clear_metrics()
    telemetry.logger.remove_keys(["key", "step", "execution"])


def wire(row: dict[str, Any]) -> dict[str, Any]:
    return {name: TypeSerializer().serialize(value) for name, value in row.items()}


class Accepting:
    """A DynamoDB that says yes to everything."""

    UNITS = {"CapacityUnits": 2.0}  # noqa: RUF012

    def put_item(self, **_: Any) -> Any:
        return {"ConsumedCapacity": self.UNITS}

    def update_item(self, **_: Any) -> Any:
        return {"ConsumedCapacity": self.UNITS, "Attributes": wire(ROW)}

    def get_item(self, **_: Any) -> Any:
        return {"ConsumedCapacity": self.UNITS, "Item": wire(ROW)}

    def transact_write_items(self, **_: Any) -> Any:
        return {"ConsumedCapacity": [self.UNITS]}


class Refusing(Accepting):
    """A DynamoDB that says no, and shows the row that stands in the way."""

    def put_item(self, **_: Any) -> Any:
        error = {"Code": "ConditionalCheckFailedException", "Message": "canary"}
        raise ClientError({"Error": error, "Item": wire(ROW)}, "PutItem")

    update_item = put_item

    def get_item(self, **_: Any) -> Any:
        return {"ConsumedCapacity": self.UNITS}

    def transact_write_items(self, **_: Any) -> Any:
        error = {"Code": "TransactionCanceledException", "Message": "canary"}
        reasons = [{"Code": "None"}, {"Code": "ConditionalCheckFailed", "Item": wire(ROW)}]
        raise ClientError(
            {"Error": error, "CancellationReasons": reasons},
            "TransactWriteItems",
        )


class Unreachable(Refusing):
    """A DynamoDB that nobody can reach."""

    def put_item(self, **_: Any) -> Any:
        raise EndpointConnectionError(endpoint_url="https://dynamodb.invalid")

    update_item = get_item = transact_write_items = put_item


def raising(error: Exception) -> Callable[[Any, Any], Any]:
    @telemetry.observed("hold")
    def handler(event: Any, context: Any) -> Any:
        raise error

    return handler


@telemetry.observed("hold")
def passing(event: Any, context: Any) -> Any:
    return "result"


def assert_telling_nothing(text: str) -> None:
    assert not [canary for canary in CANARIES if canary in text], text


def test_every_handler_is_tried_here() -> None:
    names = {module.name for module in pkgutil.iter_modules(handlers.__path__)}

    assert {name for name in names if not name.startswith("_")} == STEPS.keys()


@pytest.mark.parametrize("client", [Accepting, Refusing, Unreachable])
@pytest.mark.parametrize("name", STEPS)
def test_every_line_finds_the_settlement_and_tells_neither_amounts_nor_accounts(
    name: str, client: type[Accepting], output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_runtime, "store", Store(client(), "table", pause=lambda failed_tries: None))
    handler = importlib.import_module(f"handlers.{name}").handler

    try:
        handler(EVENT, CONTEXT)
        refused = None
    except SettlementError as error:
        refused = type(error).__name__

    lines, metrics, text = output.take()
    assert lines
    for line in lines:
        assert (line["key"], line["step"], line["execution"]) == (KEY, STEPS[name], EXECUTION)
    assert (refused is None) == (client is Accepting)
    assert metrics.count("StepCalled") == 1
    assert (metrics[-1] == refused) if refused else (set(metrics) <= {"StepCalled", "IdempotencyReplay"})
    assert (lines[-1]["message"], lines[-1].get("error")) == ("refused" if refused else "completed", refused)
    assert_telling_nothing(text)


@pytest.mark.parametrize("name", STEPS)
def test_a_broken_request_is_not_logged_either(name: str, output: Output) -> None:
    handler = importlib.import_module(f"handlers.{name}").handler
    broken = WIRE | {"amount": "918273.645", "payer": "canary:payer", "canary": "91827364"}

    with pytest.raises(errors.InvalidRequest):
        handler(EVENT | {"settlement": broken}, CONTEXT)

    lines, metrics, text = output.take()
    assert [line["error"] for line in lines] == ["InvalidRequest"]
    assert metrics == ["StepCalled", "InvalidRequest"]
    assert_telling_nothing(text)


@pytest.mark.parametrize(
    "error",
    [
        error
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, SettlementError)
    ],
)
def test_a_refusal_is_counted_and_logged_by_the_name_of_its_class(
    error: type[SettlementError], output: Output
) -> None:
    with pytest.raises(error, match=r"^payer: canary has too little$"):
        raising(error("payer: canary has too little"))(EVENT, CONTEXT)

    lines, metrics, text = output.take()
    assert metrics == ["StepCalled", error.__name__]
    assert [(line["level"], line["message"], line["error"]) for line in lines] == [
        ("WARNING", "refused", error.__name__)
    ]
    assert_telling_nothing(text)


def test_a_refusal_carries_no_trace_of_the_code_below() -> None:
    try:
        raise KeyError("canary")
    except KeyError as cause:
        refusal = InsufficientFunds("payer: too little")
        refusal.__cause__ = cause

    with pytest.raises(InsufficientFunds) as refused:
        raising(refusal)(EVENT, CONTEXT)

    trace = "".join(traceback.format_exception(refused.value))
    assert "canary" not in trace
    assert "raise error" not in trace


def test_a_step_that_completes_is_counted_once_and_returns_its_result(output: Output) -> None:
    assert passing(EVENT, CONTEXT) == "result"

    lines, metrics, _ = output.take()
    assert metrics == ["StepCalled"]
    assert [line["message"] for line in lines] == ["completed"]


def test_an_unexpected_error_passes_through_and_is_not_called_completed(output: Output) -> None:
    unexpected = KeyError("canary")

    with pytest.raises(KeyError) as raised:
        raising(unexpected)(EVENT, CONTEXT)

    assert raised.value is unexpected
    lines, metrics, text = output.take()
    assert "completed" not in [line["message"] for line in lines]
    assert metrics == ["StepCalled"]
    assert_telling_nothing(text)


def test_nothing_of_one_invocation_is_seen_in_the_next(output: Output) -> None:
    with pytest.raises(InsufficientFunds):
        raising(InsufficientFunds("payer: too little"))(EVENT, CONTEXT)
    output.take()

    other = telemetry.observed("release")(lambda event, context: None)
    other({"settlement": {"key": "order-2026-000102"}, "execution": "execution-2"}, CONTEXT)
    lines, metrics, text = output.take()
    assert [(line["key"], line["step"], line["execution"]) for line in lines] == [
        ("order-2026-000102", "release", "execution-2")
    ]
    assert metrics == ["StepCalled"]
    assert KEY not in text

    other({}, CONTEXT)
    lines, metrics, text = output.take()
    assert len(lines) == 1
    assert "key" not in lines[0]
    assert "order-2026" not in text
    assert "execution-2" not in text


@pytest.mark.parametrize(
    ("event", "key"),
    [
        (None, None),
        ([], None),
        ("text", None),
        (5, None),
        ({}, None),
        ({"settlement": None}, None),
        ({"settlement": []}, None),
        ({"settlement": "text"}, None),
        ({"settlement": {}}, None),
        ({"settlement": {"key": None}}, None),
        ({"settlement": {"key": 5}}, None),
        ({"settlement": {"key": ["k"]}}, None),
        ({"settlement": {"key": KEY}, "execution": None}, KEY),
        ({"settlement": {"key": KEY}, "execution": {"Name": "x"}}, KEY),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_an_event_of_any_shape_is_observed(event: object, key: str | None, output: Output) -> None:
    assert passing(event, CONTEXT) == "result"

    lines, metrics, _ = output.take()
    assert [(line["message"], line.get("key"), line["step"]) for line in lines] == [
        ("completed", key, "hold")
    ]
    assert all("execution" in line for line in lines)
    assert metrics == ["StepCalled"]


@pytest.mark.parametrize("key", ["k" * 300_000, "a\nb", '"', "\x1b[31m"], ids=["huge", "LF", "quote", "ESC"])
def test_a_hostile_key_is_one_short_line(key: str, output: Output) -> None:
    passing({"settlement": {"key": key}, "execution": EXECUTION}, CONTEXT)

    lines, _, text = output.take()
    assert [line["message"] for line in lines] == ["completed"]
    assert len(text) < 2_000
    assert "\x1b" not in text


def test_a_key_that_is_no_utf8_does_not_cost_the_line(
    output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lone surrogate is legal in JSON; standard output, which is UTF-8 on Lambda, refuses it."""
    sink = io.BytesIO()
    stream = io.TextIOWrapper(sink, encoding="utf-8", write_through=True)
    monkeypatch.setattr(telemetry.logger.registered_handler, "stream", stream)

    passing({"settlement": {"key": "\ud800"}, "execution": EXECUTION}, CONTEXT)

    assert b'"completed"' in sink.getvalue()


@pytest.mark.parametrize(
    ("consumed", "units"),
    [
        (None, 0),
        ({"CapacityUnits": 2.0}, 2),
        ([{"CapacityUnits": 2.0}, {"CapacityUnits": 0.5}], 2.5),
        ([], 0),
    ],
)
def test_a_call_is_logged_with_the_units_that_it_used(consumed: Any, units: float, output: Output) -> None:
    telemetry.called("put_item", consumed)

    (line,), _, _ = output.take()
    assert (line["message"], line["operation"], line["capacity_units"]) == ("dynamodb", "put_item", units)
