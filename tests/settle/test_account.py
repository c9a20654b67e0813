"""`settle account`: an account is opened once, and its statement is read from its own partitions."""

from datetime import timedelta

import pytest

from settle.actions import accounts
from settle.exit_codes import CommandFailed, Exit
from settle.queries import statement
from settlement.adapters import pages
from settlement.ledger import balances, entries
from tests.settle.desk import Desk
from tests.world.constants import KEY
from tests.world.environment import NOW


def lines(desk: Desk, account: str) -> list[tuple[str, str, str, str]]:
    shown = statement.show(desk.stack, account)["entries"]
    return [(line["key"], line["step"], line["change"], line["sum"]) for line in shown]


@pytest.mark.parametrize("deposit", ["0", "25.00"])
def test_an_account_is_opened_once_however_often_the_command_is_given(desk: Desk, deposit: str) -> None:
    first = accounts.open_account(desk.stack, "carla", "EUR", deposit)
    before = desk.ledger.rows()

    again = accounts.open_account(desk.stack, "carla", "EUR", deposit)

    assert again == first
    assert desk.ledger.rows() == before


@pytest.mark.parametrize(("currency", "deposit"), [("EUR", "25.01"), ("EUR", "0"), ("JPY", "25")])
def test_an_account_that_is_open_with_another_currency_or_first_deposit_is_a_conflict(
    desk: Desk, currency: str, deposit: str
) -> None:
    accounts.open_account(desk.stack, "carla", "EUR", "25.00")
    before = desk.ledger.rows()

    with pytest.raises(CommandFailed, match="carla is open already") as told:
        accounts.open_account(desk.stack, "carla", currency, deposit)

    assert told.value.code is Exit.CONFLICT
    assert desk.ledger.rows() == before


def test_the_first_deposit_is_known_by_its_key_among_other_entries(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clocks differ: it need not be the oldest entry. Another deposit is none that opened the account."""
    monkeypatch.setattr(pages, "PAGE_ROWS", 1)
    earlier = NOW - timedelta(days=1)
    other = entries.deposit("another-deposit", "carla", 100, "EUR", earlier)
    desk.stack.store.transact([balances.open_account("carla", "EUR", 2600), other])
    desk.stack.store.transact([entries.deposit("open-carla", "carla", 2500, "EUR", NOW)])

    shown = accounts.open_account(desk.stack, "carla", "EUR", "25.00")

    assert (shown["available"], len(shown["entries"])) == ("26.00", 2)


def test_a_statement_adds_up_the_entries_in_the_order_of_their_times(desk: Desk) -> None:
    desk.pay()
    desk.spend()

    assert lines(desk, "bob") == [
        (KEY, "release", "47.72", "47.72"),
        ("order-spent-0001", "hold", "-40.00", "7.72"),
    ]
    assert statement.show(desk.stack, "bob")["available"] == "7.72"


@pytest.mark.parametrize("page_rows", [1, 1000])
def test_the_statement_of_an_internal_account_is_one_over_all_its_partitions(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, page_rows: int
) -> None:
    monkeypatch.setattr(pages, "PAGE_ROWS", page_rows)
    numbers = range(6)
    for number in numbers:
        desk.pay(f"order-2026-00020{number}", amount="1.00", fee=f"0.0{number + 1}")
    partitions = {row["pk"] for row in desk.ledger.rows() if row["pk"].startswith("ENTRIES#fees:EUR#")}
    assert len(partitions) > 2

    found = lines(desk, "fees:EUR")

    assert [line[0] for line in found] == [f"order-2026-00020{number}" for number in numbers]
    assert [line[3] for line in found] == ["0.01", "0.03", "0.06", "0.10", "0.15", "0.21"]
    assert statement.show(desk.stack, "fees:EUR")["available"] == "0.21"


def test_a_statement_lists_an_entry_as_soon_as_it_has_committed(desk: Desk) -> None:
    """It is read consistently, from the table itself: no index may be behind. The deposit is later here."""
    desk.pay(until="hold")

    assert lines(desk, "alice") == [
        (KEY, "hold", "-48.20", "-48.20"),
        ("open-alice", "deposit", "500.00", "451.80"),
    ]


@pytest.mark.parametrize("account", ["zoe", "losses:EUR"])
def test_an_account_that_there_is_not_is_not_found(desk: Desk, account: str) -> None:
    with pytest.raises(CommandFailed) as told:
        statement.show(desk.stack, account)

    assert (told.value.code, str(told.value)) == (
        Exit.NOT_FOUND,
        f"account: there is no {account} in under-test",
    )
