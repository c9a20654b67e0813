"""Prove on a schedule, from the table's rows, that no money was lost or made."""

from typing import Any

from handlers import _dependencies
from settlement.core.model.request import KEY
from settlement.core.telemetry import gauge, logger, observed
from settlement.proof import table_scan
from settlement.signing.stage import row_keys

RESERVED_MS = 60_000
"""Minimum time left to continue the scan. Its next pages, and second reads, may take 20 s."""

LINES_MAX = 100
"""Maximum findings logged of each kind. The metrics count all."""

_KIND_MAX = 40


@observed("reconcile")
def handler(event: Any, context: Any) -> dict[str, Any]:
    """Read the whole table, judge each row, and publish the findings. Writes nothing.

    If time runs out or DynamoDB does not answer, the table is unproven. The faults found before still count.
    Concurrent runs are harmless. `ahead` names settlements that a function with a wrong clock has indexed
    too far ahead for recovery.
    """
    in_time = table_scan.until(RESERVED_MS, context.get_remaining_time_in_millis)
    findings = table_scan.check(
        _dependencies.store,
        in_time,
        currencies=_dependencies.config.currencies,
        row_keys=row_keys,
        shortest_retention_days=_dependencies.config.shortest_retention_days,
    )
    faults, unproven = findings.faults, findings.unproven
    if not (findings.conserved or faults or unproven):
        faults = ["the sums: a currency does not sum to zero, and no row is at fault"]
    gauge("ReconcileFaults", len(faults))
    gauge("ReconcileUnproven", len(unproven))
    gauge("ReconciledRows", findings.rows)
    gauge("ListedAhead", len(findings.ahead))
    told = (
        ("reconcile fault", faults),
        ("reconcile unproven", unproven),
        ("listed ahead", findings.ahead),
    )
    for message, found in told:
        for one in found[:LINES_MAX]:
            kind, key = _subject(one)
            logger.error(message, kind=kind, key=key)
    if findings.cut_off:
        logger.error("reconcile cut off", why=findings.cut_off)
    return {
        "conserved": findings.conserved,
        "rows": findings.rows,
        "in_flight": findings.in_flight,
        "faults": faults[:LINES_MAX],
        "unproven": unproven[:LINES_MAX],
        "ahead": findings.ahead[:LINES_MAX],
    }


def _subject(told: str) -> tuple[str, str | None]:
    """Return a row's kind, and a settlement's or payout's key. Other rows' names can contain accounts."""
    kind, _, name = told.partition(": ")[0].partition("#")
    has_key = kind in ("SETTLEMENT", "PAYOUT") and KEY.fullmatch(name)
    return kind[:_KIND_MAX], name if has_key else None
