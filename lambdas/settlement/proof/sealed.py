"""Comparison of a table with its sealed journal.

Some frauds leave consistent rows: a deleted settlement, a deposit raised with its balance, a replaced entry.
The journal has the originals.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from settlement.core.ledger.keys import Row
from settlement.core.model.status import Status, Step
from settlement.core.model.timestamps import timestamp
from settlement.journal import lines, seals
from settlement.journal.lines import PUTS
from settlement.journal.objects import UNREADABLE, Copy, Found, lines_of
from settlement.journal.seals import Seal
from settlement.proof import sealed_expired
from settlement.proof.retention import KEEPS_ALL, Retention
from settlement.proof.sealed_expired import COVERED, SLOT
from settlement.proof.sealed_freezes import Freezes
from settlement.proof.sealed_spool import Named, SealedSpool, Told

LAG = timedelta(minutes=15)
"""Time until a row is in the journal: stream window, retries, clock skew. Younger rows are only counted."""

_TELLING = (SLOT, COVERED)
_BY_THE_TABLE = ("ROW", *_TELLING)

_REVERSIBLE = {Status.SETTLED, Status.COMPENSATING, Status.LIMBO}


class _Bounds(NamedTuple):
    """Bounds of rows' times. From `begin` to `end`, a row must be sealed. A row after `ahead` is a fault."""

    begin: str
    end: str
    ahead: str


@dataclass
class SealedFindings:
    """Result of the comparison.

    - `restored`: rows changed, then changed back.
    - `young`: rows and objects that no seal can cover yet.
    - `before`: rows older than the journal.
    - `expired`: expired entries, confirmed by their settlement's row.
    """

    faults: list[str] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    seals: int = 0
    objects: int = 0
    rows: int = 0
    young: int = 0
    before: int = 0
    expired: int = 0
    head: str | None = None

    head_at: str | None = None
    """End of the newest seal's period."""


def compare(
    copy: Copy,
    rows: Iterable[Row],
    now: datetime,
    kept: str | None = None,
    lacks: Callable[[str, str], None] = lambda pk, sk: None,
    retention: Retention = KEEPS_ALL,
) -> SealedFindings:
    """Compare sealed rows with the table, and the table's rows with the journal.

    Read the journal before the rows, so that each line's row exists. `kept` is the digest of an
    earlier seal, copied elsewhere: the chain must have it. `lacks` gets the key of each row that the
    journal lacks, except young rows.

    An entry may be missing if its sealed expiry is past. Then its settlement's row must match the journal.
    """
    findings = SealedFindings()
    with SealedSpool() as spool:
        first, newest = _read_seals(copy, spool, findings, kept)
        if newest is None:
            findings.faults.append("the sealed journal has no seal: nothing is proven")
            return findings
        _check_age(newest, now, findings)
        freezes = Freezes()
        spool.add(_read_objects(copy, spool, freezes, findings, retention))
        _judge_objects(spool, newest, findings)
        spool.add(
            told
            for row in rows
            if lines.is_sealed(row)
            for told in (_row(row), *sealed_expired.told_by(row, retention))
        )
        bounds = _Bounds(
            timestamp(datetime.fromisoformat((first or newest).start) - LAG),
            timestamp(datetime.fromisoformat(newest.end) - LAG),
            timestamp(now + LAG),
        )
        for told in spool.told():
            if _judge_row(told, bounds, findings):
                lacks(told[0].pk, told[0].sk)
            if order := freezes.broken_by(told, datetime.fromisoformat(bounds.end)):
                findings.faults.append(
                    f"{told[0].pk} {told[0].sk}: was put after an order to {order} the account"
                )
    return findings


