"""Follows a payout. One call makes at most one question and one request to the bank, and two moves."""

import hashlib
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from settlement.bank import record
from settlement.bank.matching import BankLine, Recorded
from settlement.bank.statement import Side
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, Write
from settlement.core.model.errors import (
    AccountClosed,
    AccountFrozen,
    AccountNotFound,
    CurrencyMismatch,
    DestinationRefused,
    LineRefused,
)
from settlement.core.model.stored import MalformedRow
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from settlement.core.telemetry import count
from settlement.payouts import decision, hints, lines, moves, policy, writes
from settlement.payouts.decision import Verdict
from settlement.payouts.destination import paid_to
from settlement.payouts.moves import Move
from settlement.payouts.payout import State, Status, Word, reference_in
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
from settlement.payouts.reservation import IsProven

NO_DEBIT = "the bank said paid, and no statement has its debit"
NO_RETURN = "the bank said returned, and a statement has its debit alone"
NO_ANSWER = "the bank has given no final answer"
NEVER_SENT = "it could not be sent"
OTHER_BYTES = "its request has other bytes than were sent"
SUSPENSE = "it came back, and the customer's account does not take it"
NOT_TAKEN = "the account that would get it back does not take it"
SILENT = "the bank is silent since two persons decided not-paid: wait, or contradict it"
FROZEN = "its destination is frozen"
ALTERED = "its bank account is not the one that was reserved"

_DECIDED = {
    (Status.LIMBO, Verdict.PAID): Move.PAY,
    (Status.LIMBO, Verdict.NOT_PAID): Move.REFUSE,
    (Status.LIMBO, Verdict.ASK): Move.ASK,
    (Status.PAID, Verdict.NOT_PAID): Move.RETURN,
    (Status.RETURNED, Verdict.GIVE_BACK): Move.GIVE_BACK,
}
"""Moves by status and verdict. Other verdicts end the case without a move."""

_NEVER_TAKEN = (AccountClosed, AccountNotFound, CurrencyMismatch)
_NOT_TAKEN = (*_NEVER_TAKEN, AccountFrozen)


