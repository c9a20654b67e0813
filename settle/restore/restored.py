from dataclasses import replace
from datetime import datetime
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.kyc import circuit
from settle.proof import books
from settle.proof.books import Counting, uncounted
from settle.restore import restored_rows, restored_settings
from settle.restore.restored_rows import Lacking
from settle.stack import Outputs, Stack
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import money
from settlement.core.model.timestamps import timestamp
from settlement.proof import pages


def plan(
    stack: Stack, table: str, source: str, at: datetime | None, now: datetime, counting: Counting = uncounted
) -> dict[str, Any]:
    """Describe what a restored table lacks. Writes nothing.

    The sealed journal `source` has the rows put since the restored instant. `at` gives the instant if AWS
    does not know it. Raises CommandFailed without an instant, or for an unreadable journal.
    """
    target = replace(stack, outputs=Outputs(stack.outputs | {"TableName": table}))
    described = restored_settings.describe(target)
    instant = at or described.get("RestoreSummary", {}).get("RestoreDateTime")
    if instant is None:
        raise CommandFailed(
            Exit.USAGE, f"at: table {table} does not say to which instant it was restored: pass --at"
        )
    found = restored_rows.missing(target, source, instant, now)
    proof = books.prove(target, counting=counting)
    told: dict[str, Any] = {
        "table": table,
        "restored_to": timestamp(instant),
        "journal_until": found.until,
        "settings": restored_settings.faults(stack, target, described),
        "books": [*proof["faults"], *proof["unproven"]],
        "changed": found.changed,
        "since": [_since(one, stack) for one in found.lacking],
        "in_flight": _in_flight(target, {one.key: one for one in found.lacking}),
        "circuit": circuit.status(target)["state"],
    }
    ready = not (told["settings"] or told["books"] or told["changed"] or told["since"])
    return told | {"ready": ready and proof["conserved"]}


def _since(one: Lacking, stack: Stack) -> dict[str, Any]:
    return {
        "key": one.key,
        "claimed_since": one.is_new,
        "steps": [
            {"step": step, "amount": _amount(amount, currency, stack)} for step, amount, currency in one.steps
        ],
        "rows": one.rows,
        "proven": one.proven,
    }


def _amount(amount: Any, currency: Any, stack: Stack) -> str | None:
    if not (isinstance(amount, int) and isinstance(currency, str)):
        return None
    if currency not in stack.config.currencies:
        raise CommandFailed(Exit.FAILED, f"currency: the stage has no currency {currency}")
    return f"{money.render(amount, stack.config.currencies[currency])} {currency}"


def _in_flight(target: Stack, since: dict[str, Lacking]) -> list[dict[str, Any]]:
    rows: list[Row] = [
        *pages.scan(
            target.store,
            FilterExpression="sk = :settlement AND attribute_exists(gsi1pk)",
            ExpressionAttributeValues={":settlement": {"S": keys.settlement("")["sk"]}},
        )
    ]
    told = []
    for row in sorted(rows, key=lambda row: str(row["pk"])):
        key = keys.subject(row)[1]
        steps = [step for step, _, _ in since[key].steps] if key in since else []
        amount = _amount(row.get("amount"), row.get("currency"), target)
        told.append({"key": key, "status": row.get("status"), "amount": amount, "steps_since": steps})
    return told
