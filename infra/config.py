"""Settings of the stages, never read from the environment."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

from aws_cdk.aws_logs import RetentionDays

from infra.backup import BackupSettings
from infra.books import BooksSettings
from infra.concurrency import Concurrency
from infra.doors import DoorsSettings
from infra.events import EventsSettings
from infra.journal import JournalSettings
from infra.kyc import KycRoomSettings
from infra.kyc_config import NOT_NAMED, KycSettings
from infra.migration import MigrationSettings
from infra.orders import OrdersSettings
from infra.paging import PagingSettings
from infra.proof import ProofSettings
from infra.retention import RetentionSettings
from infra.signing import SigningSettings


@dataclass(frozen=True, kw_only=True)
class Settings(
    KycRoomSettings,
    DoorsSettings,
    OrdersSettings,
    EventsSettings,
    PagingSettings,
    JournalSettings,
    SigningSettings,
    ProofSettings,
    BooksSettings,
    RetentionSettings,
    BackupSettings,
    MigrationSettings,
):
    """Settings of the core (`infra/settings.py`) and of each room.

    Each class checks its own settings, the core's first, and adds its business rules.
    """


STAGES = {
    settings.stage: settings
    for settings in (
        Settings(
            stage="local",
            currencies=("EUR", "JPY", "KWD", "USD"),
            assets={"POINTS": 0},
            fee="client",  # the examples pay with and without their own fee
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
            highest_balances={"EUR": "1000000.00", "USD": "1000000.00"},  # for each operator to review
            concurrency=Concurrency(reversals=50, recovery=20, kyc=200, webhook=20, waiting=50),
            must_reach_people=True,
            approvals={"write-off": 2, "complete": 2, "retry": 1},
            # Recovery starts 500 a second, each with 20 write units for its steps and 3 for the takeover.
            warm_write_units=12_000,
            # As many as that table bears: see docs/operating/quotas.md.
            api_calls_per_second=500,
            start_queue_calls=25,
            log_retention=RetentionDays.ONE_YEAR,
            journal_lock_days=3_653,
        ),
    )
}

_PERSONAL = re.compile(r"my-[a-z0-9]{1,12}")
"""The prefix keeps a misspelt `prod` from becoming a stage."""

_GIVEN = ("webhook", "page_address", "notice_address", "finance_address", "runbooks", "powertools_layer")
"""Settings that CDK's context may name, besides `kyc_url`."""

CONTEXT = ("stage", "kyc_url", *_GIVEN)


def is_personal(stage: str | None) -> bool:
    """Return whether a stage is personal: `dev`, without anything that outlives its stack."""
    return stage is not None and _PERSONAL.fullmatch(stage) is not None


def _personal(stage: str) -> Settings:
    return replace(
        STAGES["dev"],
        stage=stage,
        keeps_data=False,
        backup_days=None,
        backup_copy_to=None,
        journal_lock_days=1,  # a teardown lifts the lock, and a forgotten one expires
        log_retention=RetentionDays.THREE_DAYS,
    )


def settings_of(context: Mapping[str, str | None]) -> Settings:
    """Return a stage's settings, with the context's overrides.

    Raises ValueError for an unknown name, a missing setting, or a page that reaches no person.
    """
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
