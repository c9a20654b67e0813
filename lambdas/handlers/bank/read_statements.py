from datetime import timedelta
from typing import Any

from handlers import _dependencies, rooms
from settlement.bank import balances, inbox
from settlement.bank.balances import days_later
from settlement.bank.record import File
from settlement.bank.recorded import BankRecord
from settlement.bank.recording import Recorder, Told
from settlement.bank.statement import UnreadableStatement
from settlement.core.model.timestamps import timestamp
from settlement.core.telemetry import gauge, logger, observed

RESERVED_MS = 30_000
"""Time kept for the last write and the metrics."""

RECENT_DAYS = 35
"""Greatest age of bank lines to match. An account without a statement for this time counts as closed."""


@observed("statements")
def handler(event: Any, context: Any) -> dict[str, int]:
    """Record each file of the bank's inbox. Once a day, match recent lines with later orders.

    A recorded file is moved to the journal's bucket, under its digest. An unreadable file stays, and each run
    counts it. If time runs out, the next run takes the rest. A file that another run records is skipped.
    """
    unreadable = list[str]()
    record = BankRecord(_dependencies.store, _dependencies.config, unreadable.append)

    def recorder() -> Recorder:
        return Recorder(record, _dependencies.now(), in_time, rooms.listing())

    def in_time() -> bool:
        return bool(context.get_remaining_time_in_millis() > RESERVED_MS)

    refused, files, told = 0, 0, list[Told]()
    for one in inbox.waiting():
        if not in_time():
            break
        try:
            found = None if one.is_too_large else _read(one, recorder())
        except inbox.Taken:
            continue
        if found:
            told.append(found)
            files += found.is_whole
        else:
            refused += 1
            logger.error("statement refused", version=one.version)
    if event.get("match") and in_time():
        today = _dependencies.now().date()
        told.append(recorder().match((today - timedelta(RECENT_DAYS)).isoformat(), days_later(f"{today}", 1)))
    faults, late = _statements(record)
    changed = sum(len(one.findings) for one in told)
    for row in unreadable:
        logger.error("bank row unreadable", kind=row.partition("#")[0])
    gauge("StatementFaults", refused + faults + changed + len(unreadable))
    gauge("StatementMissing", late)
    gauge("BankLinesRecorded", sum(one.lines for one in told))
    gauge("BankLinesMatched", sum(one.matched for one in told))
    return {
        "files": files,
        "refused": refused,
        "lines": sum(one.lines for one in told),
        "matched": sum(one.matched for one in told),
        "faults": refused + faults + changed + len(unreadable),
        "missing": late,
    }


def _read(one: inbox.Waiting, recorder: Recorder) -> Told | None:
    """Record a file. Return its counts, or None if it is unreadable. Raises inbox.Taken."""
    with inbox.opened(one) as (content, digest):
        file = File(digest, one.name, timestamp(_dependencies.now()))
        try:
            found = recorder.read(content)
        except UnreadableStatement:
            return None
        inbox.keep(content, digest)
        content.seek(0)
        told = recorder.add(content, found, file)
    if told.is_whole:
        inbox.remove(one)
    return told


def _statements(record: BankRecord) -> tuple[int, int]:
    """Count two faults: contradictions in recent statements, and accounts whose due statement is missing."""
    now = _dependencies.now()
    files = record.files(timestamp(now - timedelta(RECENT_DAYS)), timestamp(now))
    ordered = balances.in_order(one for file in files for one in record.statements(file))
    return len(list(balances.faults(ordered))), len(balances.late(ordered, now))
