"""Settings of the stages. They never come from the environment."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from aws_cdk.aws_logs import RetentionDays

from .backup import BackupSettings
from .bank import BankSettings
from .books import BooksSettings
from .concurrency import Concurrency
from .doors import DoorsSettings
from .events import EventsSettings
from .given import check_types
from .journal import JournalSettings
from .kyc import KycRoomSettings
from .kyc_config import NOT_NAMED, KycSettings
from .migration import MigrationSettings
from .orders import OrdersSettings
from .paging import PagingSettings
from .payouts import PayoutsSettings
from .payouts_config import PayoutSettings
from .payruns import PayRunSettings, PayRunsSettings
from .proof import ProofSettings
from .retention import RetentionSettings
from .signing import SigningSettings


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
    PayRunsSettings,
    PayoutsSettings,
    BankSettings,
    RetentionSettings,
    BackupSettings,
    MigrationSettings,
):
    """Settings of the core (`infra/settings.py`) and of each room.

    Each class checks its own settings and adds its business rules. The core comes first.
    """


_DEV: Mapping[str, Any] = {
    "idempotency_key": "optional",
    "log_retention": RetentionDays.ONE_WEEK,
    "log_detail": "full",
}
_PROD: Mapping[str, Any] = {
    "concurrency": Concurrency(reversals=50, recovery=20, kyc=200, webhook=20, waiting=50),
    "must_reach_people": True,
    "approvals": {"write-off": 2, "complete": 2, "retry": 1},
    # Recovery starts 500 a second, each with 20 write units for its steps and 3 for the takeover.
    "warm_write_units": 12_000,
    # As many as that table bears: see docs/operating/quotas.md.
    "api_calls_per_second": 500,
    "start_queue_calls": 25,
    "log_retention": RetentionDays.ONE_YEAR,
    "journal_lock_days": 3_653,
}


_EMBEDDED: Mapping[str, Any] = {
    "recover_after_seconds": 10,
    "log_retention": RetentionDays.ONE_DAY,
    "log_detail": "full",
    "alert_again_after_seconds": 20,
    "keeps_data": False,
    "timeout_factor": 5,
    "concurrency": Concurrency(),
    "qualified_functions": False,
    "snap_start": False,
    "canary_percent": None,
    "warm_write_units": None,
    "backup_days": None,
    "backup_copy_to": None,
    "books_every_minutes": None,
    "finance_address": None,
}
"""Values for the embedded AWS. They leave out parts that it lacks, and shorten times."""

_WINDOW_SECONDS = 86_400
_REFUSALS = ("account_closed", "account_blocked")
"""Promises of the simulated bank: the seconds it knows a key, and its reasons for never paying."""

_SIMULATED_ACCOUNTS = ("DE89370400440532013000",)
"""The simulated bank's account: `IBAN` in `settle/local/bank_statements.py`."""

_LOCAL: Mapping[str, Any] = {
    "statements_every_minutes": 15,
    "pay_runs": PayRunSettings(),
    "payouts": PayoutSettings(
        name="bank",
        accounts=_SIMULATED_ACCOUNTS,
        window_seconds=_WINDOW_SECONDS,
        refusals=_REFUSALS,
        payout={"EUR": "5000.00", "USD": "5000.00"},
        day={"EUR": "20000.00", "USD": "20000.00"},
    ),
}


def _of_rooms(profile: Mapping[str, Any]) -> dict[str, Any]:
    return {name: profile[name] for name in profile.keys() & {one.name for one in fields(Settings)}}


def embedded(settings: Settings, *, python: str, kyc_url: str, bank_url: str | None = None) -> Settings:
    """Return settings for the embedded AWS, the simulated KYC provider, and the simulated bank, if any.

    `python` runs the functions.
    """
    kyc = KycSettings(
        url=kyc_url,
        health_path="/health",
        connect_timeout_seconds=2,
        read_timeout_seconds=5,
        failures=3,
        recovery_seconds=8,
    )
    rooms = {
        **_EMBEDDED,
        "payouts": _simulated_bank(settings, bank_url),
    }
    return replace(settings, kyc=kyc, embedded_python=python, **_of_rooms(rooms))


def _bank(settings: Settings) -> PayoutSettings | None:
    found: PayoutSettings | None = getattr(settings, "payouts", None)
    return found


def _with_bank(settings: Settings, url: str) -> Settings:
    if (bank := _bank(settings)) is None:
        raise ValueError("bank_url: must be left out, as the stage pays nothing out")
    return replace(settings, **_of_rooms({"payouts": replace(bank, url=url)}))


def _simulated_bank(settings: Settings, url: str | None) -> PayoutSettings | None:
    """Return the payouts of a stage with its own limits. Without a simulated bank, it pays nothing out."""
    found = _bank(settings)
    if found is None or url is None:
        return None
    return replace(
        found,
        url=url,
        debtor=None,
        accounts=_SIMULATED_ACCOUNTS,
        window_seconds=_WINDOW_SECONDS,
        refusals=_REFUSALS,
        rest_seconds=0,
        connect_timeout_seconds=1,
        read_timeout_seconds=3,
        failures=3,
        recovery_seconds=5,
    )


