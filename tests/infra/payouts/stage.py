"""Defines the settings of a stage that pays out."""

from typing import Any

from infra.payouts_config import Debtor, PayoutSettings

PAYOUTS = PayoutSettings(
    url="https://bank.example.com/v1",
    name="bank",
    accounts=("DE02120300000000202051",),
    window_seconds=86_400,
    refusals=("account_closed",),
    payout={"EUR": "5000.00"},
    day={"EUR": "20000.00"},
)
ON: dict[str, Any] = {"statements_every_minutes": 60, "payouts": PAYOUTS}

FILES = PayoutSettings(
    debtor=Debtor(name="Market & Sons", iban="NL91ABNA0417164300"),
    name="bank",
    accounts=("NL91ABNA0417164300",),
    window_seconds=0,
    refusals=(),
    payout={"EUR": "5000.00"},
    day={"EUR": "20000.00"},
)
BY_FILES: dict[str, Any] = {"statements_every_minutes": 60, "payouts": FILES}
"""Settings of a stage whose bank takes files."""