def _read_seals(
    copy: Copy, spool: SealedSpool, findings: SealedFindings, kept: str | None
) -> tuple[Seal | None, Seal | None]:
    first: Seal | None = None
    before: Seal | None = None
    is_kept = kept is None
    for found in copy.objects(seals.SEALS):
        if found.fault:
            findings.faults.append(f"{found.name}: {found.fault}")
        try:
            content = copy.read(found)
            seal = seals.parse(content)
        except UNREADABLE as fault:
            findings.faults.append(f"{found.name}: cannot be read: {fault}")
            continue
        told = _faults_of(found, seal, before, findings.head)
        findings.faults += (f"{found.name}: {fault}" for fault in told)
        findings.seals += 1
        findings.head, findings.head_at = seals.digest(content), seal.end
        is_kept = is_kept or findings.head == kept
        spool.add(Named(name, found.name) for name in (*seal.objects, *seal.late))
        first, before = first or seal, seal
    if not is_kept:
        findings.faults.append(f"no seal has the digest {kept}: the journal is not the one that it was")
    return first, before


def _faults_of(found: Found, seal: Seal, before: Seal | None, head: str | None) -> Iterator[str]:
    if seal.name != found.name:
        yield f"is the seal {seal.name}"
    if seal.sealed_at < seal.end:
        yield f"was sealed at {seal.sealed_at}, before its end: a clock was wrong"
    if before is None:
        if seal.previous is not None:
            yield "follows a seal that is missing: the journal has no beginning"
        return
    if seal.start > before.end:
        yield f"begins at {seal.start}: the seals from {before.end} on are missing"
    elif seal.start < before.end:
        yield f"begins at {seal.start}, within the seal before it"
    if seal.previous != head:
        yield f"does not follow from {before.name}: one of the two was changed, or one between is missing"
    if seal.sealed_at < before.sealed_at:
        yield f"was sealed at {seal.sealed_at}, before {before.name}: a clock went back"


def _check_age(newest: Seal, now: datetime, findings: SealedFindings) -> None:
    start, end = datetime.fromisoformat(newest.start), datetime.fromisoformat(newest.end)
    if now - end > 2 * (end - start) + LAG:
        findings.faults.append(
            f"{newest.name}: is the newest seal and ends at {newest.end}: sealing has stopped, or later seals"
            " were taken away"
        )


def _read_objects(
    copy: Copy, spool: SealedSpool, freezes: Freezes, findings: SealedFindings, retention: Retention
) -> Iterator[Told]:
    for found in copy.objects(seals.OBJECTS):
        findings.objects += 1
        spool.add([Named(found.name, None, found.fault)])
        try:
            told = [*lines_of(found.name, copy.read(found))]
            yield from [_told(line, retention) for line in told]
            freezes.note(told)
        except UNREADABLE as fault:
            findings.faults.append(f"{found.name}: cannot be read, so that its rows are not proven: {fault}")


def _told(line: Any, retention: Retention) -> Told:
    new, old = (line.get(name) or {} for name in ("new", "old"))
    digests, at = (new.get("sha256"), old.get("sha256")), f"{int(line['at']):012}"
    content = sealed_expired.content_of_line(new.get("row", {}), retention)
    about = (content, (old or new).get(lines.WORDED))
    return Told(*lines.subject(line), line["event"], *digests, at, *_course(old.get("row", {})), *about)


def _row(row: Row) -> Told:
    at = next((row[name] for name in lines.TIMES if isinstance(row.get(name), str)), "")
    about = (None, lines.worded_digest(row))
    return Told(row["pk"], row["sk"], "ROW", lines.digest(row), None, at, *_course(row), *about)


def _course(row: Row) -> tuple[str | None, str]:
    paid_at = max(str(row.get(step.slot, "")) for step in (Step.RELEASE, Step.FEE))
    return str(row["status"]) if "status" in row else None, paid_at


def _judge_objects(spool: SealedSpool, newest: Seal, findings: SealedFindings) -> None:
    start, end = (seals.minute(datetime.fromisoformat(one)) for one in (newest.start, newest.end))
    for told in spool.named():
        name, there = told[0].name, [one for one in told if one.seal is None]
        listed = [one.seal for one in told if one.seal]
        findings.faults += (f"{name}: {one.fault}" for one in there if one.fault)
        if not there:
            findings.faults.append(f"{name}: is listed in {listed[0]}, and missing")
        elif len(listed) > 1:
            findings.faults.append(f"{name}: is listed twice, in {' and '.join(map(str, listed))}")
        elif not listed and seals.minute_of(name) < start:
            findings.faults.append(f"{name}: is in no seal: it came after its period was sealed")
        elif not listed:
            findings.young += seals.minute_of(name) < end


