"""Reads pay runs from the stack: proposal, approvals, progress and file."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from settle.exit_codes import CommandFailed, Exit
from settle.settlements.index import listed
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import money
from settlement.core.model.stored import MalformedRow, exponent_of
from settlement.payruns import bucket, file
from settlement.payruns.changes import told
from settlement.payruns.file import RUN, DamagedFile, RunFile
from settlement.payruns.run import Proposal, Run, Status, approvers, differs

FIELDS = ("name", "status", "payer", "kind", "lines", "sums", "started", "ended", "proposed_at", "run")

_ABSENT = dict.fromkeys(
    ("NoSuchKey", "AccessDenied"), "it is not in the bucket, or you may not read it; pay nothing of this run"
)
"""S3's errors for a missing file: AccessDenied without the right to list the bucket."""


@dataclass(frozen=True)
class OnRecord:
    """A run's rows. Only the stage verifies their signatures.

    `approved_by`: the approvers without the proposer.
    """

    proposal: Proposal
    state: Run
    approved_by: tuple[str, ...]


def find(stack: Stack, name: str) -> OnRecord:
    """Return the run with this id or name. Raises CommandFailed, MalformedRow."""
    if re.fullmatch(RUN, name):
        return of(stack, name)
    unreadable = dict[str, str]()
    found = [one for one in every(stack, unreadable) if one.proposal.name == name]
    if len(found) == 1:
        return found[0]
    ids = ", ".join(one.state.run for one in found)
    told = f"several are named {name}; pass one of {ids}" if found else f"none is named {name}"
    aside = "".join(f"; cannot be read: {one}" for one in [*unreadable.values()][:1])
    raise CommandFailed(Exit.CONFLICT if found else Exit.NOT_FOUND, f"run: {told}{aside}")


def of(stack: Stack, run: str) -> OnRecord:
    """Return the run with this id. Raises CommandFailed, MalformedRow."""
    found = if_there(stack, run)
    if found is None:
        raise CommandFailed(Exit.NOT_FOUND, f"run: {stack.name} has none with the id {run}")
    return found


def if_there(stack: Stack, run: str) -> OnRecord | None:
    """Return the run with this id, or None. Raises MalformedRow."""
    place = keys.payrun_proposed(run)
    rows = {row["sk"]: row for row in stack.store.entries(place["pk"], "A", "Q")}
    proposed, state = rows.get(place["sk"]), stack.store.read(keys.payrun(run))
    if proposed is None or state is None:
        return None
    proposal = Proposal.from_row(proposed)
    approved = (row for name, row in rows.items() if name.startswith("APPROVED#"))
    return OnRecord(proposal, Run.from_row(state), tuple(sorted(approvers(proposal, approved))))


def every(stack: Stack, unreadable: dict[str, str]) -> list[OnRecord]:
    """Return all runs, the latest first. `unreadable` gets the reasons of unreadable runs, by id.

    A run that begins during the read moves to PAYRUNS_RUNNING, so this partition is read again.
    """
    rows, found = dict[str, Row](), list[OnRecord]()
    for partitions in ([keys.PAYRUNS_RUNNING, keys.PAYRUNS], [keys.PAYRUNS_RUNNING]):
        read = listed(stack, partitions, (), None)
        rows |= {row["pk"]: row for row in read.rows}
        unreadable |= {keys.subject(place)[1]: f"{place['pk']}: {why}" for place, why in read.unreadable}
    for pk, row in rows.items():
        try:
            one = of(stack, keys.subject(row)[1])
            described(stack, one)
        except (CommandFailed, MalformedRow) as wrong:
            told = str(wrong) if str(wrong).startswith(pk) else f"{pk}: {wrong}"
            unreadable[keys.subject(row)[1]] = told
        else:
            found.append(one)
    return sorted(found, key=lambda one: one.proposal.posted_at, reverse=True)


def may_be_of(stack: Stack, run: str, payer: str) -> bool:
    """Return whether an unreadable run can be this payer's. Its proposal, if readable, names the payer."""
    try:
        row = stack.store.read(keys.payrun_proposed(run)) or {}
    except MalformedRow:
        return True
    return bool(row.get("payer", payer) == payer)


def file_of(stack: Stack, one: Proposal) -> RunFile:
    """Return the run's file. Raises CommandFailed if it is absent or not as proposed."""
    name = bucket.name_of(one.digest)
    try:
        answer = stack.client("s3").get_object(Bucket=stack.outputs["PayRunsBucket"], Key=name)
        if answer["ContentLength"] > bucket.BYTES_MAX:
            raise DamagedFile(f"it has over {bucket.BYTES_MAX} bytes")
        found = file.parse(answer["Body"].read(), one.digest)
        wrong = differs(one, found, stack.config)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        told = f"file: {name}: {_ABSENT.get(code, code)}"
        raise CommandFailed(Exit.FAILED, told) from error
    except DamagedFile as damaged:
        wrong = str(damaged)
    if wrong:
        told = f"file: {name}: {wrong}; do not approve it, and find out who changed it"
        raise CommandFailed(Exit.CONFLICT, told)
    return found


def sums_of(stack: Stack, subject: str, sums: dict[str, int]) -> dict[str, str]:
    return {
        code: money.render(minor, exponent_of(subject, code, stack.config))
        for code, minor in sorted(sums.items())
    }


def shown(stack: Stack, one: OnRecord, found: RunFile) -> dict[str, Any]:
    """Return a run as its approvers see it. `found` is its compared file. Raises MalformedRow."""
    return described(stack, one) | {"repeats": list(found.header.repeats)}


def described(stack: Stack, one: OnRecord) -> dict[str, Any]:
    """Return a run's rows, with the next commands. Raises MalformedRow."""
    proposal, state = one.proposal, one.state
    return {
        **told(state, stack.config),
        "digest": proposal.digest,
        "kind": proposal.kind.value,
        "payer": proposal.payer,
        "sums": sums_of(stack, f"PAYRUN#{state.run}", dict(proposal.sums)),
        "parent": proposal.parent,
        "reason": proposal.reason,
        "proposed_by": proposal.by,
        "proposed_at": proposal.posted_at,
        "needed": proposal.needed,
        "approved_by": list(one.approved_by),
        "changed_at": state.changed_at,
        "next": list(_next(stack, one)),
    }


def line_of(stack: Stack, one: OnRecord) -> dict[str, Any]:
    found = described(stack, one)
    sums = ", ".join(f"{amount} {code}" for code, amount in found["sums"].items())
    return {name: sums if name == "sums" else found[name] for name in FIELDS}


def _next(stack: Stack, one: OnRecord) -> Iterator[str]:
    state, digest = one.state, one.proposal.digest
    if state.status is Status.PROPOSED:
        yield stack.command("payrun approve", state.run, digest=digest)
    if state.status in (Status.APPROVED, Status.PAUSED):
        yield stack.command("payrun run", state.run, digest=digest)
    if state.status is Status.RUNNING and state.cut is None:
        yield stack.command("payrun pause", state.run, digest=digest)
    if state.status in (Status.FINISHED, Status.CANCELLED):
        yield stack.command("payrun report", state.run)
    elif state.cut is None:
        yield stack.command("payrun cancel", state.run, digest=digest)
