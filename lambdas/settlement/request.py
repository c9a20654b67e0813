"""What a client asks for, checked: the only way from JSON into the domain."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from settlement import money, rows
from settlement.errors import InvalidRequest
from settlement.terms import Terms

KEY = re.compile(r"[A-Za-z0-9_-]{16,64}", re.ASCII)
"""An idempotency key, minted by the client before its first try."""

DEADLINE_SECONDS_MIN, DEADLINE_SECONDS_MAX = 30, 86_400
"""What a request may name as its time to settle. No setting, and only ever to be widened: settlements in
flight are checked as well, and one that no step accepts any more could not even be given back."""

MINTED = "minted-"
"""What a key begins with that the stage has minted, as the client named none."""

ACCOUNT = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)
"""A customer's account id. It has no colon, which keeps it apart from internal accounts (`fees:EUR`)."""

_REQUIRED = ("key", "payer", "payee", "amount", "currency")
_FIELDS = (*_REQUIRED, "fee", "deadline_seconds")
_HASHED = ("key", "payer", "payee", "amount", "currency", "fee")
"""What the hash is made of: fixed for ever, whatever `_FIELDS` gains, as rows in flight carry old hashes."""

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_PATTERNS = {"key": KEY, "payer": ACCOUNT, "payee": ACCOUNT}
_NAME_LENGTH_MAX = 40
_NAMES_MAX = 5
"""How many unknown fields a message names, and how much of each: it is bounded, they are not."""


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """One payment, in canonical form. `amount` and `fee` are minor units of `currency`.

    `deadline_seconds` is the time to settle that the request names; None leaves it to the stage.
    """

    key: str
    payer: str
    payee: str
    amount: int
    currency: str
    fee: int
    deadline_seconds: int | None = None

    @property
    def net(self) -> int:
        """What the payee receives, in minor units: the fee is withheld from the amount."""
        return self.amount - self.fee

    @property
    def request_hash(self) -> str:
        """SHA-256 of the canonical content; equal requests have equal hashes however they were written.

        A field that is added later must not change the hash of requests without it.
        """
        content = {name: getattr(self, name) for name in _HASHED}
        if self.deadline_seconds is not None:
            content["deadline_seconds"] = self.deadline_seconds
        return hashlib.sha256(_CANONICAL.encode(content).encode()).hexdigest()

    def to_row(self) -> dict[str, Any]:
        """What the settlement's row keeps of the request, besides the key, which is the row's own."""
        content = _named(self) | {"request_hash": self.request_hash}
        del content["key"]
        return content

    @classmethod
    def of_row(cls, row: rows.Row) -> "Settlement":
        """The settlement that a row is the state of."""
        names = ("payer", "payee", "amount", "currency", "fee")
        own = {name: row[name] for name in names}
        return cls(key=rows.subject(row)[1], deadline_seconds=row.get("deadline_seconds"), **own)

    def to_wire(self, terms: Terms) -> dict[str, Any]:
        """The settlement as the state machines carry it: the request's own shape, fee included."""
        exponent = terms.currencies[self.currency]
        return _named(self) | {
            "amount": money.render(self.amount, exponent),
            "fee": money.render(self.fee, exponent),
        }


@dataclass(frozen=True, kw_only=True)
class Request:
    """A client's request. `fee` is None where the client leaves it to the stage's schedule."""

    key: str
    payer: str
    payee: str
    amount: int
    currency: str
    fee: int | None
    deadline_seconds: int | None

    def settlement(self, fee: int) -> Settlement:
        """The settlement this request asks for, where it names no fee of its own at `fee` (minor units)."""
        return Settlement(**vars(self) | {"fee": fee if self.fee is None else self.fee})


