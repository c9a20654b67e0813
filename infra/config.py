"""The settings of the stages: one frozen instance each, passed in, never read from the environment."""

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from aws_cdk import RemovalPolicy
from aws_cdk.aws_logs import RetentionDays

from infra.concurrency import Concurrency
from infra.currencies import exponents_of
from infra.kyc_config import NOT_NAMED, SCREENS_BY_NAME, KycSettings
from infra.layouts import LAYOUTS, MIGRATIONS


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one stage.

    `highest_balances` maps a currency to the most that an account may hold, written as on the wire.
    `currencies` and `assets` only ever grow, and no exponent changes: rows stay, in minor units. Those of
    currencies are pinned in `currencies.toml`; `assets` maps what is no currency of ISO 4217 to its own: see
    docs/decisions/2026-11-22-exponents-and-assets.md.
    `fee` is "schedule" if the stage sets each fee, by `fee_basis_points` of the amount, or "client" if a
    request may name one from `fee_floor_basis_points` to `fee_ceiling_basis_points`: see
    docs/decisions/2026-11-22-who-sets-the-fee.md.
    `deadline_seconds` is the time to settle of a request that names none. Recovery takes over from an
    execution after `recover_after_seconds`.
    `idempotency_key` is "required", or "optional" until every client mints keys: see
    docs/calling/starting.md.
    `party_names` is "required" if a request must have the parties' names, as it must for a KYC provider
    that screens by name: see docs/decisions/2026-11-21-party-names.md.
    `runbooks` is the address of `docs/runbooks/` in an alert; a case of LIMBO without a decision alerts
    again after `alert_again_after_seconds`. `page_address` (mail or HTTPS) gets what pages a person at once,
    and `notice_address` the rest; a stage that `must_reach_people` is not built without the first, and
    without runbooks at an HTTPS address: see docs/decisions/2026-11-22-pages.md.
    `concurrency` is reserved for the end of payments while others use up the rest, and limits those others.
    The webhook's address is a "function-url", or an "http-api", which passes on at most
    `webhook_calls_per_second` to the function, and `webhook_burst` at once: see
    docs/decisions/2026-11-22-many-callers-few-slots.md for both. Recovery starts at most
    `recovery_starts_per_second`: see docs/decisions/2026-11-22-recovery-at-scale.md.
    `approvals` maps a decision on a settlement (write-off, complete, retry, reverse) to the number of persons
    that it needs, one if it is left out; `reverse_over` maps a currency to the amount, as on the wire, above
    which a reversal needs two: see docs/decisions/2026-11-22-four-eyes.md.
    ReconcileBooks proves the books each `reconcile_every_hours`; None lets a person call it alone: see
    docs/decisions/2026-11-22-scheduled-proof.md.
    `log_detail` is "lean" for one line a call and failures alone of the services' own lines, or "full"; on a
    lean stage the functions log the settlements in `log_full_keys` in full: see
    docs/decisions/2026-11-22-logs.md.
    `warm_write_units` is the number of write units a second that the table and its index bear at once, above
    what DynamoDB gives a new table; None takes that: see docs/operating/quotas.md.
    `ordered_events` adds a FIFO topic with the outcome events of each settlement in their order: see
    docs/calling/events.md.
    `qualified_functions` lets the settlement machines call versions of their functions, so that an execution
    in flight keeps its code over a deployment: see docs/decisions/2026-11-23-versions.md.
    With `canary_percent`, a deployment gives the new version of a settlement machine that share of the
    starts for `canary_minutes`, and then the rest if no alarm goes off; None gives it all at once: see
    docs/decisions/2026-11-23-canary.md.
    `snap_start` lets new environments of the functions for which a caller waits start from a snapshot, where
    the region has SnapStart: see docs/decisions/2026-11-22-start-up.md.
    `journal_lock` locks each object of the sealed journal for `journal_lock_days`: "governance", which an
    administrator may lift, or "compliance", which no one can lift: see
    docs/decisions/2026-11-22-sealed-journal.md.
    An entry is deleted `retention_days` after it was posted; None keeps it for ever. The shortest time that
    the stage has ever given its entries is `shortest_retention_days`, which is `retention_days` if left out.
    It is never raised or taken away: see docs/decisions/2026-11-22-retention.md.
    `powertools_layer` is the ARN of the layer with Powertools; None takes AWS's, by a public parameter that a
    new region may lack.
    `restored_table` is the name of the table that the stage settles on instead of the stack's own, after a
    restore, and `restored_stream` the label of its stream: see docs/operating/restore.md.
    With `backup_days`, the table is backed up daily into a vault that keeps each backup for so long; None has
    no vault. `backup_lock` is as `journal_lock`, and `backup_copy_to` the ARN of another account's vault, for
    copies: see docs/operating/restore.md.
    With `books_every_minutes`, the stack has the books in Aurora, and takes what the sealed journal has into
    them so often; None has no Aurora. `finance_address` (mail or HTTPS) gets what comes after its month was
    closed: see docs/operating/ledger.md.
    `row_keys` is the number of keys of the rows, and `signing_key` the number of the one that signs them:
    see docs/decisions/2026-11-22-signed-rows.md.
    `row_layout` is the newest layout of a settlement's row that the functions write, and `migration` the name
    of a migration for which the stack has a role: see docs/operating/migrating.md.
    `timeout_factor` multiplies the timeouts of functions and tasks on a stage where functions start slowly.
    `embedded_python` is the path of the Python that runs the functions of the embedded AWS; None on AWS.
    """

    stage: str
    currencies: tuple[str, ...]
    assets: Mapping[str, int] = field(default_factory=dict)
    fee: str = "schedule"
    fee_basis_points: int = 100
    fee_floor_basis_points: int = 0
    fee_ceiling_basis_points: int = 0
    highest_balances: Mapping[str, str] = field(default_factory=dict)
    deadline_seconds: int = 900
    recover_after_seconds: int = 30
    idempotency_key: str = "required"
    party_names: str = "optional"
    function_timeout_seconds: int = 8
    function_memory_mb: int = 512
    runbooks: str = "docs/runbooks"
    alert_again_after_seconds: int = 1800
    page_address: str | None = None
    notice_address: str | None = None
    must_reach_people: bool = False
    kyc: KycSettings = field(default_factory=KycSettings)
    concurrency: Concurrency = field(default_factory=Concurrency)
    webhook: str = "function-url"
    webhook_calls_per_second: int = 50
    webhook_burst: int = 100
    recovery_starts_per_second: int = 500
    approvals: Mapping[str, int] = field(default_factory=dict)
    reverse_over: Mapping[str, str] = field(default_factory=dict)
    reconcile_every_hours: int | None = 24
    log_retention: RetentionDays = RetentionDays.ONE_MONTH
    log_detail: str = "lean"
    log_full_keys: tuple[str, ...] = ()
    warm_write_units: int | None = None
    restored_table: str | None = None
    restored_stream: str | None = None
    backup_days: int | None = None
    backup_lock: str = "governance"
    backup_copy_to: str | None = None
    books_every_minutes: int | None = None
    finance_address: str | None = None
    ordered_events: bool = False
    powertools_layer: str | None = None
    snap_start: bool = False
    row_layout: int = 1
    migration: str | None = None
    qualified_functions: bool = True
    canary_percent: int | None = None
    canary_minutes: int = 15
    journal_lock: str = "governance"
    journal_lock_days: int = 400
    retention_days: int | None = None
    shortest_retention_days: int | None = None
    row_keys: int = 1
    signing_key: int = 1
    keeps_data: bool = True
    timeout_factor: int = 1
    embedded_python: str | None = None

    def __post_init__(self) -> None:
        """Check the settings. Raises ValueError, naming the field."""
        self._check_amounts("highest_balances", self.highest_balances)
        self._check_amounts("reverse_over", self.reverse_over)
        if self.reverse_over and self.reverse_over.keys() != self.exponents.keys():
            missing = ", ".join(sorted(self.exponents.keys() - self.reverse_over.keys()))
            raise ValueError(f"reverse_over: must name each currency and asset; {missing} is missing")
        self._check_approvals()
        self._check_fee()
        self._check_times()
        self._check_evidence()
        self._check_addresses()
        self._check_retention()
        self._check_layout()
        for name in ("idempotency_key", "party_names"):
            if getattr(self, name) not in ("required", "optional"):
                raise ValueError(f"{name}: must be required or optional")
        if self.log_detail not in ("lean", "full"):
            raise ValueError("log_detail: must be lean or full")
        if not (isinstance(self.log_full_keys, tuple) and len(self.log_full_keys) <= _FULL_KEYS_MAX):
            raise ValueError(f"log_full_keys: must be at most {_FULL_KEYS_MAX} keys")
        self._check_webhook()
        if not 1 <= self.recovery_starts_per_second <= 1_000:
            raise ValueError("recovery_starts_per_second: must be from 1 to 1000")
        self._check_warm()
        self._check_restored()
        self._check_backup()
        self._check_books()
        if self.reconcile_every_hours is not None and not 1 <= self.reconcile_every_hours <= 24:
            raise ValueError("reconcile_every_hours: must be from 1 to 24, or None")
        if self.snap_start and self.is_embedded:
            raise ValueError("snap_start: must be False on the embedded AWS, which has none")
        if self.snap_start and not self.qualified_functions:
            raise ValueError("snap_start: needs qualified_functions, as only versions have snapshots")
        self._check_canary()
        if not (self.kyc.is_secure or self.is_embedded):
            raise ValueError("kyc.url: must be an HTTPS address")
        if self.kyc.provider in SCREENS_BY_NAME and self.party_names != "required":
            raise ValueError(
                f"party_names: must be required with the KYC provider {self.kyc.provider}, which screens"
                " by name: an account id matches no list, and would be approved"
            )

    def _check_addresses(self) -> None:
        for name in ("page_address", "notice_address", "finance_address"):
            if (address := getattr(self, name)) is not None and not _ADDRESS.fullmatch(address):
                raise ValueError(f"{name}: must be a mail address, or an HTTPS address without a password")

    def _check_amounts(self, name: str, amounts: Mapping[str, str]) -> None:
        exponents = self.exponents
        for code, amount in amounts.items():
            if code not in exponents:
                raise ValueError(f"{name}: {code} is not among the stage's currencies and assets")
            decimals = rf"(\.[0-9]{{1,{exponents[code]}}})?" if exponents[code] else ""
            if not (isinstance(amount, str) and re.fullmatch(rf"[0-9]+{decimals}", amount)):
                raise ValueError(f"{name}: {code} must be a decimal string in that currency")

    def _check_approvals(self) -> None:
        for decision, persons in self.approvals.items():
            if decision not in _APPROVED:
                raise ValueError(f"approvals: {decision} is none of {', '.join(_APPROVED)}")
            if type(persons) is not int or not 1 <= persons <= _PERSONS_MAX:
                raise ValueError(f"approvals: {decision} must be from 1 to {_PERSONS_MAX}")

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

    def _check_backup(self) -> None:
        days, copy_to = self.backup_days, self.backup_copy_to
        if self.backup_lock not in ("governance", "compliance"):
            raise ValueError("backup_lock: must be governance or compliance")
        if copy_to is not None and not (isinstance(copy_to, str) and _VAULT.fullmatch(copy_to)):
            raise ValueError("backup_copy_to: must be the ARN of a backup vault")
        if days is None:
            if copy_to is not None:
                raise ValueError("backup_copy_to: must be left out without backup_days")
            return
        if type(days) is not int or not _BACKUP_DAYS_MIN <= days <= _LOCK_DAYS_MAX:
            raise ValueError(f"backup_days: must be from {_BACKUP_DAYS_MIN} to {_LOCK_DAYS_MAX}, or None")
        if self.is_embedded or not self.keeps_data:
            raise ValueError("backup_days: must be None on a stage that keeps no data")

    def _check_books(self) -> None:
        minutes = self.books_every_minutes
        if minutes is None:
            if self.finance_address is not None:
                raise ValueError("finance_address: must be left out without books_every_minutes")
            return
        if type(minutes) is not int or not 1 <= minutes <= _BOOKS_MINUTES_MAX:
            raise ValueError(f"books_every_minutes: must be from 1 to {_BOOKS_MINUTES_MAX}, or None")
        if self.is_embedded:
            raise ValueError("books_every_minutes: must be None on the embedded AWS, which has no Aurora")

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

    def _check_webhook(self) -> None:
        if self.webhook not in ("function-url", "http-api"):
            raise ValueError("webhook: must be function-url or http-api")
        for name in ("webhook_calls_per_second", "webhook_burst"):
            if type(getattr(self, name)) is not int or not 1 <= getattr(self, name) <= _CALLS_MAX:
                raise ValueError(f"{name}: must be from 1 to {_CALLS_MAX}")

    def _check_evidence(self) -> None:
        if self.journal_lock not in ("governance", "compliance"):
            raise ValueError("journal_lock: must be governance or compliance")
        if not 1 <= self.journal_lock_days <= _LOCK_DAYS_MAX:
            raise ValueError(f"journal_lock_days: must be from 1 to {_LOCK_DAYS_MAX}")
        if not 1 <= self.row_keys <= _ROW_KEYS_MAX:
            raise ValueError(f"row_keys: must be from 1 to {_ROW_KEYS_MAX}")
        if not 1 <= self.signing_key <= self.row_keys:
            raise ValueError("signing_key: must be from 1 to row_keys")

    def _check_retention(self) -> None:
        days, shortest = self.retention_days, self.shortest_retention_days
        for name, value in (("retention_days", days), ("shortest_retention_days", shortest)):
            if value is not None and not _RETENTION_DAYS_MIN <= value <= _LOCK_DAYS_MAX:
                raise ValueError(f"{name}: must be from {_RETENTION_DAYS_MIN} to {_LOCK_DAYS_MAX}, or None")
        if days is not None and shortest is not None and shortest > days:
            raise ValueError("shortest_retention_days: must be at most retention_days")

    def _check_layout(self) -> None:
        if type(self.row_layout) is not int or not 1 <= self.row_layout <= LAYOUTS:
            raise ValueError(f"row_layout: must be from 1 to {LAYOUTS}")
        if self.migration is not None and self.migration not in MIGRATIONS:
            raise ValueError(f"migration: must be one of {', '.join(MIGRATIONS)}, or None")

    def _check_times(self) -> None:
        if not 0 < self.recover_after_seconds < self.deadline_seconds:
            raise ValueError("recover_after_seconds: must be positive, and below deadline_seconds")
        if not self.function_timeout_seconds < self.alert_again_after_seconds <= _DAY_SECONDS:
            raise ValueError(
                "alert_again_after_seconds: must exceed function_timeout_seconds, and be at most 86400"
            )
        if self.kyc.exchange_seconds + _REST_SECONDS > self.function_timeout_seconds:
            raise ValueError(
                f"kyc: both timeouts must leave {_REST_SECONDS} s of function_timeout_seconds for the rest"
            )

    @property
    def is_embedded(self) -> bool:
        """Whether the stage runs on the embedded AWS."""
        return self.embedded_python is not None

    def ensure_reaches_people(self) -> None:
        """Demand that a page reaches a person, with a runbook. Raises ValueError, naming the setting."""
        if not self.must_reach_people:
            return
        if self.page_address is None:
            raise ValueError(
                "page_address: name the address that is paged; pass it as -c page_address=oncall@<host>"
            )
        if not self.runbooks.startswith("https://"):
            raise ValueError(
                "runbooks: name the HTTPS address of your runbooks; pass it as -c runbooks=https://<host>"
            )

    @property
    def removal_policy(self) -> RemovalPolicy:
        """What becomes of data when the stack goes: kept, but for what a failed creation has just made.

        Kept too, that would be in the way of the next try, and no stack would own it.
        """
        return RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if self.keeps_data else RemovalPolicy.DESTROY

    @property
    def stack_name(self) -> str:
        """The name of the stage's stack."""
        return f"settlement-{self.stage}"

    @property
    def tags(self) -> dict[str, str]:
        """The tags of each resource, by which a bill is divided."""
        return {"project": "settlement", "stage": self.stage}

    @property
    def exponents(self) -> dict[str, int]:
        """The number of decimals of each currency and asset of the stage."""
        return exponents_of(self.currencies, self.assets)

    @property
    def logs_in_full(self) -> bool:
        """Whether the machines and the functions log every call, not only those that fail."""
        return self.log_detail == "full"

    @property
    def function_log_detail(self) -> str:
        """The detail of the functions' own lines: JSON, read by `adapters/telemetry`."""
        return json.dumps({"full": self.logs_in_full, "keys": self.log_full_keys})

    @property
    def pager(self) -> str:
        """The configuration of on-call alerts: JSON, read by `policy/pager.PagerConfig`."""
        return json.dumps(
            {
                "runbook": f"{self.runbooks}/limbo.md",
                "stack": None if self.is_embedded else self.stack_name,
                "again_after_seconds": self.alert_again_after_seconds,
            }
        )

    @property
    def stage_config(self) -> str:
        """The business rules for the functions: JSON, read by `model/stage_config.StageConfig`."""
        exponents = self.exponents
        return json.dumps(
            {
                "currencies": exponents,
                **{
                    name: {
                        code: int(Decimal(amount).scaleb(exponents[code])) for code, amount in amounts.items()
                    }
                    for name, amounts in (
                        ("highest_balances", self.highest_balances),
                        ("reverse_over", self.reverse_over),
                    )
                },
                "approvals": dict(self.approvals),
                "fee": self.fee,
                "fee_basis_points": self.fee_basis_points,
                "fee_floor_basis_points": self.fee_floor_basis_points,
                "fee_ceiling_basis_points": self.fee_ceiling_basis_points,
                "deadline_seconds": self.deadline_seconds,
                "recover_after_seconds": self.recover_after_seconds,
                "idempotency_key": self.idempotency_key,
                "party_names": self.party_names,
                "retention_days": self.retention_days,
                "row_layout": self.row_layout,
                "shortest_retention_days": self.shortest_retention_days or self.retention_days,
            },
            sort_keys=True,
        )


