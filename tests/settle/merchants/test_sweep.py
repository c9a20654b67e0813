import re
from datetime import timedelta
from typing import Any

import pytest

from handlers.merchants import _order as _sweeps
from settle.accounts import accounts, statement
from settle.door import Answer
from settle.exit_codes import CommandFailed, Exit
from settle.merchants.sweep import sweep
from settlement.core.ledger import keys
from settlement.proof import Look, pages, reconcile, table_scan
from tests.settle.book import Book
from tests.settle.conftest import Command, failing
from tests.settle.desk import Desk
from tests.settle.plants import always, nothing_to_look_at
from tests.world.picture import after

SHOP, KEY, OTHER = "merchant.shop", "order-2026-000101", "order-2026-000102"


@pytest.fixture
def paid(desk: Desk) -> Desk:
    """Alice has paid a merchant twice, 47.72 EUR net each; the merchant started with 3.00 EUR."""
    accounts.open_account(desk.stack, SHOP, "EUR", "3.00")
    for key in (KEY, OTHER):
        desk.pay(key, payee=SHOP)
    return desk


def shown(desk: Desk) -> tuple[str, str]:
    found = statement.show(desk.stack, SHOP)
    return found["available"], found["unswept"]


def test_the_sweep_command_makes_the_unswept_amount_available(paid: Desk) -> None:
    at = str(paid.row()["release_at"])
    assert shown(paid) == ("3.00", "95.44")

    first, again = sweep(paid.stack, SHOP), sweep(paid.stack, SHOP)

    assert shown(paid) == ("98.44", "0.00")
    assert "unswept" not in statement.show(paid.stack, "alice")
    assert first == {
        "account": SHOP,
        "currency": "EUR",
        "folded": "95.44",
        "minutes": [{"minute": at[:16], "folded": "95.44"}],
        "unreadable": [],
    }
    assert (again["folded"], again["minutes"]) == ("0.00", [])


