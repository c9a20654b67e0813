"""Amounts: integers inside, decimal strings outside, and no other form is an amount."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.model import money

NO_AMOUNTS = [
    pytest.param(48.2, id="float"),
    pytest.param(48, id="JSON number"),
    pytest.param(0, id="JSON zero"),
    pytest.param(True, id="true"),
    pytest.param(False, id="false"),
    pytest.param(None, id="null"),
    pytest.param([], id="list"),
    pytest.param(["48.20"], id="list with an amount"),
    pytest.param({}, id="object"),
    pytest.param(float("nan"), id="NaN"),
    pytest.param(float("inf"), id="infinite"),
    pytest.param(Decimal("48.20"), id="Decimal"),
    pytest.param(b"48.20", id="bytes"),
    pytest.param("", id="empty"),
    pytest.param("-1", id="negative"),
    pytest.param("-0", id="negative zero"),
    pytest.param("-0.01", id="negative cent"),
    pytest.param("\u22121", id="negative by a typographic minus"),
    pytest.param("+1", id="plus"),
    pytest.param("NaN", id="text NaN"),
    pytest.param("sNaN", id="text sNaN"),
    pytest.param("Infinity", id="text Infinity"),
    pytest.param("-Infinity", id="text -Infinity"),
    pytest.param("1e3", id="exponent"),
    pytest.param("1E3", id="upper-case exponent"),
    pytest.param(" 1", id="blank before"),
    pytest.param("1 ", id="blank after"),
    pytest.param("1\n", id="newline after"),
    pytest.param("1\u00a0", id="no-break space after"),
    pytest.param("1\x00", id="NUL after"),
    pytest.param("1_000", id="underscore"),
    pytest.param("1,000", id="thousands separator"),
    pytest.param("48,20", id="decimal comma"),
    pytest.param("1'000", id="apostrophe"),
    pytest.param("١٢", id="Arabic digits"),
    pytest.param("\uff11\uff12", id="full-width digits"),
    pytest.param("1²", id="superscript"),
    pytest.param("01.00", id="leading zero"),
    pytest.param("00", id="two zeros"),
    pytest.param(".5", id="nothing before the point"),
    pytest.param("5.", id="nothing after the point"),
    pytest.param(".", id="a point"),
    pytest.param("1.0.0", id="two points"),
    pytest.param("0x10", id="hexadecimal"),
    pytest.param("EUR 5", id="currency before"),
    pytest.param("5€", id="currency after"),
    pytest.param("1" * 16, id="16 digits"),
    pytest.param("9" * 300_000, id="300 KB of digits"),
]
"""Values that are an amount in no currency."""

TOO_PRECISE = [
    pytest.param("EUR", 2, "48.201", id="EUR"),
    pytest.param("EUR", 2, "48.200", id="EUR, a zero too many"),
    pytest.param("JPY", 0, "48.2", id="JPY"),
    pytest.param("JPY", 0, "48.0", id="JPY, a zero too many"),
    pytest.param("KWD", 3, "48.2001", id="KWD"),
    pytest.param("KWD", 3, "48.2000", id="KWD, a zero too many"),
]

EXPONENTS = pytest.mark.parametrize("exponent", [0, 2, 3])


@EXPONENTS
@pytest.mark.parametrize("text", NO_AMOUNTS)
def test_only_a_decimal_string_is_an_amount(text: object, exponent: int) -> None:
    with pytest.raises(ValueError, match=r"^must be a decimal string with .* digits") as refused:
        money.parse(text, exponent)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(("currency", "exponent", "text"), TOO_PRECISE)
def test_an_amount_has_no_more_decimals_than_its_currency(currency: str, exponent: int, text: str) -> None:
    with pytest.raises(ValueError, match=f"at most {exponent} decimals" if exponent else "no decimals"):
        money.parse(text, exponent)


@pytest.mark.parametrize(
    ("text", "exponent", "minor"),
    [
        ("48.20", 2, 4820),
        ("48.2", 2, 4820),
        ("48", 2, 4800),
        ("0.01", 2, 1),
        ("0", 2, 0),
        ("0.00", 2, 0),
        ("4820", 0, 4820),
        ("48.2", 3, 48200),
        ("0.001", 3, 1),
        ("10.05", 2, 1005),
    ],
)
def test_an_amount_is_read_in_minor_units(text: str, exponent: int, minor: int) -> None:
    amount = money.parse(text, exponent)

    assert amount == minor
    assert type(amount) is int


@EXPONENTS
def test_fifteen_digits_with_the_decimals_are_the_most(exponent: int) -> None:
    whole = "9" * (15 - exponent)
    full = f"{whole}.{'9' * exponent}" if exponent else whole

    assert money.parse(full, exponent) == 10**15 - 1
    assert money.parse(whole, exponent) == 10**15 - 10**exponent
    with pytest.raises(ValueError, match="digits"):
        money.parse(f"1{full}", exponent)


def test_the_bound_that_an_amount_breaks_is_the_one_that_the_message_states() -> None:
    fourteen = "1" * 14  # fewer than 15 digits, and still too many in EUR

    with pytest.raises(ValueError, match="13 digits before the point"):
        money.parse(fourteen, 2)


@EXPONENTS
@given(minor=st.integers(0, 10**15 - 1))
def test_an_amount_survives_the_wire(minor: int, exponent: int) -> None:
    assert money.parse(money.render(minor, exponent), exponent) == minor


@EXPONENTS
@given(data=st.data())
def test_an_amount_is_rendered_with_all_its_decimals(exponent: int, data: st.DataObject) -> None:
    units = data.draw(st.integers(0, 10 ** (15 - exponent) - 1))
    written = data.draw(st.text("0123456789", min_size=1, max_size=exponent)) if exponent else ""
    text = f"{units}.{written}" if written else str(units)

    rendered = money.render(money.parse(text, exponent), exponent)

    assert rendered == (f"{units}.{written.ljust(exponent, '0')}" if exponent else str(units))


@EXPONENTS
@given(text=st.text(st.characters(), max_size=30) | st.text("0123456789.-+eE_ ", max_size=20))
def test_any_text_is_an_amount_or_refused_and_amounts_are_exact(text: str, exponent: int) -> None:
    try:
        minor = money.parse(text, exponent)
    except ValueError:
        return
    assert Decimal(text).scaleb(exponent) == minor >= 0


@pytest.mark.parametrize(
    ("minor", "exponent", "text"),
    [
        (0, 2, "0.00"),
        (5, 2, "0.05"),
        (-5, 2, "-0.05"),
        (-4820, 2, "-48.20"),
        (-7, 0, "-7"),
        (-7, 3, "-0.007"),
    ],
)
def test_a_change_of_a_balance_keeps_its_sign(minor: int, exponent: int, text: str) -> None:
    assert money.render(minor, exponent) == text
