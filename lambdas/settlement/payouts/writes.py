"""Writes of a payout. An update sets the difference of two states, fenced by `sequence`."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from settlement.bank import record
from settlement.bank.matching import BankLine
from settlement.bank.record import Match
from settlement.core.ledger import keys
from settlement.core.ledger.conditions import (
    EXISTS,
    NOT_CLOSED,
    NOT_FROZEN,
    NOT_IN_LIMBO,
    Condition,
    same_currency,
    sequence_is,
    sufficient,
)
from settlement.core.ledger.failure_reasons import account_refusal, out_of_use
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, OnFailure, Transfer, Write, put, update
from settlement.core.model import accounts
from settlement.core.model.errors import (
    AccountClosed,
    AccountFrozen,
    AccountNotFound,
    DestinationRefused,
    IdempotencyConflict,
    InsufficientFunds,
    LineRefused,
    PayoutFenced,
    PayoutNotFound,
    PayoutRefused,
    SettlementError,
)
from settlement.core.model.state import AccountState
from settlement.core.model.timestamps import timestamp
from settlement.payouts import moves
from settlement.payouts.destination import Destination
from settlement.payouts.moves import Move
from settlement.payouts.payout import Payout, State, Status

PARTY = "account"
RESERVE = "reserve"

NEVER = Condition("attribute_exists(pk) AND attribute_not_exists(pk)")
"""Always fails, to refuse an amount over a limit. A replay fails earlier, at the key's condition."""

