"""A person's orders, checked: one line of reason, the person, and one of three decisions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.model.errors import InvalidRequest
from settlement.model.orders import Decision, Resolution, Reversal, parse_resolution, parse_reversal
from settlement.model.status import Status

RAW: dict[str, Any] = {"decision": "retry", "reason": "bob paid in again", "by": "arn:aws:iam::1:user/carol"}

NO_OBJECT = [None, [], [RAW], "retry", "", 5, 0, True, 1.5, b"{}"]
NO_TEXT = [
    *(None, 5, 0, True, 1.5, [], ["why"], {}, {"why": "so"}, b"why"),
    *("", " ", "    "),
    *(
        "two\nlines",
        "tab\tbed",
        "\x00",
        "\x1b[31mred",
        "line\u2028break",
        "\u202eyap",
        "\ud800",
        "why\n",
        "\r\n",
    ),
    *("x" * 501, "x" * 300_000, " " * 501),
]
NO_DECISION = [
    *(None, 5, True, [], ["retry"], {}, {"retry": 1}, 1.5),
    *(
        "",
        " ",
        "RETRY",
        "Retry",
        "retry ",
        " retry",
        "write_off",
        "writeoff",
        "RETRY\n",
        "abandon",
        "x" * 300_000,
    ),
]
NO_EXPECTED_STATUS = [
    *(status.value for status in Status if status not in (Status.SETTLED, Status.PROCESSING)),
    *(None, 5, 0, True, False, 1.5, [], ["SETTLED"], {}, {"SETTLED": 1}, b"SETTLED"),
    *(
        "",
        " ",
        "settled",
        "Settled",
        "SETTLED ",
        " SETTLED",
        "PROCESSING\n",
        "expected_status",
        "x" * 300_000,
    ),
]
NO_CASE = [0, -1, -(10**30), "1", "", "one", True, False, 1.0, 1.5, float("nan"), [], [1], {}]


def shown(value: object) -> str:
    return repr(value)[:30]


def test_a_resolution_is_read_as_it_is_written() -> None:
    assert parse_resolution(RAW) == Resolution(
        decision=Decision.RETRY, reason="bob paid in again", by="arn:aws:iam::1:user/carol", case=None
    )


@pytest.mark.parametrize("decision", Decision)
def test_each_decision_has_a_word(decision: Decision) -> None:
    assert parse_resolution(RAW | {"decision": str(decision)}).decision is decision


def test_the_three_decisions_are_those_of_the_documents() -> None:
    assert [*Decision] == ["retry", "write-off", "complete"]


@pytest.mark.parametrize("case", [None, 1, 2, 10**30])
def test_a_case_is_named_by_its_number_or_left_out(case: int | None) -> None:
    assert parse_resolution(RAW | {"case": case}).case == case


@pytest.mark.parametrize("name", ["reason", "by"])
@pytest.mark.parametrize(
    "text", ["x", "x" * 500, "Zahlung doppelt, siehe #42", "\u5df2\u9000\u6b3e", "\U0001f600"]
)
def test_a_text_of_one_line_is_accepted(name: str, text: str) -> None:
    assert getattr(parse_resolution(RAW | {name: text}), name) == text
    assert getattr(parse_reversal(RAW | {name: text}), name) == text


def test_blanks_around_a_text_are_no_part_of_it() -> None:
    order = parse_reversal({"reason": "  paid twice ", "by": " carol "})

    assert order == Reversal(reason="paid twice", by="carol", expected_status=Status.SETTLED)
    assert parse_resolution(RAW | {"reason": " paid in "}).reason == "paid in"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, Status.SETTLED),
        ({"expected_status": "SETTLED"}, Status.SETTLED),
        ({"expected_status": "PROCESSING"}, Status.PROCESSING),
    ],
)
def test_an_order_has_the_expected_status_which_is_settled_if_left_out(
    given: dict[str, str], expected: Status
) -> None:
    order = parse_reversal({"reason": "paid twice", "by": "carol"} | given)

    assert order == Reversal(reason="paid twice", by="carol", expected_status=expected)
    assert type(order.expected_status) is Status
    assert order.record() == {"reason": "paid twice", "by": "carol"}


# Bad input


@pytest.mark.parametrize("expected", NO_EXPECTED_STATUS, ids=shown)
def test_an_order_reverses_only_a_settled_or_processing_settlement(expected: object) -> None:
    """A settlement leaves LIMBO by a resolution, and a compensation is not begun again."""
    with pytest.raises(InvalidRequest) as refused:
        parse_reversal(RAW | {"expected_status": expected})
    assert str(refused.value) == "reversal.expected_status: must be SETTLED or PROCESSING, or be left out"


@pytest.mark.parametrize("raw", NO_OBJECT, ids=shown)
def test_an_order_is_a_json_object(raw: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_resolution(raw)
    assert str(refused.value) == "resolution: must be a JSON object with decision, reason and by"

    with pytest.raises(InvalidRequest) as refused:
        parse_reversal(raw)
    assert str(refused.value) == "reversal: must be a JSON object with reason and by"


@pytest.mark.parametrize("name", ["reason", "by"])
@pytest.mark.parametrize("text", NO_TEXT, ids=shown)
def test_a_text_is_one_line_not_blank_and_not_too_long(name: str, text: object) -> None:
    expected = "must be one line of at most 500 printable characters, not blank"

    with pytest.raises(InvalidRequest) as refused:
        parse_resolution(RAW | {name: text})
    assert str(refused.value) == f"resolution.{name}: {expected}"

    with pytest.raises(InvalidRequest) as refused:
        parse_reversal(RAW | {name: text})
    assert str(refused.value) == f"reversal.{name}: {expected}"


@pytest.mark.parametrize("decision", NO_DECISION, ids=shown)
def test_an_unknown_decision_is_refused_and_the_known_ones_are_named(decision: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_resolution(RAW | {"decision": decision})
    assert str(refused.value) == "resolution.decision: must be one of retry, write-off, complete"


@pytest.mark.parametrize("case", NO_CASE, ids=shown)
def test_a_case_number_is_a_positive_integer(case: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_resolution(RAW | {"case": case})
    assert str(refused.value) == "resolution.case: must be the number of a case, or be left out"


@pytest.mark.parametrize("name", RAW)
def test_a_missing_field_of_a_resolution_is_named(name: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"^resolution\.{name}: "):
        parse_resolution({other: value for other, value in RAW.items() if other != name})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


@given(raw=JSON | st.fixed_dictionaries({}, optional=dict.fromkeys([*RAW, "case"], JSON | st.just("retry"))))
def test_any_resolution_is_accepted_or_refused_in_one_short_line(raw: Any) -> None:
    try:
        resolution = parse_resolution(raw)
    except InvalidRequest as refusal:
        message = str(refusal)
    else:
        message = "resolution"
        assert {type(value) for value in resolution.record().values()} == {str}
        assert resolution.reason.strip() == resolution.reason != ""

    assert message.startswith("resolution")
    assert message.isprintable()
    assert len(message) < 200


@given(
    raw=JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(["reason", "by", "expected_status"], JSON))
)
def test_any_reversal_is_accepted_or_refused_in_one_short_line(raw: Any) -> None:
    try:
        order = parse_reversal(raw)
    except InvalidRequest as refusal:
        message = str(refusal)
    else:
        message = "reversal"
        assert order.expected_status in (Status.SETTLED, Status.PROCESSING)
        assert order.reason.strip() == order.reason != ""

    assert message.startswith("reversal")
    assert message.isprintable()
    assert len(message) < 200


@pytest.mark.parametrize("name", ["reason", "by"])
def test_a_missing_field_of_a_reversal_is_named(name: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"^reversal\.{name}: "):
        parse_reversal({other: value for other, value in RAW.items() if other != name})


# On record


def test_a_record_has_the_person_the_reason_and_the_decision() -> None:
    assert parse_resolution(RAW | {"case": 3}).record() == RAW
    assert parse_reversal(RAW).record() == {"reason": RAW["reason"], "by": RAW["by"]}


@pytest.mark.parametrize("decision", Decision)
def test_a_record_has_the_decision_as_plain_text(decision: Decision) -> None:
    record = parse_resolution(RAW | {"decision": decision.value}).record()

    assert type(record["decision"]) is str


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (RAW, True),
        (RAW | {"account": "bob", "amount": 4772, "more": {"x"}}, True),
        (RAW | {"decision": "complete"}, False),
        (RAW | {"reason": "another"}, False),
        (RAW | {"by": "dave"}, False),
        ({"reason": RAW["reason"], "by": RAW["by"]}, False),
        ({}, False),
    ],
)
def test_a_decision_is_on_record_if_its_person_reason_and_decision_are(
    entry: dict[str, Any], expected: bool
) -> None:
    assert parse_resolution(RAW).is_on(entry) == expected
    assert parse_resolution(RAW | {"case": 7}).is_on(entry) == expected
