import io
import json
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from typing import Any

import pytest
from aws_lambda_powertools.logging import logger as powertools

from settlement.core import telemetry
from settlement.core.model.errors import InsufficientFunds, SettlementError
from settlement.core.telemetry import called
from tests.unit.test_errors import EXAMPLES, PLAIN
from tests.world.functions import Context

KEY = "order-2026-000101"
EVENT = {
    "settlement": {"key": KEY, "payer": "canary-payer", "amount": "918273.64"},
    "execution": "execution-1",
    "token": "canary-token",
}
TELLTALES = ("canary", "918273")
CONTEXT = ("key", "step", "execution")
"""Fields by which one filter finds all lines of a settlement or an execution."""


Said = tuple[dict[str, Any], list[dict[str, Any]], str]
Output = Callable[[], Said]


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Output]:
    """Return a function that reads a call's one log line, the logger's lines, and the full new text."""
    # The command-line tool switches metrics off for its whole process, which may be this one.
    monkeypatch.delenv("POWERTOOLS_METRICS_DISABLED", raising=False)
    log = io.StringIO()
    monkeypatch.setattr(telemetry.logger.registered_handler, "stream", log)
    telemetry.metrics.clear_metrics()

    def take() -> Said:
        text, printed = log.getvalue(), capsys.readouterr()
        log.seek(0)
        log.truncate()
        (line,) = map(json.loads, printed.out.splitlines())
        return line, [json.loads(own) for own in text.splitlines()], text + printed.out + printed.err

    yield take
    telemetry.metrics.clear_metrics()
    telemetry.logger.remove_keys(["key", "step", "execution"])


def counted(line: dict[str, Any]) -> list[str]:
    """Return the metric names of a line; each must have a value in the line."""
    (directive,) = line["_aws"]["CloudWatchMetrics"]
    names = [metric["Name"] for metric in directive["Metrics"]]
    assert names == [name for name in names if line[name]]
    return names


def call(
    event: Any = EVENT, error: Exception | None = None, step: str = "hold", *, dynamodb: Any = ()
) -> Any:
    """Call a function that makes these DynamoDB calls and then fails or returns."""

    @telemetry.observed(step)
    def handler(event: Any, context: Any) -> Any:
        for operation, consumed in dynamodb:
            called(operation, consumed)
        if error:
            raise error
        return "result"

    return handler(event, Context())


ERRORS = [error for error, _, _ in EXAMPLES]
ERRORS += [error("canary: 918273") for error in sorted(PLAIN, key=lambda error: error.__name__)]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_refusal_is_counted_and_only_its_class_logged(error: SettlementError, output: Output) -> None:
    with pytest.raises(type(error), match=f"^{re.escape(str(error))}$"):
        call(error=error)

    line, others, text = output()
    assert counted(line) == ["StepCalled", type(error).__name__]
    assert (line["error"], others) == (type(error).__name__, [])
    assert not [word for word in TELLTALES if word in text]


def test_a_raised_refusal_shows_no_traceback_of_inner_code() -> None:
    try:
        raise KeyError("canary")
    except KeyError as cause:
        refusal = InsufficientFunds("payer")
        refusal.__cause__ = cause

    with pytest.raises(InsufficientFunds) as refused:
        call(error=refusal)

    trace = "".join(traceback.format_exception(refused.value))
    assert "canary" not in trace
    assert "raise error" not in trace


def test_a_completed_step_is_one_line_and_returns_its_result(output: Output) -> None:
    assert call() == "result"

    line, others, text = output()
    assert (counted(line), others) == (["StepCalled"], [])
    assert "error" not in line
    assert not [word for word in TELLTALES if word in text]


def test_an_unexpected_error_passes_through_and_the_line_names_it(output: Output) -> None:
    unexpected = KeyError("canary")

    with pytest.raises(KeyError) as raised:
        call(error=unexpected)

    assert raised.value is unexpected
    line, others, text = output()
    assert (counted(line), line["error"], others) == (["StepCalled", "FunctionFailed"], "KeyError", [])
    assert not [word for word in TELLTALES if word in text]


