"""A proposal: a decision on a settlement that waits for the approval of other persons."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from settlement.core.model.stored import MalformedRow, sound, subject_of
from settlement.core.model.timestamps import timestamp
from settlement.http.caller import Caller


class Move(StrEnum):
    """What a person does about a decision that needs more than one."""

    PROPOSE = "propose"
    APPROVE = "approve"
    WITHDRAW = "withdraw"
    BREAK_GLASS = "break-glass"


class ProposalStatus(StrEnum):
    """Where a proposal stands; one that is open may have expired, or be void."""

    OPEN = "OPEN"
    DONE = "DONE"
    WITHDRAWN = "WITHDRAWN"


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """The latest proposal about a settlement, of which `proposal_number` counts all.

    `seen` is the digest of what was seen. `proposer` is a person, `proposed_by` the ARN, and the three that
    follow the proof. `needed` persons decide, the proposer among them. `persons` are those so far, and
    `approvals` counts the others: `approved_by` are their ARNs, `approved_in` their requests, with blanks
    between. `case` is that of LIMBO, 0 for a reversal. `part` is the number of a reversal in part, and
    `amount` what it gives back, in minor units; both are 0 for each other decision, and not in its row.
    """

    key: str
    decision: str
    case: int
    reason: str
    seen: str
    proposal_number: int
    proposer: str
    proposed_by: str
    user_id: str
    request_id: str
    source_ip: str
    proposed_at: str
    valid_until: str
    needed: int
    persons: frozenset[str]
    part: int = 0
    amount: int = 0
    status: ProposalStatus = ProposalStatus.OPEN
    approvals: int = 0
    approved_by: str = ""
    approved_in: str = ""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "Proposal":
        """Read a proposal's row. Raises MalformedRow."""
        row = sound(row)
        known = {one.name: row[one.name] for one in fields(cls) if one.name in row or one.default is MISSING}
        if row["status"] not in list(ProposalStatus):
            raise MalformedRow(f"{subject_of(row)}: status is {row['status']!r}")
        known |= {"status": ProposalStatus(row["status"]), "persons": frozenset(row["persons"])}
        found = cls(**known)
        if (
            found.proposer not in found.persons
            or len(found.persons) != found.approvals + 1
            or found.needed < 2
        ):
            raise MalformedRow(f"{subject_of(row)}: persons are not the proposer and those who have approved")
        return found

    def to_row(self) -> dict[str, Any]:
        """Return the attributes of a new proposal's row."""
        left_out = () if self.part else ("part", "amount")
        row = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in left_out}
        return row | {"status": self.status.value, "persons": set(self.persons)}

    @property
    def proof(self) -> dict[str, str]:
        """What the decision has on record of the proposer, beside the ARN."""
        return {"user_id": self.user_id, "request_id": self.request_id, "source_ip": self.source_ip}

    @property
    def lacking(self) -> int:
        """The number of persons who have yet to approve."""
        return self.needed - 1 - self.approvals

    def is_valid(self, now: datetime) -> bool:
        """Return whether the proposal is open and has not expired."""
        return self.status is ProposalStatus.OPEN and timestamp(now) < self.valid_until

    def approved(self, caller: Caller) -> dict[str, str]:
        """Return who approves it, this caller the last."""
        told = {"approved_by": caller.by, "approved_in": caller.request_id}
        return {name: f"{getattr(self, name)} {value}".strip() for name, value in told.items()}