def parse_request(raw: object, terms: Terms) -> Request:
    """Check a client's request. Raises InvalidRequest, naming each field at fault and what it should be."""
    if not isinstance(raw, dict):
        raise InvalidRequest(f"request: must be a JSON object with the fields {', '.join(_FIELDS)}")
    problems = [*_shape_problems(raw), *_text_problems(raw)]
    amounts: dict[str, int] = {}
    exponent = terms.currencies.get(raw["currency"]) if isinstance(raw.get("currency"), str) else None
    if exponent is not None:
        for name in raw.keys() & {"amount", "fee"}:
            try:
                amounts[name] = money.parse(raw[name], exponent)
            except ValueError as expected:
                problems.append(f"{name}: {expected}")
    elif "currency" in raw:
        problems.append(f"currency: must be one of {', '.join(sorted(terms.currencies))}")
    problems += _amount_problems(amounts)
    problems += _deadline_problems(raw)
    if problems:
        raise InvalidRequest("; ".join(sorted(problems)))
    return Request(
        key=raw["key"],
        payer=raw["payer"],
        payee=raw["payee"],
        amount=amounts["amount"],
        currency=raw["currency"],
        fee=amounts.get("fee"),
        deadline_seconds=raw.get("deadline_seconds"),
    )


def named(raw: Any, source: str, terms: Terms) -> Any:
    """The request, with a key where it names none and the stage still bears that.

    The key is made of `source`, what the request came with, so that a repeated call makes the same one. A
    client that sends the payment again makes another, and pays twice: hence keys are to become required.
    """
    if terms.idempotency_key == "required" or not isinstance(raw, dict) or "key" in raw:
        return raw
    return raw | {"key": MINTED + hashlib.sha256(source.encode()).hexdigest()[:32]}


def parse_settlement(raw: object, terms: Terms) -> Settlement:
    """Check a canonical settlement on its way from one state to the next: a request that names its fee."""
    request = parse_request(raw, terms)
    if request.fee is None:
        raise InvalidRequest("fee: missing; a claimed settlement names its fee")
    return request.settlement(request.fee)


def _shape_problems(raw: dict[str, Any]) -> Iterator[str]:
    unknown = sorted(raw.keys() - _FIELDS)
    for name in unknown[:_NAMES_MAX]:
        printable = name[:_NAME_LENGTH_MAX].encode("unicode_escape").decode()
        yield f"{printable}: unknown field; the fields are {', '.join(_FIELDS)}"
    if len(unknown) > _NAMES_MAX:
        yield f"request: has {len(unknown) - _NAMES_MAX} more unknown fields"
    for name in _REQUIRED:
        if name not in raw:
            yield f"{name}: missing"


def _text_problems(raw: dict[str, Any]) -> Iterator[str]:
    for name, pattern in _PATTERNS.items():
        if name in raw and not (isinstance(raw[name], str) and pattern.fullmatch(raw[name])):
            yield f"{name}: must be a string that matches ^{pattern.pattern}$"
    payee = raw.get("payee")
    if isinstance(payee, str) and raw.get("payer") == payee:  # what is nested deep cannot even be compared
        yield "payee: must be another account than the payer's"


def _deadline_problems(raw: dict[str, Any]) -> Iterator[str]:
    if "deadline_seconds" in raw:
        seconds = raw["deadline_seconds"]
        if type(seconds) is not int or not DEADLINE_SECONDS_MIN <= seconds <= DEADLINE_SECONDS_MAX:
            yield (
                "deadline_seconds: must be a whole number from"
                f" {DEADLINE_SECONDS_MIN} to {DEADLINE_SECONDS_MAX}"
            )


def _named(settlement: Settlement) -> dict[str, Any]:
    """The fields of a settlement that its request names or must name."""
    return {name: value for name in _FIELDS if (value := getattr(settlement, name)) is not None}


def _amount_problems(amounts: dict[str, int]) -> Iterator[str]:
    amount, fee = amounts.get("amount"), amounts.get("fee")
    if amount == 0:
        yield "amount: must be greater than zero"
    if amount and fee is not None and fee >= amount:
        yield "fee: must be less than the amount"
