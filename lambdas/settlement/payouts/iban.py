import re

_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}", re.ASCII)
_CHECKED_BY = 97
_CHECK_DIGITS = range(2, 99)
_AS_DIGITS = {ord("A") + number: str(10 + number) for number in range(26)}


def is_iban(text: object) -> bool:
    """Verify form and check digits by ISO 13616. Blanks are refused."""
    if not (isinstance(text, str) and _IBAN.fullmatch(text) and int(text[2:4]) in _CHECK_DIGITS):
        return False
    return int((text[4:] + text[:4]).translate(_AS_DIGITS)) % _CHECKED_BY == 1
