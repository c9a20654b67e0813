from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from settlement.core.model.stored import MalformedRow, sound, subject_of
from settlement.core.model.timestamps import timestamp
from settlement.http.caller import Caller


class Move(StrEnum):
    PROPOSE = "propose"
    APPROVE = "approve"
    WITHDRAW = "withdraw"
    BREAK_GLASS = "break-glass"


class ProposalStatus(StrEnum):
    """The recorded status. An OPEN proposal may have expired, or no longer fit its settlement."""

    OPEN = "OPEN"
    DONE = "DONE"
    WITHDRAWN = "WITHDRAWN"


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A decision that waits for other persons. A settlement's row has only the latest proposal.

    - `proposal_number`: counts all proposals of the settlement.
    - `case`: the LIMBO case. 0: a reversal.
    - `seen`: the digest of proposal and settlement.
    - `proposer`: a person. `proposed_by`: the person's ARN. The next three fields prove it.
    - `needed` and `persons` include the proposer. `approvals` does not.
    - `approved_by` and `approved_in`: ARNs and requests, separated by blanks.
    - `part` and `amount`: number and minor units of a reversal in part. Otherwise they are 0 and not in the
      row.
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
        """Parse a proposal's row. Raises MalformedRow."""
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
        left_out = () if self.part else ("part", "amount")
        row = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in left_out}
        return row | {"status": self.status.value, "persons": set(self.persons)}

    @property
    def proof(self) -> dict[str, str]:
        return {"user_id": self.user_id, "request_id": self.request_id, "source_ip": self.source_ip}

    @property
    def lacking(self) -> int:
        return self.needed - 1 - self.approvals

    def is_valid(self, now: datetime) -> bool:
        return self.status is ProposalStatus.OPEN and timestamp(now) < self.valid_until

    def approved(self, caller: Caller) -> dict[str, str]:
        """The approvers' ARNs and request ids. This caller's come last."""
        told = {"approved_by": caller.by, "approved_in": caller.request_id}
        return {name: f"{getattr(self, name)} {value}".strip() for name, value in told.items()}
