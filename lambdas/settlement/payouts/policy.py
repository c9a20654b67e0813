"""The next action of a payout, and its time.

    RESERVED ─ send ─ SENDING ──── answer ──── ACCEPTED ─ ask … PAID ─ ask … 10 days: a case
                 │       │
       record, 5 s ┤     └ 30 s without: UNKNOWN ─ ask … never seen, inside the window: send again
       then no call                             └ 3 days after the last send: LIMBO

A second send needs the bank's declared window: "never seen" may overtake the first request.
docs/decisions/2026-11-29-payouts.md
"""

from datetime import datetime, timedelta
from enum import StrEnum

from settlement.core.model.timestamps import timestamp
from settlement.payouts.payout import State, Status, Word
from settlement.payouts.port import Declared

SUBMIT_WITHIN = timedelta(seconds=5)
"""Maximum time from a send's record to its call. Later, no caller sends."""

EXCHANGE_WITHIN = timedelta(seconds=15)
"""Longest exchange with a bank."""

ANSWER_WITHIN = timedelta(seconds=30)
"""Time until others may ask about a send: SUBMIT_WITHIN, EXCHANGE_WITHIN and 10 s of clock skew."""

WINDOW_MARGIN = timedelta(hours=3)
"""Time kept before the window's end: requests arrive late, and clocks differ."""

ASKED_FOR = timedelta(days=3)
"""How long to ask the bank: over a weekend."""

FRESH = timedelta(minutes=5)
"""Age after which a reserved payout may have been sent: the table may be restored from a backup."""

SILENT_FOR = timedelta(days=1)
"""Longest wait for the bank's word after an approval. Then persons get a new case."""

RESERVED_FOR = timedelta(days=1)
"""After this time, an unsent payout becomes a case."""

PAID_FOR = timedelta(days=10)
"""Longest wait for a line: five banking days, in which a bank may still fail a payment, and holidays."""

HINTED = timedelta(seconds=5)
"""Time from a bank's event to the look."""

PAUSE_MIN, PAUSE_MAX, PAUSE_PAID_MAX = timedelta(seconds=30), timedelta(hours=6), timedelta(days=1)


class Act(StrEnum):
    SEND = "send"
    ASK = "ask"
    WAIT = "wait"
    STICK = "stick"
    OPEN_CASE = "open case"


def next_act(state: State, bank: Declared, now: datetime) -> Act:
    match state.status:
        case Status.RESERVED | Status.UNKNOWN if not state.is_sent:
            since = _at(state.asked_from or state.reserved_at)
            return Act.SEND if now < since + RESERVED_FOR else Act.STICK
        case Status.SENDING:
            return Act.ASK if now >= _at(state.sent_at) + ANSWER_WITHIN else Act.WAIT
        case Status.UNKNOWN if state.said is Word.NEVER_SEEN and may_send_again(state, bank, now):
            return Act.SEND
        case Status.UNKNOWN | Status.ACCEPTED:
            return Act.ASK
        case Status.PAID | Status.RETURNED if state.listed_at is not None and state.trouble is None:
            return _settling(state, now)
        case _:
            return Act.WAIT


def _settling(state: State, now: datetime) -> Act:
    if state.status is Status.RETURNED:
        return Act.OPEN_CASE if timestamp(now) >= str(state.listed_at) else Act.WAIT
    since = max(_at(state.paid_at), _at(state.asked_from or state.paid_at))
    return Act.OPEN_CASE if now >= since + PAID_FOR else Act.ASK


def may_send_again(state: State, bank: Declared, now: datetime) -> bool:
    """Whether to send again: the bank still knows the key, and persons are not asked yet."""
    known_until = _at(state.first_sent_at) + timedelta(seconds=bank.window_seconds)
    asked_until = _at(state.asked_from or state.first_sent_at) + ASKED_FOR
    return now <= min(known_until, asked_until) - WINDOW_MARGIN


def may_be_known(state: State, now: datetime) -> bool:
    """Whether the bank may know a payout that this row says was never sent."""
    return not state.is_sent and now > _at(state.reserved_at) + FRESH


def is_silent(approved_at: str, now: datetime) -> bool:
    return now > _at(approved_at) + SILENT_FOR


def may_submit(state: State, now: datetime) -> bool:
    return timedelta() <= now - _at(state.sent_at) <= SUBMIT_WITHIN


def is_asked_out(state: State, now: datetime) -> bool:
    since = max(_at(state.sent_at), _at(state.asked_from or state.sent_at))
    return state.status in (Status.UNKNOWN, Status.ACCEPTED) and now >= since + ASKED_FOR


def next_look(state: State, now: datetime) -> datetime:
    """The time of the next look. The pause grows with the payout's age, between bounds."""
    if state.status is Status.SENDING:
        return _at(state.sent_at) + ANSWER_WITHIN
    if state.status is Status.RETURNED:
        return now + PAID_FOR
    age = now - _at(state.paid_at or state.first_sent_at or state.reserved_at)
    longest = PAUSE_PAID_MAX if state.status is Status.PAID else PAUSE_MAX
    return now + min(max(age, PAUSE_MIN), longest)


def _at(stored: str | None) -> datetime:
    if stored is None:
        raise ValueError("a payout that was never sent has no such time")
    return datetime.fromisoformat(stored)
