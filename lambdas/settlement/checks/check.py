"""Types for a stage's check, which is a file. A check moves no money: it approves, refuses or waits."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

NAME = re.compile(r"(?=.{1,30}\Z)[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)
REASON = re.compile(r"[a-z][a-z0-9_]{0,49}", re.ASCII)
WAIT_SECONDS_MAX = 30 * 86_400
"""Longest wait of a check. A KYC review has the same limit."""

RESERVED = frozenset({"kyc", "verify", "review"})


@dataclass(frozen=True, kw_only=True)
class Payment:
    """The payment, as claimed. `amount` and `fee` are in minor units."""

    key: str
    payer: str
    payee: str
    amount: int
    currency: str
    fee: int
    payer_name: str | None = field(default=None, repr=False)
    payee_name: str | None = field(default=None, repr=False)
    reference: str | None = field(default=None, repr=False)
    metadata: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Reply:
    """An HTTP answer. `body` has at most 64 KB."""

    status: int
    body: bytes


class Tools(Protocol):
    """A check's clock, HTTP client and secrets.

    All stop at the check's deadline, a few seconds after the call.
    """

    def now(self) -> datetime: ...

    def http(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Reply:
        """Send a request. Raises OSError if no whole answer comes in time."""
        ...

    def secret(self, name: str) -> str: ...


@dataclass(frozen=True)
class Approve:
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Refuse:
    """The check refuses. The check's `refusals` must contain `reason`."""

    reason: str
    evidence: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Wait:
    """The check waits for a signed callback, until the check's time ends."""


Answer = Approve | Refuse | Wait


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A check's declaration. Raises ValueError.

    `wait_seconds` is the longest wait, counted from the hold. 0: the check never waits.
    """

    name: str
    refusals: tuple[str, ...]
    wait_seconds: int = 0

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and NAME.fullmatch(self.name)) or self.name in RESERVED:
            raise ValueError(
                f"name: must match ^{NAME.pattern}$, and be none of {', '.join(sorted(RESERVED))}"
            )
        if not isinstance(self.refusals, tuple) or not all(map(is_reason, self.refusals)):
            raise ValueError(
                f"{self.name}: refusals: must be a tuple of reasons that match ^{REASON.pattern}$"
            )
        if len(set(self.refusals)) != len(self.refusals):
            raise ValueError(f"{self.name}: refusals: has a reason twice")
        if type(self.wait_seconds) is not int or not 0 <= self.wait_seconds <= WAIT_SECONDS_MAX:
            raise ValueError(
                f"{self.name}: wait_seconds: must be a whole number from 0 to {WAIT_SECONDS_MAX}"
            )


@dataclass(frozen=True, kw_only=True)
class Check(Declared):
    """A stage's own check: the `CHECK` of its file. Raises ValueError.

    The saga may call `ask(payment, token, tools)` again at any time. The same token must always get the same
    answer. An exception is retried. Only a declared refusal reverses the payment.
    """

    ask: Callable[[Payment, str, Tools], Answer]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not callable(self.ask):
            raise ValueError(f"{self.name}: ask: must be a function")


def is_reason(text: object) -> bool:
    return isinstance(text, str) and bool(REASON.fullmatch(text))


def token_of(key: str, name: str) -> str:
    """A payment's token for a check: the same on every call."""
    return f"{key}:check:{name}"
