from collections.abc import Iterable

from settlement.core.ledger.keys import Row

SLOTS = ("hold_at", "verify_at", "release_at", "fee_at")
REVERSAL_SLOTS = ("fee_reversed_at", "release_reversed_at", "hold_reversed_at")


def slots(row: Row) -> set[str]:
    return row.keys() & {*SLOTS, *REVERSAL_SLOTS}


def journal(found: Iterable[Row], key: str) -> dict[str, Row]:
    """Return a settlement's evidence and entries by step.

    A decision that moves money has both; they are merged, with the entry's key.
    """
    found = list(found)
    gathered: dict[str, Row] = {}
    for row in found:
        if row["pk"] == f"EVIDENCE#{key}":
            gathered[row["sk"].removeprefix(f"{key}:")] = row
    for row in found:
        if row["pk"].startswith("ENTRIES#") and row["sk"].partition("#")[2].startswith(f"{key}:"):
            step = row["sk"].partition("#")[2].removeprefix(f"{key}:")
            assert "debit" not in gathered.get(step, {}), f"{key}:{step} moved money twice"
            gathered[step] = gathered.get(step, {}) | row
    return gathered


def assert_recorded(found: Iterable[Row]) -> None:
    """Check that each settlement's row and journal have the same steps and times.

    Each slot on the row needs an entry, or a write-off, with the same time; each entry needs a slot. The
    verdict on the row needs evidence: the webhook's `review`, or without it the provider's `verify`.
    """
    found = list(found)
    for row in found:
        if row["sk"] != "SETTLEMENT":
            continue
        key = row["pk"].removeprefix("SETTLEMENT#")
        recorded = journal(found, key)
        write_offs = [each["posted_at"] for each in recorded.values() if each.get("decision") == "write-off"]
        covered = []
        slots = {f"{step}_at": step for step in ("hold", "release", "fee")}
        slots |= {f"{step}_reversed_at": f"compensate:{step}" for step in slots.values()}
        for slot, step in slots.items():
            entry = recorded.get(step, {})
            if "reversed" in slot and not entry and row.get(slot) in write_offs:
                covered.append(row[slot])
            else:
                assert row.get(slot) == entry.get("posted_at"), f"{key}: {slot}"
                assert "debit" in entry or not entry, f"{key}: {step} moved nothing"
        assert sorted(covered) == sorted(write_offs), f"{key}: write-offs"
        evidence = recorded.get("review", recorded.get("verify", {}))
        assert row.get("verdict") in (None, evidence.get("decision")), f"{key}: verdict"
        assert row.get("verdict") or "review" not in recorded, f"{key}: a webhook's verdict without effect"
        assert ("verify_at" in row) == (row.get("verdict") == "APPROVED"), f"{key}: verify_at"
