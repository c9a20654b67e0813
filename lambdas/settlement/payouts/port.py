"""The port to a bank: one file for each kind of bank."""

import re
from dataclasses import dataclass
from typing import Protocol

from settlement.payouts.payout import State, Word

NAME = re.compile(r"(?=.{1,30}\Z)[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)
REASON = re.compile(r"[a-z][a-z0-9_]{0,49}", re.ASCII)
WINDOW_SECONDS_MAX = 400 * 86_400


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What a bank promises. `window_seconds`: how long it knows a key, from its first use; 0 for no promise.

    `refusals` are all reasons that mean "this will never be paid". Raises ValueError.
    """

    name: str
    window_seconds: int
    refusals: frozenset[str]

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"name: must match ^{NAME.pattern}$")
        if type(self.window_seconds) is not int or not 0 <= self.window_seconds <= WINDOW_SECONDS_MAX:
            raise ValueError(
                f"{self.name}: window_seconds: must be a whole number from 0 to {WINDOW_SECONDS_MAX}"
            )
        if not all(REASON.fullmatch(reason) for reason in self.refusals):
            raise ValueError(f"{self.name}: refusals: each must match ^{REASON.pattern}$")


@dataclass(frozen=True)
class Accepted:
    pass


@dataclass(frozen=True)
class Refused:
    """`reason` is one of the declared refusals."""

    reason: str


@dataclass(frozen=True)
class Unknown:
    """No answer, or one that tells nothing. `reason` is for a person."""

    reason: str


@dataclass(frozen=True)
class Found:
    """`word` is neither NEVER_SEEN nor UNKNOWN."""

    word: Word
    reason: str = ""


@dataclass(frozen=True)
class NeverSeen:
    pass


@dataclass(frozen=True)
class Hint:
    """An event about a payout. It proves nothing: it makes the machine ask."""

    reference: str


class NotSendable(Exception):
    """The bank cannot be asked now, or never for this payout: nothing was sent."""


class MalformedEvent(ValueError):
    """An event that names no payout."""


class Bank(Protocol):
    declared: Declared

    def request(self, state: State) -> bytes:
        """The exact bytes to send: a function of the row alone, the same for ever. Raises NotSendable."""
        ...

    def submit(self, state: State, body: bytes) -> Accepted | Refused | Unknown:
        """Send once, within `policy.EXCHANGE_WITHIN`. Raises nothing."""
        ...

    def find(self, state: State) -> Found | NeverSeen | Unknown:
        """Ask for a payout by its reference. Raises nothing."""
        ...

    def parse_event(self, event: bytes) -> Hint:
        """Raises MalformedEvent."""
        ...
