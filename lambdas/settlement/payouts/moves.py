from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from settlement.core.ledger.transaction import Transfer
from settlement.core.model import accounts
from settlement.core.model.errors import PayoutFenced
from settlement.core.model.timestamps import timestamp
from settlement.payouts import policy
from settlement.payouts.payout import State, Status, Word


class Move(StrEnum):
    SEND = "send"
    DOUBT = "doubt"
    ACCEPT = "accept"
    PAY = "pay"
    CONFIRM = "confirm"
    REFUSE = "refuse"
    RETURN = "return"
    STICK = "stick"
    ASK = "ask"
    GIVE_BACK = "give-back"


class Place(StrEnum):
    ACCOUNT = "account"
    TRANSIT = "transit"
    EXTERNAL = "external"
    SUSPENSE = "suspense"


@dataclass(frozen=True)
class Rule:
    """A move's effect: `to` is the status after it.

    `money` maps each status that allows the move to the entry's debit and credit, if any.
    """

    to: Status
    money: Mapping[Status, tuple[Place, Place] | None]


_OUT, _BACK = (Place.TRANSIT, Place.EXTERNAL), (Place.TRANSIT, Place.ACCOUNT)
_RETURNED = (Place.EXTERNAL, Place.ACCOUNT)

RULES: Mapping[Move, Rule] = {
    Move.SEND: Rule(Status.SENDING, dict.fromkeys((Status.RESERVED, Status.UNKNOWN))),
    Move.DOUBT: Rule(Status.UNKNOWN, dict.fromkeys((Status.SENDING,))),
    Move.ACCEPT: Rule(Status.ACCEPTED, dict.fromkeys((Status.SENDING, Status.UNKNOWN))),
    Move.PAY: Rule(
        Status.PAID,
        dict.fromkeys((Status.SENDING, Status.UNKNOWN, Status.ACCEPTED, Status.LIMBO), _OUT),
    ),
    Move.CONFIRM: Rule(Status.CONFIRMED, dict.fromkeys((Status.PAID,))),
    Move.REFUSE: Rule(
        Status.REFUSED,
        dict.fromkeys((Status.SENDING, Status.UNKNOWN, Status.ACCEPTED, Status.LIMBO), _BACK),
    ),
    Move.RETURN: Rule(
        Status.RETURNED,
        {Status.PAID: _RETURNED, Status.CONFIRMED: _RETURNED},
    ),
    Move.STICK: Rule(Status.LIMBO, dict.fromkeys((Status.RESERVED, Status.UNKNOWN, Status.ACCEPTED))),
    Move.ASK: Rule(Status.UNKNOWN, dict.fromkeys((Status.LIMBO,))),
    Move.GIVE_BACK: Rule(Status.RETURNED, {Status.RETURNED: (Place.SUSPENSE, Place.ACCOUNT)}),
}

HEARD: Mapping[tuple[Status, Word], Move] = {
    (Status.UNKNOWN, Word.ACCEPTED): Move.ACCEPT,
    (Status.UNKNOWN, Word.PAID): Move.PAY,
    (Status.UNKNOWN, Word.REFUSED): Move.REFUSE,
    (Status.UNKNOWN, Word.RETURNED): Move.PAY,  # it has left: the next look returns it
    (Status.ACCEPTED, Word.PAID): Move.PAY,
    (Status.ACCEPTED, Word.REFUSED): Move.REFUSE,
    (Status.ACCEPTED, Word.RETURNED): Move.PAY,
    (Status.PAID, Word.REFUSED): Move.RETURN,  # Stripe: paid may become failed
    (Status.PAID, Word.RETURNED): Move.RETURN,
}
"""The move that the bank's word causes, by status and word."""


def transfer(
    state: State, move: Move, *, to_suspense: bool = False, account: str | None = None
) -> Transfer | None:
    """The money that `move` transfers, if any.

    `account`: another account of the customer, to get the money. With `to_suspense`, a credit to the account
    goes to suspense instead. Raises PayoutFenced.
    """
    moved = _legal(state, move).money[state.status]
    if moved is None:
        return None
    payout = state.payout
    names = {
        Place.ACCOUNT: account or payout.account,
        Place.TRANSIT: accounts.transit(payout.currency),
        Place.EXTERNAL: accounts.external(payout.currency),
        Place.SUSPENSE: accounts.suspense(payout.currency),
    }
    debit, credit = moved
    if to_suspense and credit is Place.ACCOUNT:
        credit = Place.SUSPENSE
    return Transfer(debit=names[debit], credit=names[credit], amount=payout.amount)


def after(state: State, move: Move, now: datetime, *, trouble: str | None = None, **noted: Any) -> State:
    """The state after `move`, with the changes `noted`. With `trouble`, a case opens. Raises PayoutFenced."""
    moment = timestamp(now)
    changed: dict[str, Any] = {
        "status": _legal(state, move).to,
        "sequence": state.sequence + 1,
    }
    if move is Move.SEND:
        changed |= {"first_sent_at": state.first_sent_at or moment, "sent_at": moment}
        changed |= {"attempts": state.attempts + 1, "said": None, "said_at": None, "detail": None}
    elif move is Move.ASK:
        changed |= {"asked_from": moment, "said": None, "said_at": None}
    elif move is Move.PAY:
        changed |= {"paid_at": moment}
    elif move is Move.GIVE_BACK:
        account = (noted.get("decided") or {}).get("account", state.payout.account)
        changed |= {"in_suspense": None, "given_back_at": moment, "given_back_to": account}
    elif move in (Move.CONFIRM, Move.REFUSE, Move.RETURN):
        changed |= {"ended_at": moment}
    return _listed(replace(state, **changed | noted), now, trouble)


def noted(state: State, now: datetime, **changed: Any) -> State:
    """Return the state with changed notes. `sequence` stays, so callers may overwrite each other's notes."""
    changed_state = replace(state, **changed)
    return changed_state if state.trouble is not None else _listed(changed_state, now, None)


def counted(state: State, now: datetime, *, trouble: str | None = None, **changed: Any) -> State:
    """Return the state after a line, or after a case opens or ends.

    It raises `sequence`, so like a move it fences other callers.
    """
    return _listed(replace(state, sequence=state.sequence + 1, **changed), now, trouble)


def brought_forward(state: State, now: datetime) -> State:
    """Set the next look within `policy.HINTED`. Many hints in that time cause one look."""
    soon = timestamp(now + policy.HINTED)
    return replace(state, listed_at=min(state.listed_at or soon, soon))


def _listed(state: State, now: datetime, trouble: str | None) -> State:
    if trouble is not None:
        return replace(state, trouble=trouble, cases=state.cases + 1, listed_at=timestamp(now))
    if state.is_at_rest:
        return replace(state, trouble=None, listed_at=None)
    return replace(state, trouble=None, listed_at=timestamp(policy.next_look(state, now)))


def _legal(state: State, move: Move) -> Rule:
    rule = RULES[move]
    if state.status not in rule.money:
        raise PayoutFenced(move, f"{state.key} is {state.status}")
    return rule