def dev(*, stage: str, currencies: Sequence[str], kyc_url: str, **more: Any) -> Settings:
    """Return settings for trials: full logs, and no address to page.

    `more` are settings from docs/reference/settings.md. Raises ValueError, which names the wrong setting.
    """
    return _profile(_DEV, stage, currencies, kyc_url, more)


def prod(
    *, stage: str, currencies: Sequence[str], kyc_url: str, page_address: str, runbooks: str, **more: Any
) -> Settings:
    """Return settings for real money: two persons decide, and the journal is locked.

    - `page_address`: pages go there, by mail or HTTPS.
    - `runbooks`: the HTTPS address of `docs/runbooks/`.
    - `more`: settings from docs/reference/settings.md.

    Raises ValueError, which names the wrong setting.
    """
    return _profile(
        _PROD, stage, currencies, kyc_url, {"page_address": page_address, "runbooks": runbooks, **more}
    )


def _profile(
    profile: Mapping[str, Any], stage: str, currencies: Sequence[str], kyc_url: str, more: Mapping[str, Any]
) -> Settings:
    if not (isinstance(stage, str) and _NAME.fullmatch(stage)):
        raise ValueError(
            "stage: must be up to 16 lowercase letters, digits and hyphens, and begin with a letter"
        )
    if unknown := sorted(more.keys() - {one.name for one in fields(Settings)}):
        raise ValueError(f"{unknown[0]}: is no setting; docs/reference/settings.md has all")
    if isinstance(currencies, str) or not isinstance(currencies, Sequence) or not currencies:
        raise ValueError('currencies: must be a list of codes, such as ["EUR"]')
    if not isinstance(kyc_url, str):
        raise ValueError("kyc_url: must be an address")
    check_types({"currencies": tuple(currencies), **more}, Settings)
    kyc = replace(more.get("kyc", KycSettings()), url=kyc_url)
    settings = Settings(
        **{**_of_rooms(profile), **more, "stage": stage, "currencies": tuple(currencies), "kyc": kyc}
    )
    _ensure_reaches_bank(settings, "give PayoutSettings its url or its debtor")
    settings.ensure_reaches_people()
    return settings


def _ensure_reaches_bank(settings: Settings, how: str) -> None:
    if (bank := _bank(settings)) and not bank.is_reached:
        raise ValueError(f"bank_url: name the bank's address; {how}")


STAGES = {
    settings.stage: settings
    for settings in (
        embedded(
            Settings(
                stage="local",
                currencies=("EUR", "JPY", "KWD", "USD"),
                assets={"POINTS": 0},
                fee="client",  # the examples pay with and without their own fee
                fee_ceiling_basis_points=500,
                highest_balances={"EUR": "1000000.00"},
                ordered_events=True,
                **_of_rooms(_LOCAL),
            ),
            python=sys.executable,
            kyc_url="http://127.0.0.1:8081",
            bank_url="http://127.0.0.1:8082",
        ),
        Settings(stage="dev", currencies=("EUR", "JPY", "KWD", "USD"), **_of_rooms(_DEV)),
        Settings(
            stage="prod",
            currencies=("EUR", "USD"),
            highest_balances={"EUR": "1000000.00", "USD": "1000000.00"},  # for each operator to review
            **_of_rooms(_PROD),
        ),
    )
}

_NAME = re.compile(r"[a-z][a-z0-9-]{0,15}")
"""Part of physical names. A sampling rule's name has the lowest limit."""

_PERSONAL = re.compile(r"my-[a-z0-9]{1,12}")
"""A personal stage's name. The prefix keeps a misspelt `prod` from becoming a stage."""

_GIVEN = ("webhook", "page_address", "notice_address", "finance_address", "runbooks", "powertools_layer")
"""Settings that CDK's context may name, besides the addresses of the KYC provider and the bank."""

CONTEXT = ("stage", "kyc_url", "bank_url", *_GIVEN)


def is_personal(stage: str | None) -> bool:
    """Return whether a stage is personal. It is like `dev`, but nothing outlives its stack."""
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
    """Return a stage's settings from CDK's context.

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
    if bank_url := context.get("bank_url"):
        settings = _with_bank(settings, bank_url)
    for name in _GIVEN:
        if given := context.get(name):
            settings = replace(settings, **{name: given})  # type: ignore[arg-type]  # each of them is a text
    if settings.kyc.url == NOT_NAMED:
        raise ValueError("kyc_url: name the KYC provider's address; pass it as -c kyc_url=https://<host>")
    _ensure_reaches_bank(settings, "pass it as -c bank_url=https://<host>")
    settings.ensure_reaches_people()
    return settings
