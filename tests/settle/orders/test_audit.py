import csv
import io
import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from settle import instants
from settle.accounts import accounts
from settle.exit_codes import Exit
from settle.orders import audit, partial_reversal, resolution, reversal
from settle.orders import proposing as proposal
from settle.settlements import index
from settlement.accounts.order import OrderKind
from settlement.core.ledger import keys
from settlement.core.model.orders import Decision
from tests.settle.conftest import Command
from tests.settle.desk import ADA, GRACE, REASON, Desk
from tests.world.constants import KEY
from tests.world.environment import NOW

OTHER = "order-2026-000102"
LATER = NOW + timedelta(days=1)
OPENED = ["open alice", "deposit alice", "open bob", "open shop"]
SINCE = ("--since", "2026-11-20T00:00:00Z")


@pytest.fixture(autouse=True)
def _at_a_later_day(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instants, "now", lambda: LATER)


def told(desk: Desk, since: datetime = NOW, until: datetime = LATER, by: str | None = None) -> list[Any]:
    return [order for page in audit.pages(desk.stack, since, until, by) for order in page]


def named(orders: list[dict[str, str]]) -> list[str]:
    return [f"{one['order']} {one['account'] or one['key']}" for one in orders]


def moved(one: dict[str, str]) -> tuple[str, ...]:
    return tuple(one[name] for name in ("order", "case", "part", "amount", "payment", "currency"))


def test_an_account_order_shows_its_person_proof_and_amount(desk: Desk) -> None:
    order = {"account": "bob", "amount": "12.50", "currency": "EUR", "reference": "bank-0001"}
    accounts.give(desk.stack, OrderKind.DEPOSIT, key="deposit-key-00001", reason="a gift", **order)

    *_, found = told(desk)

    assert found == {
        "when": found["when"],
        "order": "deposit",
        "key": "deposit-key-00001",
        "account": "bob",
        "amount": "12.50",
        "currency": "EUR",
        "reason": "a gift",
        "by": ADA,
        "user_id": found["user_id"],
        "request_id": found["request_id"],
        "source_ip": found["source_ip"],
        **dict.fromkeys(("case", "part", "payment", "approved_by", "approved_in", "break_glass"), ""),
    }
    row = desk.ledger.row(keys.order("deposit-key-00001"))
    assert row
    assert found["when"] == row["posted_at"]
    assert all(found[name] == row[name] != "" for name in ("user_id", "request_id", "source_ip"))
    assert named(told(desk)) == [*OPENED, "deposit bob"]


@pytest.mark.parametrize(
    ("decision", "amount"), [("retry", ""), ("write-off", "47.72"), ("complete", "0.48")]
)
def test_a_decision_shows_its_case_and_the_moved_amount(desk: Desk, decision: str, amount: str) -> None:
    desk.stuck()
    ordered = named(told(desk))

    resolution.resolve(desk.stack, KEY, Decision(decision), REASON)

    *before, found = told(desk)
    assert named(before) == ordered
    assert moved(found) == (decision, "1", "", amount, "48.20", "EUR")
    assert (found["key"], found["account"], found["by"], found["reason"]) == (KEY, "bob", ADA, REASON)


def test_a_whole_and_a_partial_reversal_show_their_own_amounts(desk: Desk) -> None:
    desk.pay()
    desk.pay(OTHER)

    reversal.reverse(desk.stack, KEY, "sent back")
    partial_reversal.reverse_part(desk.stack, OTHER, "5.00", "one came back", 1)

    assert [moved(one) for one in told(desk)[-2:]] == [
        ("reverse", "", "", "48.20", "48.20", "EUR"),
        ("reverse-part", "", "1", "5.00", "48.20", "EUR"),
    ]


@pytest.mark.usefixtures("two_persons")
def test_a_decision_by_two_persons_names_both_and_each_step(desk: Desk) -> None:
    desk.stuck()
    shown = proposal.propose(desk.stack, KEY, Decision.WRITE_OFF, REASON)
    desk.door.by = GRACE
    proposal.approve(desk.stack, KEY, shown)

    proposed, decided = told(desk)[-2:]

    assert (proposed["order"], proposed["by"], proposed["amount"]) == ("write-off/propose", ADA, "")
    assert (decided["order"], decided["by"], decided["approved_by"]) == ("write-off", ADA, GRACE)
    assert decided["approved_in"] == desk.entry("resolve:1")["approved_in"] != ""
    assert named(told(desk, by="grace"))[-1:] == ["write-off bob"]
    assert proposed not in told(desk, by="GRACE")
    assert proposed in told(desk, by="user/ada")
    assert told(desk, by="mallory") == []


