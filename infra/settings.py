"""Settings that every room may use. `infra/config.py` adds the rooms' own settings."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from aws_cdk import RemovalPolicy
from aws_cdk.aws_logs import RetentionDays

from .concurrency import Concurrency
from .currencies import exponents_of
from .layouts import LAYOUTS

LOCK_DAYS_MAX = 36_500
"""Longest lock in S3 and AWS Backup."""

API_CALLS_MAX = 10_000
"""API Gateway's quota of calls a second for an account."""

_NEW_TABLE_UNITS = 4_000
"""Write units a second of a new table. `warm_write_units` can only raise them."""

_CANARY_MINUTES_MIN = 10
"""Two alarm periods: one with failures, and one in which CloudWatch receives the last of them."""

_CANARY_MINUTES_MAX = 2_100
"""CloudFormation's maximum."""

_TABLE_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_STREAM_LABEL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}")
_ADDRESS = re.compile(r"[^@\s/?#]+@[^@\s/?#]+\.[^@\s/?#]+|https://[^@\s/?#]+(/[^\s@?#]*)?")
_DAY_SECONDS = 86_400
_FULL_KEYS_MAX = 20
"""Maximum of `log_full_keys`. Each function has them in its environment, which takes 4 KB."""


@dataclass(frozen=True, kw_only=True)
class StageSettings:
    """Explained in docs/reference/settings.md."""

    stage: str
    told: str | None = None
    keeps_data: bool = True
    runbooks: str = "docs/runbooks"
    function_timeout_seconds: int = 8
    function_memory_mb: int = 512
    concurrency: Concurrency = field(default_factory=Concurrency)
    log_retention: RetentionDays = RetentionDays.ONE_MONTH
    log_detail: str = "lean"
    log_full_keys: tuple[str, ...] = ()
    traced_percent: float = 1
    api_calls_per_second: int = 50
    powertools_layer: str | None = None
    snap_start: bool = False
    qualified_functions: bool = True
    canary_percent: int | None = None
    canary_minutes: int = 15
    timeout_factor: int = 1
    embedded_python: str | None = None

    def __post_init__(self) -> None:
        if self.log_detail not in ("lean", "full"):
            raise ValueError("log_detail: must be lean or full")
        if not (isinstance(self.log_full_keys, tuple) and len(self.log_full_keys) <= _FULL_KEYS_MAX):
            raise ValueError(f"log_full_keys: must be at most {_FULL_KEYS_MAX} keys")
        if type(self.traced_percent) not in (int, float) or not 0 <= self.traced_percent <= 100:
            raise ValueError("traced_percent: must be from 0 to 100")
        self._check_whole("api_calls_per_second", 1, API_CALLS_MAX)
        if self.snap_start and self.is_embedded:
            raise ValueError("snap_start: must be False on the embedded AWS, which has none")
        if self.snap_start and not self.qualified_functions:
            raise ValueError("snap_start: needs qualified_functions, as only versions have snapshots")
        self._check_canary()

    def _check_canary(self) -> None:
        percent, minutes = self.canary_percent, self.canary_minutes
        least, most = _CANARY_MINUTES_MIN, _CANARY_MINUTES_MAX
        if type(minutes) is not int or not least <= minutes <= most:
            raise ValueError(
                f"canary_minutes: must be from {least} to {most}, as an alarm needs some to go off"
            )
        if percent is None:
            return
        if type(percent) is not int or not 1 <= percent <= 99:
            raise ValueError("canary_percent: must be from 1 to 99, or None")
        if self.is_embedded:
            raise ValueError("canary_percent: must be None on the embedded AWS, which refuses aliases")
        if not self.qualified_functions:
            raise ValueError(
                "canary_percent: needs qualified_functions, or both versions would run the newest code"
            )

    def _check_whole(self, name: str, least: int, most: int) -> None:
        value = getattr(self, name)
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"{name}: must be from {least} to {most}")

    def _check_address(self, *names: str) -> None:
        """Refuse an address with a password, as settings are in the repository."""
        for name in names:
            if (address := getattr(self, name)) is not None and not _ADDRESS.fullmatch(address):
                raise ValueError(f"{name}: must be a mail address, or an HTTPS address without a password")

    @property
    def is_embedded(self) -> bool:
        return self.embedded_python is not None

    @property
    def removal_policy(self) -> RemovalPolicy:
        """Keep data when the stack goes. After a failed creation, delete it, or it blocks the next try."""
        return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if self.keeps_data else RemovalPolicy.DESTROY

    @property
    def stack_name(self) -> str:
        return f"settlement-{self.stage}"

    @property
    def tags(self) -> dict[str, str]:
        return {"project": "settlement", "stage": self.stage}

    @property
    def logs_in_full(self) -> bool:
        return self.log_detail == "full"

    @property
    def function_log_detail(self) -> str:
        """JSON for `core/telemetry`."""
        return json.dumps({"full": self.logs_in_full, "keys": self.log_full_keys})


