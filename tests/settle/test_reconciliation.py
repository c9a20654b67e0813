import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from settle.reconciliation import Findings, Look, describe, reconcile
from settlement.model import money
from tests.settle.book import REVERSIBLE, Book, Row

SETTLED, HELD, RELEASED = (
    "SETTLEMENT#order-settled-0001",
    "SETTLEMENT#order-held-000001",
    "SETTLEMENT#order-rel-0000001",
)
REJECTED, CLAIMED = "SETTLEMENT#order-refused-001", "SETTLEMENT#order-claimed-001"


def entry(pk: str, step: str) -> tuple[str, str]:
    return pk, f"{pk.partition('#')[2]}:{step}"


@pytest.fixture
def book() -> Book:
    """A table at work, in three currencies: one settlement at each point where one may stand."""
    book = Book()
    book.open("alice", 50_000)
    book.open("bob", 0)
    book.open("haruto", 120_000, "JPY")
    book.open("tea-house", 0, "JPY")
    book.open("fatima", 75_500, "KWD")
    book.settle("order-settled-0001", "alice", "bob", 4820, 48, steps=4)
    book.settle("order-held-000001", "alice", "bob", 1000, 10, steps=1)
    book.settle("order-rel-0000001", "haruto", "tea-house", 3480, 34, steps=3)
    book.settle("order-refused-001", "bob", "alice", 999_999, 0, steps=0, status="REJECTED")
    book.settle("order-claimed-001", "alice", "bob", 5, 0, steps=0)
    return book


def always(look: Look) -> Callable[[Row], Look]:
    return lambda key: look


def nothing_to_look_at(key: Row) -> Look:
    raise AssertionError(f"{key['pk']} agrees with its entries and needs no second look")


def test_a_table_at_work_is_conserved(book: Book) -> None:
    findings = reconcile(book.rows, nothing_to_look_at)

    assert findings.faults == []
    assert findings.conserved
    assert (findings.accounts, findings.settlements, findings.entries) == (5, 5, 4 + 1 + 3 + 3)
    assert findings.in_flight == 0


def test_each_currency_sums_to_zero_by_itself(book: Book) -> None:
    findings = reconcile(book.rows, nothing_to_look_at)

    assert findings.totals == {
        "EUR": {"customers": 50_000 - 1000 - 48, "escrow": 1000, "fees": 48, "external": -50_000},
        "JPY": {"customers": 120_000 - 34, "escrow": 34, "external": -120_000},
        "KWD": {"customers": 75_500, "external": -75_500},
    }
    assert all(sum(kinds.values()) == 0 for kinds in findings.totals.values())


def test_an_empty_table_is_conserved() -> None:
    assert reconcile([], nothing_to_look_at).conserved


def test_the_order_of_the_rows_does_not_matter(book: Book) -> None:
    assert reconcile(reversed(book.rows), nothing_to_look_at) == reconcile(book.rows, nothing_to_look_at)


def change(row_pk: str, row_sk: str, **attributes: Any) -> Callable[[Book], object]:
    return lambda book: book.row(row_pk, row_sk).update(attributes)


def add(pk: str, sk: str, name: str, amount: int) -> Callable[[Book], object]:
    return lambda book: book.row(pk, sk).update({name: book.row(pk, sk)[name] + amount})


def drop(pk: str, sk: str) -> Callable[[Book], object]:
    return lambda book: book.remove(pk, sk)


def copied(original_pk: str, original_sk: str, **attributes: Any) -> Callable[[Book], object]:
    return lambda book: book.rows.append(book.row(original_pk, original_sk) | attributes)


ALICE, BOB = ("ACCOUNT#alice", "BALANCE"), ("ACCOUNT#bob", "BALANCE")
ALICES_DEPOSIT = ("DEPOSIT#open-alice", "open-alice:deposit")
ALL_BUT_THE_FEE = {"hold", "verify", "release"}