def _judge_row(told: list[Told], bounds: _Bounds, findings: SealedFindings) -> bool:
    """Judge a row. Return whether the journal lacks it, although it is old enough."""
    name = f"{told[0].pk} {told[0].sk}"
    row = next((one for one in told if one.event == "ROW"), None)
    journal = [one for one in told if one.event not in _BY_THE_TABLE]
    if row is None and any(one.event in _TELLING for one in told):
        findings.rows += bool(journal)
        _judge_missing(name, told, journal, bounds, findings)
        return False
    if not journal:
        return _judge_unsealed(name, told[0].at, bounds, findings)
    findings.rows += 1
    puts = [one for one in journal if one.event in PUTS]
    changes = [one for one in journal if one.event not in PUTS]
    first = puts or changes[:1]
    wanted = {one.sha256 if puts else one.before for one in first}
    words = {one.worded for one in first} - {None}
    changed = ", ".join(f"{one.event} at {_instant(one.at)}" for one in changes)
    if row is None:
        findings.faults.append(f"{name}: is in the sealed journal, and not in the table{_after(changed)}")
    elif len(wanted) > 1:
        findings.faults.append(f"{name}: was put more than once, with different content{_after(changed)}")
    elif row.sha256 not in wanted or not words <= {row.worded}:
        findings.faults.append(f"{name}: is not as it was sealed{_after(changed)}")
    elif left := [one.status for one in changes if not _is_put_back(one, row)]:
        findings.faults.append(
            f"{name}: left {left[0]}, as no function does, and is {row.status}{_after(changed)}"
        )
    elif changed:
        findings.restored.append(f"{name}: {changed}")
    return False


def _judge_missing(
    name: str, told: list[Told], journal: list[Told], bounds: _Bounds, findings: SealedFindings
) -> None:
    slot = next((one for one in told if one.event == SLOT), None)
    is_told = slot is not None and not any(one.event == COVERED for one in told)
    is_due = all(one.event in PUTS and one.content for one in journal)
    if journal and not (is_told and is_due):
        changed = ", ".join(f"{one.event} at {_instant(one.at)}" for one in journal if one.event not in PUTS)
        findings.faults.append(f"{name}: is in the sealed journal, and not in the table{_after(changed)}")
    elif slot is None or not is_told:
        return
    elif not journal and slot.at < bounds.begin:
        findings.before += 1
    elif not journal:
        fault = "is not in the table and not in the sealed journal, but its settlement's row tells it"
        findings.faults.append(f"{name}: {fault}")
    elif {one.content for one in journal} != {slot.content}:
        findings.faults.append(f"{name}: was sealed otherwise than its settlement's row tells it")
    else:
        findings.expired += 1


def _is_put_back(change: Told, row: Told) -> bool:
    """Whether a settlement's change was undone.

    Its old status must allow the present one, and `paid_at`, which the proof has compared with signed
    entries, must be the same.
    """
    if change.status in (None, Status.PROCESSING):
        return True
    follows = {*_REVERSIBLE, Status.COMPENSATED} if change.status in _REVERSIBLE else {change.status}
    return row.status in follows and row.paid_at == change.paid_at


def _judge_unsealed(name: str, at: str, bounds: _Bounds, findings: SealedFindings) -> bool:
    if at > bounds.ahead:
        findings.faults.append(f"{name}: is not in the sealed journal, and its time {at} is to come")
    elif at >= bounds.end:
        findings.young += 1
        return False
    elif at < bounds.begin:
        findings.before += 1
    else:
        findings.faults.append(f"{name}: is not in the sealed journal, which should have it")
    return True


def _after(changed: str) -> str:
    return f" ({changed})" if changed else ""


def _instant(at: str) -> str:
    return timestamp(datetime.fromtimestamp(int(at), UTC))
