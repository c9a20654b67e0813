"""Follows a payout. One call makes at most a move, a request to the bank, and a second move."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from settlement.bank.matching import BankLine, Recorded
from settlement.bank.statement import Side
from settlement.core.ledger import keys
from settlement.core.ledger.transaction import AlreadyApplied, Write
from settlement.core.model.errors import (
    AccountClosed,
    AccountFrozen,
    AccountNotFound,
    CurrencyMismatch,
    LineRefused,
    PayoutNotFound,
    ResolutionRefused,
)
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from settlement.http.caller import Caller
from settlement.payouts import decision, moves, policy, writes
from settlement.payouts.decision import Decision, Verdict
from settlement.payouts.moves import Move
from settlement.payouts.payout import State, Status, Word
from settlement.payouts.policy import Act
from settlement.payouts.port import (
    Accepted,
    Bank,
    Found,
    NeverSeen,
    NotSendable,
    Refused,
    Unknown,
)

NO_DEBIT = "the bank said paid, and no statement has its debit"
NO_RETURN = "the bank said returned, and a statement has its debit alone"
NO_ANSWER = "the bank has given no final answer"
NEVER_SENT = "it could not be sent"
OTHER_BYTES = "its request has other bytes than were sent"
SUSPENSE = "it came back, and the customer's account does not take it"

_DECIDED = {Verdict.PAID: Move.PAY, Verdict.NOT_PAID: Move.REFUSE, Verdict.ASK: Move.ASK}
_NOT_TAKEN = (AccountClosed, AccountFrozen, AccountNotFound, CurrencyMismatch)


class Follower:
    """Methods raise PayoutNotFound, and PayoutFenced after another caller's move: then call again."""

    def __init__(self, store: Store, bank: Bank, now: Callable[[], datetime]) -> None:
        self.store, self.bank, self.now = store, bank, now

    def state(self, key: str) -> State:
        row = self.store.read(keys.payout(key))
        if row is None:
            raise PayoutNotFound(f"key: {key} has no payout")
        return State.from_row(row)

    def look(self, key: str) -> State:
        state = self.state(key)
        match policy.next_act(state, self.bank.declared, self.now()):
            case Act.SEND:
                return self._send(state)
            case Act.ASK:
                return self._ask(state)
            case Act.STICK:
                return self._move(state, Move.STICK, trouble=state.reason or NEVER_SENT)
            case Act.OPEN_CASE:
                trouble = NO_RETURN if state.status is Status.RETURNED else NO_DEBIT
                return self._note(state, moves.noted(state, self.now(), trouble=trouble), "case")
            case Act.WAIT:
                return self._wait(state)

    def hint(self, event: bytes) -> State:
        """Bring the next look forward. Raises MalformedEvent."""
        key = self._key_of(self.bank.parse_event(event).reference)
        if key is None:
            raise PayoutNotFound("event: no payout has the reference that it names")
        state = self.state(key)
        if state.is_at_rest or state.trouble is not None or state.status is Status.RETURNED:
            return state
        return self._note(state, moves.brought_forward(state, self.now()), "hint")

    def book(self, recorded: Recorded) -> State | None:
        """Book a bank's line. None if the line names no payout. Raises LineRefused."""
        found = {key for one in sorted(recorded.references) if (key := self._key_of(one)) is not None}
        if not found:
            return None
        if len(found) > 1:
            raise LineRefused("line: it names several payouts")
        state, line = self.state(found.pop()), recorded.line
        if line.identity in (state.debit_line, state.return_line):
            return state
        if (line.amount, line.currency) != (state.payout.amount, state.payout.currency):
            raise LineRefused(f"line: its amount is not that of {state.key}")
        if not state.is_sent:
            raise LineRefused(f"line: {state.key} was never sent")
        return self._debit(state, line) if line.side is Side.OUT else self._return(state, line)

    def decide(self, order: Decision, caller: Caller) -> State:
        """Record a decision; carry out the second person's equal one, if the bank's word is the shown one.

        Raises ResolutionRefused.
        """
        state, now = self.state(order.key), self.now()
        if not decision.ensure_fits(state, order, caller):
            told = decision.proposed(order, caller, now)
            return self._note(state, moves.noted(state, now, proposed=told), "decide")
        if state.is_sent and order.verdict is not Verdict.ASK:
            heard = self._heard(state)
            if (word := heard.get("said", state.said)) is not state.said:
                self._note(state, moves.noted(state, now, proposed=None, **heard), "decide")
                raise ResolutionRefused(f"verdict: the bank says {word} now; decide again")
        return self._move(state, _DECIDED[order.verdict], decided=decision.decided(state, caller, now))

    # Looks

    def _send(self, state: State) -> State:
        try:
            body = self.bank.request(state)
        except NotSendable as held:
            return self._defer(state, reason=str(held))
        digest = hashlib.sha256(body).hexdigest()
        if state.sent_sha256 not in (None, digest):
            return self._defer(state, said=None, said_at=None, reason=OTHER_BYTES)
        sending = self._move(state, Move.SEND, sent_sha256=digest)
        if not policy.may_submit(sending, self.now()):
            return sending
        answer = self.bank.submit(sending, body)
        match answer:
            case Accepted():
                return self._move(sending, Move.ACCEPT, **self._said(Word.ACCEPTED))
            case Refused(reason) if reason in self.bank.declared.refusals:
                return self._move(sending, Move.REFUSE, **self._said(Word.REFUSED, reason))
            case _:
                return self._move(sending, Move.DOUBT, reason=answer.reason)

    def _ask(self, state: State) -> State:
        if state.status is Status.SENDING:
            state = self._move(state, Move.DOUBT)
        said = self._heard(state)
        if step := moves.HEARD.get((state.status, said.get("said", Word.UNKNOWN))):
            return self._move(state, step, **said)
        if policy.is_asked_out(state, self.now()):
            return self._move(state, Move.STICK, trouble=NO_ANSWER, **said)
        return self._defer(state, **said)

    def _heard(self, state: State) -> dict[str, Any]:
        match self.bank.find(state):
            case Found(Word.REFUSED, reason) if reason not in self.bank.declared.refusals:
                return {"reason": f"the bank refuses for an undeclared reason: {reason}"}
            case Found(word, reason):
                return self._said(word, reason)
            case NeverSeen() if state.said in (None, Word.NEVER_SEEN):
                return self._said(Word.NEVER_SEEN)
            case NeverSeen():  # an earlier word stands
                return {"reason": "the bank has never seen it"}
            case Unknown(reason):
                return {"reason": reason}

    def _wait(self, state: State) -> State:
        is_listed = state.trouble is None and state.listed_at is not None
        is_due = is_listed and str(state.listed_at) <= timestamp(self.now())
        return self._defer(state) if is_due else state

    # Lines

    def _debit(self, state: State, line: BankLine) -> State:
        if state.debit_line is not None:
            raise LineRefused(f"line: a second debit of {state.key}")
        match state.status:
            case Status.REFUSED:
                raise LineRefused(f"line: a debit of {state.key}, which was refused")
            case Status.RETURNED:
                return self._commit_line(state, debit_line=line.identity)
            case Status.PAID:
                return self._move(state, Move.CONFIRM, debit_line=line.identity)
            case _:
                return self._move(self._move(state, Move.PAY), Move.CONFIRM, debit_line=line.identity)

    def _return(self, state: State, line: BankLine) -> State:
        if state.return_line is not None:
            raise LineRefused(f"line: a second return of {state.key}")
        if not line.returns:
            raise LineRefused(f"line: it names {state.key}, but is no return")
        match state.status:
            case Status.REFUSED:
                raise LineRefused(f"line: a return of {state.key}, which was refused")
            case Status.RETURNED:
                return self._commit_line(state, return_line=line.identity)
            case Status.PAID | Status.CONFIRMED:
                return self._move(state, Move.RETURN, return_line=line.identity)
            case _:  # what comes back has left
                return self._move(self._move(state, Move.PAY), Move.RETURN, return_line=line.identity)

    def _commit_line(self, state: State, **line: str) -> State:
        after = moves.noted(state, self.now(), **line)
        if state.trouble == NO_RETURN and after.is_at_rest:
            after = replace(after, trouble=None, listed_at=None)
        self._commit(writes.note_line(state, after))
        return after

    # Writes

    def _move(self, state: State, step: Move, *, trouble: str | None = None, **noted: Any) -> State:
        now = self.now()
        after = moves.after(state, step, now, trouble=trouble, **noted)
        try:
            self._commit(writes.move(state, after, step, now))
        except _NOT_TAKEN:
            after = moves.after(state, step, now, trouble=SUSPENSE, **noted)
            self._commit(writes.move(state, after, step, now, to_suspense=True))
        return after

    def _defer(self, state: State, **noted: Any) -> State:
        return self._note(state, moves.noted(state, self.now(), **noted), "defer")

    def _note(self, state: State, after: State, what: str) -> State:
        if after != state:
            self._commit(writes.note(state, after, what))
        return after

    def _commit(self, changes: tuple[Write, ...]) -> None:
        try:
            self.store.transact(changes)
        except AlreadyApplied:
            return

    def _said(self, word: Word, reason: str = "") -> dict[str, Any]:
        return {"said": word, "said_at": timestamp(self.now()), "reason": reason or None}

    def _key_of(self, reference: str) -> str | None:
        row = self.store.read(keys.payout_reference(reference)) if reference else None
        return None if row is None else str(row["key"])
