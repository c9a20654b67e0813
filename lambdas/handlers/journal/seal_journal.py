from typing import Any

from handlers import _dependencies
from settlement.core.telemetry import count, logger, note, observed
from settlement.journal import bucket, lines, seals


@observed("seal")
def handler(event: dict[str, Any], context: object) -> None:
    """Copy a batch of the table's stream to the journal. A scheduled call seals the journal instead.

    A batch becomes one object. A failed batch comes again, whole or in halves. Repeated copies are identical.
    The deletion of an expired entry is not copied.
    """
    if "Records" in event:
        _copy(event["Records"])
    else:
        _seal()


def _copy(records: list[dict[str, Any]]) -> None:
    least_days = _dependencies.config.shortest_retention_days
    told = [lines.line(record) for record in records if not lines.has_expired(record, least_days)]
    if not told:
        return
    tampered = [one for one in told if lines.is_tampering(one)]
    for _ in tampered:
        count("JournalTampered")  # before the put, which may fail: the alarm does not wait for it
    name = bucket.journal().add(told, _dependencies.now())
    note("object", name)
    for one in tampered:
        (pk, sk), kind = lines.subject(one), one["event"]
        # An entry's partition names an account, and log lines never do: the object has it.
        logger.warning("journal tampered", kind=pk.partition("#")[0], row=sk, change=kind, object=name)


def _seal() -> None:
    """Seal the due periods. Log the newest seal's digest, where the bucket's owner cannot change it."""
    newest = bucket.journal().seal(_dependencies.now(), period=bucket.PERIOD, grace=bucket.GRACE)
    if newest:
        note("seal", newest.name)
        note("head", seals.digest(newest.content))
