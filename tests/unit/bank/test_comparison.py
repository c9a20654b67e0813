"""Tests realistic cases from a hostile review, in which the comparison must lose no order."""

import io
from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from typing import Any

import pytest

from settlement.bank import camt
from settlement.bank.comparison import Verdict, judge
from settlement.bank.matching import Finding, Kind, Order
from settlement.bank.spool import Spool
from settlement.bank.statement import Side, Statement
from tests.world.bank_files import camt as written
from tests.world.bank_files import line, message, statement

CURRENCIES = {"EUR": 2, "USD": 2}
DAYS = [(date(2026, 11, 2) + timedelta(days=number)).isoformat() for number in range(12)]
OTHER = "FR7630006000011234567890189"


def order(reference: str, day: str = DAYS[5], amount: int = 100_00, **more: Any) -> Order:
    told = {"currency": "EUR", "side": Side.IN, "account": "alice"} | more
    return Order(key=f"order-{reference}", amount=amount, reference=reference, day=day, **told)


def paid(reference: str, amount: str = "100.00", side: Side = Side.IN, **more: Any) -> dict[str, Any]:
    return line(amount, side, end_to_end=reference, **{"bank_reference": f"B-{reference}"} | more)


def daily(*lines: dict[str, Any], days: Sequence[str] = tuple(DAYS), **more: Any) -> list[bytes]:
    """Return one statement for each day, with the lines in the sixth day's."""
    opening, files = 0, []
    for day in days:
        own = lines if day == DAYS[5] else ()
        moved = sum(round(float(one["amount"]) * 100) * (1 if one["side"] is Side.IN else -1) for one in own)
        files.append(
            written(own, day=day, opening=f"{opening / 100:.2f}", number=None, name=f"S-{day}", **more)
        )
        opening += moved
    return files


def compared(orders: Iterable[Order], files: Iterable[bytes], days: int = 3, **before: int) -> Verdict:
    statements, findings = list[Statement](), list[Finding]()
    with Spool() as spool:
        for one in orders:
            spool.add_order(one)
        for number, content in enumerate(files):
            for told in camt.read(io.BytesIO(content), CURRENCIES):
                if isinstance(told, Statement):
                    statements.append(told)
                    spool.add_statement(told)
                elif fault := spool.add_line(told, f"{number}.xml"):
                    findings.append(fault)
        return judge(spool, statements, days, before, findings)


def kinds(verdict: Verdict) -> list[Kind]:
    return [one.kind for one in verdict.findings]


def test_an_order_without_a_bank_line_is_reported() -> None:
    assert kinds(compared([order("INV-1")], daily())) == [Kind.ONLY_BOOKS]


def test_missing_statements_of_a_second_account_are_a_gap() -> None:
    second = written([], account=OTHER, day=DAYS[10], opening="0.00")

    verdict = compared([order("INV-1")], [*daily(), second])

    assert kinds(verdict) == [Kind.GAP]
    assert verdict.findings[0].text == f"{OTHER} has no statement before {DAYS[10]}"


@pytest.mark.parametrize(
    "more",
    [
        written([], kind="camt.054", opening=None, day=DAYS[11], number=99),
        written([], account=OTHER, day=DAYS[0], opening="0.00"),
    ],
)
def test_an_additional_file_does_not_disable_the_balance_check(more: bytes) -> None:
    files = daily()
    files[-1] = written([], day=DAYS[11], opening="0.00", closing="1000.00", number=None)

    assert Kind.SUM in kinds(compared([], [*files, more]))


def test_a_currency_without_a_statement_is_reported() -> None:
    verdict = compared([order("INV-1", currency="USD")], daily())

    assert [(one.kind, one.currency) for one in verdict.findings] == [(Kind.NO_STATEMENT, "USD")]


def test_two_lines_with_the_same_bank_reference_are_not_merged() -> None:
    lines = [paid("INV-1", bank_reference="SAME"), paid("INV-2", bank_reference="SAME")]
    early = written(lines[:1], kind="camt.054", opening=None, day=DAYS[5], page=(1, False))
    late = written(lines[1:], kind="camt.054", opening=None, day=DAYS[5], page=(2, True))

    for files in (daily(*lines), [early, late], [late, early]):
        verdict = compared([order("INV-1")], files)
        assert (verdict.pairs, kinds(verdict)) == (1, [Kind.ONLY_BANK])


def test_a_notifications_details_replace_the_statements_sum() -> None:
    parts = [line("100.00", end_to_end=f"INV-{number}") for number in (1, 2, 3)]
    whole = line("300.00", bank_reference="SUM")
    detailed = line("300.00", bank_reference="SUM", parts=parts, number=3)
    details = written([detailed], kind="camt.054", opening=None, day=DAYS[5])
    orders = [order(f"INV-{number}") for number in (1, 2, 3)]

    for files in ([*daily(whole), details], [details, *daily(whole)]):
        verdict = compared(orders, files)
        assert (verdict.pairs, kinds(verdict), verdict.sums["EUR"].left) == (3, [], 0)


