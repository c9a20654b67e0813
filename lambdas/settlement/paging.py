"""What the person on call is told, and when they are told again."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from settlement import money
from settlement.limbo import Case
from settlement.request import Settlement
from settlement.rows import Row
from settlement.status import Step
from settlement.terms import Terms

AGAIN_AFTER_SECONDS_MAX = 86_400
"""The longest wait for the next page. A year of them is far from the 25,000 events of a history."""


@dataclass(frozen=True, kw_only=True)
class Paging:
    """How this stage pages: the runbook's address, the command to type next, the wait before the second page.

    `show_command` has `{key}` where the settlement's key goes.
    """

    runbook: str
    show_command: str
    again_after_seconds: int

    @classmethod
    def from_json(cls, text: str) -> "Paging":
        """How the deployment wrote it into a function's environment."""
        return cls(**json.loads(text))

    def wait_seconds(self, pages: int) -> int:
        """How long to wait for a decision after the page with this number: twice as long each time."""
        seconds: int = self.again_after_seconds << min(pages - 1, 20)
        return min(seconds, AGAIN_AFTER_SECONDS_MAX)

    def page(
        self, settlement: Settlement, case: Case, row: Row, terms: Terms, *, number: int, execution: str
    ) -> dict[str, Any]:
        """A page about a settlement in LIMBO: all that it takes to understand it, and what to do next."""
        at_risk = money.render(case.amount, terms.currencies[settlement.currency])
        failure: Mapping[str, str] = row["failure"]
        held = case.step is Step.HOLD and row["escrow"] == case.amount
        what = "safe in escrow" if held else "at risk"
        return {
            "summary": (
                f"{settlement.key} is in LIMBO since {row['gsi1sk']}: {at_risk} {settlement.currency}"
                f" {what}, {row['stuck_step']} of account {case.account} is stuck by {failure['error']}"
            ),
            "key": settlement.key,
            "case": case.number,
            "account": case.account,
            "stuck_step": row["stuck_step"],
            "amount_at_risk": at_risk,
            "currency": settlement.currency,
            "failure": failure,
            "since": row["gsi1sk"],
            "page": number,
            "execution_arn": execution,
            "runbook": self.runbook,
            "next_command": self.show_command.format(key=settlement.key),
        }


def resolved(key: str, case: int, entry: Row) -> dict[str, Any]:
    """The news that a person has decided on a case, for those who were paged, from the decision's entry."""
    return {
        "summary": f"{key} is out of LIMBO: {entry['decision']} by {entry['by']}",
        "key": key,
        "case": case,
        "decided_at": entry["posted_at"],
        **{name: entry[name] for name in ("account", "decision", "reason", "by")},
    }
