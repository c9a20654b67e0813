"""Logs and metrics: enough to find a settlement, and no account and no amount."""

import io
import re
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from settlement.adapters import telemetry
from settlement.model import errors
from settlement.model.errors import InsufficientFunds, SettlementError
from tests.unit.observation import CONTEXT, EVENT, EXECUTION, KEY, Output, assert_telling_nothing
from tests.unit.test_errors import BASES, OURS, PLAIN


def raising(error: Exception) -> Callable[[Any, Any], Any]:
    @telemetry.observed("hold")
    def handler(event: Any, context: Any) -> Any:
        raise error

    return handler


@telemetry.observed("hold")
def passing(event: Any, context: Any) -> Any:
    return "result"


ERRORS = [
    *(error("payer: canary has too little") for error in (*PLAIN, *BASES, errors.IdempotencyConflict)),
    *(error("payer", "canary has too little") for error in (errors.AccountNotFound, errors.CurrencyMismatch)),
    *(error("payer", "canary has too little") for error in (errors.InsufficientFunds, errors.AccountInLimbo)),
    *(error("payer", "canary has too little") for error in (errors.CapExceeded, errors.StepFenced)),
    errors.DeadlineExceeded("canary", "2026-11-20T12:00:00.123Z"),
    errors.NotReversible("canary has too little"),
    errors.EscrowMismatch("canary"),
]


def test_every_error_is_raised_here() -> None:
    assert {type(error) for error in ERRORS} == set(OURS.values())


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_refusal_is_counted_and_logged_by_the_name_of_its_class(
    error: SettlementError, output: Output
) -> None:
    with pytest.raises(type(error), match=f"^{re.escape(str(error))}$"):
        raising(error)(EVENT, CONTEXT)

    lines, metrics, text = output.take()
    assert metrics == ["StepCalled", type(error).__name__]
    assert [(line["level"], line["message"], line["error"]) for line in lines] == [
        ("WARNING", "refused", type(error).__name__)
    ]
    assert_telling_nothing(text)


def test_a_refusal_carries_no_trace_of_the_code_below() -> None:
    try:
        raise KeyError("canary")
    except KeyError as cause:
        refusal = InsufficientFunds("payer")
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


def test_an_unexpected_error_passes_through_and_is_not_logged_as_completed(output: Output) -> None:
    unexpected = KeyError("canary")

    with pytest.raises(KeyError) as raised:
        raising(unexpected)(EVENT, CONTEXT)

    assert raised.value is unexpected
    lines, metrics, text = output.take()
    assert "completed" not in [line["message"] for line in lines]
    assert metrics == ["StepCalled", "FunctionFailed"]
    assert_telling_nothing(text)


def test_nothing_of_one_invocation_is_seen_in_the_next(output: Output) -> None:
    with pytest.raises(InsufficientFunds):
        raising(InsufficientFunds("payer"))(EVENT, CONTEXT)
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
        ({"state": None}, None),
        ({"state": "text"}, None),
        ({"state": [{"settlement": {"key": KEY}}]}, None),
        ({"state": {}}, None),
        ({"state": {"settlement": None}}, None),
        ({"state": {"settlement": {"key": 5}}}, None),
        ({"state": {"settlement": {"key": KEY}}, "execution": EXECUTION}, KEY),
        ({"state": {"settlement": {"key": KEY}, "execution": "forged"}}, KEY),
        ({"state": {}, "settlement": {"key": KEY}}, None),
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


@pytest.mark.parametrize(
    "settlement", [{"settlement": {"key": KEY}}, {"state": {"settlement": {"key": KEY}}}]
)
def test_the_execution_comes_from_the_machine_and_not_from_the_input(
    settlement: dict[str, Any], output: Output
) -> None:
    """A client's input is in `state`; Step Functions itself adds the execution."""
    forged = {name: value | {"execution": "forged"} for name, value in settlement.items()}

    passing(forged | {"execution": EXECUTION}, CONTEXT)

    (line,), _, text = output.take()
    assert (line["key"], line["execution"]) == (KEY, EXECUTION)
    assert "forged" not in text


@pytest.mark.parametrize("in_state", [True, False])
@pytest.mark.parametrize("key", ["k" * 300_000, "a\nb", '"', "\x1b[31m"], ids=["huge", "LF", "quote", "ESC"])
def test_a_hostile_key_is_one_short_line(key: str, in_state: bool, output: Output) -> None:
    request = {"settlement": {"key": key}}

    passing((({"state": request}) if in_state else request) | {"execution": EXECUTION}, CONTEXT)

    lines, _, text = output.take()
    assert [line["message"] for line in lines] == ["completed"]
    assert len(text) < 2_000
    assert "\x1b" not in text


def test_a_key_outside_utf8_does_not_lose_the_line(output: Output, monkeypatch: pytest.MonkeyPatch) -> None:
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