def test_the_statement_counts_unswept_releases_over_all_pages(
    paid: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE_ROWS", 1)

    assert shown(paid) == ("3.00", "95.44")


def test_the_sweep_command_repeats_its_order_until_nothing_remains(
    paid: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deposit and the two releases are in three partitions; each call sweeps one."""
    monkeypatch.setattr(_sweeps, "TIME", timedelta(0))

    told = sweep(paid.stack, SHOP)

    assert (told["folded"], shown(paid)) == ("95.44", ("98.44", "0.00"))
    orders = [order for decision, order in paid.door.given if decision == "sweep"]
    assert ["from" in order for order in orders] == [False, True, True]


def test_the_sweep_command_writes_nothing_itself(paid: Desk) -> None:
    paid.door.answering = Answer(403, {"message": "Forbidden"})

    with pytest.raises(CommandFailed, match="POST /orders/sweep"):
        sweep(paid.stack, SHOP)

    assert shown(paid) == ("3.00", "95.44")


def test_the_sweep_command_refuses_an_invalid_minute(paid: Desk) -> None:
    with failing(Exit.USAGE, "since: must be a day or a minute"):
        sweep(paid.stack, SHOP, "yesterday")


@pytest.mark.parametrize(("since", "folded"), [("2000-01-01", "95.44"), ("2999-01-01T00:00", "0.00")])
def test_the_sweep_command_begins_with_the_given_minute(paid: Desk, since: str, folded: str) -> None:
    assert sweep(paid.stack, SHOP, since)["folded"] == folded


@pytest.mark.parametrize(
    ("account", "code", "message"),
    [
        ("alice", Exit.USAGE, "alice is no merchant's"),
        ("merchant.gone", Exit.NOT_FOUND, "there is no merchant.gone"),
    ],
)
def test_sweeping_an_account_that_is_not_a_merchant_is_refused(
    desk: Desk, account: str, code: Exit, message: str
) -> None:
    with failing(code, message):
        sweep(desk.stack, account)


def test_a_merchants_first_deposit_can_exceed_the_balance_limit(desk: Desk) -> None:
    opened = accounts.open_account(desk.stack, SHOP, "EUR", "1000000.01")

    assert opened["available"] == "1000000.01"


def test_the_commands_print_unswept_and_swept_amounts(paid: Desk, command: Command) -> None:
    _, before, _ = command("account", "show", SHOP)
    _, proof, _ = command("reconcile")
    code, told, _ = command("account", "sweep", SHOP)

    assert before.startswith(f"{SHOP}: 3.00 EUR available, 95.44 not available yet\n")
    assert f"UNSWEPT {SHOP}: 95.44 EUR; if it stays: settle account sweep {SHOP}\n" in proof
    assert (code, told.splitlines()[0]) == (Exit.FINE, f"{SHOP}: 95.44 EUR made available")
    assert re.search(r"2026-\d\d-\d\dT\d\d:\d\d +95\.44", told)


# The proof


@pytest.fixture
def book() -> Book:
    """Two payments to a merchant, one swept."""
    book = Book()
    book.open("alice", 50_000)
    book.open(SHOP, 300)
    for key in (KEY, OTHER):
        book.settle(key, "alice", SHOP, 4820, 48, steps=after("fee"))
    book.sweep(KEY)
    return book


def test_a_swept_amount_above_the_releases_is_a_fault(book: Book) -> None:
    """The balance agrees, because another swept amount is too small by the excess."""
    rows = book.sweep(OTHER), next(row for row in book.rows if row["pk"].startswith("SWEPT#"))
    for row, change in zip(rows, (5, -5), strict=True):
        (first,) = row["folded"]
        row["folded"][first] += change

    (fault,) = reconcile(book.rows, always(Look.DISAGREES)).faults

    assert fault.startswith(f"ACCOUNT#{SHOP}: more is folded than was received: ENTRIES#{SHOP}#")
    assert fault.count(": ") == 2


@pytest.mark.parametrize("change", [-1, 1])
def test_a_merchants_balance_that_contradicts_its_sweeps_is_a_fault(book: Book, change: int) -> None:
    book.row(f"ACCOUNT#{SHOP}")["available"] += change

    findings = reconcile(book.rows, always(Look.DISAGREES))

    assert findings.faults == [
        f"ACCOUNT#{SHOP}: the row says {5072 + change} EUR, its entries 5072 (minor units)"
    ]
    assert not findings.conserved


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ({"folded": {}}, "folded is missing"),
        ({"folded": {"07": "5"}}, "07 is no whole number"),
        ({"folded": "5"}, "folded is no dict"),
        ({"pk": "SWEPT#ENTRIES#bob#3"}, "is of no partition of a merchant's entries"),
        ({"pk": f"SWEPT#ENTRIES#{SHOP}#16"}, "is of no partition of a merchant's entries"),
    ],
)
def test_a_malformed_row_of_a_sweep_is_named(book: Book, broken: dict[str, Any], why: str) -> None:
    row = {**keys.swept(f"ENTRIES#{SHOP}#3", "2026-11-20T01:00"), "version": 1, "folded": {"07": 5}}
    book.rows.append(row | broken)

    (fault,) = reconcile(book.rows, nothing_to_look_at).faults

    assert fault.endswith(f"is malformed: {why}")


def test_the_second_look_reads_sweeps_made_during_the_scan(
    paid: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    every_row = pages.scan

    def meanwhile(store: Any, part: Any) -> Any:
        rows = list(every_row(store, part))
        sweep(paid.stack, SHOP)
        after = [row for row in every_row(store) if not keys.is_account(row)]
        return iter([row for row in rows if keys.is_account(row)] + after)

    monkeypatch.setattr(pages, "scan", meanwhile)

    found = table_scan.proof(paid.stack.store, paid.stack.config.currencies)

    assert (found["conserved"], found["faults"], found["in_flight"]) == (True, [], 1)


def test_the_second_look_confirms_a_real_fault_of_a_merchant(paid: Desk) -> None:
    sweep(paid.stack, SHOP)
    paid.alter(keys.account(SHOP), available=9843)

    (fault,) = table_scan.proof(paid.stack.store, paid.stack.config.currencies)["faults"]

    assert fault == f"ACCOUNT#{SHOP}: the row says 9843 EUR, its entries 9844 (minor units)"
