"""A person's orders, checked: one line of reason, the person, and one of three decisions."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.model.errors import InvalidRequest
from settlement.model.orders import Decision, Order, Resolution, Reversal, parse_resolution, parse_reversal
from settlement.model.status import Status

RAW: dict[str, Any] = {"decision": "retry", "reason": "bob paid in again", "by": "arn:aws:iam::1:user/carol"}
PARSERS: dict[str, Callable[[object], Order]] = {"resolution": parse_resolution, "reversal": parse_reversal}

NO_OBJECT = [None, [], [RAW], "retry", "", 5, 0, True, 1.5, b"{}"]
NO_TEXT = [
    *(None, 5, 0, True, 1.5, [], ["why"], {}, {"why": "so"}, b"why", "", " ", "    "),
    *("two\nlines", "tab\tbed", "\x00", "\x1b[31mred", "line\u2028break", "\u202eyap", "\ud800", "why\n"),
    *("\r\n", "x" * 501, "x" * 300_000, " " * 501),
]
NO_DECISION = [
    *(None, 5, True, [], ["retry"], {}, {"retry": 1}, 1.5, "", " ", "RETRY", "Retry", "retry ", " retry"),
    *("write_off", "writeoff", "RETRY\n", "abandon", "x" * 300_000),
]
NO_EXPECTED_STATUS = [
    *(status.value for status in Status if status not in (Status.SETTLED, Status.PROCESSING)),
    *(None, 5, 0, True, False, 1.5, [], ["SETTLED"], {}, {"SETTLED": 1}, b"SETTLED", "", " "),
    *("settled", "Settled", "SETTLED ", " SETTLED", "PROCESSING\n", "expected_status", "x" * 300_000),
]
NO_CASE = [0, -1, -(10**30), "1", "", "one", True, False, 1.0, 1.5, float("nan"), [], [1], {}]
ONE_LINE = "must be one line of at most 500 printable characters, not blank"


def shown(value: object) -> str:
    return ascii(value)[:30]


# Good orders


def test_a_resolution_is_read_as_it_is_written() -> None:
    assert parse_resolution(RAW | {"by": " carol "}) == Resolution(
        decision=Decision.RETRY, reason="bob paid in again", by="carol", case=None
    )
    assert [parse_resolution(RAW | {"case": case}).case for case in (None, 1, 10**30)] == [None, 1, 10**30]


@pytest.mark.parametrize("decision", ["retry", "write-off", "complete"])
def test_each_decision_has_a_word_which_goes_on_record(decision: str) -> None:
    resolution = parse_resolution(RAW | {"decision": decision, "case": 3})

    assert [*Decision] == ["retry", "write-off", "complete"]
    assert type(resolution.decision) is Decision
    assert resolution.record() == RAW | {"decision": decision}
    assert type(resolution.record()["decision"]) is str


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
    order = parse_reversal({"reason": "  paid twice ", "by": "carol"} | given)

    assert order == Reversal(reason="paid twice", by="carol", expected_status=expected)
    assert type(order.expected_status) is Status
    assert order.record() == {"reason": "paid twice", "by": "carol"}


@pytest.mark.parametrize("order", PARSERS)
@pytest.mark.parametrize("name", ["reason", "by"])
@pytest.mark.parametrize("text", ["x", "x" * 500, "siehe #42", "\u5df2\u9000\u6b3e", "\U0001f600"], ids=shown)
def test_a_text_of_one_line_is_accepted(order: str, name: str, text: str) -> None:
    assert getattr(PARSERS[order](RAW | {name: text}), name) == text


# Bad input


@pytest.mark.parametrize(
    ("order", "raw", "expected"),
    [
        *(("resolution", raw, ": must be a JSON object with decision, reason and by") for raw in NO_OBJECT),
        *(("reversal", raw, ": must be a JSON object with reason and by") for raw in NO_OBJECT),
        *(
            (order, RAW | {name: text}, f".{name}: {ONE_LINE}")
            for order in PARSERS
            for name in ("reason", "by")
            for text in NO_TEXT
        ),
        *(
            ("resolution", RAW | {"decision": each}, ".decision: must be one of retry, write-off, complete")
            for each in NO_DECISION
        ),
        *(
            ("resolution", RAW | {"case": case}, ".case: must be the number of a case, or be left out")
            for case in NO_CASE
        ),
        *(
            (
                "reversal",
                RAW | {"expected_status": each},
                ".expected_status: must be SETTLED or PROCESSING, or be left out",
            )
            for each in NO_EXPECTED_STATUS
        ),
    ],
    ids=shown,
)
def test_a_bad_order_is_refused_by_the_field_at_fault(order: str, raw: object, expected: str) -> None:
    """A settlement leaves LIMBO by a resolution, and a compensation is not begun again."""
    with pytest.raises(InvalidRequest) as refused:
        PARSERS[order](raw)

    assert str(refused.value) == f"{order}{expected}"


@pytest.mark.parametrize(("order", "name"), [*(("resolution", name) for name in RAW), ("reversal", "by")])
def test_a_missing_field_is_named(order: str, name: str) -> None:
    with pytest.raises(InvalidRequest, match=rf"^{order}\.{name}: "):
        PARSERS[order]({other: value for other, value in RAW.items() if other != name})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


@pytest.mark.parametrize("order", PARSERS)
@given(
    raw=JSON
    | st.fixed_dictionaries(
        {}, optional=dict.fromkeys([*RAW, "case", "expected_status"], JSON | st.just("retry"))
    )
)
def test_any_order_is_accepted_or_refused_in_one_short_line(order: str, raw: Any) -> None:
    try:
        parsed = PARSERS[order](raw)
    except InvalidRequest as refusal:
        message = str(refusal)
        short = message.startswith(order) and message.isprintable() and len(message) < 200
    else:
        short = {type(value) for value in parsed.record().values()} == {str}
        short = short and parsed.reason.strip() == parsed.reason != ""

    assert short


# On record


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
