from dataclasses import dataclass, fields

IN_FLIGHT_SHARDS = 8
"""Shards of the in-flight index, as in `core/ledger/keys.py`."""

UNRESERVED_MIN = 100
"""Concurrency that Lambda keeps for functions without a reservation."""

REVERSING = ("BeginCompensation", "VoidHold", "ReportOutcome")
"""Functions that every reversal calls."""

SELDOM = ("RefundFee", "ReclaimFunds", "EnterLimbo", "PrepareAlert", "AwaitResolution", "ResolveLimbo")
"""Functions that run rarely: after the payee was paid, or for a person's decision."""

WAITING = ("ReadSettlements", "AcceptSettlements")
"""Functions that may run for 20 s, while their caller waits."""

WEBHOOKS_OF_ROOMS = ("CheckDecided", "BankEvents")
"""Webhooks that only some stages have. KycDecided is in all."""

_SHARE_OF_SELDOM = 10
_RECOVERY_RUNS_MAX = IN_FLIGHT_SHARDS + 2
"""Runs at once: one per partition, one for LIMBO, and a person's call."""


@dataclass(frozen=True, kw_only=True)
class Concurrency:
    """The account's concurrency, and the stage's reservations.

    A reservation is a function's share and limit; None means no reservation. Each function in `REVERSING`
    gets `reversals`. Each in `SELDOM` gets a tenth of that, at least 1. The functions of the stage's own
    checks get none.
    """

    account: int = 1_000
    reversals: int | None = None
    recovery: int | None = None
    kyc: int | None = None
    webhook: int | None = None
    waiting: int | None = None

    def __post_init__(self) -> None:
        for name in (one.name for one in fields(self)):
            value = getattr(self, name)
            if (name == "account" or value is not None) and (type(value) is not int or value < 1):
                raise ValueError(f"concurrency.{name}: must be a whole number, at least 1")
        if self.recovery is not None and self.recovery < _RECOVERY_RUNS_MAX:
            raise ValueError(f"concurrency.recovery: must be at least {_RECOVERY_RUNS_MAX}, or None")
        if self.reserved and self.account < self.account_min:
            raise ValueError(
                f"concurrency.account: must be at least {self.account_min}, as the stage may reserve"
                f" {self.account_min - UNRESERVED_MIN}, and Lambda keeps {UNRESERVED_MIN} for functions"
                " without a reservation"
            )

    def of(self, function: str) -> int | None:
        return self.webhook if function in WEBHOOKS_OF_ROOMS else self.by_function.get(function)

    @property
    def by_function(self) -> dict[str, int]:
        found = {"RecoverStalled": self.recovery, "VerifyKyc": self.kyc, "KycDecided": self.webhook}
        found |= dict.fromkeys(WAITING, self.waiting)
        if self.reversals is not None:
            found |= dict.fromkeys(REVERSING, self.reversals)
            found |= dict.fromkeys(SELDOM, max(self.reversals // _SHARE_OF_SELDOM, 1))
        return {name: share for name, share in found.items() if share is not None}

    @property
    def reserved(self) -> int:
        return sum(self.by_function.values())

    @property
    def account_min(self) -> int:
        """Minimum quota. It counts the webhooks of rooms, too."""
        return self.reserved + len(WEBHOOKS_OF_ROOMS) * (self.webhook or 0) + UNRESERVED_MIN
