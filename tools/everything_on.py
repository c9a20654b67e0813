"""Synthesise two stages with every room and option on: `python tools/everything_on.py DIRECTORY`.

`dev` and `prod` leave options off, such as the books in Aurora. The checks of grants, templates and AWS's
limits look at these stages too. They cannot be deployed. `restored` has the table of a restore, which
replaces the stack's own. Beside them, it synthesises a deployer's stack with its role for acceptance.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import aws_cdk as cdk

from infra.concurrency import Concurrency
from infra.config import Settings, settings_of
from infra.delivery import Delivery
from infra.kyc_config import KycSettings
from infra.layouts import LAYOUTS
from infra.payouts_config import PayoutSettings
from infra.payruns import PayRunSettings
from infra.settlement_stack import SettlementStack

PROJECT = Path(__file__).parents[1]

_EXPONENTS = {"EUR": 2, "JPY": 0, "KWD": 3, "USD": 2, "POINTS": 0}
_ACCOUNT = "123456789012"

ON: Mapping[str, Any] = {
    "currencies": ("EUR", "JPY", "KWD", "USD"),
    "assets": {"POINTS": 0},
    "highest_balances": dict.fromkeys(_EXPONENTS, "1000000"),
    "fee": "client",
    "fee_ceiling_basis_points": 500,
    "idempotency_key": "optional",
    "party_names": "required",
    "row_layout": LAYOUTS,
    "warm_write_units": 12_000,
    "row_keys": 3,
    "signing_key": 3,
    "approvals": {"write-off": 5, "complete": 5, "retry": 2, "reverse": 2},
    "reverse_over": dict.fromkeys(_EXPONENTS, "1000"),
    "concurrency": Concurrency(reversals=50, recovery=20, kyc=200, webhook=20, waiting=50),
    "kyc": KycSettings(
        url="https://api.opensanctions.org",
        provider="opensanctions",
        dataset="sanctions",
        health_path="/healthz",
    ),
    "webhook": "http-api",
    "page_address": "oncall@example.com",
    "notice_address": "payments@example.com",
    "finance_address": "finance@example.com",
    "must_reach_people": True,
    "runbooks": "https://runbooks.example.com",
    "log_detail": "full",
    "log_full_keys": tuple(f"order-2026-{number:06}" for number in range(20)),
    "powertools_layer": f"arn:aws:lambda:eu-west-1:{_ACCOUNT}:layer:Powertools:1",
    "snap_start": True,
    "canary_percent": 10,
    "ordered_events": True,
    "journal_lock": "compliance",
    "journal_lock_days": 3_653,
    "books_every_minutes": 1,
    "statements_every_minutes": 60,
    "payouts": PayoutSettings(
        url="https://payments.bank.example.com/v1",
        name="bank-of-the-stage",
        accounts=("DE02120300000000202051", "DE89370400440532013000"),
        window_seconds=86_400,
        refusals=("account_closed", "account_unknown", "amount_over_limit", "currency_not_taken"),
        payout=dict.fromkeys(("EUR", "JPY", "KWD", "USD"), "5000"),
        day=dict.fromkeys(("EUR", "JPY", "KWD", "USD"), "20000"),
    ),
    "pay_runs": PayRunSettings(over=dict.fromkeys(_EXPONENTS, "10000")),
    "statement_accounts": r"ACC-(?P<account>[a-z0-9-]+)",
    "retention_days": 800,
    "shortest_retention_days": 400,
    "backup_days": 35,
    "backup_lock": "compliance",
    "backup_copy_to": f"arn:aws:backup:eu-central-1:{_ACCOUNT}:backup-vault:safe",
    "migration": "parts-by-name",
}
"""Options beyond the defaults. Texts and lists are as long as a real stage's."""

RESTORED: Mapping[str, str] = {"restored_table": "restored", "restored_stream": "2026-11-23T06:00:00.000"}

STAGES: Mapping[str, Mapping[str, Any]] = {"everything": ON, "restored": {**ON, **RESTORED}}


def settings(stage: str) -> Settings:
    """Return the settings of `everything` or `restored`."""
    dev = settings_of({"stage": "dev", "kyc_url": "https://kyc.example.com"})
    return replace(dev, stage=stage, **STAGES[stage])


def _app(directory: Path | None, stage: str) -> cdk.App:
    """Return an app with the flags of `cdk.json`: CDK's own findings fail the synthesis."""
    flags = json.loads((PROJECT / "cdk.json").read_text())["context"]
    return cdk.App(context=flags | {"stage": stage}, outdir=str(directory) if directory else None)


def stack(stage: str, directory: Path | None = None) -> tuple[cdk.App, SettlementStack]:
    app = _app(directory, stage)
    made = SettlementStack(app, settings=settings(stage))
    snapshots = "@aws-cdk/aws-lambda:snapStartRequirePublish"
    cdk.Annotations.of(made).acknowledge_warning(snapshots, "each function publishes its versions")
    return app, made


def main(directory: Path) -> None:
    for stage in STAGES:
        app, _ = stack(stage, directory / stage)
        app.synth()
    app = _app(directory / "delivery", "dev")
    policies = [
        f"arn:aws:iam::{_ACCOUNT}:policy/settlement-dev-{one}-AbCdEf012345"
        for one in ("Viewer", "Acceptance")
    ]
    Delivery(app, "dev", "owner@1234/name@5678", acceptance=policies)
    app.synth()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
