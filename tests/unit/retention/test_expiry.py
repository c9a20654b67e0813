from datetime import datetime
from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.retention import expiry
from settlement.retention.expiry import DAY_SECONDS, EXPIRES
from tests.unit import vectors
from tests.world.constants import CLAIMED_AT, KEY

PUTS = {name: write for name, write in vectors.named_writes().items() if write.action == "Put"}
ENTRY = keys.entry("alice", CLAIMED_AT, KEY, "hold") | {"step": "hold", "posted_at": CLAIMED_AT}
POSTED = 1795176000
"""CLAIMED_AT in whole seconds since 1970."""


def dated(expires: Any, **changes: Any) -> dict[str, Any]:
    return ENTRY | {EXPIRES: expires} | changes


@pytest.mark.parametrize("name", PUTS)
def test_only_a_settlement_steps_entry_gets_an_expiry(name: str) -> None:
    row = PUTS[name].parameters["Item"]
    is_due = row["pk"].startswith("ENTRIES#") and not row["step"].startswith(
        ("resolve", "deposit", "withdraw", "reverse-part", "refund-part", "payout")
    )

    found = expiry.with_expiry(row, 400)

    assert (EXPIRES in found) is is_due
    assert {key: value for key, value in found.items() if key != EXPIRES} == row
    assert not is_due or expiry.may_expire(found, 400)
    assert expiry.with_expiry(row, None) == row


def test_an_entry_expires_the_given_days_after_its_posting() -> None:
    assert expiry.with_expiry(ENTRY, 400)[EXPIRES] == POSTED + 400 * DAY_SECONDS


@pytest.mark.parametrize("now", ["2026-11-21T12:00:00Z", "2026-11-21T12:00:59.999999Z"])
def test_entries_may_disappear_up_to_a_day_early(now: str) -> None:
    at = datetime.fromisoformat(now)

    assert expiry.gone_until(at) == datetime.fromisoformat("2026-11-22T12:00:00Z")
    assert expiry.kept_from(at, 400) == "2025-10-18T12:00:00.000Z"


@pytest.mark.parametrize(
    ("row", "least", "is_lawful"),
    [
        (dated(POSTED + 400 * DAY_SECONDS), 400, True),
        (dated(POSTED + 401 * DAY_SECONDS), 400, True),
        (dated(POSTED + 399 * DAY_SECONDS), 400, False),
        (dated(POSTED + 400 * DAY_SECONDS + 1), 400, False),
        (dated(POSTED + 400 * DAY_SECONDS), None, False),
        (dated(True), 0, False),
        (dated("1795176000"), 0, False),
        (dated(None), 0, False),
        (dated(POSTED + 400 * DAY_SECONDS, posted_at="2026-02-31T12:00:00.000Z"), 400, False),
        (dated(POSTED + 400 * DAY_SECONDS, posted_at=1), 400, False),
        (dated(POSTED + 400 * DAY_SECONDS, step="deposit"), 400, False),
        (dated(POSTED + 400 * DAY_SECONDS, step="verify"), 400, False),
        (dated(POSTED + 400 * DAY_SECONDS, step=["hold"]), 400, False),
        (dated(POSTED + 400 * DAY_SECONDS, pk="EVIDENCE#k"), 400, False),
        (ENTRY, 400, False),
    ],
)
def test_an_expiry_is_lawful_if_some_function_would_set_it(
    row: dict[str, Any], least: int | None, is_lawful: bool
) -> None:
    assert expiry.may_expire(row, least) is is_lawful
