import json

import pytest

from settle import order
from settle.accounts import accounts, statement
from settle.door import Answer
from settle.exit_codes import CommandFailed, Exit
from settle.stack import Outputs, Stack
from settlement.accounts.order import OrderKind
from settlement.core.ledger import keys
from settlement.core.model import money
from settlement.core.store import batch
from settlement.proof import pages
from tests.settle.conftest import Command, failing
from tests.settle.desk import ADA, Desk
from tests.world.constants import KEY


def lines(desk: Desk, account: str) -> list[tuple[str, str, str, str]]:
    shown = statement.show(desk.stack, account)["entries"]
    return [(line["key"], line["step"], line["change"], line["sum"]) for line in shown]


@pytest.mark.parametrize("deposit", ["0", "25.00"])
def test_opening_an_account_again_changes_nothing(desk: Desk, deposit: str) -> None:
    first = accounts.open_account(desk.stack, "carla", "EUR", deposit)
    with desk.writes_nothing():
        again = accounts.open_account(desk.stack, "carla", "EUR", deposit)

    assert again == first
    assert first["available"] == money.render(money.parse(deposit, 2), 2)


@pytest.mark.parametrize(("currency", "deposit"), [("EUR", "25.01"), ("JPY", "25")])
def test_reopening_with_another_currency_or_first_deposit_is_a_conflict(
    desk: Desk, currency: str, deposit: str
) -> None:
    accounts.open_account(desk.stack, "carla", "EUR", "25.00")
    with desk.writes_nothing(), failing(Exit.CONFLICT, "carla is open already"):
        accounts.open_account(desk.stack, "carla", currency, deposit)


def test_opening_an_account_that_another_order_opened_is_a_conflict(desk: Desk) -> None:
    accounts.give(desk.stack, OrderKind.OPEN, key=KEY, account="carla", currency="EUR", reason="r")

    with failing(Exit.CONFLICT, r"carla is open already.*AccountExists: account: "):
        accounts.open_account(desk.stack, "carla", "EUR", "25.00")


@pytest.mark.parametrize("lost", [1, 2])
def test_repeating_the_command_completes_an_opening_whose_answer_was_lost(desk: Desk, lost: int) -> None:
    desk.door.losing = lost
    for _ in range(lost):
        with failing(Exit.FAILED, "not known to be"):
            accounts.open_account(desk.stack, "carla", "EUR", "25.00")

    shown = accounts.open_account(desk.stack, "carla", "EUR", "25.00")

    assert (shown["available"], len(shown["entries"])) == ("25.00", 1)


@pytest.mark.parametrize(
    ("currency", "deposit", "message"),
    [
        ("EUR", "25.001", "deposit: must be a decimal string with at most 2 decimals"),
        ("EUR", "-1", "deposit: must be a decimal string"),
        ("XXX", "25.00", "currency: must be one of"),
        ("EUR", "1000000.01", "deposit: is above this stage's highest balance in EUR"),
    ],
)
def test_an_account_is_not_opened_if_its_deposit_is_invalid(
    desk: Desk, currency: str, deposit: str, message: str
) -> None:
    before, given = desk.ledger.rows(), len(desk.door.given)

    with failing(Exit.USAGE, message):
        accounts.open_account(desk.stack, "carla", currency, deposit)
    assert (desk.ledger.rows(), len(desk.door.given)) == (before, given)


# Orders


MOVED = ("--currency", "EUR", "--reference", "bank-0001", "--reason", "as agreed")


def test_deposits_and_withdrawals_are_recorded_orders(desk: Desk, command: Command) -> None:
    deposited, _, _ = command("account", "deposit", "bob", "10.00", *MOVED, "--key", KEY)
    code, told, _ = command("account", "withdraw", "bob", "4.00", *MOVED, "--json")

    answer = json.loads(told)
    assert (deposited, code) == (Exit.FINE, Exit.FINE)
    assert (answer["order"]["by"], answer["order"]["reason"]) == (ADA, "as agreed")
    assert (answer["account"]["available"], answer["account"]["currency"]) == ("6.00", "EUR")
    assert [change for _, _, change, _ in lines(desk, "bob")] == ["10.00", "-4.00"]
    row = desk.ledger.row(keys.order(KEY))
    assert row
    assert (row["order"], row["amount"], row["reference"]) == ("deposit", 1000, "bank-0001")


