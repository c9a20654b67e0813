from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.core.model.errors import InvalidRequest
from settlement.core.model.orders import Decision, Order, Resolution, Reversal
from settlement.core.model.status import Status
from settlement.http.caller import Caller
from settlement.orders.requests import parse_recovery, parse_resolution, parse_reversal

KEY = "order-2026-000101"
CAROL = Caller(by="arn:aws:iam::1:user/carol", user_id="AIDACAROL", request_id="req-1", source_ip="192.0.2.7")
PROOF = {"user_id": "AIDACAROL", "request_id": "req-1", "source_ip": "192.0.2.7"}
REASON = "bob paid in again"
RAW: dict[str, dict[str, Any]] = {
    "resolution": {"key": KEY, "case": 1, "decision": "retry", "reason": REASON},
    "reversal": {"key": KEY, "reason": REASON},
}
PARSERS: dict[str, Callable[[object, Caller], tuple[str, Order]]] = {
    "resolution": parse_resolution,
    "reversal": parse_reversal,
}

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
NO_CASE: list[Any] = [
    *(None, 10**9 + 1, 0, -1, -(10**30), True, False, 1.0, 1.5, float("nan")),
    *("1", "", "one", [], [1], {}),
]
ONE_LINE = "must be one line of at most 500 printable characters, not blank"


def shown(value: object) -> str:
    return ascii(value)[:30]


def resolution(**change: Any) -> Resolution:
    key, found = parse_resolution(RAW["resolution"] | change, CAROL)
    assert key == KEY
    return found


# Good orders


def test_a_resolution_is_parsed_and_names_its_author() -> None:
    assert resolution(reason=f" {REASON} ") == Resolution(
        decision=Decision.RETRY, reason=REASON, by=CAROL.by, case=1
    )
    assert [resolution(case=case).case for case in (1, 2, 10**9)] == [1, 2, 10**9]


@pytest.mark.parametrize("decision", ["retry", "write-off", "complete"])
def test_each_decision_is_recorded_with_its_authors_identity(decision: str) -> None:
    found = resolution(decision=decision, case=3)

    assert [*Decision] == ["retry", "write-off", "complete"]
    assert type(found.decision) is Decision
    assert found.record() == {"decision": decision, "reason": REASON, "by": CAROL.by}
    assert found.evidence() == found.record() | PROOF
    assert type(found.record()["decision"]) is str


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, Status.SETTLED),
        ({"expected_status": "SETTLED"}, Status.SETTLED),
        ({"expected_status": "PROCESSING"}, Status.PROCESSING),
    ],
)
def test_an_order_without_an_expected_status_expects_settled(given: dict[str, str], expected: Status) -> None:
    key, order = parse_reversal({"key": KEY, "reason": "  paid twice "} | given, CAROL)

    assert (key, order) == (KEY, Reversal(reason="paid twice", by=CAROL.by, expected_status=expected))
    assert type(order.expected_status) is Status
    assert order.evidence() == {"reason": "paid twice", "by": CAROL.by} | PROOF


@pytest.mark.parametrize("order", PARSERS)
@pytest.mark.parametrize("text", ["x", "x" * 500, "siehe #42", "\u5df2\u9000\u6b3e", "\U0001f600"], ids=shown)
def test_a_reason_of_one_line_is_accepted(order: str, text: str) -> None:
    assert PARSERS[order](RAW[order] | {"reason": text}, CAROL)[1].reason == text


def test_a_recover_order_has_only_a_key() -> None:
    assert parse_recovery({"key": KEY}) == KEY
    with pytest.raises(InvalidRequest, match=r"^reason: unknown field; the fields are key$"):
        parse_recovery({"key": KEY, "reason": "x"})


# Bad input


REFUSED: dict[tuple[str, str], tuple[list[Any], str]] = {
    **{(order, "reason"): (NO_TEXT, ONE_LINE) for order in PARSERS},
    **{
        (order, "key"): (
            [None, 7, "short", [KEY], "x" * 65],
            "must be a string that matches ^[A-Za-z0-9_-]{16,64}$",
        )
        for order in PARSERS
    },
    ("resolution", "decision"): (NO_DECISION, "must be one of retry, write-off, complete"),
    ("resolution", "case"): (NO_CASE, "must be the number of a case"),
    ("reversal", "expected_status"): (
        NO_EXPECTED_STATUS,
        "must be SETTLED or PROCESSING, or be left out",
    ),
}
"""Invalid values by order and field, with the expected form."""


@pytest.mark.parametrize(
    ("order", "field", "value"), [(*name, value) for name in REFUSED for value in REFUSED[name][0]], ids=shown
)
def test_an_invalid_order_is_refused_naming_the_field(order: str, field: str, value: object) -> None:
    """A reversal cannot expect LIMBO, which a resolution ends, or begin a second compensation."""
    with pytest.raises(InvalidRequest) as refused:
        PARSERS[order](RAW[order] | {field: value}, CAROL)

    assert str(refused.value) == f"{field}: {REFUSED[order, field][1]}"


@pytest.mark.parametrize("raw", NO_OBJECT, ids=shown)
@pytest.mark.parametrize(
    ("order", "fields"),
    [("resolution", "key, case, decision, reason"), ("reversal", "key, expected_status, reason")],
)
def test_an_order_must_be_a_json_object(order: str, fields: str, raw: object) -> None:
    with pytest.raises(InvalidRequest, match=f"^order: must be a JSON object with {fields}$"):
        PARSERS[order](raw, CAROL)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=4,
)


@pytest.mark.parametrize("order", PARSERS)
@given(
    raw=JSON
    | st.fixed_dictionaries(
        {}, optional=dict.fromkeys(["key", "reason", "case", "decision", "expected_status"], JSON)
    )
)
def test_any_order_is_accepted_or_refused_in_one_short_line(order: str, raw: Any) -> None:
    try:
        _, parsed = PARSERS[order](raw, CAROL)
    except InvalidRequest as refusal:
        message = str(refusal)
        short = ": " in message and message.isprintable() and len(message) < 1_000
    else:
        short = {type(value) for value in parsed.record().values()} == {str}
        short = short and parsed.reason.strip() == parsed.reason != ""

    assert short


# On record


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"account": "bob", "amount": 4772, "more": {"x"}}, True),
        ({"by": "dave"}, True),
        ({"decision": "complete"}, False),
        ({"reason": "another"}, False),
    ],
)
def test_a_decision_is_recognised_by_decision_and_reason(change: dict[str, Any], expected: bool) -> None:
    entry = {"decision": "retry", "reason": REASON, "by": CAROL.by} | change

    assert resolution().is_on(entry) == resolution(case=7).is_on(entry) == expected