def test_nothing_of_one_call_is_logged_with_the_next(output: Output) -> None:
    with pytest.raises(InsufficientFunds):
        call(error=InsufficientFunds("payer"), dynamodb=[("put_item", None)])
    output()

    call({"settlement": {"key": "order-2026-000102"}, "execution": "execution-2"}, step="release")
    line, _, text = output()
    assert (line["key"], line["step"], line["execution"]) == ("order-2026-000102", "release", "execution-2")
    assert counted(line) == ["StepCalled"]
    assert not line.keys() & {"error", "dynamodb", "function_request_id"}
    assert KEY not in text

    call({})
    line, _, text = output()
    assert "key" not in line
    assert not [word for word in ("order-2026", "execution-2") if word in text]


@pytest.mark.parametrize("error", [InsufficientFunds("payer"), KeyError("x")])
def test_only_a_failed_calls_line_has_the_request_id(error: Exception, output: Output) -> None:
    """On success, it would cost more than it tells."""
    with pytest.raises(type(error)):
        call(error=error)

    assert output()[0]["function_request_id"] == Context.aws_request_id


def test_the_line_has_a_key_that_the_function_found_later(output: Output) -> None:
    """Not every event has the settlement's key where `observed` looks for it."""

    @telemetry.observed("decide")
    def handler(event: Any, context: Any) -> None:
        telemetry.logger.append_keys(key="order-2026-000103")
        telemetry.note("kyc", {"http_status": 200})

    handler({}, Context())

    line, _, _ = output()
    assert (line["key"], line["kyc"]) == ("order-2026-000103", {"http_status": 200})


