"""The concurrency of the functions: shares for those that end payments, and limits for the others."""

from dataclasses import dataclass, fields

IN_FLIGHT_SHARDS = 8
"""The partitions of the index of settlements in flight, as `core/ledger/keys.py` has them."""

UNRESERVED_MIN = 100
"""What Lambda keeps of an account's concurrency for the functions without a reservation."""

REVERSING = ("BeginCompensation", "VoidHold", "ReportOutcome")
"""The functions that each reversal calls."""

SELDOM = ("RefundFee", "ReclaimFunds", "EnterLimbo", "PrepareAlert", "AwaitResolution", "ResolveLimbo")
"""The functions that a reversal calls if the payee has been paid, or if a person has to decide."""

WAITING = ("ReadSettlements", "AcceptSettlements")
"""The functions that hold an environment for as long as their caller waits for an outcome, up to 20 s."""

_SHARE_OF_SELDOM = 10
_RECOVERY_RUNS_MAX = IN_FLIGHT_SHARDS + 2
"""The runs of recovery at once: one on each partition, one on LIMBO, and a person's call."""


@dataclass(frozen=True, kw_only=True)
class Concurrency:
    """The account's concurrency, and what the stage reserves of it.

    A reservation is a function's own share and its limit; None is neither. `reversals` is that of each
    function that every reversal calls; those that few call have a tenth of it, and one at least. `recovery`
    is that of RecoverStalled. `kyc`, `webhook` and `waiting` are limits: of VerifyKyc, which waits for the
    provider, of the webhook, which strangers can call, and of each function whose caller may wait for an
    outcome. `account` is the account's quota in its region.
    """

    account: int = 1_000
    reversals: int | None = None
    recovery: int | None = None
    kyc: int | None = None
    webhook: int | None = None
    waiting: int | None = None

    def __post_init__(self) -> None:
        """Check the figures. Raises ValueError, naming the field."""
        for name in (one.name for one in fields(self)):
            value = getattr(self, name)
            if (name == "account" or value is not None) and (type(value) is not int or value < 1):
                raise ValueError(f"concurrency.{name}: must be a whole number, at least 1")
        if self.recovery is not None and self.recovery < _RECOVERY_RUNS_MAX:
            raise ValueError(f"concurrency.recovery: must be at least {_RECOVERY_RUNS_MAX}, or None")
        if self.reserved and self.account < self.account_min:
            raise ValueError(
                f"concurrency.account: must be at least {self.account_min}, as the stage reserves"
                f" {self.reserved}, and Lambda keeps {UNRESERVED_MIN} for functions without a reservation"
            )

    def of(self, function: str) -> int | None:
        """Return a function's reservation, which is its limit, too; None if it shares the rest."""
        return self.by_function.get(function)

    @property
    def by_function(self) -> dict[str, int]:
        """The reservation of each function that has one."""
        found = {"RecoverStalled": self.recovery, "VerifyKyc": self.kyc, "KycDecided": self.webhook}
        found |= dict.fromkeys(WAITING, self.waiting)
        if self.reversals is not None:
            found |= dict.fromkeys(REVERSING, self.reversals)
            found |= dict.fromkeys(SELDOM, max(self.reversals // _SHARE_OF_SELDOM, 1))
        return {name: share for name, share in found.items() if share is not None}

    @property
    def reserved(self) -> int:
        """The sum of the reservations."""
        return sum(self.by_function.values())

    @property
    def account_min(self) -> int:
        """The least quota of an account that bears the reservations."""
        return self.reserved + UNRESERVED_MIN