_APPROVED = ("write-off", "complete", "retry", "reverse")
"""The decisions that may need more than one person."""

_PERSONS_MAX = 5
"""The most that one decision may need: their ARNs are all on its evidence."""

_NEW_TABLE_UNITS = 4_000
"""The write units a second of a new on-demand table. What is set cannot be lowered again."""

_CANARY_MINUTES_MIN = 10
"""Two periods of the alarms: one that the failures fall into, and one in which CloudWatch has them all."""

_CANARY_MINUTES_MAX = 2_100
"""What CloudFormation accepts."""

_BOOKS_MINUTES_MAX = 60
"""A round more rarely would leave finance without the day, and its alarm without a figure."""

_BACKUP_DAYS_MIN = 7
_VAULT = re.compile(r"arn:aws[a-z-]*:backup:[a-z0-9-]+:\d{12}:backup-vault:[A-Za-z0-9_-]{2,50}")
_TABLE_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_STREAM_LABEL = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}")
_DAY_SECONDS = 86_400
_CALLS_MAX = 10_000
"""API Gateway's own limit for an account."""

_ADDRESS = re.compile(r"[^@\s/?#]+@[^@\s/?#]+\.[^@\s/?#]+|https://[^@\s/?#]+(/[^\s@?#]*)?")
"""A mail address, or an HTTPS one. Settings are in the repository: no place for a password or a key."""

