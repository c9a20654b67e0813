"""Draws from a seed the books' orders, the bank's lines for them, and one fault.

References, amounts and ids repeat, but a correct history must still agree.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from random import Random

from settlement.bank.comparison import Verdict, judge
from settlement.bank.matching import Finding, Kind, Order
from settlement.bank.spool import Spool
from settlement.bank.statement import Line, Side, Statement

DAYS = 3
FIRST = date(2026, 12, 28)
"""Each history spans the new year, when banks restart their statement numbers."""

_CURRENCIES = ("EUR", "JPY")
_REFERENCES = ("rent", "rent", "standing order 7", "INV-of-a-year")


@dataclass
class History:
    """Orders of the books, lines of the bank, and the expected findings."""

    random: Random
    orders: list[Order] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    left_out: set[tuple[str, str]] = field(default_factory=set)
    """Statements that a person forgets to pass: account and day."""

    expected: list[tuple[Kind, str]] = field(default_factory=list)
    """Each expected finding: its kind, and its order's key or its line's reference at the bank."""

    length: int = 8

    @property
    def days(self) -> list[str]:
        return [(FIRST + timedelta(days=number)).isoformat() for number in range(self.length)]


def right(seed: int) -> History:
    history = History(Random(seed))
    draw = history.random
    for number in range(draw.randrange(1, 25)):
        currency = draw.choice(_CURRENCIES)
        day = FIRST + timedelta(days=draw.randrange(-DAYS, history.length))
        side = draw.choice((Side.IN, Side.IN, Side.OUT))
        order = Order(
            key=f"order-{number:04}-of-the-books",
            account=f"customer-{draw.randrange(3)}",
            currency=currency,
            amount=draw.choice((100, 100, 250, 4_820)),
            side=side,
            # Of two equal orders around the first statement, nothing tells which one its balance has.
            reference=f"{draw.choice(_REFERENCES)}-{side}" if day >= FIRST else f"INV-{number}",
            day=day.isoformat(),
        )
        history.orders.append(order)
        if draw.random() < 0.1:  # a mistake, and the order that undoes it
            later = min(day + timedelta(days=draw.randrange(4)), FIRST + timedelta(days=history.length - 1))
            undone = order._replace(key=f"undo-{order.key}", side=order.side.other, day=later.isoformat())
            history.orders += [
                order._replace(reference=f"MISTAKE-{number}"),
                undone._replace(reference=f"MISTAKE-{number}"),
            ]
            history.orders.remove(order)
        else:
            lag = timedelta(days=draw.randrange(1 - DAYS, DAYS))
            history.lines.append(_line(history, order, day + lag))
    _number(history)
    return history


def _line(history: History, order: Order, day: date) -> Line:
    draw = history.random
    reference = order.reference
    names = (f"thanks for {reference}", *reference.split(), reference)
    return Line(
        account=f"{order.currency}-{draw.randrange(2)}",
        currency=order.currency,
        amount=order.amount,
        side=order.side,
        booked=day.isoformat(),
        valued=day.isoformat(),
        bank_reference="",
        references=draw.choice(((reference,), names)),
        returns="",
        statement="",
        position=0,
        part=0,
        at=0,
    )


def _number(history: History) -> None:
    history.lines.sort(key=lambda line: (line.account, line.booked))
    numbers: dict[tuple[str, str], int] = {}
    for place, line in enumerate(history.lines):
        year = (line.account, line.booked[:4])
        numbers[year] = number = numbers.get(year, 0) + 1
        own = line.bank_reference or (f"B{number}" if history.random.random() < 0.8 else "")
        history.lines[place] = replace(
            line, bank_reference=own, statement=f"S-{line.booked}", position=number, at=number
        )


def compared(history: History, days: int = DAYS) -> Verdict:
    """Compare the books' orders with all days' statements, which are read in random order, some twice."""
    draw, statements, findings = history.random, list[Statement](), list[Finding]()
    accounts = [(f"{currency}-{number}", currency) for currency in _CURRENCIES for number in range(2)]
    files: list[tuple[str, Statement, list[Line]]] = [
        (f"{account}-{day}", *_statement(history, account, currency, day))
        for account, currency in accounts
        for day in history.days
        if (account, day) not in history.left_out
    ]
    draw.shuffle(files)
    files += [(f"again-{name}", told, lines) for name, told, lines in files if draw.random() < 0.2]
    with Spool() as spool:
        for order in draw.sample(history.orders, len(history.orders)):
            spool.add_order(order)
        for name, statement, lines in files:
            statements.append(statement)
            findings += filter(None, (spool.add_line(line, name) for line in lines))
            spool.add_statement(statement)
        return judge(spool, statements, days, {}, findings)


def _statement(history: History, account: str, currency: str, day: str) -> tuple[Statement, list[Line]]:
    own = [line for line in history.lines if line.account == account]
    lines = [line for line in own if line.booked == day]
    opening = sum(map(signed, (line for line in own if line.booked < day)))
    came, went = (sum(one.amount for one in lines if one.side is side) for side in Side)
    statement = Statement(
        account=account,
        currency=currency,
        name=f"S-{day}",
        created=f"{day}T20:00:00",
        number=int(day[8:]),
        page=None,
        first=day,
        last=day,
        opening=opening,
        closing=opening + came - went,
        lines=len(lines),
        credits=came,
        debits=went,
    )
    return statement, lines


def signed(line: Line) -> int:
    return line.amount if line.side is Side.IN else -line.amount


def findings_of(verdict: Verdict) -> Iterator[tuple[Kind, str]]:
    for one in verdict.findings:
        named = one.order.key if one.order else one.line.bank_reference if one.line else ""
        yield one.kind, named


Fault = Callable[[History, Order, Line], None]


def faulty(seed: int) -> tuple[str, History]:
    """Draw a correct history, and plant one fault in its middle."""
    history = right(seed)
    name = history.random.choice(sorted(FAULTS))
    day = history.days[DAYS + history.random.randrange(2)]
    order = Order("order-with-a-fault", "customer-0", "EUR", 777, Side.IN, "FAULT-1", day)
    line = replace(
        _line(history, order, date.fromisoformat(day)),
        account=f"EUR-{history.random.randrange(2)}",
        bank_reference="FAULT",
    )
    history.orders.append(order)
    history.lines.append(line)
    FAULTS[name](history, order, line)
    _number(history)
    return name, history


def _missing(history: History, order: Order, line: Line) -> None:
    history.lines.remove(line)
    history.expected.append((Kind.ONLY_BOOKS, order.key))


def _unknown(history: History, order: Order, line: Line) -> None:
    history.orders.remove(order)
    history.expected.append((Kind.ONLY_BANK, "FAULT"))


def _twice(history: History, order: Order, line: Line) -> None:
    history.lines.append(replace(line, bank_reference="FAULT-AGAIN"))
    history.expected.append((Kind.BANK_TWICE, order.key))


def _other_amount(history: History, order: Order, line: Line) -> None:
    history.lines[history.lines.index(line)] = replace(line, amount=line.amount + 1)
    history.expected.append((Kind.AMOUNT, order.key))


def _other_currency(history: History, order: Order, line: Line) -> None:
    other = replace(line, currency="JPY", account="JPY-0")
    history.lines[history.lines.index(line)] = other
    history.expected.append((Kind.CURRENCY, order.key))


def _returned(history: History, order: Order, line: Line) -> None:
    history.lines.append(replace(line, side=Side.OUT, bank_reference="FAULT-BACK", returns="AC04"))
    history.expected.append((Kind.RETURN, order.key))


def _booked_twice(history: History, order: Order, line: Line) -> None:
    again = order._replace(key="order-with-a-fault-again")
    history.orders.append(again)
    history.expected.append((Kind.BOOKS_TWICE, again.key))


def _late(history: History, order: Order, line: Line) -> None:
    late = order._replace(day=(FIRST - timedelta(days=10)).isoformat())
    history.orders[history.orders.index(order)] = late
    history.expected.append((Kind.APART, order.key))


def _forgotten(history: History, order: Order, line: Line) -> None:
    """Leave out a statement, which is a finding; its orders are not, because they are still awaited."""
    history.left_out.add((line.account, line.booked))
    history.expected.append((Kind.GAP, ""))


FAULTS: dict[str, Fault] = {
    "a line is missing": _missing,
    "a line nobody booked": _unknown,
    "a line twice": _twice,
    "another amount": _other_amount,
    "another currency": _other_currency,
    "a return": _returned,
    "an order twice": _booked_twice,
    "a line too late": _late,
    "a statement forgotten": _forgotten,
}
