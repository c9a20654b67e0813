import json
from dataclasses import dataclass
from typing import Any

from settlement.core.ledger.keys import Row
from settlement.core.model import money
from settlement.core.model.case import Case
from settlement.core.model.command import command
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Step

AGAIN_AFTER_SECONDS_MAX = 86_400
"""Longest wait between alerts. A year of daily alerts is far below an execution's limit of 25,000 events."""


@dataclass(frozen=True, kw_only=True)
class PagerConfig:
    """Settings of the alerts. `again_after_seconds` is the wait before the second alert.

    `stack` is the stack that commands name. None: the embedded stack, which they find without a name.
    """

    runbook: str
    stack: str | None
    again_after_seconds: int

    @classmethod
    def from_json(cls, text: str) -> "PagerConfig":
        return cls(**json.loads(text))

    def wait_seconds(self, alerts: int) -> int:
        seconds: int = self.again_after_seconds << min(alerts - 1, 20)
        return min(seconds, AGAIN_AFTER_SECONDS_MAX)

    def alert(
        self, state: SettlementState, case: Case, config: StageConfig, *, number: int, execution: str
    ) -> dict[str, Any]:
        settlement, failure = state.settlement, state.failure or {}
        at_risk = money.render(case.amount, settlement.exponent(config))
        held = case.step is Step.HOLD and state.escrow == case.amount
        risk = "safe in escrow" if held else "at risk"
        return {
            "summary": (
                f"{state.key} is in LIMBO since {state.listed_at}: {at_risk} {settlement.currency} {risk},"
                f" {state.stuck_step} of account {case.account} is stuck by {failure['error']}"
            ),
            "key": state.key,
            "case": case.number,
            "account": case.account,
            "stuck_step": state.stuck_step,
            "amount_at_risk": at_risk,
            "currency": settlement.currency,
            "failure": failure,
            "since": state.listed_at,
            "alert": number,
            "execution_arn": execution,
            "runbook": self.runbook,
            "next_command": command("limbo show", state.key, stack=self.stack),
        }


def resolution_notice(key: str, case: int, entry: Row) -> dict[str, Any]:
    return {
        "summary": f"{key} is out of LIMBO: {entry['decision']} by {entry['by']}",
        "key": key,
        "case": case,
        "decided_at": entry["posted_at"],
        **{name: entry[name] for name in ("account", "decision", "reason", "by")},
    }
