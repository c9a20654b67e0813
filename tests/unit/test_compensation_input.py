"""The input of the compensating machine: five causes, and a refusal for any other shape."""

from typing import Any

import pytest

from settlement.model.compensation_input import CompensationInput, Failure, parse_compensation
from settlement.model.errors import InvalidRequest
from settlement.model.orders import Decision, Resolution, Reversal
from settlement.model.status import Status
from tests.unit.vectors import CONFIG, SETTLEMENT

WIRE = SETTLEMENT.to_wire(CONFIG)
ERROR = {"Error": "InsufficientFunds", "Cause": "too little"}
ORDER = {"reason": "paid twice", "by": "carol"}


def parse(**given: Any) -> CompensationInput:
    return parse_compensation({"settlement": WIRE} | given, CONFIG)


def refusal(raw: object) -> str:
    with pytest.raises(InvalidRequest) as refused:
        parse_compensation(raw, CONFIG)
    return str(refused.value)


# The causes


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        ({"error": ERROR}, Failure(error=ERROR, owner=None)),
        ({"error": ERROR, "owner": "execution-1"}, Failure(error=ERROR, owner="execution-1")),
        ({"reversal": ORDER}, Reversal(reason="paid twice", by="carol", expected_status=Status.SETTLED)),
        (
            {"reversal": ORDER | {"expected_status": "PROCESSING"}},
            Reversal(reason="paid twice", by="carol", expected_status=Status.PROCESSING),
        ),
        (
            {"resolution": ORDER | {"decision": "retry", "case": 2}},
            Resolution(reason="paid twice", by="carol", decision=Decision.RETRY, case=2),
        ),
        ({}, None),
    ],
    ids=["failure", "failure of an owner", "reversal", "reversal of a stalled one", "resolution", "none"],
)
def test_the_cause_of_a_compensation_is_the_one_in_its_input(given: dict[str, Any], cause: object) -> None:
    assert parse(**given) == CompensationInput(settlement=SETTLEMENT, cause=cause)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "state",
    [
        {"error": ERROR},
        {"error": {"Error": "States.Timeout"}, "owner": "execution-1"},
        {"resolution": ORDER | {"decision": "retry"}},
        {"error": ERROR, "resolution": "x", "owner": 5},
    ],
    ids=["error", "timeout", "resolution", "several"],
)
def test_an_execution_that_returns_with_a_case_only_resumes(state: dict[str, Any]) -> None:
    """Its state may still have the cause for which it began, or an error that it has caught."""
    assert parse(case=1, steps=[], reversed=[], alerts=0, **state).cause is None


def test_an_order_to_reverse_has_no_case() -> None:
    with pytest.raises(InvalidRequest, match=r"^input: must not have a reversal if it has a case$"):
        parse(case=1, reversal=ORDER)


@pytest.mark.parametrize("error", [None, 5, "boom", [], {}, {"Error": 5}, {"Cause": "why"}], ids=repr)
def test_a_failure_without_the_shape_of_an_error_is_still_a_failure(error: object) -> None:
    assert parse(error=error).cause == Failure(
        error={"Error": "CompensationRequested", "Cause": "no error was given"}, owner=None
    )


def test_an_error_needs_no_cause() -> None:
    assert parse(error={"Error": "States.Timeout"}).cause == Failure(
        error={"Error": "States.Timeout"}, owner=None
    )


# Refusals


@pytest.mark.parametrize("raw", [None, [], "text", 5, True], ids=repr)
def test_an_input_is_a_json_object(raw: object) -> None:
    assert refusal(raw) == "input: must be a JSON object with a settlement"


@pytest.mark.parametrize(
    "causes",
    [
        {"error": ERROR, "reversal": ORDER},
        {"error": ERROR, "resolution": ORDER | {"decision": "retry"}},
        {"reversal": ORDER, "resolution": ORDER | {"decision": "retry"}},
        {"error": None, "reversal": None, "resolution": None},
    ],
    ids=" ".join,
)
def test_an_input_has_one_cause_at_most(causes: dict[str, Any]) -> None:
    assert refusal({"settlement": WIRE} | causes) == (
        "input: must have one of error, reversal and resolution at most"
    )


@pytest.mark.parametrize("settlement", [None, {}, "text", WIRE | {"amount": 48.2}], ids=repr)
@pytest.mark.parametrize("cause", [{}, {"error": ERROR}, {"reversal": ORDER}, {"case": 1}], ids=repr)
def test_every_input_has_a_valid_settlement(settlement: object, cause: dict[str, Any]) -> None:
    assert refusal({"settlement": settlement} | cause)


def test_a_settlement_must_not_be_missing() -> None:
    assert refusal({"error": ERROR}).startswith("request: must be a JSON object")


@pytest.mark.parametrize("owner", [5, True, [], {}, "two\nlines", "\x1b[31m", "\ud800"], ids=repr)
def test_an_owner_is_the_name_of_an_execution(owner: object) -> None:
    assert refusal({"settlement": WIRE, "error": ERROR, "owner": owner}) == (
        "owner: must be the name of an execution"
    )


@pytest.mark.parametrize(
    ("cause", "field"),
    [
        ({"reversal": None}, "reversal"),
        ({"reversal": {"reason": "why"}}, "reversal.by"),
        ({"reversal": ORDER | {"expected_status": "LIMBO"}}, "reversal.expected_status"),
        ({"resolution": ORDER}, "resolution.decision"),
        ({"resolution": ORDER | {"decision": "retry", "case": 0}}, "resolution.case"),
    ],
    ids=repr,
)
def test_a_persons_order_is_checked(cause: dict[str, Any], field: str) -> None:
    assert refusal({"settlement": WIRE} | cause).startswith(f"{field}: ")
