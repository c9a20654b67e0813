from datetime import date, timedelta
from pathlib import Path

import pytest

from settle.reports import day
from settle.reports.page import render
from settlement.core.ledger import keys
from tests.settle.conftest import Command
from tests.settle.desk import Desk
from tests.settle.reports.test_report import parsed, texts
from tests.settle.reports.test_report_queue import CloudWatch, cells, cloudwatch
from tests.world.constants import KEY
from tests.world.environment import NOW

__all__ = ["CloudWatch", "cloudwatch"]

TODAY = NOW.date()
AT = NOW + timedelta(hours=1)


def rejected(desk: Desk, number: int, **attributes: object) -> None:
    row = {
        **keys.settlement(f"order-refused-{number:04}"),
        "status": "REJECTED",
        "claimed_at": f"{TODAY}T09:59:59.999Z",
        "finished_at": f"{TODAY}T10:00:00.100Z",
        "amount": 4_820,
        "currency": "EUR",
        "failure": {"step": "hold", "error": "InsufficientFunds", "cause": "payer"},
    }
    desk.ledger.put({name: value for name, value in (row | attributes).items() if value is not None})


def test_a_day_is_counted_by_status_hour_and_error(desk: Desk) -> None:
    desk.pay("order-settled-0001", payee="shop")
    desk.stuck()
    rejected(desk, 1)
    rejected(desk, 2, failure={"step": "hold", "error": "AccountNotFound", "cause": "payee"})
    rejected(desk, 3)

    told = day.describe(desk.stack, TODAY, AT)

    assert told["count"] == 6, "with the payment by which the payee has spent it"
    assert told["statuses"] == [
        {"name": "REJECTED", "count": 3},
        {"name": "SETTLED", "count": 2},
        {"name": "LIMBO", "count": 1},
    ]
    assert told["hours"][9] == {"settled": 0, "reversed": 0, "refused": 3, "open": 0}
    assert told["hours"][NOW.hour] == {"settled": 2, "reversed": 0, "refused": 0, "open": 1}
    assert told["refused"] == [
        {"name": "InsufficientFunds", "count": 2},
        {"name": "AccountNotFound", "count": 1},
    ]
    assert [one["count"] for one in told["reversed_for"]] == [1]


def test_the_day_report_computes_amounts_from_rows_and_internal_accounts(desk: Desk) -> None:
    desk.pay("order-settled-0001", payee="shop")
    desk.pay()
    desk.reverse("the goods came back")

    (euros,) = day.describe(desk.stack, TODAY, AT)["currencies"]

    assert euros == {
        "currency": "EUR",
        "settled": "48.20",
        "fees": "0.96",
        "fees_given_back": "0.48",
        "losses": "0.00",
    }


def test_the_day_report_counts_only_settlements_claimed_that_day(desk: Desk) -> None:
    rejected(desk, 1, claimed_at=f"{TODAY}T00:00:00.000Z")
    rejected(desk, 2, claimed_at=f"{TODAY}T23:59:59.999Z")
    rejected(desk, 3, claimed_at=f"{TODAY - timedelta(days=1)}T23:59:59.999Z")
    rejected(desk, 4, claimed_at=f"{TODAY + timedelta(days=1)}T00:00:00.000Z")

    told = day.describe(desk.stack, TODAY, AT)

    assert (told["count"], told["hours"][0]["refused"], told["hours"][23]["refused"]) == (2, 1, 1)


def test_durations_are_counted_over_settled_payments_only(desk: Desk) -> None:
    for number in range(1, 101):
        rejected(
            desk, number, status="SETTLED", finished_at=f"{TODAY}T10:{number // 60:02}:{number % 60:02}.999Z"
        )
    rejected(desk, 101)

    seconds = day.describe(desk.stack, TODAY, AT)["seconds"]

    assert seconds == {"p50": 51.0, "p95": 96.0, "p99": 100.0, "p100": 101.0}


def test_a_hand_edited_row_is_counted_without_breaking_the_page(desk: Desk) -> None:
    rejected(desk, 1, status="<b>PAID</b>", failure=None)
    rejected(desk, 2, failure="text", finished_at=None)
    rejected(desk, 3, status="SETTLED", amount="many", finished_at="soon", currency=None)
    rejected(desk, 4, claimed_at=f"{TODAY}TXX:00")

    told = day.describe(desk.stack, TODAY, AT)
    shown = texts(render.day(told))

    assert told["count"] == 4
    assert {one["name"] for one in told["refused"]} == {"unknown", "InsufficientFunds"}
    assert "<b>PAID</b>" in shown


def test_the_report_of_an_empty_day_says_so(desk: Desk) -> None:
    page = render.day(day.describe(desk.stack, date(2020, 1, 1), AT))

    for told in ("None was refused.", "None was reversed.", "nothing was settled"):
        assert told in texts(page)
    assert not [one for one in parsed(page).iter() if one.tag.endswith("rect")]


def test_the_day_page_has_a_bar_and_figures_per_kind(desk: Desk) -> None:
    desk.pay("order-settled-0001", payee="shop")
    rejected(desk, 1)
    rejected(desk, 2)

    page = render.day(day.describe(desk.stack, TODAY, AT))

    bars = {
        one.get("class"): float(one.get("height", 0))
        for one in parsed(page).iter()
        if one.tag.endswith("rect")
    }
    assert bars == {"settled": 48, "refused": 96}
    assert ["09", "0", "0", "2", "0"] in list(cells(page, "Settlements by hour"))
    assert ["InsufficientFunds", "2"] in list(cells(page, "Refused settlements by error"))
    assert "<script" not in page


def test_the_command_writes_the_day_report_without_overwriting(
    desk: Desk, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    desk.pay(KEY)

    assert command("report", "--day", "2026-11-20") == (0, "2026-11-20.html\n", "")
    code, _, said = command("report", "--day", "2026-11-20")

    assert "1 settlements were claimed" in texts((tmp_path / "2026-11-20.html").read_text())
    assert code != 0
    assert "2026-11-20.html" in said