_RETENTION_DAYS_MIN = 400
"""Longer than a Standard execution may run (a year), than a redrive, and than a card's payment may be
disputed: no entry goes that a function, a sweep or a person may still need.
"""

_LOCK_DAYS_MAX = 36_500
"""What S3 accepts."""

_ROW_KEYS_MAX = 20
"""They are all in the environment of ReconcileBooks, which holds 4 KB."""

_FULL_KEYS_MAX = 20
"""They are in the environment of each function, which holds 4 KB."""

_REST_SECONDS = 3
"""The time that VerifyKyc needs besides the exchange with the provider: for its secret and for DynamoDB.

Of these it keeps two until after the exchange, and does not ask without them (`RESERVED_SECONDS`).
"""

STAGES = {
    settings.stage: settings
    for settings in (
        Settings(
            stage="local",
            currencies=("EUR", "JPY", "KWD", "USD"),
            assets={"POINTS": 0},
            fee="client",  # the examples show payments with a fee of their own, and without one
            fee_ceiling_basis_points=500,
            highest_balances={"EUR": "1000000.00"},
            recover_after_seconds=10,
            log_retention=RetentionDays.ONE_DAY,
            log_detail="full",
            alert_again_after_seconds=20,
            ordered_events=True,
            kyc=KycSettings(
                url="http://127.0.0.1:8081", health_path="/health", failures=3, recovery_seconds=5
            ),
            keeps_data=False,
            timeout_factor=5,
            qualified_functions=False,
            embedded_python=sys.executable,
        ),
        Settings(
            stage="dev",
            currencies=("EUR", "JPY", "KWD", "USD"),
            idempotency_key="optional",
            log_retention=RetentionDays.ONE_WEEK,
            log_detail="full",
        ),
        Settings(
            stage="prod",
            currencies=("EUR", "USD"),
            highest_balances={"EUR": "1000000.00", "USD": "1000000.00"},  # each operator's to review
            concurrency=Concurrency(reversals=50, recovery=20, kyc=200, webhook=20, waiting=50),
            must_reach_people=True,
            approvals={"write-off": 2, "complete": 2, "retry": 1},
            # Recovery at its pace: 500 a second, each of 20 write units for its steps and 3 for the takeover.
            warm_write_units=12_000,
            log_retention=RetentionDays.ONE_YEAR,
            journal_lock_days=3_653,
        ),
    )
}