_DAY = len("2026-11-29")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Maximum payout, and sum per account and UTC day, in minor units by currency.

    Other currencies are not paid. `rest_seconds`: from a destination's confirmation until it is payable.
    """

    payout: dict[str, int] = field(default_factory=dict)
    day: dict[str, int] = field(default_factory=dict)
    rest_seconds: int = 86_400

    @property
    def rest(self) -> timedelta:
        return timedelta(seconds=self.rest_seconds)


def reserved(payout: Payout, destination: Destination, now: datetime) -> State:
    return State(
        payout=payout,
        iban=destination.iban,
        holder=destination.holder,
        status=Status.RESERVED,
        sequence=1,
        reserved_at=timestamp(now),
        listed_at=timestamp(now),
    )


def reserve(payout: Payout, destination: Destination, limits: Limits, now: datetime) -> tuple[Write, ...]:
    """Claim the key and debit the customer.

    A repeated payout is a replay even if the limits are lower by now. A later freeze stops the send.
    """

    def meaning(found: Row | None) -> SettlementError | AlreadyApplied:
        if found and found["request_hash"] == payout.request_hash:
            return AlreadyApplied(found)
        return IdempotencyConflict.of_key(payout.key)

    state = reserved(payout, destination, now)
    moved = Transfer(debit=payout.account, credit=accounts.transit(payout.currency), amount=payout.amount)
    named = {**keys.payout_reference(payout.reference), "key": payout.key}
    return (
        put(state.to_row(), on_failure=meaning),
        put(named, on_failure=lambda found: IdempotencyConflict.of_key(payout.key)),
        _count_day(payout, limits, now),
        _debit(payout),
        _entry(payout, RESERVE, moved, now, paid_to=destination.paid_to),
    )


def move(
    before: State,
    after: State,
    step: Move,
    now: datetime,
    *,
    to_suspense: bool = False,
    line: BankLine | None = None,
) -> tuple[Write, ...]:
    """Move the payout and its money. `line` must be new to all payouts and orders.

    A send refuses a frozen destination.
    """
    other = after.given_back_to if step is Move.GIVE_BACK else None
    moved = moves.transfer(before, step, to_suspense=to_suspense, account=other)
    stale = _STALE if step is Move.SEND else ()
    writes = [_change(before, after, fenced(before, after, step), stale)]
    if step is Move.SEND:
        writes.append(_use(before.payout))
    if line:
        writes.append(_match(before.payout, line, now))
    if moved:
        writes.append(_entry(before.payout, step, moved, now))
    if moved and accounts.is_customer(moved.credit):
        writes.append(_credit(before.payout, moved.credit, is_return=step is not Move.REFUSE))
    return tuple(writes)


def known(before: State, after: State) -> tuple[Write, ...]:
    """Record a payout as sent, because the bank knows it. Its destination may be frozen: nothing is sent."""
    return (_change(before, after, fenced(before, after, Move.SEND), _STALE),)


def note_line(before: State, after: State, line: BankLine, now: datetime) -> tuple[Write, ...]:
    return _change(before, after, fenced(before, after, "line")), _match(before.payout, line, now)


def _match(payout: Payout, line: BankLine, now: datetime) -> Write:
    def meaning(found: Row) -> SettlementError:
        return LineRefused(f"line: it belongs to {found.get('order')}")

    matched = Match(
        line=line.identity,
        order=payout.name_of(line.side),
        account=payout.account,
        currency=line.currency,
        amount=line.amount,
        side=line.side,
        posted_at=timestamp(now),
    )
    return record.match_line(matched, on_failure=meaning)


def note(before: State, after: State, what: str) -> tuple[Write, ...]:
    return (_change(before, after, fenced(before, after, what)),)


def fenced(before: State, after: State, step: str) -> OnFailure:
    """Explain a failed write. A send is never a replay, because then both callers would send."""

    def meaning(found: Row | None) -> SettlementError | AlreadyApplied:
        if found is None:
            return PayoutNotFound(f"key: {before.key} has no payout")
        state = State.from_row(found)
        if step != Move.SEND and state == after:
            return AlreadyApplied(found)
        return PayoutFenced(step, f"{before.key} has moved on to {state.status}")

    return meaning


_STALE = ("detail", "said", "said_at")
"""Notes that a send removes, because another caller may have written them since the row was read."""


def _change(before: State, after: State, meaning: OnFailure, stale: Iterable[str] = ()) -> Write:
    was, row = before.to_row(), after.to_row()
    changed = {name: value for name, value in row.items() if was.get(name) != value}
    gone = sorted({*was, *stale} - row.keys())
    assignments = ", ".join(f"{_ALIASES.get(name, name)} = :{name}" for name in changed)
    parts = [*([f"SET {assignments}"] if changed else ()), *([f"REMOVE {', '.join(gone)}"] if gone else ())]
    return update(
        keys.payout(before.key),
        " ".join(parts),
        values={f":{name}": value for name, value in changed.items()},
        conditions=[sequence_is(before.sequence)],
        on_failure=meaning,
    )


_ALIASES = {"status": "#status", "sequence": "#sequence"}


def _entry(payout: Payout, step: str, moved: Transfer, now: datetime, **signed: str) -> Write:
    account, side = (moved.debit, "debit") if moved.debit == payout.account else (moved.credit, "credit")
    posted_at = timestamp(now)
    row = {
        **keys.entry(account, posted_at, payout.key, f"payout-{step}"),
        "step": f"payout-{step}",
        "posted_at": posted_at,
        "request_hash": payout.request_hash,
        "debit": moved.debit,
        "credit": moved.credit,
        "side": side,
        "amount": moved.amount,
        "currency": payout.currency,
        **signed,
    }
    return put(row, on_failure=lambda entry: IdempotencyConflict.of_key(payout.key))


def _debit(payout: Payout) -> Write:
    def meaning(state: AccountState | None) -> SettlementError:
        if refusal := account_refusal(PARTY, payout.currency, state):
            return refusal
        return out_of_use(PARTY, state) or InsufficientFunds(PARTY)

    return update(
        keys.account(payout.account),
        "SET available = available - :amount",
        values={":amount": payout.amount},
        conditions=[
            same_currency(payout.currency),
            sufficient(payout.amount),
            NOT_IN_LIMBO,
            NOT_FROZEN,
            NOT_CLOSED,
        ],
        on_failure=meaning,
    )


def _credit(payout: Payout, account: str, *, is_return: bool) -> Write:
    """Credit an account. A refused payout goes back even to a closed account, as a reversal does."""

    def meaning(state: AccountState | None) -> SettlementError:
        if refusal := account_refusal(PARTY, payout.currency, state):
            return refusal
        if state and state.is_closed:
            return AccountClosed(PARTY)
        return AccountFrozen(PARTY) if state and state.is_frozen else AccountNotFound(PARTY)

    return update(
        keys.account(account),
        "SET available = available + :amount",
        values={":amount": payout.amount},
        conditions=[same_currency(payout.currency), *([NOT_CLOSED, NOT_FROZEN] if is_return else [])],
        on_failure=meaning,
    )


def _use(payout: Payout) -> Write:
    """Name the payout on its destination, unless the destination is frozen by now."""

    def meaning(found: Row | None) -> SettlementError:
        if found is None:
            return DestinationRefused("destination: there is none with this id")
        return DestinationRefused("destination: it is frozen")

    return update(
        keys.destination(payout.destination),
        "SET last_payout = :payout",
        values={":payout": payout.key},
        conditions=[EXISTS, NOT_FROZEN],
        on_failure=meaning,
    )


def _count_day(payout: Payout, limits: Limits, now: datetime) -> Write:
    largest = limits.payout.get(payout.currency, 0)
    highest = limits.day.get(payout.currency, 0)
    is_within = 1 <= payout.amount <= min(largest, highest)
    which = "of a day" if 1 <= payout.amount <= largest else "of a payout"
    return update(
        keys.payout_day(payout.account, timestamp(now)[:_DAY]),
        "ADD reserved :amount",
        values={":amount": payout.amount},
        conditions=[
            Condition(
                "(attribute_not_exists(pk) OR reserved <= :highest_before)",
                {":highest_before": highest - payout.amount},
            )
            if is_within
            else NEVER
        ],
        on_failure=lambda found: PayoutRefused(f"amount: it goes over the limit {which}"),
    )
