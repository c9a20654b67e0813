import re
from dataclasses import dataclass
from typing import Protocol

from settlement.payouts.payout import State, Word

NAME = re.compile(r"(?=.{1,30}\Z)[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)
REASON = re.compile(r"[a-z][a-z0-9_]{0,49}", re.ASCII)
WINDOW_SECONDS_MAX = 400 * 86_400


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A bank's promises. Raises ValueError.

    `window_seconds`: how long the bank knows a key, from the key's first use; 0 for no promise. `refusals`:
    all reasons for which the bank never pays.
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
    """The bank refuses for a declared `reason`."""

    reason: str


@dataclass(frozen=True)
class Unknown:
    """No answer, or an answer that decides nothing."""

    reason: str


@dataclass(frozen=True)
class Found:
    """The bank's word about a known payout, neither NEVER_SEEN nor UNKNOWN."""

    word: Word
    reason: str = ""


@dataclass(frozen=True)
class NeverSeen:
    pass


class NotSendable(Exception):
    """Nothing was sent: the bank cannot take this payout now, or ever."""


class Bank(Protocol):
    declared: Declared

    def request(self, state: State) -> bytes:
        """Build the bytes to send, which never change. Raises NotSendable."""
        ...

    def submit(self, state: State, body: bytes) -> Accepted | Refused | Unknown:
        """Send once, within EXCHANGE_WITHIN. Raises nothing."""
        ...

    def find(self, state: State) -> Found | NeverSeen | Unknown:
        """Ask by the payout's reference. Raises nothing."""
        ...
