"""What differs between the stages: one frozen instance each, passed in, never read from the environment."""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

import iso4217
from aws_cdk.aws_logs import RetentionDays

from infra.kyc_settings import KycSettings


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A stage.

    `highest_balances` maps a currency to the most that an account may hold, written as on the wire.
    `currencies` only ever grows: rows in a currency stay, and the functions know no other exponents.
    A settlement has `deadline_seconds` until its release, or what its request names; an execution drives it
    for `recover_after_seconds` before another one takes over.
    `idempotency_key` is "required", or "optional" until every client mints keys: see docs/starting.md.
    `patience` multiplies the timeouts of functions and tasks where functions start slowly.
    `runbooks` is where `docs/runbooks/` can be read by whoever is paged, and `page_again_after_seconds`
    how long they have to decide before they are paged a second time.
    `webhook_concurrency` bounds what callers of the public webhook can use up, `recovery_concurrency` keeps
    recovery at work when settlements use up the rest; None shares the account's.
    `interpreter` names the Python that runs the functions of the embedded AWS; None on AWS itself.
    """

    stage: str
    currencies: tuple[str, ...]
    fee_basis_points: int = 100
    highest_balances: Mapping[str, str] = field(default_factory=dict)
    deadline_seconds: int = 900
    recover_after_seconds: int = 30
    idempotency_key: str = "required"
    function_timeout_seconds: int = 8
    function_memory_mb: int = 512
    runbooks: str = "docs/runbooks"
    page_again_after_seconds: int = 1800
    kyc: KycSettings = field(default_factory=KycSettings)
    webhook_concurrency: int | None = None
    recovery_concurrency: int | None = None
    log_retention: RetentionDays = RetentionDays.ONE_MONTH
    keeps_data: bool = True
    patience: int = 1
    interpreter: str | None = None

    def __post_init__(self) -> None:
        """Refuse what no stage can mean; the message names the field."""
        if unknown := sorted(set(self.currencies) - _ISO_4217.keys()):
            raise ValueError(f"currencies: no currencies of ISO 4217 with decimals: {', '.join(unknown)}")
        for code, amount in self.highest_balances.items():
            if code not in self.currencies:
                raise ValueError(f"highest_balances: {code} is not among the stage's currencies")
            decimals = rf"(\.[0-9]{{1,{_ISO_4217[code]}}})?" if _ISO_4217[code] else ""
            if not (isinstance(amount, str) and re.fullmatch(rf"[0-9]+{decimals}", amount)):
                raise ValueError(f"highest_balances: {code} must be a decimal string in that currency")
        if not 0 <= self.fee_basis_points < 10_000:
            raise ValueError("fee_basis_points: must be from 0 to 9999, as a fee is less than its amount")
        if not 0 < self.recover_after_seconds < self.deadline_seconds:
            raise ValueError("recover_after_seconds: must be positive, and below deadline_seconds")
        if self.idempotency_key not in ("required", "optional"):
            raise ValueError("idempotency_key: must be required or optional")
        if not self.function_timeout_seconds < self.page_again_after_seconds <= _DAY_SECONDS:
            raise ValueError(
                "page_again_after_seconds: must exceed function_timeout_seconds, and be at most 86400"
            )

        self._check_concurrency()
        if not (self.kyc.is_secure or self.interpreter):
            raise ValueError("kyc.url: must be an HTTPS address")
        if self.kyc.exchange_seconds + _REST_SECONDS > self.function_timeout_seconds:
            raise ValueError(
                f"kyc: both timeouts must leave {_REST_SECONDS} s of function_timeout_seconds for the rest"
            )

    def _check_concurrency(self) -> None:
        for name in ("webhook_concurrency", "recovery_concurrency"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1, or None")

    @property
    def stack_name(self) -> str:
        """What the stage's stack is called."""
        return f"settlement-{self.stage}"

    @property
    def paging(self) -> str:
        """How the stage pages, as the functions read it: JSON."""
        stack = "" if self.interpreter else f" --stack {self.stack_name}"
        return json.dumps(
            {
                "runbook": f"{self.runbooks}/limbo.md",
                "show_command": f"settle limbo show {{key}}{stack}",
                "again_after_seconds": self.page_again_after_seconds,
            }
        )

    @property
    def terms(self) -> str:
        """The terms of business as the functions read them: JSON, amounts in minor units."""
        exponents = {code: _ISO_4217[code] for code in self.currencies}
        return json.dumps(
            {
                "currencies": exponents,
                "highest_balances": {
                    code: int(Decimal(amount).scaleb(exponents[code]))
                    for code, amount in self.highest_balances.items()
                },
                "fee_basis_points": self.fee_basis_points,
                "deadline_seconds": self.deadline_seconds,
                "recover_after_seconds": self.recover_after_seconds,
                "idempotency_key": self.idempotency_key,
            },
            sort_keys=True,
        )


_DAY_SECONDS = 86_400
_REST_SECONDS = 3
"""What VerifyKyc is to have besides the exchange with the provider: for its secret and for DynamoDB."""

_ISO_4217: dict[str, int] = {
    currency.code: currency.exponent for currency in iso4217.Currency if currency.exponent is not None
}

STAGES = {
    settings.stage: settings
    for settings in (
        Settings(
            stage="local",
            currencies=("EUR", "JPY", "KWD", "USD"),
            highest_balances={"EUR": "1000000.00"},
            recover_after_seconds=10,
            log_retention=RetentionDays.ONE_DAY,
            page_again_after_seconds=20,
            kyc=KycSettings(url="http://127.0.0.1:8081", recovery_seconds=5),
            keeps_data=False,
            patience=5,
            interpreter=sys.executable,
        ),
        Settings(
            stage="dev",
            currencies=("EUR", "JPY", "KWD", "USD"),
            idempotency_key="optional",
            log_retention=RetentionDays.ONE_WEEK,
        ),
        Settings(
            stage="prod",
            currencies=("EUR", "USD"),
            function_memory_mb=1024,
            webhook_concurrency=20,
            recovery_concurrency=2,
            log_retention=RetentionDays.ONE_YEAR,
        ),
    )
}