@dataclass(frozen=True, kw_only=True)
class CoreSettings(StageSettings):
    """Settings of the core. docs/reference/settings.md explains them.

    Existing rows are in minor units. So `currencies` and `assets` only grow, and exponents never change.
    """

    currencies: tuple[str, ...]
    assets: Mapping[str, int] = field(default_factory=dict)
    highest_balances: Mapping[str, str] = field(default_factory=dict)
    fee: str = "schedule"
    fee_basis_points: int = 100
    fee_floor_basis_points: int = 0
    fee_ceiling_basis_points: int = 0
    deadline_seconds: int = 900
    recover_after_seconds: int = 30
    recovery_starts_per_second: int = 500
    idempotency_key: str = "required"
    alert_again_after_seconds: int = 1800
    row_layout: int = 1
    warm_write_units: int | None = None
    restored_table: str | None = None
    restored_stream: str | None = None

    def __post_init__(self) -> None:
        self._check_amounts("highest_balances")
        super().__post_init__()
        self._check_fee()
        if self.idempotency_key not in ("required", "optional"):
            raise ValueError("idempotency_key: must be required or optional")
        if not 0 < self.recover_after_seconds < self.deadline_seconds:
            raise ValueError("recover_after_seconds: must be positive, and below deadline_seconds")
        if not self.function_timeout_seconds < self.alert_again_after_seconds <= _DAY_SECONDS:
            raise ValueError(
                "alert_again_after_seconds: must exceed function_timeout_seconds, and be at most 86400"
            )
        self._check_whole("recovery_starts_per_second", 1, 1_000)
        self._check_whole("row_layout", 1, LAYOUTS)
        self._check_warm()
        self._check_restored()

    def _check_amounts(self, name: str) -> None:
        self._check_decimals(name, getattr(self, name))

    def _check_decimals(self, name: str, amounts: Mapping[str, str]) -> None:
        exponents = self.exponents
        for code, amount in amounts.items():
            if code not in exponents:
                raise ValueError(f"{name}: {code} is not among the stage's currencies and assets")
            decimals = rf"(\.[0-9]{{1,{exponents[code]}}})?" if exponents[code] else ""
            if not (isinstance(amount, str) and re.fullmatch(rf"[0-9]+{decimals}", amount)):
                raise ValueError(f"{name}: {code} must be a decimal string in that currency")

    def _check_fee(self) -> None:
        if self.fee not in ("schedule", "client"):
            raise ValueError("fee: must be schedule or client")
        if not 0 <= self.fee_basis_points < 10_000:
            raise ValueError("fee_basis_points: must be from 0 to 9999, as a fee is less than its amount")
        floor, ceiling = self.fee_floor_basis_points, self.fee_ceiling_basis_points
        if self.fee == "schedule":
            for name, points in (("fee_floor_basis_points", floor), ("fee_ceiling_basis_points", ceiling)):
                if points != 0:
                    raise ValueError(f"{name}: must be left out unless fee is client")
            return
        if not 0 <= floor <= self.fee_basis_points:
            raise ValueError("fee_floor_basis_points: must be from 0 to fee_basis_points")
        if not self.fee_basis_points <= ceiling < 10_000:
            raise ValueError("fee_ceiling_basis_points: must be from fee_basis_points to 9999")

    def _check_warm(self) -> None:
        units = self.warm_write_units
        if units is None:
            return
        if type(units) is not int or units <= _NEW_TABLE_UNITS:
            raise ValueError(f"warm_write_units: must be above {_NEW_TABLE_UNITS}, which a new table bears")
        if self.is_embedded:
            raise ValueError("warm_write_units: must be None on the embedded AWS, which throttles nothing")

    def _check_restored(self) -> None:
        for name, form, told in (
            ("restored_table", _TABLE_NAME, "a table's name"),
            ("restored_stream", _STREAM_LABEL, "a stream's label, such as 2026-11-23T06:00:00.000"),
        ):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, str) and form.fullmatch(value)):
                raise ValueError(f"{name}: must be {told}")
        if (self.restored_table is None) != (self.restored_stream is None):
            raise ValueError("restored_stream: must be given with restored_table, and not without it")

    @property
    def exponents(self) -> dict[str, int]:
        return exponents_of(self.currencies, self.assets)

    @property
    def pager(self) -> str:
        """JSON for `policy/pager.PagerConfig`."""
        return json.dumps(
            {
                "runbook": f"{self.runbooks}/limbo.md",
                "stack": None if self.is_embedded else self.told or self.stack_name,
                "again_after_seconds": self.alert_again_after_seconds,
            }
        )

    @property
    def stage_config(self) -> str:
        """JSON for `model/stage_config.StageConfig`."""
        return json.dumps(self.rules(), sort_keys=True)

    def rules(self) -> dict[str, Any]:
        return {
            "currencies": self.exponents,
            "highest_balances": self.in_minor_units(self.highest_balances),
            "fee": self.fee,
            "fee_basis_points": self.fee_basis_points,
            "fee_floor_basis_points": self.fee_floor_basis_points,
            "fee_ceiling_basis_points": self.fee_ceiling_basis_points,
            "deadline_seconds": self.deadline_seconds,
            "recover_after_seconds": self.recover_after_seconds,
            "idempotency_key": self.idempotency_key,
            "row_layout": self.row_layout,
        }

    def in_minor_units(self, amounts: Mapping[str, str]) -> dict[str, int]:
        return {code: int(Decimal(amount).scaleb(self.exponents[code])) for code, amount in amounts.items()}
