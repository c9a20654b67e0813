from typing import Any

import pytest

from settlement.core.model.compensation_input import CompensationInput, Decided, Failure, parse_compensation
from settlement.core.model.errors import InvalidRequest
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
        ({"order": "reverse"}, None),
        ({"order": "resolve:2"}, Decided(case=2)),
        ({"order": "resolve:123456789"}, Decided(case=123456789)),
        ({}, None),
    ],
    ids=[
        "failure",
        "failure of an owner",
        "without a cause",
        "reversal",
        "resolution",
        "the highest case",
        "none",
    ],
)
def test_the_input_gives_the_cause_of_a_compensation(given: dict[str, Any], cause: object) -> None:
    assert parse(**given) == CompensationInput(settlement=SETTLEMENT, cause=cause)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "state",
    [
        {"error": ERROR},
        {"error": {"Error": "States.Timeout"}, "owner": "execution-1"},
        {"resolution": ORDER | {"decision": "retry"}},
        {"error": ERROR, "resolution": "x", "owner": 5},
        {"order": "resolve:7", "reversal": ORDER},
    ],
    ids=["error", "timeout", "resolution", "several", "orders"],
)
def test_an_input_with_a_case_resumes_without_a_cause(state: dict[str, Any]) -> None:
    """The input may still hold the original cause, or a caught error, which is then ignored."""
    assert parse(case=1, steps=[], reversed=[], alerts=0, **state).cause is None


def test_a_returning_execution_names_its_awaited_case_until_announced() -> None:
    assert parse(case=3).unannounced_case == 3
    assert parse(case=3, notice={"key": "x"}).unannounced_case is None
    assert [parse(case=case).unannounced_case for case in (None, "3", True, [3])] == [None] * 4
    assert parse(order="resolve:3").unannounced_case is None


@pytest.mark.parametrize("error", [None, 5, "boom", [], {}, {"Error": 5}, {"Cause": "why"}], ids=repr)
def test_an_error_of_another_shape_still_counts_as_failure(error: object) -> None:
    assert parse(error=error).cause == Failure(
        error={"Error": "CompensationRequested", "Cause": "no error was given"}, owner=None
    )


# Refusals

ONE_CAUSE = "input: must have one of error and order at most"
NAMELESS = "input: must have no order but the name of one on record"
RETRY = ORDER | {"decision": "retry"}


@pytest.mark.parametrize("raw", [None, [], "text", 5, True], ids=repr)
def test_an_input_is_a_json_object(raw: object) -> None:
    assert refusal(raw) == "input: must be a JSON object with a settlement"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"error": ERROR, "order": "reverse"}, ONE_CAUSE),
        ({"error": None, "order": None}, ONE_CAUSE),
        ({"reversal": ORDER}, NAMELESS),
        ({"resolution": RETRY}, NAMELESS),
        ({"resolution": None}, NAMELESS),
        ({"error": ERROR, "reversal": ORDER}, NAMELESS),
        *(
            ({"error": ERROR, "owner": owner}, "owner: must be the name of an execution")
            for owner in (5, True, ["e"], {"e": 1}, "two\nlines", "\x1b[31m", "\ud800")
        ),
    ],
    ids=ascii,
)
def test_an_input_with_two_causes_or_unprintable_owner_is_refused(
    given: dict[str, Any], message: str
) -> None:
    assert refusal({"settlement": WIRE} | given) == message


@pytest.mark.parametrize("settlement", [None, {}, "text", WIRE | {"amount": 48.2}], ids=repr)
@pytest.mark.parametrize("cause", [{}, {"error": ERROR}, {"case": 1}], ids=repr)
def test_an_input_without_a_valid_settlement_is_refused(settlement: object, cause: dict[str, Any]) -> None:
    assert refusal({"settlement": settlement} | cause)
    assert refusal(cause).startswith("request: must be a JSON object")


@pytest.mark.parametrize(
    "name",
    [
        *(None, 5, True, [], {}, ORDER, "", "reversed", "resolve", "resolve:", "resolve:0", "resolve:01"),
        *("resolve:-1", "resolve:1 ", "resolve:1\n", "resolve:\u0661", "resolve:1234567890"),
    ],
    ids=ascii,
)
def test_an_order_that_names_neither_reversal_nor_decision_is_refused(name: object) -> None:
    message = "order: must be reverse, or resolve: and the number of a case"
    assert refusal({"settlement": WIRE, "order": name}) == message