FAULTS: dict[str, tuple[Callable[[Book], object], str]] = {
    "a balance is one too high": (add(*ALICE, "available", 1), "ACCOUNT#alice: "),
    "a balance is one too low": (add(*ALICE, "available", -1), "ACCOUNT#alice: "),
    "an escrow is one too high": (add(HELD, "SETTLEMENT", "escrow", 1), f"{HELD}: "),
    "an escrow is one too low": (add(HELD, "SETTLEMENT", "escrow", -1), f"{HELD}: "),
    "a deposit is missing": (drop(*ALICES_DEPOSIT), "ACCOUNT#alice: "),
    "a deposit is there twice": (
        copied(*ALICES_DEPOSIT, pk="DEPOSIT#again", sk="again:deposit"),
        "ACCOUNT#alice: ",
    ),
    **{
        f"the entry of {step} is missing": (drop(*entry(SETTLED, step)), f"{SETTLED}: ")
        for step in ("hold", "verify", "release", "fee")
    },
    **{
        f"the entry of {step} is there under another key too": (
            copied(*entry(SETTLED, step), sk=f"another:{step}"),
            f"{SETTLED}: ",
        )
        for step in ("hold", "release", "fee")
    },
    "an entry is another settlement's too": (copied(*entry(SETTLED, "hold"), pk=HELD), "ACCOUNT#alice: "),
    "an entry debits another account": (change(*entry(HELD, "hold"), debit="bob"), "ACCOUNT#bob: "),
    "an entry credits another account": (change(*entry(SETTLED, "release"), credit="alice"), "ACCOUNT#bob: "),
    "an entry credits an escrow that there is not": (
        change(*entry(HELD, "hold"), credit="escrow:order-unclaimed-1"),
        f"{HELD}: ",
    ),
    "an entry moves fees into an escrow that there is not": (
        copied(*entry(HELD, "hold"), sk="more:hold", debit="fees:EUR", credit="escrow:order-unclaimed-1"),
        "",
    ),
    "an entry turns the money around": (
        change(*entry(SETTLED, "release"), debit="bob", credit=f"escrow:{SETTLED.partition('#')[2]}"),
        "ACCOUNT#bob: ",
    ),
    "SETTLED holds escrow": (change(SETTLED, "SETTLEMENT", escrow=7), f"{SETTLED}: is SETTLED, but holds 7"),
    "REJECTED holds escrow": (
        change(REJECTED, "SETTLEMENT", escrow=7),
        f"{REJECTED}: is REJECTED, but holds 7",
    ),
    "COMPENSATED holds escrow": (
        change(HELD, "SETTLEMENT", status="COMPENSATED"),
        f"{HELD}: is COMPENSATED, but holds 1000",
    ),
    "SETTLED before its fee": (
        change(RELEASED, "SETTLEMENT", status="SETTLED"),
        f"{RELEASED}: is SETTLED, but only ['hold', 'release', 'verify'] committed",
    ),
    "SETTLED from nothing": (
        change(CLAIMED, "SETTLEMENT", status="SETTLED"),
        f"{CLAIMED}: is SETTLED, but only [] committed",
    ),
    "SETTLED with a step less than its entries": (
        change(SETTLED, "SETTLEMENT", steps=ALL_BUT_THE_FEE),
        f"{SETTLED}: ",
    ),
    "a step is recorded that has no entry": (
        change(HELD, "SETTLEMENT", steps={"hold", "verify"}),
        f"{HELD}: ",
    ),
    "an entry's step is not recorded": (
        lambda book: book.row(HELD, "SETTLEMENT").pop("steps"),
        f"{HELD}: ",
    ),
    "a step is recorded that there is not": (
        change(HELD, "SETTLEMENT", steps={"hold", "bonus"}),
        f"{HELD}: ",
    ),
    "another amount was held than the row's": (add(HELD, "SETTLEMENT", "amount", 1), f"{HELD}: "),
    "another fee was charged than the row's": (add(SETTLED, "SETTLEMENT", "fee", 1), f"{SETTLED}: "),
    "an account is gone": (drop(*BOB), "ACCOUNT#bob: has entries, but no row"),
    "a settlement is gone": (drop(HELD, "SETTLEMENT"), f"{HELD}: has entries, but no row"),
    "a settlement with evidence only is gone": (
        lambda book: (drop(HELD, "SETTLEMENT")(book), change(*entry(HELD, "hold"), step="verify")(book)),
        f"{HELD}: has entries, but no row",
    ),
    "an account changed its currency": (change(*ALICE, currency="USD"), "ACCOUNT#alice: "),
    "an entry is in another currency": (change(*entry(HELD, "hold"), currency="USD"), "ACCOUNT#alice: "),
    "a deposit is in another currency": (
        change(*ALICES_DEPOSIT, currency="USD"),
        "ACCOUNT#alice: has entries, but no row in their currency",
    ),
    "a settlement changed its currency": (change(HELD, "SETTLEMENT", currency="USD"), f"{HELD}: "),
}


