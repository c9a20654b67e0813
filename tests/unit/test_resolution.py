"""A person's decision, checked: one line of reason, who gives it, and one of three words."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.errors import InvalidRequest
from settlement.resolution import Decision, Resolution, Reversal, parse_resolution, parse_reversal
from settlement.status import Status

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
NO_STATUS_SEEN = [
    *(status.value for status in Status if status not in (Status.SETTLED, Status.PROCESSING)),
    *(None, 5, 0, True, False, 1.5, [], ["SETTLED"], {}, {"SETTLED": 1}, b"SETTLED"),
    *("", " ", "settled", "Settled", "SETTLED ", " SETTLED", "PROCESSING\n", "seen", "x" * 300_000),
]
NO_CASE = [0, -1, -(10**30), "1", "", "one", True, False, 1.0, 1.5, float("nan"), [], [1], {}]


def shown(value: object) -> str:
    return repr(value)[:30]


def test_a_resolution_is_taken_as_it_is_written() -> None:
    assert parse_resolution(RAW) == Resolution(
        decision=Decision.RETRY, reason="bob paid in again", by="arn:aws:iam::1:user/carol", case=None
    )


@pytest.mark.parametrize("decision", Decision)
def test_each_decision_has_a_word(decision: Decision) -> None:
    assert parse_resolution(RAW | {"decision": str(decision)}).decision is decision


def test_the_three_words_are_what_the_documents_say() -> None:
    assert [*Decision] == ["retry", "write-off", "complete"]


@pytest.mark.parametrize("case", [None, 1, 2, 10**30])
def test_a_case_is_named_by_its_number_or_left_out(case: int | None) -> None:
    assert parse_resolution(RAW | {"case": case}).case == case


@pytest.mark.parametrize("name", ["reason", "by"])
@pytest.mark.parametrize(
    "text", ["x", "x" * 500, "Zahlung doppelt, siehe #42", "\u5df2\u9000\u6b3e", "\U0001f600"]
)
def test_a_text_of_one_line_is_taken(name: str, text: str) -> None:
    assert getattr(parse_resolution(RAW | {name: text}), name) == text
    assert getattr(parse_reversal(RAW | {name: text}), name) == text


def test_blanks_around_a_text_are_no_part_of_it() -> None:
    order = parse_reversal({"reason": "  paid twice ", "by": " carol "})

    assert order == Reversal(reason="paid twice", by="carol", seen=Status.SETTLED)
    assert parse_resolution(RAW | {"reason": " paid in "}).reason == "paid in"


@pytest.mark.parametrize(
    ("said", "seen"),
    [
        ({}, Status.SETTLED),
        ({"seen": "SETTLED"}, Status.SETTLED),
        ({"seen": "PROCESSING"}, Status.PROCESSING),
    ],
)
def test_an_order_says_what_was_seen_which_is_settled_if_left_out(said: dict[str, str], seen: Status) -> None:
    order = parse_reversal({"reason": "paid twice", "by": "carol"} | said)

    assert order == Reversal(reason="paid twice", by="carol", seen=seen)
    assert type(order.seen) is Status
    assert order.record() == {"reason": "paid twice", "by": "carol"}


# Bad input


@pytest.mark.parametrize("seen", NO_STATUS_SEEN, ids=shown)
def test_nobody_orders_the_reversal_of_what_is_neither_settled_nor_in_process(seen: object) -> None:
    """What is in LIMBO leaves it by a resolution, and what is being reversed is not begun again."""
    with pytest.raises(InvalidRequest) as refused:
        parse_reversal(RAW | {"seen": seen})
    assert str(refused.value) == "reversal.seen: must be SETTLED or PROCESSING, or be left out"


@pytest.mark.parametrize("raw", NO_OBJECT, ids=shown)
def test_what_is_no_object_is_refused(raw: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_resolution(raw)
    assert str(refused.value) == "resolution: must be a JSON object with decision, reason and by"

    with pytest.raises(InvalidRequest) as refused:
        parse_reversal(raw)
    assert str(refused.value) == "reversal: must be a JSON object with reason and by"


@pytest.mark.parametrize("name", ["reason", "by"])
@pytest.mark.parametrize("text", NO_TEXT, ids=shown)
def test_a_text_that_is_none_or_blank_or_long_or_of_several_lines_is_refused(name: str, text: object) -> None:
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
def test_what_is_no_number_of_a_case_is_refused(case: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_resolution(RAW | {"case": case})
    assert str(refused.value) == "resolution.case: must be the number of a case, or be left out"


@pytest.mark.parametrize("name", RAW)
def test_what_is_missing_is_named(name: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"^resolution\.{name}: "):
        parse_resolution({other: value for other, value in RAW.items() if other != name})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


@given(raw=JSON | st.fixed_dictionaries({}, optional=dict.fromkeys([*RAW, "case"], JSON | st.just("retry"))))
def test_any_input_is_taken_or_refused_in_one_short_line(raw: Any) -> None:
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


@given(raw=JSON | st.fixed_dictionaries({}, optional=dict.fromkeys(["reason", "by", "seen"], JSON)))
def test_any_order_is_taken_or_refused_in_one_short_line(raw: Any) -> None:
    try:
        order = parse_reversal(raw)
    except InvalidRequest as refusal:
        message = str(refusal)
    else:
        message = "reversal"
        assert order.seen in (Status.SETTLED, Status.PROCESSING)
        assert order.reason.strip() == order.reason != ""

    assert message.startswith("reversal")
    assert message.isprintable()
    assert len(message) < 200


@pytest.mark.parametrize("name", ["reason", "by"])
def test_what_is_missing_of_an_order_is_named(name: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"^reversal\.{name}: "):
        parse_reversal({other: value for other, value in RAW.items() if other != name})


# On record


def test_what_is_on_record_says_who_why_and_what() -> None:
    assert parse_resolution(RAW | {"case": 3}).record() == RAW
    assert parse_reversal(RAW).record() == {"reason": RAW["reason"], "by": RAW["by"]}


@pytest.mark.parametrize("decision", Decision)
def test_a_record_has_the_plain_word_and_no_type_of_ours(decision: Decision) -> None:
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
def test_a_decision_is_the_one_on_record_if_who_why_and_what_are(
    entry: dict[str, Any], expected: bool
) -> None:
    assert parse_resolution(RAW).is_on(entry) == expected
    assert parse_resolution(RAW | {"case": 7}).is_on(entry) == expected