def test_only_the_first_call_of_an_environment_logs_cold_start(
    output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    monkeypatch.setattr(powertools, "is_cold_start", True)
    for _ in range(2):
        call()
        found.append(output()[0].get("cold_start"))

    assert found == [True, None]


UNNAMED: list[Any] = [None, "text", {}, {"key": 5}]
"""Client inputs without a key; the stage may have minted one."""

KEYLESS: list[Any] = [None, [], "text", 5, {}, {"settlement": None}, {"state": {}}]


@pytest.mark.parametrize(
    ("event", "key", "execution"),
    [
        *((event, None, "None") for event in KEYLESS),
        *(({"settlement": of}, None, "None") for of in ([1], "text", {}, {"key": None}, {"key": ["k"]})),
        *(({"state": of}, None, "None") for of in (None, "text", [EVENT], {"settlement": {"key": 5}})),
        ({"state": {}, "settlement": {"key": KEY}}, KEY, "None"),
        ({"state": {"Error": "AlreadyClaimed"}, "settlement": {"key": KEY}}, KEY, "None"),
        ({"state": {"settlement": {"key": "another"}}, "settlement": {"key": KEY}}, KEY, "None"),
        *(({"state": {"settlement": {"key": KEY}}, "settlement": of}, KEY, "None") for of in UNNAMED),
        ({"settlement": {"key": KEY}, "execution": {"Name": "x"}}, KEY, "{'Name': 'x'}"),
        ({"settlement": {"key": KEY, "execution": "forged"}, "execution": "e"}, KEY, "e"),
        ({"state": {"settlement": {"key": KEY}, "execution": "forged"}, "execution": "e"}, KEY, "e"),
        ({"settlement": {"key": 'a\nb"\x1b'}}, 'a\\nb"\\x1b', "None"),
        ({"state": {"settlement": {"key": "k" * 300_000}}}, "k" * 64, "None"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_any_event_logs_one_line_with_its_key_and_execution(
    event: object, key: str | None, execution: str, output: Output
) -> None:
    """Client input is in `settlement` or `state`; Step Functions adds the execution beside it."""
    assert call(event) == "result"

    line, others, _ = output()
    assert (line.get("key"), line["execution"], line["step"]) == (key, execution, "hold")
    assert (counted(line), others) == (["StepCalled"], [])


def test_a_key_that_is_invalid_utf_8_is_logged_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lone surrogate is legal in JSON; standard output, UTF-8 on Lambda, refuses it."""
    monkeypatch.delenv("POWERTOOLS_METRICS_DISABLED", raising=False)
    sink = io.BytesIO()
    with redirect_stdout(io.TextIOWrapper(sink, encoding="utf-8", write_through=True)):
        call({"settlement": {"key": "\ud800"}})
        (line,) = sink.getvalue().splitlines()

    assert json.loads(line)["key"] == "\\ud800"


UNITS = [
    pytest.param(None, 0, id="refused"),
    pytest.param([], 0, id="no table"),
    pytest.param({"CapacityUnits": 2.0}, 2, id="one table"),
    pytest.param([{"CapacityUnits": 2.0}, {"CapacityUnits": 0.5}], 2.5, id="tables"),
]


@pytest.mark.parametrize(("consumed", "units"), UNITS)
def test_the_line_counts_dynamodb_calls_and_units_by_operation(
    consumed: Any, units: float, output: Output
) -> None:
    call(dynamodb=[("put_item", consumed), ("get_item", {"CapacityUnits": 1.0}), ("put_item", consumed)])

    line, others, _ = output()
    assert line["dynamodb"] == {
        "put_item": {"calls": 2, "units": 2 * units},
        "get_item": {"calls": 1, "units": 1},
    }
    assert others == []


def test_dynamodb_calls_of_many_threads_are_all_counted(output: Output) -> None:
    @telemetry.observed("recover")
    def handler(event: Any, context: Any) -> None:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: called("get_item", {"CapacityUnits": 1.0}), range(4_000)))

    handler({}, Context())

    assert output()[0]["dynamodb"] == {"get_item": {"calls": 4_000, "units": 4_000}}


@pytest.mark.parametrize("detail", [{"full": True}, {"full": False, "keys": ["order-1", KEY]}], ids=str)
@pytest.mark.parametrize(("consumed", "units"), UNITS)
def test_full_detail_adds_a_line_for_each_dynamodb_call(
    detail: dict[str, Any], consumed: Any, units: float, output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "_detail", detail)

    call(dynamodb=[("put_item", consumed)])

    line, (own,), _ = output()
    assert (own["message"], own["operation"], own["capacity_units"]) == ("dynamodb", "put_item", units)
    assert [own[name] for name in CONTEXT] == [line[name] for name in CONTEXT]
    assert line["dynamodb"] == {"put_item": {"calls": 1, "units": units}}


@pytest.mark.parametrize(
    "event", [{}, {"settlement": {"key": "order-2026-000102"}}, {"settlement": {"key": ""}}]
)
def test_only_settlements_with_listed_keys_are_logged_in_full(
    event: Any, output: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "_detail", {"full": False, "keys": [KEY]})

    call(event, dynamodb=[("put_item", None)])

    assert output()[1] == []


@pytest.mark.parametrize(
    ("variable", "detail"),
    [(None, {}), ('{"full": false, "keys": ["order-1"]}', {"full": False, "keys": ["order-1"]})],
)
def test_the_log_detail_is_read_from_the_environment(variable: str | None, detail: dict[str, Any]) -> None:
    """Runs in a new process: the variable is read when the function starts."""
    environment = {name: value for name, value in os.environ.items() if name != "LOG_DETAIL"}
    given = {} if variable is None else {"LOG_DETAIL": variable}
    ask = "import json; from settlement.core import telemetry; print(json.dumps(telemetry._detail))"

    told = subprocess.run(
        [sys.executable, "-c", ask], env=environment | given, capture_output=True, check=True
    ).stdout

    assert json.loads(told) == detail
