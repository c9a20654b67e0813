import re
from collections.abc import Iterable, Mapping
from datetime import date
from functools import lru_cache
from typing import NoReturn

from settlement.bank.statement import REFERENCE_MAX, UnreadableStatement
from settlement.core.model import money

REFERENCES_MAX = 50
"""Maximum references of a line: each costs a search."""

_TEXT_MAX = 10_000
_SHOWN_MAX = 40
_MESSAGE_MAX = 300
_WORD_LENGTH_MIN = 4
_NO_NAME = {"notprovided", "nonref"}
_EDGES = ".,;:()[]\"'"
_DECIMAL = re.compile(r"([0-9]*)(?:\.([0-9]*))?", re.ASCII)
_DAY = re.compile(r"(20[0-9]{2}-[0-9]{2}-[0-9]{2})(?:Z|[+-][0-9]{2}:[0-9]{2}|T[0-9:.+Z-]*)?", re.ASCII)

_KINDS = (
    (b"PK\x03\x04", "a zip file: unpack it first"),
    (b"\x1f\x8b", "a gzip file: unpack it first"),
    (b"7z\xbc\xaf", "a 7z file: unpack it first"),
    (b"%PDF", "a PDF, which is for people: ask the bank for the XML"),
    (b"\xd0\xcf\x11\xe0", "an old Office file"),
    (b"{1:", "a SWIFT message, such as MT940"),
    (b":20:", "a SWIFT message, such as MT940"),
    (b"{", "JSON"),
    (b"[", "JSON"),
    (b"<", "XML"),
)


def refuse(line: int, where: str, what: str) -> NoReturn:
    """Raise UnreadableStatement with the line, the element or column, and the error."""
    raise UnreadableStatement(f"line {line}, {where}: {what}"[:_MESSAGE_MAX])


def shown(text: str) -> str:
    """Quote a text for a message, printable and short."""
    quoted = repr(text[:_SHOWN_MAX])
    whole = len(text) <= _SHOWN_MAX and len(quoted) <= _SHOWN_MAX + 2
    return quoted if whole else f"{quoted[: _SHOWN_MAX + 1]}..."


def kind(head: bytes) -> str:
    """A file's format, by its first bytes."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return next((name for magic, name in _KINDS if start.startswith(magic)), "another text, such as CSV")


def amount(text: str, currency: str, currencies: Mapping[str, int]) -> int:
    """A decimal text in minor units.

    Surplus decimals must be zeros. Raises ValueError with the expected form.
    """
    if text.startswith(("-", "+")):
        raise ValueError(
            f"{shown(text)} has a sign, and must have none: a field of its own has the direction"
        )
    match = _DECIMAL.fullmatch(text)
    if match is None or not (match[1] or match[2]):
        raise ValueError(f"{shown(text)} must be a decimal number with a point, such as 48.20")
    exponent = decimals(currency, currencies)
    units, fraction = match[1].lstrip("0") or "0", (match[2] or "").rstrip("0")
    try:
        return money.parse(f"{units}.{fraction}" if fraction else units, exponent)
    except ValueError as error:
        raise ValueError(f"{shown(text)} {error}") from None


def decimals(currency: str, currencies: Mapping[str, int]) -> int:
    """A currency's decimals. Raises ValueError if the stage lacks the currency."""
    if currency not in currencies:
        known = ", ".join(sorted(currencies)[:10])
        raise ValueError(f"currency {shown(currency)} must be one of the stage: {known}")
    return currencies[currency]


@lru_cache(maxsize=1024)
def day(text: str) -> str:
    """The day of an ISO 8601 date or time, as written: a time zone does not move it.

    Raises ValueError for another form, an impossible day, and a year outside 2000 to 2099.
    """
    match = _DAY.fullmatch(text)
    try:
        return date.fromisoformat(match[1] if match else "").isoformat()
    except ValueError:
        raise ValueError(
            f"{shown(text)} must be a day of the years 2000 to 2099, such as 2026-11-27"
        ) from None


def name(text: str) -> str:
    """A reference without surplus blanks, cut to the maximum length; empty for a placeholder."""
    plain = " ".join(text.split())[:REFERENCE_MAX]
    return "" if plain.casefold() in _NO_NAME else plain


def account(text: str) -> str:
    return "".join(text.split()).upper()


def references(names: Iterable[str], texts: Iterable[str] = (), last: Iterable[str] = ()) -> tuple[str, ...]:
    """Return a line's references, each once, at most REFERENCES_MAX.

    Their order: `names`, free text, its words, `last`. The parts of `texts` are joined with and without a
    blank, because a bank cuts a text anywhere.
    """
    parts = [part for part in texts if part.strip()]
    found: dict[str, None] = dict.fromkeys(filter(None, map(name, names)))
    joined = dict.fromkeys((" ".join(parts)[:_TEXT_MAX], "".join(parts)[:_TEXT_MAX]))
    found |= dict.fromkeys(filter(None, map(name, joined)))
    for text in joined:
        for word in text.split():
            bare = word.strip(_EDGES)
            if len(bare) >= _WORD_LENGTH_MIN:
                found[bare[:REFERENCE_MAX]] = None
    closing = dict.fromkeys(filter(None, map(name, last)))
    kept = list(found)[: REFERENCES_MAX - len(closing.keys() - found.keys())]
    return tuple(dict.fromkeys((*kept, *closing)))
