"""Money: integer minor units inside, decimal strings in requests and answers. Never a float.

An exponent is a currency's number of decimals (EUR 2, JPY 0, KWD 3).
"""

import re

DIGITS_MAX = 15
"""Maximum digits, decimals included. DynamoDB has 38, and a double is exact up to 15."""

_DECIMAL = re.compile(r"(0|[1-9][0-9]*)(?:\.([0-9]+))?", re.ASCII)


def parse(text: object, exponent: int) -> int:
    """Parse `text` into minor units: "48.20" at exponent 2 is 4820. Missing decimals are zeros.

    Raises ValueError for a number, a sign, "1e3", a blank or too many decimals. The error shows the expected
    form.
    """
    match = _DECIMAL.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(_expected(exponent))
    units, fraction = match[1], match[2] or ""
    if len(fraction) > exponent or len(units) + exponent > DIGITS_MAX:
        raise ValueError(_expected(exponent))
    return int(units + fraction.ljust(exponent, "0"))


def render(minor: int, exponent: int) -> str:
    """Minor units as a decimal string with all decimals."""
    sign = "-" if minor < 0 else ""
    digits = str(abs(minor)).rjust(exponent + 1, "0")
    if exponent == 0:
        return sign + digits
    return f"{sign}{digits[:-exponent]}.{digits[-exponent:]}"


def _expected(exponent: int) -> str:
    if exponent == 0:
        return f"must be a decimal string with no decimals and at most {DIGITS_MAX} digits"
    return (
        f"must be a decimal string with at most {exponent} decimals"
        f" and at most {DIGITS_MAX - exponent} digits before the point"
    )
