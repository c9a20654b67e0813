import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

NOT_NAMED = "https://bank.invalid"
"""Placeholder for a missing address: `.invalid` never exists (RFC 2606)."""

EXCHANGE_SECONDS_MAX = 15
"""Longest exchange: `EXCHANGE_WITHIN` in `payouts/policy.py`. Later, other calls ask about the payout."""

_NAME = re.compile(r"(?=.{1,30}\Z)[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)
_REASON = re.compile(r"[a-z][a-z0-9_]{0,49}", re.ASCII)
"""Forms of a bank's name and of a refusal's reason, as in `payouts/port.py`."""

_IBAN = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}", re.ASCII)
_CHECKED_BY, _CHECK_DIGITS = 97, range(2, 99)
_HOLDER_LENGTH_MAX = 70
"""Maximum characters of a holder's name.

`payouts/iban.py` and `payouts/payout.py` have the same rules for IBANs and holders.
"""

FILES_CURRENCY = "EUR"
"""The currency of files, as in `payouts/over_files.py`: a file is a SEPA credit transfer."""

_BOUNDS = {
    "window_seconds": (0, 400 * 86_400),
    "rest_seconds": (0, 30 * 86_400),
    "connect_timeout_seconds": (1, EXCHANGE_SECONDS_MAX - 1),
    "read_timeout_seconds": (1, EXCHANGE_SECONDS_MAX - 1),
    "failures": (3, 50),
    "failures_within_seconds": (60, 86_400),
    "recovery_seconds": (1, 3600),
}


@dataclass(frozen=True, kw_only=True)
class Debtor:
    """The account that the bank debits for payout files. Raises ValueError if it is invalid."""

    name: str
    iban: str

    def __post_init__(self) -> None:
        if not _is_holder(self.name):
            raise ValueError("debtor: name must be printable text of 1 to 70 characters")
        if not _is_iban(self.iban):
            raise ValueError("debtor: iban must be an IBAN in capitals, without blanks")


def _is_holder(text: object) -> bool:
    return (
        isinstance(text, str)
        and text.isprintable()
        and text == text.strip()
        and 1 <= len(text) <= _HOLDER_LENGTH_MAX
    )


def _is_iban(text: object) -> bool:
    if not (isinstance(text, str) and _IBAN.fullmatch(text) and int(text[2:4]) in _CHECK_DIGITS):
        return False
    digits = "".join(str(int(character, 36)) for character in text[4:] + text[:4])
    return int(digits) % _CHECKED_BY == 1


