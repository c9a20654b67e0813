import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from settlement.core.model import money
from settlement.proof import Difference, Findings, Look, Stage, describe, judgement, reconcile
from tests.settle.book import REVERSIBLE, Book
from tests.settle.plants import (
    Find,
    Plant,
    add,
    all_of,
    always,
    change,
    drop,
    lose,
    nothing_to_look_at,
    row,
    settlement,
)
from tests.world.picture import after

SETTLED, HELD, RELEASED = "order-settled-0001", "order-held-000001", "order-rel-0000001"
REJECTED, CLAIMED = "order-refused-001", "order-claimed-001"
ALICE, BOB = row("ACCOUNT#alice"), row("ACCOUNT#bob")


@pytest.fixture
def book() -> Book:
    """Accounts in three currencies, and one settlement at each possible point."""
    return at_work()


def at_work() -> Book:
    book = Book()
    book.open("alice", 50_000)
    book.open("bob", 0)
    book.open("haruto", 120_000, "JPY")
    book.open("tea-house", 0, "JPY")
    book.open("fatima", 75_500, "KWD")
    book.settle(SETTLED, "alice", "bob", 4820, 48, steps=after("fee"))
    book.settle(HELD, "alice", "bob", 1000, 10, steps=after("hold"))
    book.settle(RELEASED, "haruto", "tea-house", 3480, 34, steps=after("release"))
    book.settle(REJECTED, "bob", "alice", 999_999, 0, steps=0, status="REJECTED")
    book.settle(CLAIMED, "alice", "bob", 5, 0, steps=0)
    return book


def names(faults: list[str]) -> list[str]:
    return [fault.partition(": ")[0] for fault in faults]


def test_an_empty_table_is_conserved() -> None:
    assert reconcile([], nothing_to_look_at).conserved


def test_a_row_of_an_unknown_kind_is_not_proven(book: Book) -> None:
    """A newer layout's row may concern money."""
    findings = reconcile([*book.rows, {"pk": "TOKEN#1", "sk": "TOKEN"}], nothing_to_look_at)

    assert findings.unproven == ["TOKEN#1: TOKEN is of a kind that this version does not know"]
    assert not findings.conserved


def test_a_currency_unknown_to_the_stage_is_a_fault(book: Book) -> None:
    assert reconcile(book.rows, nothing_to_look_at, stage=Stage({"EUR", "JPY", "KWD"})).conserved

    findings = reconcile(book.rows, nothing_to_look_at, stage=Stage({"EUR", "JPY"}))

    assert findings.faults[0] == "ACCOUNT#fatima: BALANCE is malformed: 'KWD' is no currency of this stage"
    assert not findings.conserved


def test_totals_that_do_not_sum_to_zero_are_not_conserved() -> None:
    assert not Findings(totals={"EUR": {"customers": 1}, "USD": {"customers": -1}}).conserved
    assert Findings(totals={"EUR": {"customers": 1, "fees": -1}}).conserved
    assert not Findings(totals={"EUR": {"customers": 1, "fees": -1}}, unproven=["a row"]).conserved


def test_two_faults_that_cancel_each_other_out_are_both_found(book: Book) -> None:
    add(ALICE, "available", 5)(book)
    add(BOB, "available", -5)(book)

    findings = reconcile(book.rows, always(Look.DISAGREES))

    assert sum(findings.totals["EUR"].values()) == 0
    assert names(findings.faults) == ["ACCOUNT#alice", "ACCOUNT#bob"]


@pytest.mark.parametrize(
    ("plant", "moved"),
    [
        (add(ALICE, "available", -700), ("ACCOUNT#alice", "BALANCE")),
        (drop(ALICE), ("ACCOUNT#alice", "BALANCE")),
        (
            all_of(lose(settlement(HELD), "hold_at"), change(settlement(HELD), escrow=0, sequence=1)),
            (f"SETTLEMENT#{HELD}", "SETTLEMENT"),
        ),
        (drop(settlement(HELD)), (f"SETTLEMENT#{HELD}", "SETTLEMENT")),
    ],
)
def test_a_row_that_changed_during_the_scan_is_not_faulty(
    book: Book, plant: Plant, moved: tuple[str, str]
) -> None:
    plant(book)
    looked_at = []

    def look(difference: Difference) -> Look:
        looked_at.append(difference.key)
        return Look.AGREES

    findings = reconcile(book.rows, look)

    assert looked_at == [{"pk": moved[0], "sk": moved[1]}]
    assert (findings.in_flight, findings.faults, findings.conserved) == (1, [], True)


def test_the_second_look_gets_the_entries_that_the_scan_found(book: Book) -> None:
    """The row's times may be wrong, so they cannot locate its entries."""
    change(settlement(HELD), hold_at="2026-11-20T11:00:00.000Z")(book)
    looked_at = []

    def look(difference: Difference) -> Look:
        looked_at.append(difference)
        return Look.DISAGREES

    reconcile(book.rows, look)

    hold = book.entry(HELD, "hold")
    (held,) = (one for one in looked_at if one.key["sk"] == "SETTLEMENT")
    (seen,) = map(judgement.address, held.entries)
    assert seen == {"pk": hold["pk"], "sk": hold["sk"]}


