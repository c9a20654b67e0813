"""Builds a pay run of three payments: its file, its proposal and its rows in each state."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from settlement.core.model.timestamps import timestamp
from settlement.http.caller import Caller
from settlement.payruns.file import Header, Kind, Line, RunFile, digest_of
from settlement.payruns.run import Proposal, Run, Status
from tests.world.environment import NOW

ADA, BEA, CARL = (
    Caller(
        by=f"arn:aws:iam::123456789012:user/{name}", user_id=f"AIDA{name}", request_id="1", source_ip="::1"
    )
    for name in ("ada", "bea", "carl")
)
HEADER = Header(name="sellers-2026-11", kind=Kind.PAYMENTS, payer="market", payer_name="Market Ltd")
LINES = (
    Line(number=2, payee="bob", amount="48.20", currency="EUR", payee_name="Bob", reference="November"),
    Line(number=3, payee="carol", amount="10", currency="EUR"),
    Line(number=5, payee="dora", amount="7", currency="JPY"),
)
FILE = RunFile(HEADER, LINES)
SUMS = {"EUR": 58_20, "JPY": 7}


def proposal(file: RunFile = FILE, needed: int = 2, sums: dict[str, int] | None = None) -> Proposal:
    return Proposal(
        digest=digest_of(file.content),
        name=file.header.name,
        kind=file.header.kind,
        payer=file.header.payer,
        parent=file.header.parent,
        lines=len(file.lines),
        sums=SUMS if sums is None else sums,
        needed=needed,
        reason="the sellers of November",
        by=ADA.by,
        posted_at=timestamp(NOW),
    )


PROPOSAL = proposal()
PROPOSED = Run(
    run=PROPOSAL.run,
    name=PROPOSAL.name,
    status=Status.PROPOSED,
    sequence=1,
    proposed_at=timestamp(NOW),
    lines=3,
)
APPROVED = replace(PROPOSED, status=Status.APPROVED, approvals=2, sequence=3)
RUNNING = replace(APPROVED, status=Status.RUNNING, sequence=4)
BEGUN = replace(RUNNING, begun=2)
STARTED = replace(BEGUN, started=2)
HALF = replace(STARTED, ended=1, outcomes={"SETTLED": 1}, sums={"SETTLED EUR": 48_20})
OVER = replace(
    STARTED,
    begun=3,
    started=3,
    ended=3,
    outcomes={"SETTLED": 2, "REFUSED": 1},
    sums={"SETTLED EUR": 58_20, "REFUSED JPY": 7},
)


def payout_file(lines: Sequence[Line] = LINES[:2], **header: Any) -> RunFile:
    return RunFile(Header(**vars(HEADER) | {"kind": Kind.PAYOUTS, "payer_name": None} | header), lines)