def test_adjacent_time_ranges_list_each_order_once(desk: Desk) -> None:
    *_, third, last = told(desk)
    at = datetime.fromisoformat(third["when"])

    assert told(desk, since=at) == [third, last]
    assert told(desk, until=at) + told(desk, since=at) == told(desk)
    assert told(desk, at, at + timedelta(milliseconds=1)) == [third]


def test_orders_of_several_months_come_by_time_in_pages(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "BATCH_MAX", 3)
    row = next(one for one in desk.ledger.rows() if keys.subject(one)[0] == "ORDER")
    for month in ("2025-12", "2026-01", "2026-08", "2026-10"):
        at = f"{month}-30T00:00:00.000Z"
        desk.ledger.put(row | keys.order(f"order-of-{month}-00") | {"posted_at": at} | keys.orders_index(at))

    pages = list(audit.pages(desk.stack, datetime.fromisoformat("0001-01-01T00:00:00Z"), LATER, None))

    assert [len(page) for page in pages] == [3, 3, 1]
    times = [order["when"] for page in pages for order in page]
    assert times == sorted(times)
    assert times[0].startswith(next(keys.order_months("", "2026-12")))


def test_an_order_on_a_lost_settlement_is_listed_without_amounts(desk: Desk) -> None:
    desk.pay()
    reversal.reverse(desk.stack, KEY, "sent back")
    desk.ledger.delete(keys.settlement(KEY))

    assert moved(told(desk)[-1]) == ("reverse", "", "", "", "", "")


def test_as_json_each_order_is_a_line_with_all_fields(desk: Desk, command: Command) -> None:
    code, out, _ = command("audit", *SINCE, "--json")

    lines = [json.loads(line) for line in out.splitlines()]
    assert (code, named(lines)) == (0, OPENED)
    assert {tuple(line) for line in lines} == {audit.FIELDS}
    assert command("audit", "--since", "1m", "--json") == (0, "", "no order is on record in this time\n")


def test_a_spreadsheet_has_a_header_and_no_formula_cells(desk: Desk, command: Command) -> None:
    formula = '=HYPERLINK("https://x.invalid","a, b")'
    accounts.give(desk.stack, OrderKind.FREEZE, key="freeze-key-000001", account="bob", reason=formula)

    code, out, _ = command("audit", *SINCE, "--spreadsheet")

    lines = list(csv.DictReader(io.StringIO(out)))
    assert (code, named(lines)) == (0, [*OPENED, "freeze bob"])
    assert tuple(lines[0]) == audit.FIELDS
    assert lines[-1]["reason"] == f"'{formula}"


def test_the_table_has_one_line_per_order(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    code, out, _ = command("audit", *SINCE)

    assert (code, out.split()[:3]) == (0, ["when", "order", "key"])
    assert [line.split()[1] for line in out.splitlines()[1:]] == [name.split()[0] for name in OPENED]
    assert command("audit", "--since", "1m") == (0, "no order is on record in this time\n", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--since", "yesterday"), "since: 'yesterday' must be an instant"),
        (("--since", "2026-12-01T00:00:00Z"), "since: 2026-12-01T00:00:00Z is in the future"),
        (("--since", "2d", "--until", "later"), "until: 'later' must be an instant"),
        (("--since", "1d", "--until", "2d"), "until: 2d must be after --since 1d"),
        (("--since", "5d", "--until", "5d"), "until: 5d must be after --since 5d"),
        (("--since", "1d", "--csv", "--json"), "csv: give one of --csv, --spreadsheet and --json"),
        (("--since", "1d", "--by", " "), "by: must be a person's name, or a part of an ARN"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(
    settle: Command, arguments: tuple[str, ...], message: str
) -> None:
    code, out, err = settle("audit", *arguments)

    assert (code, out) == (Exit.USAGE, "")
    assert err.startswith(f"settle: {message}")
    assert len(err.splitlines()) == 1
