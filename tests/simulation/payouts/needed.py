"""Lists, for each condition of the payouts' writes, a call that only this condition refuses."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from settlement.bank.matching import Recorded
from settlement.bank.statement import Side
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, Write
from settlement.core.model.errors import SettlementError
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import to_wire
from settlement.payouts import decision, destination, lines, moves, writes
from settlement.payouts.decision import Decision, Verdict
from settlement.payouts.moves import Move
from settlement.payouts.payout import State, Status
from tests.simulation.seeded.weakened import Atom
from tests.unit.payouts.rows import (
    ADA,
    BEA,
    CASES,
    GIVEN,
    KEYS,
    LIMITS,
    NOTES,
    PAYABLE,
    PAYOUT,
    STATES,
    destination_rows,
)
from tests.world import bank_rows
from tests.world.environment import NOW
from tests.world.memory_dynamodb import MemoryDynamoDb

MODULES = (writes, destination, decision, lines)
LATER = NOW + timedelta(hours=1)
CARL = replace(ADA, by=ADA.by.replace("ada", "carl"), user_id="AIDAcarl")
ACCOUNT: Row = {**keys.account("alice"), "available": PAYOUT.amount, "currency": "EUR", "limbo_cases": 0}
DAY = {**keys.payout_day("alice", str(NOW)[:10]), "reserved": 0}
LINE = bank_rows.LINE._replace(side=Side.OUT, amount=PAYOUT.amount, reference=PAYOUT.reference)
ORDER = Decision(
    key=PAYOUT.key, case=1, digest=CASES["limbo"].digest, verdict=Verdict.ASK, reason="the bank is asked"
)

Writes = tuple[Write, ...]


def _listed() -> Writes:
    found = lines.listed(Recorded(LINE, 0, frozenset({PAYOUT.reference})))
    assert found
    return (found,)


@dataclass(frozen=True)
class Call:
    """A call that a condition must refuse, so it changes nothing.

    `rows`: the table at first. `earlier`: writes before the call. `refused`: the call's writes.
    """

    refused: Callable[[], Writes]
    rows: tuple[Row, ...] = (ACCOUNT, DAY, *destination_rows())
    earlier: Callable[[], Writes] = tuple

    def changes(self) -> bool:
        table = MemoryDynamoDb()
        store = Store(table, "needed", pause=lambda tries: None, adds=(KEYS.signed,))
        for row in self.rows:
            table.put_item(TableName="needed", Item=to_wire(row))
        if happened := self.earlier():
            store.transact(happened)
        before = dict(table.items)
        with suppress(AlreadyApplied, SettlementError):
            store.transact(self.refused())
        return table.items != before


def _reserve(amount: int = PAYOUT.amount, highest: int = 9_000, hours: int = 0) -> Callable[[], Writes]:
    limits = replace(LIMITS, payout={"EUR": 5_000}, day={"EUR": highest})
    payout = replace(PAYOUT, amount=amount)
    return lambda: writes.reserve(payout, PAYABLE, limits, NOW + timedelta(hours=hours))


def _move(move: Move, before: State) -> Callable[[], Writes]:
    after = moves.after(before, move, LATER, **NOTES.get(move, {}))
    return lambda: writes.move(before, after, move, LATER)


def _with(*changed: Row) -> tuple[Row, ...]:
    places = {(one["pk"], one["sk"]): one for one in (*Call.rows, *changed)}
    return tuple(places.values())


def _without(*kinds: str) -> tuple[Row, ...]:
    return tuple(one for one in Call.rows if not one["pk"].startswith(kinds))


def _returned(**of_the_account: object) -> Call:
    paid = STATES[Status.PAID]
    return Call(_move(Move.RETURN, paid), (paid.to_row(), {**ACCOUNT, **of_the_account}))


def _sent(*rows: Row) -> Call:
    reserved = STATES[Status.RESERVED]
    return Call(_move(Move.SEND, reserved), (reserved.to_row(), *rows))


_RICH: Row = {**ACCOUNT, "available": 20_000}
_FROZEN: Row = {**destination_rows()[0], "frozen_at": "2026-11-20T09:00:00.000Z", "frozen_by": BEA.by}
_FREEZE: Row = destination.freeze("landlord", ADA, NOW)[1].parameters["Item"]
_CONFIRMED = replace(PAYABLE, confirmed_by=None, payable_from=None)
_PROPOSED = decision.propose(CASES["limbo"], ORDER, ADA, NOW).parameters["Item"]
_UNKNOWN = STATES[Status.UNKNOWN]
_BOOKED: Row = {**keys.payout_line(LINE.identity), "booked": LINE.booked}

NEEDED: Mapping[Atom, Call] = {
    ("writes.reserve", "ABSENT"): Call(
        _reserve(hours=2, highest=20_000),
        rows=_with(_RICH),
        earlier=_reserve(highest=20_000),
    ),
    ("writes._count_day", "EXISTS"): Call(
        _reserve(5_001), rows=(_RICH, *_without("PAYOUT_DAY#", "ACCOUNT#"))
    ),
    ("writes._count_day", "ABSENT"): Call(_reserve(5_001), rows=_with(_RICH)),
    ("writes._count_day", "(attribute_not_exists(pk) OR reserved <= :highest_before)"): Call(
        _reserve(), rows=_with({**DAY, "reserved": 9_000})
    ),
    ("writes._debit", "sufficient"): Call(
        _reserve(), rows=_with({**ACCOUNT, "available": PAYOUT.amount - 1})
    ),
    ("writes._debit", "same_currency"): Call(_reserve(), rows=_with({**ACCOUNT, "currency": "USD"})),
    ("writes._debit", "NOT_IN_LIMBO"): Call(_reserve(), rows=_with({**ACCOUNT, "limbo_cases": 1})),
    ("writes._debit", "NOT_FROZEN"): Call(_reserve(), rows=_with({**ACCOUNT, "frozen_at": "2026"})),
    ("writes._debit", "NOT_CLOSED"): Call(_reserve(), rows=_with({**ACCOUNT, "closed_at": "2026"})),
    ("writes._credit", "same_currency"): _returned(currency="USD"),
    ("writes._credit", "NOT_FROZEN"): _returned(frozen_at="2026"),
    ("writes._credit", "NOT_CLOSED"): _returned(closed_at="2026"),
    ("writes._change", "sequence_is"): Call(
        _move(Move.REFUSE, _UNKNOWN),
        rows=(_UNKNOWN.to_row(), ACCOUNT),
        earlier=_move(Move.PAY, _UNKNOWN),
    ),
    ("writes._use", "EXISTS"): _sent(),
    ("writes._use", "NOT_FROZEN"): _sent(_FROZEN),
    ("destination.add", "ABSENT"): Call(
        lambda: (destination.add({**GIVEN, "iban": "GB29NWBK60161331926819"}, BEA, NOW),)
    ),
    ("destination.confirm", "ABSENT"): Call(
        lambda: (destination.confirm(_CONFIRMED, GIVEN, CARL, LIMITS.rest, NOW - timedelta(days=30)),)
    ),
    ("destination.freeze", "EXISTS"): Call(
        lambda: destination.freeze("landlord", BEA, NOW), rows=_without("DESTINATION#")
    ),
    ("destination.freeze", "NOT_FROZEN"): Call(
        lambda: destination.freeze("landlord", ADA, NOW), rows=_with(_FROZEN)
    ),
    ("destination.freeze", "ABSENT"): Call(
        lambda: destination.freeze("landlord", BEA, NOW), rows=_with(_FREEZE)
    ),
    ("decision.propose", "ABSENT"): Call(
        lambda: (decision.propose(CASES["limbo"], ORDER, BEA, LATER),), rows=(_PROPOSED,)
    ),
    ("decision.approve", "ABSENT"): Call(
        lambda: (decision.approve(CASES["limbo"], ORDER, _PROPOSED, CARL, LATER),),
        earlier=lambda: (decision.approve(CASES["limbo"], ORDER, _PROPOSED, BEA, NOW),),
    ),
    ("lines.listed", "ABSENT"): Call(_listed, rows=(_BOOKED,)),
    ("lines.booked", "EXISTS"): Call(lambda: (lines.booked(LINE.identity),)),
    ("lines.refused", "EXISTS"): Call(lambda: (lines.refused(LINE.identity, LINE.booked, "line: unknown"),)),
}

_BY_THE_ROW = "the payout's row refuses first, in the same transaction; this keeps the journal as it is"
IDLE: Mapping[Atom, str] = {
    (f"writes._entry {step}", "ABSENT"): _BY_THE_ROW
    for step in ("reserve", "pay", "refuse", "return", "give-back")
}
"""Conditions that no call fails alone, each with the reason."""