_PERSONAL = re.compile(r"my-[a-z0-9]{1,12}")
"""A prefix, so that a misspelt `prod` is no stage of its own."""

_GIVEN = ("webhook", "page_address", "notice_address", "finance_address", "runbooks", "powertools_layer")
"""The settings that a deployment may name by CDK's context, besides the address of the KYC provider."""

CONTEXT = ("stage", "kyc_url", *_GIVEN)
"""What `cdk deploy -c NAME=VALUE` may name."""


def is_personal(stage: str | None) -> bool:
    """Whether a stage is one person's own: `dev` without anything that outlives its stack."""
    return stage is not None and _PERSONAL.fullmatch(stage) is not None


def _personal(stage: str) -> Settings:
    return replace(
        STAGES["dev"],
        stage=stage,
        keeps_data=False,
        backup_days=None,
        backup_copy_to=None,
        journal_lock_days=1,  # a teardown lifts it, and one that is forgotten ends by itself
        log_retention=RetentionDays.THREE_DAYS,
    )


def settings_of(context: Mapping[str, str | None]) -> Settings:
    """Return the settings of a stage with what the context names. Raises ValueError for what it lacks."""
    stage = context.get("stage")
    if stage not in STAGES and not is_personal(stage):
        raise ValueError(
            f"stage: must be one of {', '.join(STAGES)}, or a personal one: my- and up to 12 lowercase"
            " letters and digits; pass it as -c stage=<stage>"
        )
    if unknown := sorted(context.keys() - set(CONTEXT)):
        raise ValueError(f"context: has no {unknown[0]}; the names are {', '.join(CONTEXT)}")
    settings = _personal(str(stage)) if is_personal(stage) else STAGES[str(stage)]
    if kyc_url := context.get("kyc_url"):
        settings = replace(settings, kyc=replace(settings.kyc, url=kyc_url))
    for name in _GIVEN:
        if given := context.get(name):
            settings = replace(settings, **{name: given})  # type: ignore[arg-type]  # each of them is a text
    if settings.kyc.url == NOT_NAMED:
        raise ValueError("kyc_url: name the KYC provider's address; pass it as -c kyc_url=https://<host>")
    settings.ensure_reaches_people()
    return settings