def test_an_account_is_frozen_unfrozen_and_closed(desk: Desk, command: Command) -> None:
    for given, told in (("freeze", "frozen_at"), ("unfreeze", "opened_at"), ("close", "closed_at")):
        code, out, _ = command("account", given, "bob", "--reason", "as agreed")
        assert code == Exit.FINE
        assert told in out


def test_the_printed_key_repeats_an_order_without_effect(desk: Desk, command: Command) -> None:
    _, _, noted = command("account", "deposit", "bob", "10.00", *MOVED)
    key = noted.rsplit(" ", 1)[-1].strip()

    code, again, silent = command("account", "deposit", "bob", "10.00", *MOVED, "--key", key, "--json")

    assert (code, silent) == (Exit.FINE, "")
    assert json.loads(again)["account"]["available"] == "10.00"
    assert lines(desk, "bob") == [(key, "deposit", "10.00", "10.00")]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answer(403, {"message": "Forbidden"}), "Forbidden: your AWS identity may not give this order"),
        (Answer(429, {"message": "Too Many Requests"}), "not known to be: HTTP 429; repeat it with its key"),
        (Answer(504, {"message": "<html>"}), "not known to be: HTTP 504; repeat it with its key"),
        (Answer(503, {"error": "StoreUnavailable", "message": "x"}), "not known to be: StoreUnavailable: x;"),
    ],
)
def test_an_unanswered_or_refused_order_is_reported_in_one_line(
    desk: Desk, command: Command, monkeypatch: pytest.MonkeyPatch, answer: Answer, told: str
) -> None:
    monkeypatch.setattr(order, "PAUSES_SECONDS", (0, 0))
    desk.door.answering = answer

    code, out, err = command("account", "freeze", "bob", "--reason", "r", "--key", KEY)

    assert (code, out, len(err.splitlines())) == (Exit.FAILED, "", 1)
    assert told in err
    given = [content for _, content in desk.door.given if content["key"] == KEY]
    assert len(given) == (3 if answer.status in (429, 504) else 1)


