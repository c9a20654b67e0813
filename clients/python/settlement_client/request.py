import json
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal

from settlement_client.errors import InvalidRequest

KEY = re.compile(r"[A-Za-z0-9_-]{16,64}")
ACCOUNT = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_AMOUNT = re.compile(r"(0|[1-9][0-9]{0,14})(\.[0-9]{1,8})?")
_AMOUNT_LENGTH_MAX = 16
CURRENCY = re.compile(r"[A-Z][A-Z0-9]{2,11}")
_MEMBER = re.compile(r"[A-Za-z0-9_.-]{1,32}")
_MEMBERS_MAX = 8
_UNPRINTABLE = r"\x00-\x1f\x7f-\x9f\ud800-\udfff"
_TEXT = re.compile(rf" *[^ {_UNPRINTABLE}][^{_UNPRINTABLE}]*")
"""The contract's text. Half surrogate pairs are excluded: UTF-8 cannot encode them."""

_PATTERNS = {"key": KEY, "payer": ACCOUNT, "payee": ACCOUNT, "currency": CURRENCY}
_LENGTHS_MAX = {"payer_name": 100, "payee_name": 100, "reference": 64}
_MEMBER_LENGTH_MAX = 64
_DEADLINE_SECONDS_MIN, _DEADLINE_SECONDS_MAX = 30, 86_400


def mint_key(prefix: str) -> str:
    """Return a new idempotency key. Store it with your order before the first try.

    The key is random, so a second key for the same payment pays twice.
    """
    key = f"{prefix}-{secrets.token_hex(8)}"
    if not KEY.fullmatch(key):
        raise InvalidRequest("prefix: must be 1 to 47 letters, digits, - or _")
    return key


@dataclass(frozen=True, kw_only=True)
class Request:
    """One payment. Raises InvalidRequest, which names each invalid field.

    It checks only the contract's schema. The stack checks accounts, the currency's decimals and fees.
    """

    key: str
    payer: str
    payee: str
    amount: Decimal | str
    currency: str
    fee: Decimal | str | None = None
    deadline_seconds: int | None = None
    payer_name: str | None = field(default=None, repr=False)
    payee_name: str | None = field(default=None, repr=False)
    reference: str | None = field(default=None, repr=False)
    metadata: Mapping[str, str] | None = field(default=None, repr=False, hash=False)

    def __post_init__(self) -> None:
        if problems := [*self._problems()]:
            raise InvalidRequest("; ".join(problems))

    def to_json(self) -> str:
        """Return the request as JSON, with amounts as decimal strings."""
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        content = {name: plain(value) for name, value in given.items() if value is not None}
        return json.dumps(content, ensure_ascii=False)

    def _problems(self) -> Iterator[str]:
        for name, pattern in _PATTERNS.items():
            if not matches(pattern, getattr(self, name)):
                yield f"{name}: must be a string that matches ^{pattern.pattern}$"
        if self.payee == self.payer:
            yield "payee: must be another account than the payer's"
        yield from self._amount_problems()
        seconds = self.deadline_seconds
        if seconds is not None and not (
            type(seconds) is int and _DEADLINE_SECONDS_MIN <= seconds <= _DEADLINE_SECONDS_MAX
        ):
            yield (
                f"deadline_seconds: must be a whole number from {_DEADLINE_SECONDS_MIN}"
                f" to {_DEADLINE_SECONDS_MAX}"
            )
        for name, length_max in _LENGTHS_MAX.items():
            if (value := getattr(self, name)) is not None:
                yield from _text_problems(name, value, length_max)
        if self.metadata is not None:
            yield from _metadata_problems(self.metadata)

    def _amount_problems(self) -> Iterator[str]:
        named = {"amount": self.amount} | ({} if self.fee is None else {"fee": self.fee})
        wrong = [name for name, value in named.items() if not is_amount(value)]
        for name in wrong:
            yield f"{name}: must be a Decimal or a decimal string such as '48.20', never a float"
        if "amount" in wrong:
            return
        if Decimal(self.amount) == 0:
            yield "amount: must be greater than zero"
        if self.fee is not None and "fee" not in wrong and Decimal(self.fee) >= Decimal(self.amount):
            yield "fee: must be less than the amount"


def matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def plain(value: object) -> object:
    """Return a value's JSON form; a Decimal without an exponent."""
    if isinstance(value, Decimal):
        return format(value, "f")
    return dict(value) if isinstance(value, Mapping) else value


def is_amount(value: object) -> bool:
    if isinstance(value, Decimal):
        if not value.is_finite() or abs(value.adjusted()) > _AMOUNT_LENGTH_MAX:
            return False  # 1E+999999999 would be written in full
        value = format(value, "f")
    return isinstance(value, str) and len(value) <= _AMOUNT_LENGTH_MAX and matches(_AMOUNT, value)


def _text_problems(name: str, value: object, length_max: int) -> Iterator[str]:
    if not (isinstance(value, str) and len(value) <= length_max and _TEXT.fullmatch(value)):
        yield f"{name}: must be printable text of 1 to {length_max} characters"


def _metadata_problems(given: object) -> Iterator[str]:
    if not isinstance(given, Mapping) or len(given) > _MEMBERS_MAX:
        yield f"metadata: must be a mapping of at most {_MEMBERS_MAX} texts"
        return
    for name, value in given.items():
        if not matches(_MEMBER, name):
            yield f"metadata: the name of a member must match ^{_MEMBER.pattern}$"
        else:
            yield from _text_problems(f"metadata.{name}", value, _MEMBER_LENGTH_MAX)