def test_a_line_in_statement_and_notification_counts_once() -> None:
    """Without a bank reference, the statement counts."""
    one = line("100.00", end_to_end="INV-1")
    early = written([one], kind="camt.054", opening=None, day=DAYS[5])

    for files in ([early, *daily(one)], [*daily(one), early]):
        verdict = compared([order("INV-1")], files)
        assert (verdict.pairs, kinds(verdict)) == (1, [])


def test_an_unrelated_payment_matches_no_order_by_a_common_word() -> None:
    stranger = line("5000.00", text="INV-99 rent", bank_reference="B9")

    verdict = compared([order("rent")], daily(paid("rent"), stranger))

    assert kinds(verdict) == [Kind.ONLY_BANK]
    assert verdict.findings[0].order is None


def test_an_order_may_be_matched_by_the_banks_own_reference() -> None:
    fee = line("3.00", Side.OUT, bank_reference="FEE-77")

    verdict = compared([order("fee-77", amount=300, side=Side.OUT)], daily(fee))

    assert (verdict.pairs, kinds(verdict)) == (1, [])


def test_an_early_order_stays_open_if_the_balances_agree() -> None:
    """The bank booked the order's line before the first statement. Only the balances show that."""
    files = [written([], day=day, opening="100.00", number=None) for day in DAYS]
    early, missing = order("INV-1", DAYS[0]), order("INV-2", DAYS[1])

    assert compared([early], files).open == [early]
    assert kinds(compared([early, missing], files)) == [Kind.ONLY_BOOKS]
    assert kinds(compared([early], daily())) == [Kind.ONLY_BOOKS]


def test_the_balance_reveals_whether_an_undo_order_was_right() -> None:
    old, undone = order("INV-1", "2026-09-01"), order("INV-1", side=Side.OUT)._replace(key="undo-1")

    mistake = compared([old, undone], daily())
    wrong = compared([old, undone], [written([], day=day, opening="100.00", number=None) for day in DAYS])

    assert (kinds(mistake), mistake.open) == ([], [undone])
    assert [(one.kind, one.order) for one in wrong.findings] == [(Kind.ONLY_BOOKS, undone)]


def test_a_recurring_reference_matches_no_order_of_another_month() -> None:
    old = order("rent", "2026-09-05")
    files = [written([], day=day, opening="100.00", number=None) for day in DAYS[:5]]
    files.append(written([paid("rent")], day=DAYS[5], opening="100.00", number=None))
    files += [written([], day=day, opening="200.00", number=None) for day in DAYS[6:]]

    (told,) = compared([old], files).findings
    (late,) = compared([old], daily(paid("rent"))).findings

    assert (told.kind, told.order) == (Kind.ONLY_BANK, None)
    assert (late.kind, late.order) == (Kind.APART, old)


def test_a_missing_page_is_reported() -> None:
    pages = [
        message(
            statement(
                [paid(f"INV-{number}")],
                kind="camt.054",
                opening=None,
                day=DAYS[5],
                page=(number, number == 3),
            ),
            kind="camt.054",
        )
        for number in (1, 3)
    ]

    verdict = compared([order("INV-1"), order("INV-3")], pages)

    assert [(one.kind, one.text[:15]) for one in verdict.findings] == [(Kind.GAP, "only page 1, 3 ")]


def test_a_statement_issued_twice_is_not_a_gap() -> None:
    files = daily(paid("INV-1"))
    again = written([paid("INV-1")], day=DAYS[5], opening="0.00", number=None, name="again")

    assert kinds(compared([order("INV-1")], [*files, again])) == []


def test_orders_of_a_day_without_a_statement_stay_open() -> None:
    files = daily(paid("INV-1"))
    del files[5]

    verdict = compared([order("INV-1")], files)

    assert (kinds(verdict), verdict.open) == ([Kind.GAP, Kind.LEFT], [order("INV-1")])


def test_huge_sums_do_not_overflow() -> None:
    lines = [
        line("9999999999999.99", side, bank_reference=f"{side}-{number}")
        for side in Side
        for number in range(9_300)
    ]

    verdict = compared([], [written(lines, day=DAYS[5], opening="0.00")])

    assert verdict.sums["EUR"].only_bank == verdict.sums["EUR"].left == 0


def test_matching_thousands_of_equal_references_is_fast() -> None:
    lines = [paid("top-up", bank_reference=f"B{number}") for number in range(3_000)]
    orders = [order("top-up")._replace(key=f"order-{number}") for number in range(3_000)]

    assert compared(orders, daily(*lines)).pairs == 3_000
