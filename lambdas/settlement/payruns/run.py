"""A run's rows: proposal, approvals and progress."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.request import ACCOUNT
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.stored import MalformedRow, sound, subject_of
from settlement.http.caller import person_of
from settlement.payruns.file import DIGEST, LINES_MAX, NAME, RUN, Kind, RunFile, run_of


class Status(StrEnum):
    PROPOSED = "PROPOSED"
    APPROVED = "APPROVED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FINISHED = "FINISHED"
    CANCELLED = "CANCELLED"


ENDED = frozenset({Status.FINISHED, Status.CANCELLED})


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """A proposal, for other persons to approve. The row is put once, and signed.

    `sums` are minor units by currency. `needed` persons approve it. `by` is the proposer's ARN.
    """

    digest: str
    name: str
    kind: Kind
    payer: str
    lines: int
    sums: Mapping[str, int]
    needed: int
    reason: str
    by: str
    posted_at: str
    parent: str | None = None

    @property
    def run(self) -> str:
        return run_of(self.digest)

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "Proposal":
        """Raises MalformedRow."""
        row = sound(row)
        found = cls(
            **{name: row[name] for name in _PROPOSED},
            kind=_member(row, "kind", Kind),
            parent=row.get("parent"),
        )
        if problem := _wrong(found):
            raise MalformedRow(f"{subject_of(row)}: {problem}")
        return found


_PROPOSED = ("digest", "name", "payer", "lines", "sums", "needed", "reason", "by", "posted_at")


def _wrong(one: Proposal) -> str | None:
    texts = {"digest": (DIGEST, one.digest), "name": (NAME, one.name), "payer": (ACCOUNT, one.payer)}
    texts |= {} if one.parent is None else {"parent": (RUN, one.parent)}
    for name, (pattern, text) in texts.items():
        if not (isinstance(text, str) and pattern.fullmatch(text)):
            return f"{name} must match ^{pattern.pattern}$"
    counts = {"lines": (one.lines, LINES_MAX), "needed": (one.needed, LINES_MAX)}
    for name, (value, most) in counts.items():
        if type(value) is not int or not 1 <= value <= most:
            return f"{name} must be from 1 to {most}"
    if not (isinstance(one.sums, dict) and one.sums and all(type(sum_) is int for sum_ in one.sums.values())):
        return "sums must be minor units by currency"
    return None


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run's progress. Each count starts at the file's first line.

    - `begun`: lines that are paid, or will be. `started`: lines with a payment or a refusal. `ended`: lines
      with an outcome.
    - `cut`: lines that may begin. None: all.
    - `outcomes`: ended lines by outcome; `sums`: their minor units by outcome and currency, "SETTLED EUR".
    - `sequence` counts changes of the status.
    """

    run: str
    name: str
    status: Status
    sequence: int
    proposed_at: str
    lines: int
    approvals: int = 0
    begun: int = 0
    started: int = 0
    ended: int = 0
    cut: int | None = None
    outcomes: Mapping[str, int] = field(default_factory=dict)
    sums: Mapping[str, int] = field(default_factory=dict)
    changed_at: str | None = None

    @property
    def last(self) -> int:
        """The number of lines that this run pays."""
        return self.lines if self.cut is None else self.cut

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to pay or to wait for."""
        return self.ended == self.last

    def to_row(self) -> Row:
        told = {name: value for name in _COUNTED if (value := getattr(self, name)) is not None}
        index = keys.payruns_index(self.proposed_at, is_running=self.status is Status.RUNNING)
        return {**keys.payrun(self.run), **told, "status": self.status.value, **index}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> "Run":
        """Raises MalformedRow."""
        row = sound(row)
        found = cls(
            run=keys.subject(row)[1],
            status=_member(row, "status", Status),
            **{name: row[name] for name in _REQUIRED},
            **{name: row[name] for name in _COUNTED if name in row and name not in _REQUIRED},
        )
        if problem := next(_contradictions(found), None):
            raise MalformedRow(f"{subject_of(row)}: {problem}")
        return found


_REQUIRED = ("name", "sequence", "proposed_at", "lines")
_COUNTED = (
    *_REQUIRED,
    *("approvals", "begun", "started", "ended", "cut", "outcomes", "sums", "changed_at"),
)


def _contradictions(one: Run) -> Iterator[str]:
    if not (isinstance(one.name, str) and NAME.fullmatch(one.name)):
        yield f"name must match ^{NAME.pattern}$"
    counts = (one.ended, one.started, one.begun, one.last, one.lines)
    if not all(type(count) is int for count in (*counts, one.approvals, one.sequence)):
        yield "its counts must be whole numbers"
    elif not 0 <= one.ended <= one.started <= one.begun <= one.last <= one.lines:
        yield f"its counts contradict each other: {', '.join(map(str, counts))}"
    for told in (one.outcomes, one.sums):
        if not (isinstance(told, dict) and all(type(value) is int for value in told.values())):
            yield "outcomes and sums must be whole numbers"
            return
    if sum(one.outcomes.values()) != one.ended:
        yield f"it has {sum(one.outcomes.values())} outcomes of {one.ended} ended lines"


def _member(row: Mapping[str, Any], name: str, kind: Any) -> Any:
    if row[name] not in list(kind):
        raise MalformedRow(f"{subject_of(row)}: {name} must be one of {', '.join(kind)}")
    return kind(row[name])


def approvers(proposal: Proposal, rows: Iterable[Row]) -> set[str]:
    """The approvers of a proposal, without its proposer."""
    approved = {person_of(str(row.get("by"))) for row in rows if row.get("digest") == proposal.digest}
    return approved - {person_of(proposal.by)}


def differs(proposal: Proposal, found: RunFile, config: StageConfig) -> str | None:
    """Name the facts in which a proposal and its file differ, if any. Raises DamagedFile."""
    header = found.header
    in_file = {
        "name": header.name,
        "kind": header.kind,
        "payer": header.payer,
        "parent": header.parent,
        "lines": len(found.lines),
        "sums": found.sums(config),
    }
    other = [name for name, value in in_file.items() if getattr(proposal, name) != value]
    return f"its {', '.join(other)} are not as approved" if other else None