class Follower:
    """Follows payouts. Methods raise PayoutNotFound.

    After another caller's move, they raise PayoutFenced: call again. `accounts`: the stage's accounts at the
    bank, as statements name them. Only their lines are booked.
    """

    def __init__(
        self,
        store: Store,
        bank: Bank,
        now: Callable[[], datetime],
        is_proven: IsProven,
        accounts: frozenset[str],
    ) -> None:
        self.store, self.bank, self.now, self.is_proven = store, bank, now, is_proven
        self.accounts = accounts

    def state(self, key: str) -> State:
        return hints.state_of(self.store, key)

    def look(self, key: str) -> State:
        state = self.state(key)
        if state.trouble is not None:
            return self._carry_out(state)
        match policy.next_act(state, self.bank.declared, self.now()):
            case Act.SEND:
                return self._send(state)
            case Act.ASK:
                return self._ask(state)
            case Act.STICK:
                return self._move(state, Move.STICK, trouble=state.detail or NEVER_SENT)
            case Act.OPEN_CASE:
                trouble = NO_RETURN if state.status is Status.RETURNED else NO_DEBIT
                return self._note(state, moves.counted(state, self.now(), trouble=trouble), "case")
            case Act.WAIT:
                return state

    def book(self, recorded: Recorded) -> State | None:
        """Book a bank's line. Return None if the line names no payout. Raises LineRefused."""
        names = sorted({name for one in recorded.references if (name := reference_in(one))})
        found = {key for one in names if (key := hints.key_of(self.store, one)) is not None}
        if not found:
            return None
        if len(found) > 1:
            raise LineRefused("line: it names several payouts")
        state, line = self.state(found.pop()), recorded.line
        if line.identity in (state.debit_line, state.return_line):
            return self._finish(state, line)
        if line.account not in self.accounts:
            raise LineRefused("line: it is of another bank account")
        if (line.amount, line.currency) != (state.payout.amount, state.payout.currency):
            raise LineRefused(f"line: its amount is not that of {state.key}")
        if not state.is_sent:
            raise LineRefused(f"line: {state.key} was never sent")
        return self._debit(state, line) if line.side is Side.OUT else self._return(state, line)

    def book_listed(self, identity: str) -> State | None:
        """Book a listed line, and take it off the list; or list why it is refused.

        Returns None if no payout has moved. Raises MalformedRow.
        """
        row = self.store.read(keys.bank_line(identity))
        if row is None:  # a missing line must not stay listed unseen
            raise MalformedRow(f"{keys.payout_line(identity)['pk']}: the line that it lists is not on record")
        recorded, state = record.line_of(row), None
        try:
            state = self.book(recorded)
            if state is None and self.store.read(keys.bank_match(identity)) is None:
                raise LineRefused("line: no payout has its reference")
        except LineRefused as refusal:
            why = str(refusal)
            if not self._is_booked_otherwise(identity):
                self._list_refusal(identity, recorded.line.booked, why)
                return None
        self._commit((lines.booked(identity),))
        return state

    def _list_refusal(self, identity: str, booked_on: str, why: str) -> None:
        """List why a line is refused. As the line is tried again each minute, write only a change."""
        row = self.store.read(keys.payout_line(identity))
        if row is None or not lines.is_refused(row, booked_on, why):
            self._commit((lines.refused(identity, booked_on, why),))

    def _is_booked_otherwise(self, identity: str) -> bool:
        row = self.store.read(keys.bank_match(identity))
        return row is not None and not str(row.get("order")).startswith(keys.payout("")["pk"])

    # Cases

    def _carry_out(self, state: State) -> State:
        """Carry out an approved decision, unless the bank's word has changed since persons saw it."""
        row = self.store.read(keys.payout_approved(state.key, state.cases, state.digest))
        if row is None:
            return state
        if not self.is_proven(row):
            raise MalformedRow(f"{row['pk']}: an approval has no valid signature")
        verdict, decided = decision.approved(state, row)
        if verdict in decision.AGAINST:
            answer = self.bank.find(state)
            if decision.must_wait(verdict, decided, answer):
                return self._await_bank(state, decided)
            heard = self._words(state, answer)
            if decision.is_changed(verdict, state.said, word := heard.get("said", state.said)):
                trouble = f"the bank says {word} since two persons decided {verdict}"
                return self._note(state, moves.counted(state, self.now(), trouble=trouble, **heard), "case")
        if move := _DECIDED.get((state.status, verdict)):
            try:
                return self._move(state, move, decided=decided)
            except _NEVER_TAKEN:  # a return goes to suspense instead
                return self._note(state, moves.counted(state, self.now(), trouble=NOT_TAKEN), "case")
        asked = {"asked_from": timestamp(self.now())} if verdict is Verdict.ASK else {}
        return self._note(state, moves.counted(state, self.now(), decided=decided, **asked), "case")

    def _await_bank(self, state: State, decided: Mapping[str, str]) -> State:
        if not policy.is_silent(decided["approved_at"], self.now()):
            return state
        return self._note(state, moves.counted(state, self.now(), trouble=SILENT), "case")

    # Looks

    def _send(self, state: State) -> State:
        """Send a payout, unless the bank knows it: a restored table may have lost the record of a send.

        A payout that the bank knows is recorded as sent, even if its destination is frozen.
        """
        known = self.bank.find(state) if policy.may_be_known(state, self.now()) else NeverSeen()
        if isinstance(known, Unknown):
            return self._defer(state, detail=known.reason)
        try:
            body = self.bank.request(state)
        except NotSendable as held:
            return self._defer(state, detail=str(held))
        digest = hashlib.sha256(body).hexdigest()
        if isinstance(known, Found):
            return self._known(state, digest, known)
        if why := self._barred(state, digest):
            return self._unsent(state, why)
        try:
            sending = self._move(state, Move.SEND, sent_sha256=digest)
        except DestinationRefused:
            return self._unsent(state, FROZEN)
        return self._submit(sending, body)

    def _known(self, state: State, digest: str, found: Found) -> State:
        sent = moves.after(state, Move.SEND, self.now(), sent_sha256=digest)
        self._commit(writes.known(state, sent))
        said = self._words(sent, found)
        return self._move(
            sent, moves.HEARD.get((Status.UNKNOWN, said.get("said", Word.UNKNOWN)), Move.DOUBT), **said
        )

    def _submit(self, sending: State, body: bytes) -> State:
        if not policy.may_submit(sending, self.now()):
            return sending
        answer = self.bank.submit(sending, body)
        match answer:
            case Accepted():
                return self._move(sending, Move.ACCEPT, **self._said(Word.ACCEPTED))
            case Refused(reason) if reason in self.bank.declared.refusals:
                return self._move(sending, Move.REFUSE, **self._said(Word.REFUSED, reason))
            case _:
                return self._move(sending, Move.DOUBT, detail=answer.reason)

    def _barred(self, state: State, digest: str) -> str | None:
        """Return why this payout must not be sent, or None.

        The request must have the bytes that were sent before, and the bank account that was reserved.
        """
        payout = state.payout
        if state.sent_sha256 not in (None, digest):
            return OTHER_BYTES
        place = keys.entry(payout.account, state.reserved_at, payout.key, f"payout-{writes.RESERVE}")
        entry = self.store.read(place)
        if entry is None or not self._is_of(entry, state) or not self.is_proven(entry):
            return ALTERED
        return None

    @staticmethod
    def _is_of(entry: Row, state: State) -> bool:
        payout = state.payout
        return (entry.get("request_hash"), entry.get("paid_to")) == (
            payout.request_hash,
            paid_to(payout.destination, state.iban, state.holder),
        )

    def _unsent(self, state: State, why: str) -> State:
        """Open a case if the payout was never sent. Otherwise keep asking the bank."""
        if not state.is_sent:
            return self._move(state, Move.STICK, trouble=why)
        return self._defer(state, said=None, said_at=None, detail=why)

    def _ask(self, state: State) -> State:
        if state.status is Status.SENDING:
            state = self._move(state, Move.DOUBT)
        said = self._words(state, self.bank.find(state))
        if step := moves.HEARD.get((state.status, said.get("said", Word.UNKNOWN))):
            return self._move(state, step, **said)
        if policy.is_asked_out(state, self.now()):
            return self._move(state, Move.STICK, trouble=NO_ANSWER, **said)
        return self._defer(state, **said)

    def _words(self, state: State, answer: Found | NeverSeen | Unknown) -> dict[str, Any]:
        match answer:
            case Found(Word.REFUSED, reason) if reason not in self.bank.declared.refusals:
                return {"detail": f"the bank refuses for an undeclared reason: {reason}"}
            case Found(word, reason):
                return self._said(word, reason)
            case NeverSeen() if state.said in (None, Word.NEVER_SEEN):
                return self._said(Word.NEVER_SEEN)
            case NeverSeen():  # an earlier word stands
                return {"detail": "the bank has never seen it"}
            case Unknown(reason):
                return {"detail": reason}

    # Lines

    def _debit(self, state: State, line: BankLine) -> State:
        if state.debit_line is not None:
            raise LineRefused(f"line: a second debit of {state.key}")
        if line.returns:
            raise LineRefused(f"line: a debit that names {state.key}, but is itself a return")
        match state.status:
            case Status.REFUSED:
                raise LineRefused(f"line: a debit of {state.key}, which was refused")
            case Status.RETURNED:
                return self._commit_line(state, line, debit_line=line.identity)
            case Status.PAID:
                return self._move(state, Move.CONFIRM, line=line, debit_line=line.identity)
            case _:
                paid = self._move(state, Move.PAY, line=line, debit_line=line.identity)
                return self._finish(paid, line)

    def _return(self, state: State, line: BankLine) -> State:
        if state.return_line is not None:
            raise LineRefused(f"line: a second return of {state.key}")
        if not line.returns:
            raise LineRefused(f"line: it names {state.key}, but is no return")
        match state.status:
            case Status.REFUSED:
                raise LineRefused(f"line: a return of {state.key}, which was refused")
            case Status.RETURNED:
                return self._commit_line(state, line, return_line=line.identity)
            case Status.PAID | Status.CONFIRMED:
                return self._move(state, Move.RETURN, line=line, return_line=line.identity)
            case _:  # what comes back has left
                paid = self._move(state, Move.PAY, line=line, return_line=line.identity)
                return self._finish(paid, line)

    def _finish(self, state: State, line: BankLine) -> State:
        """Make a line's second move. The first move has claimed the line; its caller may have died since."""
        if state.status is Status.PAID and line.identity == state.debit_line:
            return self._move(state, Move.CONFIRM)
        if state.status in (Status.PAID, Status.CONFIRMED) and line.identity == state.return_line:
            return self._move(state, Move.RETURN)
        return state

    def _commit_line(self, state: State, line: BankLine, **noted: str) -> State:
        now = self.now()
        if state.trouble in (None, NO_RETURN):
            after = moves.counted(state, now, **noted)
        else:
            after = moves.noted(state, now, sequence=state.sequence + 1, **noted)
        self._commit(writes.note_line(state, after, line, now))
        return after

    # Writes

    def _move(
        self,
        state: State,
        step: Move,
        *,
        trouble: str | None = None,
        line: BankLine | None = None,
        **noted: Any,
    ) -> State:
        now = self.now()
        after = moves.after(state, step, now, trouble=trouble, **noted)
        try:
            is_ours = self._commit(writes.move(state, after, step, now, line=line))
        except _NOT_TAKEN:
            if step is not Move.RETURN:
                raise
            after = moves.after(state, step, now, trouble=SUSPENSE, in_suspense=1, **noted)
            is_ours = self._commit(writes.move(state, after, step, now, to_suspense=True, line=line))
        if is_ours and step is Move.RETURN:
            count("PayoutReturned")
        return after

    def _defer(self, state: State, **noted: Any) -> State:
        return self._note(state, moves.noted(state, self.now(), **noted), "defer")

    def _note(self, state: State, after: State, what: str) -> State:
        if after != state:
            self._commit(writes.note(state, after, what))
        return after

    def _commit(self, changes: tuple[Write, ...]) -> bool:
        """Commit. Return False if another caller has made these writes."""
        try:
            self.store.transact(changes)
        except AlreadyApplied:
            return False
        return True

    def _said(self, word: Word, reason: str = "") -> dict[str, Any]:
        return {"said": word, "said_at": timestamp(self.now()), "detail": reason or None}