@dataclass(frozen=True, kw_only=True)
class PayoutSettings:
    """The bank, its promises and circuit, and the stage's limits.

    The bank has an address (`url`), or takes files, which name the `debtor`.
    `window_seconds`: how long the bank knows a payout's key, from the first use; 0 for no promise.
    `accounts`: the stage's accounts at the bank, as its statements name them.
    `refusals`: all reasons for which the bank never pays. `payout`: the highest amount of a payout. `day`:
    of an account's UTC day. Both are decimal text by currency; other currencies are not paid out. An
    exchange lasts at most the sum of both timeouts.
    """

    url: str = NOT_NAMED
    debtor: Debtor | None = None
    name: str
    accounts: tuple[str, ...]
    window_seconds: int
    refusals: tuple[str, ...]
    payout: Mapping[str, str] = field(hash=False)
    day: Mapping[str, str] = field(hash=False)
    rest_seconds: int = 86_400
    connect_timeout_seconds: int = 2
    read_timeout_seconds: int = 10
    failures: int = 10
    failures_within_seconds: int = 900
    recovery_seconds: int = 30

    def __post_init__(self) -> None:
        if not re.fullmatch(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[^\s?#]*)?", self.url):
            raise ValueError("bank_url: must be an address without user, query or fragment")
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name: must match ^{_NAME.pattern}$")
        if not (isinstance(self.accounts, tuple) and self.accounts and all(map(_is_account, self.accounts))):
            raise ValueError("accounts: must name accounts as statements do, in capitals, without blanks")
        if not all(isinstance(one, str) and _REASON.fullmatch(one) for one in self.refusals):
            raise ValueError(f"refusals: each must match ^{_REASON.pattern}$")
        for name, (least, most) in _BOUNDS.items():
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise ValueError(f"{name}: must be a whole number from {least} to {most}")
        self._check_times()
        if not self.payout or self.payout.keys() != self.day.keys():
            raise ValueError("day: must name the currencies of payout, and at least one")
        if self.debtor is not None:
            self._check_files()

    def _check_files(self) -> None:
        if not isinstance(self.debtor, Debtor):
            raise ValueError("debtor: must be a Debtor, or None")
        if self.debtor.iban not in self.accounts:
            raise ValueError("accounts: must name the debtor's IBAN, whose statement has the payouts' lines")
        if self.url != NOT_NAMED:
            raise ValueError("bank_url: must be left out with a debtor, whose bank takes files")
        if self.window_seconds != 0:
            raise ValueError("window_seconds: must be 0 with a debtor: each payout gets one file")
        if self.refusals:
            raise ValueError(
                "refusals: must be empty with a debtor: reports (pain.002) have reasons of their own"
            )
        if self.payout.keys() != {FILES_CURRENCY}:
            raise ValueError(f"payout: must name {FILES_CURRENCY} alone with a debtor: files are SEPA's")

    def _check_times(self) -> None:
        if self.exchange_seconds > EXCHANGE_SECONDS_MAX:
            raise ValueError(
                f"read_timeout_seconds: both timeouts must be at most {EXCHANGE_SECONDS_MAX} s together"
            )
        if self.recovery_seconds <= self.exchange_seconds:
            raise ValueError("recovery_seconds: must be longer than a probe takes, which is both timeouts")

    @property
    def is_secure(self) -> bool:
        return self.url.startswith("https://")

    @property
    def is_reached(self) -> bool:
        """Whether the bank has an address, or takes files."""
        return self.debtor is not None or self.url != NOT_NAMED

    @property
    def exchange_seconds(self) -> int:
        return self.connect_timeout_seconds + self.read_timeout_seconds

    def limits(self, payout: Mapping[str, int], day: Mapping[str, int]) -> str:
        """Return the variable PAYOUTS of functions without the bank. Amounts are in minor units."""
        return json.dumps({"limits": self._limits(payout, day)})

    def to_json(self, payout: Mapping[str, int], day: Mapping[str, int], *, secret_id: str) -> str:
        """Return FollowPayouts' variable PAYOUTS. `secret_id` names the bank's token."""
        return json.dumps(
            {
                "limits": self._limits(payout, day),
                "accounts": self.accounts,
                "bank": {
                    "url": self.url,
                    "name": self.name,
                    "window_seconds": self.window_seconds,
                    "refusals": self.refusals,
                    "connect_timeout_seconds": self.connect_timeout_seconds,
                    "read_timeout_seconds": self.read_timeout_seconds,
                },
                "breaker": {
                    "failures": self.failures,
                    "within_seconds": self.failures_within_seconds,
                    "recovery_seconds": self.recovery_seconds,
                },
                "secret_id": secret_id,
            }
        )

    def to_files_json(self, payout: Mapping[str, int], day: Mapping[str, int], *, bucket: str) -> str:
        """Return FollowPayouts' variable PAYOUTS for a bank that takes files. Raises ValueError otherwise."""
        if self.debtor is None:
            raise ValueError("debtor: is not set")
        files = {
            "bucket": bucket,
            "name": self.name,
            "debtor": {"name": self.debtor.name, "iban": self.debtor.iban},
        }
        limits = self._limits(payout, day)
        return json.dumps({"limits": limits, "accounts": self.accounts, "files": files})

    def _limits(self, payout: Mapping[str, int], day: Mapping[str, int]) -> dict[str, object]:
        return {"payout": dict(payout), "day": dict(day), "rest_seconds": self.rest_seconds}


def _is_account(text: object) -> bool:
    """Whether a text names an account as read from statements: in capitals, without blanks."""
    return isinstance(text, str) and text != "" and text == "".join(text.split()).upper()