def test_an_account_can_have_the_name_of_a_settlement(book: Book) -> None:
    """Both rows are missing at first. The account's reappearance says nothing about the settlement."""
    book.open(HELD, 100)
    drop(row(f"ACCOUNT#{HELD}"))(book)
    drop(settlement(HELD))(book)

    findings = reconcile(book.rows, lambda one: Look.AGREES if one.key["sk"] == "BALANCE" else Look.DISAGREES)

    assert names(findings.faults) == [f"SETTLEMENT#{HELD}"]
    assert findings.in_flight == 1


def test_only_the_row_that_still_disagrees_is_a_fault(book: Book) -> None:
    add(ALICE, "available", -700)(book)
    add(BOB, "available", 1)(book)

    findings = reconcile(
        book.rows, lambda one: Look.AGREES if one.key["pk"] == "ACCOUNT#alice" else Look.DISAGREES
    )

    assert findings.in_flight == 1
    assert names(findings.faults) == ["ACCOUNT#bob"]
    assert not findings.conserved


@pytest.mark.parametrize("amount", [1, -1])
@pytest.mark.parametrize(
    ("find", "name"), [(ALICE, "available"), (settlement(HELD), "escrow")], ids=["balance", "escrow"]
)
def test_created_or_lost_money_shows_in_its_currencys_sum(
    book: Book, find: Find, name: str, amount: int
) -> None:
    add(find, name, amount)(book)

    findings = reconcile(book.rows, always(Look.DISAGREES))

    assert {currency: sum(kinds.values()) for currency, kinds in findings.totals.items()} == {
        "EUR": amount,
        "JPY": 0,
        "KWD": 0,
    }


def test_totals_are_conserved_and_shown_in_each_currencys_decimals(book: Book) -> None:
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
            "EUR": {"customers": "489.52", "escrow": "10.00"}
            | {"external": "-500.00", "fees": "0.48", "sum": "0.00"},
            "JPY": {"customers": "119966", "escrow": "34", "external": "-120000", "sum": "0"},
            "KWD": {"customers": "75.500", "external": "-75.500", "sum": "0.000"},
        },
        "faults": [],
        "unproven": [],
        "listed_ahead": [],
        "unswept": {},
    }


ACCOUNTS = {"alice": "EUR", "bob": "EUR", "carla": "EUR", "haruto": "JPY", "tea-house": "JPY"}

ENDINGS: list[Callable[[Book, str], object]] = [
    lambda book, key: None,
    *(partial(Book.compensate, last=step) for step in REVERSIBLE),
    *(partial(Book.compensate, written_off=step) for step in ("fee", "release")),
    *(partial(Book.limbo, stuck=step) for step in REVERSIBLE),
]
"""Possible continuations after the last committed step."""


@st.composite
def histories(draw: st.DrawFn) -> Book:
    """Draw deposits, and settlements within each payer's means, run any distance forward or back."""
    book = Book()
    for account, currency in ACCOUNTS.items():
        book.open(account, draw(st.integers(0, 10**15)), currency)
    for number in range(draw(st.integers(0, 8))):
        payer = draw(st.sampled_from(sorted(ACCOUNTS)))
        payee = draw(
            st.sampled_from([a for a in sorted(ACCOUNTS) if ACCOUNTS[a] == ACCOUNTS[payer] and a != payer])
        )
        if available := book.available(payer):
            amount = draw(st.integers(1, min(available, 10**15 - 1)))
            fee = draw(st.integers(0, amount - 1))
            key = f"order-{number:011d}"
            book.settle(key, payer, payee, amount, fee, steps=draw(st.integers(0, 4)))
            draw(st.sampled_from(ENDINGS))(book, key)
    return book


@given(histories(), st.randoms(use_true_random=False))
def test_any_history_of_valid_transfers_has_no_fault(book: Book, random: Any) -> None:
    random.shuffle(book.rows)

    findings = reconcile(book.rows, nothing_to_look_at)

    assert findings.conserved
    assert findings.faults == []


@given(histories(), st.data())
def test_each_single_change_of_an_amount_is_found(book: Book, data: st.DataObject) -> None:
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
    sides = [before.get(side, "") for side in ("debit", "credit")]
    parties = {before["pk"], *(f"ACCOUNT#{side}" for side in sides)}
    parties |= {f"SETTLEMENT#{side.removeprefix('escrow:')}" for side in sides}
    assert set(names(findings.faults)) & parties


@given(histories(), st.data())
def test_a_lost_ledger_row_or_attribute_is_found(book: Book, data: st.DataObject) -> None:
    """Only the loss of a zero balance, or of a case's evidence, stays unseen."""
    rows = [row for row in book.rows if not (row.get("available") == 0 or row["sk"].endswith(("limbo:1",)))]
    assume(rows)
    row = data.draw(st.sampled_from(rows))
    needed = sorted(row.keys() - {"pk", "sk", "stuck_step", "resolution", "resolutions", "verdict"})
    name = data.draw(st.sampled_from(["", *needed]))
    if name:
        del row[name]
    elif row["sk"] == "SETTLEMENT" and "hold_at" not in row:
        assume(False)  # it has never been, and nothing is lost with it
    else:
        book.remove(row)

    assert not reconcile(book.rows, always(Look.DISAGREES)).conserved
