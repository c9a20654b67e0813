"""Logs and metrics of a call: its key, step and execution, the name of its error, and no content."""

import io
import json
import re
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from settlement.adapters import telemetry
from settlement.adapters.telemetry import called
from settlement.model.errors import InsufficientFunds, SettlementError
from tests.unit.test_errors import EXAMPLES, PLAIN
from tests.world.functions import Context

KEY = "order-2026-000101"
EVENT = {
    "settlement": {"key": KEY, "payer": "canary-payer", "amount": "918273.64"},
    "execution": "execution-1",
    "token": "canary-token",
}
TELLTALES = ("canary", "918273")

Said = tuple[list[dict[str, Any]], list[str], str]
Output = Callable[[], Said]


@pytest.fixture
def output(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Output]:
    """The log's lines, the names of the metrics, and all of the text, since the last call."""
    # The command-line tool switches metrics off for its whole process, which may be this one.
    monkeypatch.delenv("POWERTOOLS_METRICS_DISABLED", raising=False)
    log = io.StringIO()
    monkeypatch.setattr(telemetry.logger.registered_handler, "stream", log)
    telemetry.metrics.clear_metrics()

    def take() -> Said:
        text, printed = log.getvalue(), capsys.readouterr()
        log.seek(0)
        log.truncate()
        published = [json.loads(line)["_aws"]["CloudWatchMetrics"] for line in printed.out.splitlines()]
        names = [
            metric["Name"]
            for directives in published
            for directive in directives
            for metric in directive["Metrics"]
        ]
        return [json.loads(line) for line in text.splitlines()], names, text + printed.out + printed.err

    yield take
    telemetry.metrics.clear_metrics()
    telemetry.logger.remove_keys(["key", "step", "execution"])


def call(event: Any = EVENT, error: Exception | None = None, step: str = "hold") -> Any:
    @telemetry.observed(step)
    def handler(event: Any, context: Any) -> Any:
        if error:
            raise error
        return "result"

    return handler(event, Context())


ERRORS = [error for error, _, _ in EXAMPLES]
ERRORS += [error("canary: 918273") for error in sorted(PLAIN, key=lambda error: error.__name__)]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_refusal_is_counted_and_logged_by_the_name_of_its_class_alone(
    error: SettlementError, output: Output
) -> None:
    with pytest.raises(type(error), match=f"^{re.escape(str(error))}$"):
        call(error=error)

    lines, metrics, text = output()
    name = type(error).__name__
    assert metrics == ["StepCalled", name]
    assert [(line["level"], line["message"], line["error"]) for line in lines] == [
        ("WARNING", "refused", name)
    ]
    assert not [word for word in TELLTALES if word in text]


def test_a_refusal_carries_no_trace_of_the_code_below() -> None:
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


def test_a_step_that_completes_is_counted_once_and_returns_its_result(output: Output) -> None:
    assert call() == "result"

    lines, metrics, text = output()
    assert metrics == ["StepCalled"]
    assert [line["message"] for line in lines] == ["completed"]
    assert not [word for word in TELLTALES if word in text]


def test_an_unexpected_error_passes_through_and_is_not_logged_as_completed(output: Output) -> None:
    unexpected = KeyError("canary")

    with pytest.raises(KeyError) as raised:
        call(error=unexpected)

    assert raised.value is unexpected
    lines, metrics, text = output()
    assert "completed" not in [line["message"] for line in lines]
    assert metrics == ["StepCalled", "FunctionFailed"]
    assert not [word for word in TELLTALES if word in text]


def test_nothing_of_one_invocation_is_seen_in_the_next(output: Output) -> None:
    with pytest.raises(InsufficientFunds):
        call(error=InsufficientFunds("payer"))
    output()

    call({"settlement": {"key": "order-2026-000102"}, "execution": "execution-2"}, step="release")
    (line,), metrics, text = output()
    assert (line["key"], line["step"], line["execution"]) == ("order-2026-000102", "release", "execution-2")
    assert metrics == ["StepCalled"]
    assert KEY not in text

    call({})
    (line,), metrics, text = output()
    assert "key" not in line
    assert not [word for word in ("order-2026", "execution-2") if word in text]


KEYLESS: list[Any] = [None, [], "text", 5, {}, {"settlement": None}, {"state": {}}]


@pytest.mark.parametrize(
    ("event", "key", "execution"),
    [
        *((event, None, "None") for event in KEYLESS),
        *(({"settlement": of}, None, "None") for of in ([1], "text", {}, {"key": None}, {"key": ["k"]})),
        *(({"state": of}, None, "None") for of in (None, "text", [EVENT], {"settlement": {"key": 5}})),
        ({"state": {}, "settlement": {"key": KEY}}, None, "None"),
        ({"settlement": {"key": KEY}, "execution": {"Name": "x"}}, KEY, "{'Name': 'x'}"),
        ({"settlement": {"key": KEY, "execution": "forged"}, "execution": "e"}, KEY, "e"),
        ({"state": {"settlement": {"key": KEY}, "execution": "forged"}, "execution": "e"}, KEY, "e"),
        ({"settlement": {"key": 'a\nb"\x1b'}}, 'a\\nb"\\x1b', "None"),
        ({"state": {"settlement": {"key": "k" * 300_000}}}, "k" * 64, "None"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_an_event_of_any_shape_is_one_line_with_the_key_and_the_machines_execution(
    event: object, key: str | None, execution: str, output: Output
) -> None:
    """A client's input is in `state`; Step Functions itself adds the execution beside it."""
    assert call(event) == "result"

    (line,), metrics, _ = output()
    assert (line["message"], line.get("key"), line["execution"]) == ("completed", key, execution)
    assert (line["step"], metrics) == ("hold", ["StepCalled"])


def test_a_key_outside_utf8_does_not_lose_the_line(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lone surrogate is legal in JSON; standard output, which is UTF-8 on Lambda, refuses it."""
    sink = io.BytesIO()
    stream = io.TextIOWrapper(sink, encoding="utf-8", write_through=True)
    monkeypatch.setattr(telemetry.logger.registered_handler, "stream", stream)

    call({"settlement": {"key": "\ud800"}})

    assert b'"completed"' in sink.getvalue()


@pytest.mark.parametrize(
    ("consumed", "units"),
    [
        (None, 0),
        ([], 0),
        ({"CapacityUnits": 2.0}, 2),
        ([{"CapacityUnits": 2.0}, {"CapacityUnits": 0.5}], 2.5),
    ],
)
def test_a_call_is_logged_with_the_units_that_it_used(consumed: Any, units: float, output: Output) -> None:
    called("put_item", consumed)

    (line,), _, _ = output()
    assert (line["message"], line["operation"], line["capacity_units"]) == ("dynamodb", "put_item", units)
