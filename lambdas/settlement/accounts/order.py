import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from settlement.core.model import money
from settlement.core.model.errors import InvalidRequest
from settlement.core.model.orders import one_line
from settlement.core.model.request import ACCOUNT, KEY, unknown_fields
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.stored import MalformedRow, exponent_of, sound, subject_of
from settlement.http.caller import Caller


class OrderKind(StrEnum):
    OPEN = "open"
    DEPOSIT = "deposit"
    WITHDRAW = "withdraw"
    FREEZE = "freeze"
    """Stop holds and withdrawals. The account still receives, and gives back in reversals."""

    UNFREEZE = "unfreeze"
    CLOSE = "close"
    """Close an empty account. The account's row stays: a reversal may still credit it."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that a caller sends, without `by`."""
        moves = self in (OrderKind.DEPOSIT, OrderKind.WITHDRAW)
        about = ("currency", "amount", "reference") if moves else ()
        return (*_FIELDS, *(("currency",) if self is OrderKind.OPEN else about), "by", "reason")


DOT_SEGMENTS = (".", "..")
"""New accounts may not have these ids.

curl, Node and urllib3 drop them from the path `/accounts/{id}/entries` (RFC 3986, 5.2.4).
"""

_FIELDS = ("key", "order", "account")
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True, kw_only=True)
class AccountOrder:
    """A person's order on an account.

    - `currency`: of an opening, deposit or withdrawal.
    - `amount`: in minor units, of a deposit or withdrawal.
    - `reference`: the bank's or the caller's, of a deposit or withdrawal.
    """

    key: str
    order: OrderKind
    account: str
    currency: str | None = None
    amount: int | None = None
    reference: str | None = None
    by: str
    reason: str
    proof: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Facts about the caller and this try's request."""

    @property
    def request_hash(self) -> str:
        return hashlib.sha256(_CANONICAL.encode(self._content()).encode()).hexdigest()

    @property
    def money(self) -> tuple[str, int]:
        if self.currency is None or self.amount is None:
            raise ValueError(f"order: {self.order} moves no money")
        return self.currency, self.amount

    def to_row(self) -> dict[str, Any]:
        content = {**self._content(), **self.proof, "request_hash": self.request_hash}
        del content["key"]
        return content

    def to_wire(self, config: StageConfig) -> dict[str, Any]:
        content = self._content()
        if self.currency is not None and self.amount is not None:
            content["amount"] = money.render(
                self.amount, exponent_of(f"ORDER#{self.key}", self.currency, config)
            )
        return content

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "AccountOrder":
        """Parse an order's row. Raises MalformedRow."""
        row = sound(row)
        try:
            order = OrderKind(row["order"])
        except MalformedRow:
            raise
        except ValueError as error:
            raise MalformedRow(f"{subject_of(row)}: {error}") from None
        content = {name: row[name] for name in order.fields if name not in ("key", "order")}
        return cls(key=row["pk"].partition("#")[2], order=order, **content)

    def _content(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.order.fields}


def parse_account_order(raw: object, caller: Caller, config: StageConfig) -> AccountOrder:
    """Parse an order on an account. Raises InvalidRequest, naming each wrong field."""
    if not isinstance(raw, dict):
        raise InvalidRequest("order: must be a JSON object with key, order, account and reason")
    if raw.get("order") not in list(OrderKind):
        raise InvalidRequest(f"order: must be one of {', '.join(OrderKind)}")
    order = OrderKind(raw["order"])
    content: dict[str, Any] = {"order": order, "by": caller.by, "proof": caller.proof}
    fields = [name for name in order.fields if name != "by"]
    problems = [*unknown_fields(raw.keys(), fields), *_name_problems(raw)]
    for name in fields:
        if name not in raw:
            problems.append(f"{name}: missing")
        elif name in ("key", "account"):
            content[name] = raw[name]
        elif name in ("reference", "reason"):
            try:
                content[name] = one_line(raw[name], name)
            except InvalidRequest as refusal:
                problems.append(str(refusal))
    problems += _money_problems(raw, order, content, config)
    if problems:
        raise InvalidRequest("; ".join(sorted(problems)))
    return AccountOrder(**content)


def _name_problems(raw: Mapping[str, object]) -> Iterator[str]:
    for name, pattern in (("key", KEY), ("account", ACCOUNT)):
        value = raw.get(name)
        if name in raw and not (isinstance(value, str) and pattern.fullmatch(value)):
            yield f"{name}: must be a string that matches ^{pattern.pattern}$"
    if raw.get("order") == OrderKind.OPEN and raw.get("account") in DOT_SEGMENTS:
        yield "account: must not be . or .., which clients of HTTP drop from an address"


def _money_problems(
    raw: Mapping[str, object], order: OrderKind, content: dict[str, Any], config: StageConfig
) -> Iterator[str]:
    """Put currency and amount into `content`, and yield the problems."""
    if "currency" not in order.fields or "currency" not in raw:
        return
    currency = raw["currency"]
    if not (isinstance(currency, str) and currency in config.currencies):
        yield f"currency: must be one of {', '.join(sorted(config.currencies))}"
        return
    content["currency"] = currency
    if "amount" in order.fields and "amount" in raw:
        try:
            content["amount"] = money.parse(raw["amount"], config.currencies[currency])
        except ValueError as expected:
            yield f"amount: {expected}"
        if content.get("amount") == 0:
            yield "amount: must be greater than zero"
