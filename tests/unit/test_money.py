from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from settlement.core.model import money

NO_AMOUNTS: list[Any] = [
    *(48.2, 48, 0, True, False, None, float("nan"), float("inf"), Decimal("48.20")),
    *([], ["48.20"], {}, b"48.20"),
    *("", "-1", "-0", "-0.01", "\u22121", "+1", "NaN", "sNaN", "Infinity", "-Infinity", "1e3", "1E3"),
    *(" 1", "1 ", "1\n", "1\u00a0", "1\x00", "1_000", "1,000", "48,20", "1'000", "١٢", "\uff11\uff12", "1²"),
    *("01.00", "00", ".5", "5.", ".", "1.0.0", "0x10", "EUR 5", "5€", "1" * 16, "9" * 300_000),
]

TOO_PRECISE = [
    *(("EUR", 2, text) for text in ("48.201", "48.200")),
    *(("JPY", 0, text) for text in ("48.2", "48.0")),
    *(("KWD", 3, text) for text in ("48.2001", "48.2000")),
]
"""Currency, exponent, and an amount with too many decimals, even if zeros."""

EXPONENTS = pytest.mark.parametrize("exponent", [0, 2, 3])


@EXPONENTS
@pytest.mark.parametrize("text", NO_AMOUNTS, ids=lambda value: ascii(value)[:20])
def test_an_amount_must_be_a_decimal_string(text: object, exponent: int) -> None:
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
def test_an_amount_has_at_most_fifteen_digits(exponent: int) -> None:
    whole = "9" * (15 - exponent)
    full = f"{whole}.{'9' * exponent}" if exponent else whole

    assert money.parse(full, exponent) == 10**15 - 1
    assert money.parse(whole, exponent) == 10**15 - 10**exponent
    for longer in (f"1{full}", f"1{whole}"):
        with pytest.raises(ValueError, match=f"{15 - exponent} digits"):
            money.parse(longer, exponent)


@EXPONENTS
@given(minor=st.integers(0, 10**15 - 1))
def test_a_rendered_amount_parses_back_to_itself(minor: int, exponent: int) -> None:
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
def test_any_text_is_an_exact_amount_or_is_refused(text: str, exponent: int) -> None:
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
def test_a_negative_change_is_rendered_with_its_sign(minor: int, exponent: int, text: str) -> None:
    assert money.render(minor, exponent) == text