@pytest.mark.parametrize("status", [429, 502])
def test_an_order_that_is_throttled_or_fails_is_retried(
    desk: Desk, command: Command, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr(order, "PAUSES_SECONDS", (0, 0))
    desk.door.throttled, desk.door.throttles = 2, Answer(status, {"message": "later"})

    code, *_ = command("account", "open", "new", "--currency", "EUR", "--reason", "r")

    assert code == Exit.FINE
    row = desk.ledger.row(keys.account("new"))
    assert row is not None
    assert row["currency"] == "EUR"
    first, *others = [content for _, content in desk.door.given if content["account"] == "new"]
    assert others == [first, first]


REFUSED = [
    (("deposit", "zoe", "1.00", *MOVED), Exit.NOT_FOUND, "AccountNotFound"),
    (("withdraw", "bob", "1.00", *MOVED), Exit.REFUSED, "InsufficientFunds"),
    (("withdraw", "bob", "1", "--currency", "JPY", *MOVED[2:]), Exit.REFUSED, "CurrencyMismatch"),
    (("unfreeze", "bob", "--reason", "r"), Exit.REFUSED, "AccountNotFrozen"),
    (("close", "alice", "--reason", "r"), Exit.REFUSED, "AccountNotEmpty"),
    (("deposit", "bob", "1000000.01", *MOVED), Exit.REFUSED, "CapExceeded"),
]


@pytest.mark.parametrize(("arguments", "code", "name"), REFUSED)
def test_a_refused_order_names_the_error_and_writes_nothing(
    desk: Desk, command: Command, arguments: tuple[str, ...], code: Exit, name: str
) -> None:
    with desk.writes_nothing():
        ended, _, told = command("account", *arguments)

    assert ended == code
    assert f"{arguments[0]}: {name}: account: " in told


def test_reusing_an_orders_key_for_another_order_is_a_conflict(desk: Desk, command: Command) -> None:
    command("account", "deposit", "bob", "10.00", *MOVED, "--key", KEY)
    before = desk.ledger.rows()

    code, _, told = command("account", "deposit", "bob", "10.01", *MOVED, "--key", KEY)

    assert (code, desk.ledger.rows()) == (Exit.CONFLICT, before)
    assert f"IdempotencyConflict: key: {KEY} was claimed" in told


@pytest.mark.parametrize(
    ("change", "field"),
    [(("--reference", " "), "reference"), (("--currency", "XXX"), "currency"), (("--key", "x"), "key")],
)
def test_a_malformed_order_is_not_sent(
    desk: Desk, command: Command, change: tuple[str, str], field: str
) -> None:
    given = len(desk.door.given)

    code, _, told = command("account", "deposit", "bob", "10.00", *MOVED, *change)

    assert code == Exit.USAGE
    assert f"{field}: " in told
    assert len(desk.door.given) == given


def test_a_stack_without_the_orders_api_must_be_deployed_again(desk: Desk) -> None:
    stack = Stack("old", Outputs({"StageConfig": desk.stack.outputs["StageConfig"]}), desk.stack.session)

    with pytest.raises(CommandFailed, match="has no output OrdersUrl: it is too old, or leaves out"):
        accounts.open_account(stack, "carla", "EUR", "0")


def test_a_statement_lists_entries_by_time_with_running_sums(desk: Desk) -> None:
    desk.pay()
    desk.spend()

    assert lines(desk, "bob") == [
        (KEY, "release", "47.72", "47.72"),
        ("order-spent-0001", "hold", "-40.00", "7.72"),
    ]
    assert statement.show(desk.stack, "bob")["available"] == "7.72"


@pytest.mark.parametrize("page_rows", [1, 1000])
def test_an_internal_accounts_statement_covers_all_its_partitions(
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


def test_a_statement_has_the_reference_of_each_payment(
    desk: Desk, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")  # where a table is too wide, each row has its own lines
    desk.pay("order-2026-000102", reference="invoice 7")
    desk.pay("order-2026-000103")
    command("account", "deposit", "bob", "10.00", *MOVED)

    _, told, _ = command("account", "show", "bob", "--json")
    _, shown, _ = command("account", "show", "bob")

    found = [(line["step"], line["reference"]) for line in json.loads(told)["entries"]]
    assert found == [("release", "invoice 7"), ("release", None), ("deposit", None)]
    assert (shown.count("reference: invoice 7"), shown.count("reference: ")) == (1, 1)
    for account in ("alice", "fees:EUR"):
        references = [line["reference"] for line in statement.show(desk.stack, account)["entries"]]
        assert references.count("invoice 7") == 1


def test_the_no_references_option_reads_no_payment_rows(
    desk: Desk, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.pay(reference="invoice 7")
    monkeypatch.setattr(batch, "read", lambda *_: pytest.fail("the rows were read"))

    code, shown, _ = command("account", "show", "bob", "--no-references")

    assert code == Exit.FINE
    assert "release" in shown
    assert "reference" not in shown


def test_a_deposit_does_not_get_the_reference_of_a_payment(desk: Desk, command: Command) -> None:
    desk.pay(reference="invoice 7")
    command("account", "deposit", "bob", "10.00", *MOVED, "--key", KEY)

    references = {line["step"]: line["reference"] for line in statement.show(desk.stack, "bob")["entries"]}

    assert references == {"release": "invoice 7", "deposit": None}


def test_a_long_statement_reads_each_payment_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "BATCH_MAX", 2)
    for number in range(5):
        desk.pay(f"order-2026-00020{number}", amount="1.00", fee="0.01", reference=f"invoice {number}")
    desk.ledger.put(desk.ledger.row(keys.settlement("order-2026-000203")) | {"reference": 7})  # type: ignore[operator]

    references = [line["reference"] for line in statement.show(desk.stack, "bob")["entries"]]

    assert references == ["invoice 0", "invoice 1", "invoice 2", None, "invoice 4"]


@pytest.mark.parametrize("account", ["zoe", "losses:EUR"])
def test_the_statement_of_a_missing_account_is_not_found(desk: Desk, account: str) -> None:
    with pytest.raises(CommandFailed) as told:
        statement.show(desk.stack, account)

    assert (told.value.code, str(told.value)) == (
        Exit.NOT_FOUND,
        f"account: there is no {account} in under-test",
    )
