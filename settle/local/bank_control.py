"""Parses control requests to the simulated bank. Each function raises ValueError with the field's name."""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from enum import StrEnum
from typing import Any
from urllib.parse import parse_qsl

from settle.local.bank_behaviour import Behaviour, Events, exponents
from settlement.core.model import money
from settlement.core.model.errors import KycUnavailable
from settlement.kyc.webhook_signature import signing_key

_SECONDS_MAX = 400 * 86_400
_TEXT_LENGTH_MAX = 140
_REFERENCE_LENGTH_MAX = 35
_REASON = re.compile(r"[A-Z]{2}[0-9]{2}", re.ASCII)
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_NUMBER = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)


@dataclass(frozen=True)
class Settings:
    """The bank's settings.

    `tokens`: accepted bearer tokens (empty: any). `window_seconds`: lifetime of an idempotency key, from its
    first use.
    """

    behaviour: Behaviour = Behaviour.PAY
    tokens: tuple[str, ...] = field(default=(), repr=False)
    window_seconds: int = 86_400
    pays_after_seconds: int = 60
    webhook_url: str = ""
    signing_secret: str = field(default="", repr=False)
    events: Events = Events.ON_TIME


@dataclass(frozen=True)
class Change:
    """A change of the bank.

    `opening`: opening balances in minor units, by currency. `advance_seconds`: moves the bank's clock.
    """

    settings: Settings
    opening: Mapping[str, int]
    advance_seconds: int


@dataclass(frozen=True, kw_only=True)
class StrayLine:
    """An account line without an order. `amount`: minor units, negative for a debit."""

    currency: str
    amount: int
    reference: str
    returns: str
    text: str


@dataclass(frozen=True)
class Wanted:
    """A requested statement: the new lines up to `day` (None: today), or the earlier file `number`."""

    currency: str
    day: date | None
    number: int | None


def parse_change(raw: object, before: Settings) -> Change:
    given = _object("control", raw, (*_SETTINGS, "opening", "advance_seconds"))
    settings = {name: check(name, given[name]) for name, check in _SETTINGS.items() if name in given}
    return Change(
        replace(before, **settings),
        _opening(given.get("opening", {})),
        _seconds("advance_seconds", given.get("advance_seconds", 0)),
    )


def parse_line(raw: object) -> StrayLine:
    given = _object("line", raw, ("side", "amount", "currency", "reference", "returns", "text"))
    currency = _currency("currency", given.get("currency"))
    amount = _amount("amount", given.get("amount"), currency)
    if amount == 0:
        raise ValueError("amount: must be more than zero")
    side, returns = given.get("side"), given.get("returns", "")
    if side not in ("in", "out"):
        raise ValueError("side: must be in or out")
    if not (isinstance(returns, str) and (returns == "" or _REASON.fullmatch(returns))):
        raise ValueError("returns: must be a reason of ISO 20022, such as AC04")
    return StrayLine(
        currency=currency,
        amount=amount if side == "in" else -amount,
        reference=_text("reference", given.get("reference", ""), _REFERENCE_LENGTH_MAX),
        returns=returns,
        text=_text("text", given.get("text", ""), _TEXT_LENGTH_MAX),
    )


def parse_wanted(query: str) -> Wanted:
    pairs = parse_qsl(query, keep_blank_values=True)
    if len(pairs) != len(dict(pairs)):
        raise ValueError("statement: must have each parameter once")
    given = _object("statement", dict(pairs), ("currency", "day", "number"))
    if {"day", "number"} <= given.keys():
        raise ValueError("statement: must have day or number, not both")
    if not _NUMBER.fullmatch(given.get("number", "1")):
        raise ValueError("number: must be a whole number from 1 up")
    return Wanted(
        _currency("currency", given.get("currency")),
        _day(given["day"]) if "day" in given else None,
        int(given["number"]) if "number" in given else None,
    )


def order_amount(text: str, currency: str) -> int:
    """Parse an order's amount into minor units: above zero, with all decimals."""
    minor = _amount("amount", text, _currency("currency", currency))
    if minor == 0 or money.render(minor, exponents()[currency]) != text:
        raise ValueError("amount: must be more than zero, with all decimals of the currency")
    return minor


def _object(what: str, raw: object, fields: Collection[str]) -> dict[str, Any]:
    if not (isinstance(raw, dict) and raw.keys() <= set(fields)):
        raise ValueError(f"{what}: must have only the fields {', '.join(fields)}")
    return raw


def _member(kind: type[StrEnum]) -> Callable[[str, object], StrEnum]:
    def check(name: str, value: object) -> StrEnum:
        if not (isinstance(value, str) and value in list(kind)):
            raise ValueError(f"{name}: must be one of {', '.join(kind)}")
        return kind(value)

    return check


def _tokens(name: str, value: object) -> tuple[str, ...]:
    if not (isinstance(value, list) and all(isinstance(one, str) and one for one in value)):
        raise ValueError(f"{name}: must be a list of strings")
    return tuple(value)


def _seconds(name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= _SECONDS_MAX:
        raise ValueError(f"{name}: must be a whole number from 0 to {_SECONDS_MAX}")
    return value


def _url(name: str, value: object) -> str:
    if not (isinstance(value, str) and (value == "" or re.match(r"https?://[!-~]+\Z", value))):
        raise ValueError(f"{name}: must be an address of http or https, or empty")
    return value


def _secret(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name}: must be a string")
    try:
        if value:
            signing_key(value)
    except KycUnavailable as error:
        raise ValueError(f"{name}: {error}") from None
    return value


def _opening(value: object) -> dict[str, int]:
    given = _object("opening", value, tuple(exponents()))
    return {currency: _signed_amount(f"opening: {currency}", given[currency], currency) for currency in given}


def _signed_amount(name: str, value: object, currency: str) -> int:
    if isinstance(value, str) and value.startswith("-"):
        return -_amount(name, value[1:], currency)
    return _amount(name, value, currency)


def _amount(name: str, value: object, currency: str) -> int:
    try:
        return money.parse(value, exponents()[currency])
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _currency(name: str, value: object) -> str:
    if not (isinstance(value, str) and value in exponents()):
        raise ValueError(f"{name}: must be one of {', '.join(exponents())}")
    return value


def _text(name: str, value: object, length_max: int) -> str:
    if not (isinstance(value, str) and len(value) <= length_max and (value == "" or value.isprintable())):
        raise ValueError(f"{name}: must be printable text of at most {length_max} characters")
    return value


def _day(text: str) -> date:
    try:
        if _DAY.fullmatch(text):
            return date.fromisoformat(text)
        raise ValueError
    except ValueError:
        raise ValueError("day: must be a day, such as 2026-11-27") from None


_SETTINGS: dict[str, Callable[[str, object], Any]] = {
    "behaviour": _member(Behaviour),
    "tokens": _tokens,
    "window_seconds": _seconds,
    "pays_after_seconds": _seconds,
    "webhook_url": _url,
    "signing_secret": _secret,
    "events": _member(Events),
}
