"""The rules for the rows of settlements at each commit, stated without the code under test."""

from collections.abc import Iterable, Mapping
from typing import Any

from tests.support.memory_dynamodb import Changes

Row = Mapping[str, Any]

MAY_BECOME = {
    None: {"PROCESSING", "REJECTED"},
    "PROCESSING": {"PROCESSING", "SETTLED", "REJECTED", "COMPENSATING"},
    "SETTLED": {"SETTLED", "COMPENSATING"},
    "REJECTED": {"REJECTED"},
    "COMPENSATING": {"COMPENSATING", "COMPENSATED", "LIMBO"},
    "COMPENSATED": {"COMPENSATED"},
    "LIMBO": {"LIMBO", "COMPENSATING", "SETTLED"},
}
"""The design's table of states."""

HIGHEST_BALANCE = 100_000_000
FORWARD = ("hold", "verify", "release", "fee")


def assert_lawful(changes: Changes) -> None:
    """Check that one commit leads from a lawful state to a lawful state by a lawful transition."""
    told = [(_plain(before), _plain(after)) for before, after in changes]
    entries = [after for _, after in told if after and _is_entry(after)]
    settlements = [(before, after) for before, after in told if after and after["sk"] == "SETTLEMENT"]
    for before, after in told:
        assert after is not None, "nothing is ever deleted"
        if _is_entry(after) or after["sk"] == "EVENT":
            assert before is None, f"written twice: {after}"
    for before, after in settlements:
        _assert_lawful_settlement(before, after, [entry["sk"].split(":", 1)[1] for entry in entries])
    for entry in entries:
        if entry["step"] in FORWARD:
            ((before, _),) = settlements
            assert before
            assert before["status"] == "PROCESSING", f"{entry['step']} behind the fence"
            assert "expired_at" not in before or entry["step"] == "fee"
            assert entry["step"] == "fee" or entry["posted_at"] < before["deadline_at"], "too late"
        if entry["step"] == "hold":
            (payer,) = (after for _, after in told if after and after["sk"] == "BALANCE")
            assert "limbo_keys" not in payer, "a blocked account has placed a hold"
        if entry["step"] == "release":
            (payee,) = (after for _, after in told if after and after["sk"] == "BALANCE")
            assert payee["available"] <= HIGHEST_BALANCE


def _assert_lawful_settlement(before: Row | None, after: Row, entries: list[str]) -> None:
    was, is_now = before["status"] if before else None, after["status"]
    assert is_now in MAY_BECOME[was], f"{was} became {is_now}"
    if was == "LIMBO" and is_now != "LIMBO":
        assert [name for name in entries if name.startswith("resolve:")], "left LIMBO without a decision"
    if before and was == "SETTLED" and "resolution" in before:
        assert is_now == "SETTLED", "reversed a settlement that a person has accepted"
    if was == is_now and was in ("SETTLED", "REJECTED", "COMPENSATED"):
        assert after == before, "changed a finished settlement"
    if any(name.startswith("compensate:") for name in entries):
        assert was == "COMPENSATING", f"reversed a step of a settlement in {was}"
    if is_now == "LIMBO" and was != "LIMBO":
        assert [name for name in entries if name.startswith("limbo:")], "entered LIMBO without an entry"
    if before:
        kept = ("amount", "fee", "payer", "payee", "currency", "request_hash", "claimed_at")
        assert {name: before[name] for name in kept} == {name: after[name] for name in kept}
        for gained in ("steps", "reversed"):
            assert before.get(gained, set()) <= after.get(gained, set())
        assert before["owner_epoch"] <= after["owner_epoch"] <= before["owner_epoch"] + 1
        assert before.get("resolutions", 0) <= after.get("resolutions", 0) <= before.get("resolutions", 0) + 1


def assert_all_add_up(items: Iterable[Row]) -> None:
    """Check over all rows that balances, escrows and steps agree with the entries."""
    found = [row for row in map(_plain, items) if row]
    sums: dict[str, int] = {}
    moved: dict[str, set[str]] = {}
    for entry in found:
        if _is_entry(entry):
            moved.setdefault(entry["pk"], set()).add(entry["sk"].split(":", 1)[1])
        if "debit" in entry:
            sums[entry["debit"]] = sums.get(entry["debit"], 0) - entry["amount"]
            sums[entry["credit"]] = sums.get(entry["credit"], 0) + entry["amount"]
    in_limbo = {row["pk"].removeprefix("SETTLEMENT#") for row in found if row.get("status") == "LIMBO"}
    for row in found:
        if row["sk"] == "BALANCE":
            assert row["available"] == sums.pop(row["pk"].removeprefix("ACCOUNT#"), 0), row
            assert row["available"] >= 0, row
            assert row.get("limbo_keys", set()) <= in_limbo, f"blocked for nothing: {row}"
        elif row["sk"] == "SETTLEMENT":
            key = row["pk"].removeprefix("SETTLEMENT#")
            assert row["escrow"] == sums.pop(f"escrow:{key}", 0), row
            assert row["escrow"] == 0 or row["status"] in ("PROCESSING", "COMPENSATING", "LIMBO"), row
            _assert_steps_are_entered(row, moved.get(row["pk"], set()))
    assert all(balance >= 0 for account, balance in sums.items() if account.startswith("fees:")), sums
    assert all(":" in account and not account.startswith("escrow:") for account in sums), sums


def _assert_steps_are_entered(row: Row, entered: set[str]) -> None:
    """Check that a settlement's row has the very steps that its entries record, and lists itself."""
    steps = row.get("steps", set())
    rejected = {"verify"} if row.get("verdict") == "REJECTED" else set()
    assert steps | rejected == entered & {*FORWARD}, (row, entered)
    assert steps == {*FORWARD[: len(steps)]}, f"out of order: {steps}"
    for step in row.get("reversed", set()):
        assert step in steps, f"reversed {step}, which never committed"
        assert f"compensate:{step}" in entered or any(name.startswith("resolve:") for name in entered)
    if row["status"] == "COMPENSATED":
        needless = (
            {"verify"} if row["fee"] else {"verify", "fee"}
        )  # a step that has moved nothing may be left out
        assert row.get("reversed", set()) - needless == steps - needless, row
    if row["status"] == "SETTLED":
        assert {"hold", "release"} <= steps
    assert ("gsi1pk" in row) == (row["status"] in ("PROCESSING", "COMPENSATING", "LIMBO")), row


def _is_entry(row: Row) -> bool:
    return ":" in row["sk"]


def _plain(item: Row | None) -> dict[str, Any] | None:
    """Return a row of the wire in plain values."""
    if item is None:
        return None
    return {name: _value(value) for name, value in item.items()}


def _value(value: Mapping[str, Any]) -> Any:
    ((kind, content),) = value.items()
    if kind == "N":
        return int(content)
    return set(content) if kind == "SS" else content
