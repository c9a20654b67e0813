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
        ({"error": {"Error": "States.Timeout"}}, Failure(error={"Error": "States.Timeout"}, owner=None)),
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
    ids=[
        "failure",
        "failure of an owner",
        "without a cause",
        "reversal",
        "reversal of a stalled one",
        "resolution",
        "none",
    ],
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


@pytest.mark.parametrize("error", [None, 5, "boom", [], {}, {"Error": 5}, {"Cause": "why"}], ids=repr)
def test_a_failure_without_the_shape_of_an_error_is_still_a_failure(error: object) -> None:
    assert parse(error=error).cause == Failure(
        error={"Error": "CompensationRequested", "Cause": "no error was given"}, owner=None
    )


# Refusals

ONE_CAUSE = "input: must have one of error, reversal and resolution at most"
RETRY = ORDER | {"decision": "retry"}


@pytest.mark.parametrize("raw", [None, [], "text", 5, True], ids=repr)
def test_an_input_is_a_json_object(raw: object) -> None:
    assert refusal(raw) == "input: must be a JSON object with a settlement"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"error": ERROR, "reversal": ORDER}, ONE_CAUSE),
        ({"error": ERROR, "resolution": RETRY}, ONE_CAUSE),
        ({"reversal": ORDER, "resolution": RETRY}, ONE_CAUSE),
        ({"error": None, "reversal": None, "resolution": None}, ONE_CAUSE),
        ({"case": 1, "reversal": ORDER}, "input: must not have a reversal if it has a case"),
        *(
            ({"error": ERROR, "owner": owner}, "owner: must be the name of an execution")
            for owner in (5, True, ["e"], {"e": 1}, "two\nlines", "\x1b[31m", "\ud800")
        ),
    ],
    ids=ascii,
)
def test_an_input_has_one_cause_at_most_and_a_printable_owner(given: dict[str, Any], message: str) -> None:
    assert refusal({"settlement": WIRE} | given) == message


@pytest.mark.parametrize("settlement", [None, {}, "text", WIRE | {"amount": 48.2}], ids=repr)
@pytest.mark.parametrize("cause", [{}, {"error": ERROR}, {"case": 1}], ids=repr)
def test_every_input_has_a_valid_settlement(settlement: object, cause: dict[str, Any]) -> None:
    assert refusal({"settlement": settlement} | cause)
    assert refusal(cause).startswith("request: must be a JSON object")


@pytest.mark.parametrize(
    ("cause", "field"),
    [
        ({"reversal": {"reason": "why"}}, "reversal.by"),
        ({"reversal": ORDER | {"expected_status": "LIMBO"}}, "reversal.expected_status"),
        ({"resolution": ORDER}, "resolution.decision"),
    ],
    ids=repr,
)
def test_a_persons_order_is_checked(cause: dict[str, Any], field: str) -> None:
    assert refusal({"settlement": WIRE} | cause).startswith(f"{field}: ")
