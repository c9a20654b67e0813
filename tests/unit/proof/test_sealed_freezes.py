from datetime import timedelta
from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from tests.world.environment import NOW
from tests.world.sealed import AT, Sealed, inserted

POSTED_AT = "2026-11-20T12:00:00.000Z"


def order(kind: str, name: str = "", account: str = "alice") -> Row:
    return keys.order(name or kind) | {"order": kind, "account": account, "posted_at": POSTED_AT}


def entry(step: str = "hold", account: str = "alice", key: str = "order-1") -> Row:
    return keys.entry(account, POSTED_AT, key, step) | {"step": step, "posted_at": POSTED_AT}


def faults(*puts: tuple[int, Row], filled: tuple[Row, ...] = ()) -> list[str]:
    """Return the faults found for rows put the given seconds after `AT`."""
    journal = Sealed()
    journal.add(*(inserted(row, AT + seconds) for seconds, row in puts))
    if filled:
        journal.add(*(inserted(row, AT) | {"event": "FILL"} for row in filled))
    journal.seal()
    return journal.compare([*(row for _, row in puts), *filled]).faults


def told(row: Row, kind: str) -> list[str]:
    return [f"{row['pk']} {row['sk']}: was put after an order to {kind} the account"]


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        (entry(), "freeze"),
        (entry(), "close"),
        (entry("withdraw"), "freeze"),
        (entry(account="merchant.shop"), "freeze"),
        (entry("payout-reserve"), "freeze"),
        (entry("payout-return"), "close"),
        (entry("payout-give-back"), "freeze"),
    ],
    ids=[
        *("hold, frozen", "hold, closed", "withdrawal, frozen", "hold by a merchant"),
        *("payout, frozen", "return, closed", "give-back, frozen"),
    ],
)
@pytest.mark.parametrize(("seconds", "is_named"), [(9, False), (10, True), (1_000, True)])
def test_a_debit_after_a_freeze_or_close_order_is_named(
    row: Row, kind: str, seconds: int, is_named: bool
) -> None:
    account = row["pk"].split("#")[1]

    found = faults((0, order(kind, account=account)), (seconds, row))

    assert found == (told(row, kind) if is_named else [])


@pytest.mark.parametrize(
    "row",
    [
        *(entry(step) for step in ("deposit", "compensate:hold", "release", "payout-refuse")),
        entry(account="bob"),
        entry("withdraw", account="closed"),
    ],
    ids=["deposit", "void", "release", "refused payout", "of another account", "withdrawal, closed"],
)
def test_lawful_entries_of_frozen_or_closed_accounts_are_not_named(row: Row) -> None:
    assert faults((0, order("freeze")), (0, order("close", account="closed")), (1_000, row)) == []


@pytest.mark.parametrize(
    ("seconds", "is_named"), [(11, True), (100, True), (189, True), (190, False), (500, False), (610, True)]
)
def test_a_debit_is_named_only_while_a_freeze_lasts(seconds: int, is_named: bool) -> None:
    freezes = ((0, order("freeze", "f1")), (200, order("unfreeze", "u1")), (600, order("freeze", "f2")))

    found = faults(*freezes, (seconds, entry()))

    assert found == (told(entry(), "freeze") if is_named else [])


def test_a_freeze_immediately_after_an_unfreeze_leaves_no_gap() -> None:
    at_once = ((200, order("unfreeze", "u1")), (200, order("freeze", "f2")))

    assert faults((0, order("freeze", "f1")), *at_once, (211, entry())) == told(entry(), "freeze")


def test_a_restored_entry_counts_from_its_first_writing() -> None:
    journal = Sealed()
    again = inserted(entry(), AT + 300)
    gone = {"event": "REMOVE", "at": AT + 200, "number": "1", "old": inserted(entry())["new"]}
    journal.add(inserted(entry(), AT), inserted(order("freeze"), AT + 100), gone, again)
    journal.seal()

    found = journal.compare([entry(), order("freeze")])

    assert (found.faults, len(found.restored)) == ([], 1)


def test_an_account_with_an_order_of_unknown_time_is_skipped() -> None:
    freezes = ((0, order("freeze")), (1_000, entry()))

    assert faults(*freezes, filled=(order("unfreeze"),)) == []


def test_a_row_younger_than_the_last_seal_awaits_the_next() -> None:
    journal = Sealed()
    journal.seal()
    journal.seal()
    rows = {100: order("freeze"), 7_000: entry()}
    journal.add(*(inserted(row, AT + seconds) for seconds, row in rows.items()))

    assert journal.compare(list(rows.values())).faults == []

    journal.seal()
    journal.seal()
    assert journal.compare(list(rows.values()), now=NOW + timedelta(hours=4)).faults == told(
        entry(), "freeze"
    )


@pytest.mark.parametrize(
    "change", [{"account": None}, {"account": {"S": "alice"}}, {"order": ["freeze"]}, {}]
)
def test_a_malformed_order_does_not_stop_the_comparison(change: dict[str, Any]) -> None:
    forged = order("freeze") | change
    if not change:
        del forged["account"]

    assert faults((0, forged), (1_000, entry())) == []