@pytest.mark.parametrize(("plant", "name"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_found_and_its_row_named(book: Book, plant: Callable[[Book], object], name: str) -> None:
    plant(book)

    findings = reconcile(book.rows, always(Look.DISAGREES))

    assert not findings.conserved
    assert any(fault.startswith(name) for fault in findings.faults), findings.faults


def test_a_balance_below_zero_is_a_fault_even_if_its_entries_say_the_same() -> None:
    book = Book()
    book.open("alice", 100)
    book.open("bob", 0)
    book.settle("order-overdrawn-1", "alice", "bob", 101, 0, steps=4)

    findings = reconcile(book.rows, always(Look.DISAGREES))

    assert findings.faults == ["ACCOUNT#alice: is below zero: -1 EUR (minor units)"]
    assert not findings.conserved


def test_an_account_that_is_empty_is_not_below_zero() -> None:
    book = Book()
    book.open("alice", 100)
    book.open("bob", 0)
    book.settle("order-exactly-all", "alice", "bob", 100, 0, steps=4)

    assert reconcile(book.rows, nothing_to_look_at).conserved


def test_a_currency_that_does_not_sum_to_zero_is_not_conserved_even_without_a_named_fault() -> None:
    assert not Findings(totals={"EUR": {"customers": 1}, "USD": {"customers": -1}}).conserved
    assert Findings(totals={"EUR": {"customers": 1, "fees": -1}}).conserved
    assert not Findings(totals={"EUR": {"customers": 1, "fees": -1}}, unproven=["a row"]).conserved


def test_an_entry_that_reverses_a_step_is_not_one_of_the_steps_committed(book: Book) -> None:
    settlement, hold = book.row(HELD, "SETTLEMENT"), book.row(*entry(HELD, "hold"))
    settlement.update(status="COMPENSATED", escrow=0, reversed={"hold"})
    book.rows.append(
        hold
        | {
            "sk": hold["sk"].replace(":hold", ":compensate:hold"),
            "step": "compensate:hold",
            "debit": hold["credit"],
            "credit": hold["debit"],
        }
    )
    add(*ALICE, "available", hold["amount"])(book)

    findings = reconcile(book.rows, nothing_to_look_at)

    assert findings.conserved
    assert findings.faults == []


def test_two_faults_that_cancel_each_other_out_are_both_found(book: Book) -> None:
    add(*ALICE, "available", 5)(book)
    add(*BOB, "available", -5)(book)

    findings = reconcile(book.rows, always(Look.DISAGREES))

    assert sum(findings.totals["EUR"].values()) == 0
    assert [fault.partition(":")[0] for fault in findings.faults] == ["ACCOUNT#alice", "ACCOUNT#bob"]


@pytest.mark.parametrize(
    ("plant", "moved"),
    [
        (add(*ALICE, "available", -700), ALICE),
        (add(HELD, "SETTLEMENT", "escrow", -10), (HELD, "SETTLEMENT")),
        (drop(*ALICE), ALICE),
        (drop(HELD, "SETTLEMENT"), (HELD, "SETTLEMENT")),
    ],
)
def test_a_row_that_moves_or_comes_during_the_scan_is_in_flight_and_no_fault(
    book: Book, plant: Callable[[Book], object], moved: tuple[str, str]
) -> None:
    plant(book)
    looked_at = []

    def look(key: Row) -> Look:
        looked_at.append(key)
        return Look.AGREES

    findings = reconcile(book.rows, look)

    assert looked_at == [{"pk": moved[0], "sk": moved[1]}]
    assert (findings.in_flight, findings.faults, findings.conserved) == (1, [], True)


def test_an_account_may_be_called_like_a_settlement(book: Book) -> None:
    """Both may be missing, and that the one has come since says nothing about the other."""
    name = HELD.partition("#")[2]
    book.open(name, 100)
    drop(f"ACCOUNT#{name}", "BALANCE")(book)
    drop(HELD, "SETTLEMENT")(book)

    findings = reconcile(book.rows, lambda key: Look.AGREES if key["sk"] == "BALANCE" else Look.DISAGREES)

    assert [fault.partition(":")[0] for fault in findings.faults] == [HELD]
    assert findings.in_flight == 1


def test_a_row_that_never_stands_still_is_neither_a_fault_nor_proven(book: Book) -> None:
    add(*ALICE, "available", -700)(book)

    findings = reconcile(book.rows, always(Look.MOVING))

    assert findings.faults == []
    assert [row.partition(":")[0] for row in findings.unproven] == ["ACCOUNT#alice"]
    assert not findings.conserved


def test_only_the_row_that_still_disagrees_is_a_fault(book: Book) -> None:
    add(*ALICE, "available", -700)(book)
    add(*BOB, "available", 1)(book)

    findings = reconcile(
        book.rows, lambda key: Look.AGREES if key["pk"] == "ACCOUNT#alice" else Look.DISAGREES
    )

    assert findings.in_flight == 1
    assert [fault.partition(":")[0] for fault in findings.faults] == ["ACCOUNT#bob"]
    assert not findings.conserved


@pytest.mark.parametrize("change", [1, -1])
@pytest.mark.parametrize(
    ("row", "name"), [(ALICE, "available"), ((HELD, "SETTLEMENT"), "escrow")], ids=["balance", "escrow"]
)
def test_money_that_was_made_or_lost_shows_in_the_sum_of_its_currency(
    book: Book, row: tuple[str, str], name: str, change: int
) -> None:
    add(*row, name, change)(book)

    findings = reconcile(book.rows, always(Look.DISAGREES))

    assert {currency: sum(kinds.values()) for currency, kinds in findings.totals.items()} == {
        "EUR": change,
        "JPY": 0,
        "KWD": 0,
    }


def test_a_settlement_must_have_released_its_amount_less_its_fee(book: Book) -> None:
    """All rows agree about where the money is: it is the payee who got too little."""
    add(*entry(RELEASED, "release"), "amount", -10)(book)
    add(RELEASED, "SETTLEMENT", "escrow", 10)(book)
    add("ACCOUNT#tea-house", "BALANCE", "available", -10)(book)

    findings = reconcile(book.rows, always(Look.DISAGREES))

    assert [fault.partition(":")[0] for fault in findings.faults] == [RELEASED]


def test_the_description_sums_each_currency_in_its_own_decimals(book: Book) -> None:
    exponents = {"EUR": 2, "JPY": 0, "KWD": 3}

    findings = reconcile(book.rows, nothing_to_look_at)

    described = describe(findings, lambda amount, currency: money.render(amount, exponents[currency]))

    assert described == {
        "conserved": True,
        "accounts": 5,
        "settlements": 5,
        "entries": 11,
        "in_flight": 0,
        "currencies": {
            "EUR": {
                "customers": "489.52",
                "escrow": "10.00",
                "external": "-500.00",
                "fees": "0.48",
                "sum": "0.00",
            },
            "JPY": {"customers": "119966", "escrow": "34", "external": "-120000", "sum": "0"},
            "KWD": {"customers": "75.500", "external": "-75.500", "sum": "0.000"},
        },
        "faults": [],
        "unproven": [],
    }


ACCOUNTS = {"alice": "EUR", "bob": "EUR", "carla": "EUR", "haruto": "JPY", "tea-house": "JPY"}

ENDINGS: list[Callable[[Book, str], object]] = [
    lambda book, key: None,
    *(partial(Book.compensate, last=step) for step in REVERSIBLE),
    *(partial(Book.compensate, written_off=step) for step in ("fee", "release")),
    *(partial(Book.limbo, stuck=step) for step in REVERSIBLE),
]
"""What becomes of a settlement after the last of its steps that committed."""


@st.composite
def histories(draw: st.DrawFn) -> Book:
    """Random deposits, and settlements of what each payer has by then, each as far as it came, or back."""
    book = Book()
    for account, currency in ACCOUNTS.items():
        book.open(account, draw(st.integers(0, 10**15)), currency)
    for number in range(draw(st.integers(0, 8))):
        payer = draw(st.sampled_from(sorted(ACCOUNTS)))
        payee = draw(
            st.sampled_from([a for a in sorted(ACCOUNTS) if ACCOUNTS[a] == ACCOUNTS[payer] and a != payer])
        )
        if available := book.available(payer):
            amount = draw(st.integers(1, available))
            fee = draw(st.integers(0, amount - 1))
            key = f"order-{number:011d}"
            book.settle(key, payer, payee, amount, fee, steps=draw(st.integers(0, 4)))
            draw(st.sampled_from(ENDINGS))(book, key)
    return book


@given(histories(), st.randoms(use_true_random=False))
def test_any_history_of_valid_transfers_reconciles(book: Book, random: Any) -> None:
    random.shuffle(book.rows)

    findings = reconcile(book.rows, nothing_to_look_at)

    assert findings.conserved
    assert findings.faults == []


@given(histories(), st.data())
def test_any_single_change_of_an_amount_that_moved_or_is_held_is_found(
    book: Book, data: st.DataObject
) -> None:
    amounts = [
        (row, name)
        for row in book.rows
        for name in ("available", "escrow", *(["amount"] if "debit" in row else []))
        if name in row
    ]
    assume(amounts)
    row, name = data.draw(st.sampled_from(amounts))
    before = copy.deepcopy(row)
    row[name] += data.draw(st.integers(-(10**15), 10**15).filter(bool))

    findings: Findings = reconcile(book.rows, always(Look.DISAGREES))

    assert not findings.conserved
    parties = {before["pk"], *(f"ACCOUNT#{before.get(side)}" for side in ("debit", "credit"))}
    assert {fault.partition(":")[0] for fault in findings.faults} & parties


def test_an_entry_never_moves_less_than_nothing(book: Book) -> None:
    """A balanced negative entry would be a movement backwards under the name of a forward step."""
    book.rows.append(
        {
            "pk": "DEPOSIT#backwards-deposit",
            "sk": "backwards-deposit:deposit",
            "step": "deposit",
            "debit": "external:EUR",
            "credit": "alice",
            "amount": -1,
            "currency": "EUR",
        }
    )
    next(row for row in book.rows if row["pk"] == "ACCOUNT#alice")["available"] -= 1

    findings = reconcile(book.rows, nothing_to_look_at)

    assert findings.faults == ["DEPOSIT#backwards-deposit: backwards-deposit:deposit moves less than nothing"]
