"""Runs all lives of one payout, with up to two deviations, on a virtual clock.

A life runs one payout from its reservation until nothing is left to do. A deviation happens at a call of the
bank or table; a fault between two calls belongs to the later one. A frozen caller waits while everything else
goes on. Persons know a payout from its row.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache, partial
from hashlib import sha256
from typing import Any, Literal, NamedTuple
from unittest import mock

from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError

from settlement.bank import record
from settlement.bank.matching import BankLine, Recorded
from settlement.bank.statement import Side
from settlement.core.ledger import keys
from settlement.core.ledger.transaction import AlreadyApplied
from settlement.core.model.errors import (
    AccountClosed,
    AccountFrozen,
    DestinationRefused,
    PayoutFenced,
    ResolutionRefused,
    StoreUnavailable,
)
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import from_wire, to_wire
from settlement.http.caller import Caller
from settlement.payouts import decision, destination, follow, hints, lines, policy
from settlement.payouts.decision import Decision, Verdict
from settlement.payouts.destination import Destination
from settlement.payouts.payout import UNDER_WAY, Payout, State, Status, Word
from settlement.payouts.port import Unknown
from settlement.payouts.reservation import Reservations
from settlement.payouts.writes import Limits
from settlement.signing.signature import RowKeys
from tests.simulation.payouts.bank import DAY, HOUR, NEVER, BookedLine, Script, SimulatedBank
from tests.world.memory_dynamodb import Changes, MemoryDynamoDb

START = datetime.fromisoformat("2026-11-30T09:00:00.000+00:00")
HORIZON = timedelta(days=45)
FROZEN, SKEW = timedelta(hours=2), timedelta(seconds=10)
CALL = timedelta(milliseconds=20)
RETRY = timedelta(minutes=1)
CALLS_MAX = 12_000
"""Maximum calls, a third above the longest life."""

TAKEN_LATER = timedelta(days=10)
"""Pause between persons' decisions while the account takes no money back."""
NOT_TAKEN = 5 * DAY
"""Pause before the next try after a closed or frozen account refused the money."""

PAYOUT = Payout(
    key="payout-of-a-life-0001", account="alice", amount=4_820, currency="EUR", destination="landlord"
)
FUNDS = 10_000
LIMITS = Limits(payout={"EUR": 5_000}, day={"EUR": 9_000})
PLACE = Destination(
    id="landlord",
    account="alice",
    iban="DE89370400440532013000",
    holder="Ada Example",
    added_by="arn:aws:iam::1:user/ada",
    added_at=timestamp(START - 3 * DAY),
    confirmed_by="arn:aws:iam::1:user/bea",
    payable_from=timestamp(START - DAY),
)
KEYS = RowKeys({"1": b"the-key-of-the-lives"})
ANOTHER = "GB29NWBK60161331926819"
FILE = record.File("9f" * 32, "day.xml", timestamp(START))


OWN_ACCOUNT = "DE02120300000000202051"
ACCOUNTS = frozenset({OWN_ACCOUNT})


def caller(person: str) -> Caller:
    return Caller(by=f"arn:aws:iam::1:user/{person}", user_id=person, request_id="1", source_ip="::1")


def _of_the_destination() -> Iterator[dict[str, Any]]:
    told = {name: getattr(PLACE, name) for name in ("account", "iban", "holder", "added_by", "added_at")}
    yield KEYS.signed({**keys.destination(PLACE.id), **told})
    shown = ("account", "iban", "holder", "confirmed_by", "payable_from")
    told = {name: getattr(PLACE, name) for name in shown}
    yield KEYS.signed({**keys.destination_confirmed(PLACE.id), **told})


ACCOUNT = ("ACCOUNT#alice", "BALANCE")
ROW = (f"PAYOUT#{PAYOUT.key}", "PAYOUT")
ITEMS = [
    to_wire({**keys.account("alice"), "available": FUNDS, "currency": "EUR", "limbo_cases": 0}),
    *map(to_wire, _of_the_destination()),
]

Lost = Literal["lost", "late", "refused", "killed before", "killed after"]
Kind = Lost | Literal["second caller", "frozen", "clock back", "clock ahead", "destination frozen"]
KINDS: dict[str, tuple[Kind, ...]] = {
    "bank": (
        *("lost", "late", "refused", "killed before", "killed after"),
        *("second caller", "frozen", "clock back", "clock ahead"),
    ),
    "table": (
        *("lost", "killed before", "second caller", "frozen", "clock back", "clock ahead"),
        "destination frozen",
    ),
    "read": ("lost",),
}
"""Deviations by kind of call. The table has no `refused`, since it would equal `killed before`."""

OF_PAIRS = frozenset({*KINDS["bank"], *KINDS["table"]} - {"clock ahead", "destination frozen"})
"""Kinds that are tried in pairs. Pairs of all kinds would take half as long again."""


class Deviation(NamedTuple):
    at: int
    kind: Kind


class Killed(BaseException):
    """Raised to end a caller, as if its process had died."""


@dataclass
class Actor:
    clock: Callable[[], datetime]
    is_of_restored: bool = False
    behind: timedelta = timedelta()

    def now(self) -> datetime:
        return self.clock() - self.behind


@dataclass
class Life:
    script: Script
    deviations: tuple[Deviation, ...] = ()
    clock: datetime = START
    calls: int = 0
    broken: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    states: set[Status] = field(default_factory=set)
    balances: dict[str, int] = field(default_factory=dict)
    trace: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    places: list[tuple[str, str, str]] = field(default_factory=list)
    """Each call's kind and effect, and the payout's status."""

    def __post_init__(self) -> None:
        self.table = MemoryDynamoDb(committed=self._committed)
        self.bank = SimulatedBank(self.script, START, self.now)
        self._arrivals: list[tuple[datetime, bytes]] = []
        self._booked: set[tuple[str, int]] = set()
        self._told: set[datetime] = set()
        self._not_before = self._lines_after = START
        self._read: Any = None
        self._state: State | None = None
        self._stale: list[Decision] = []
        self._again = START
        self._agreed: set[tuple[str, str]] = set()
        self._frozen = self._altered = self._restored = False
        self._reserved: Any = None
        self.is_refused = False
        for item in ITEMS:
            self.table.put_item(TableName="lives", Item=item)

    def now(self) -> datetime:
        return self.clock

    # The calls, and what goes wrong with them

    def call(
        self,
        kind: Literal["bank", "table", "read"],
        what: str,
        actor: Actor,
        act: Callable[[], Any],
        late: Callable[[], None],
    ) -> Any:
        self.calls += 1
        self.clock += CALL
        number = self.calls
        self.kinds.append(kind)
        self.places.append((kind, what, self._state.status if self._state else ""))
        wrong = next((one.kind for one in self.deviations if one.at == number), None)
        self.trace.append(f"{timestamp(self.clock)} {number} {kind} {what} {wrong or ''}")
        match wrong:
            case None:
                return act()
            case "killed before":
                raise Killed
            case "killed after":
                act()
                raise Killed
            case "second caller":
                self.attempt((lambda one: one.look(PAYOUT.key)) if self.state() else self._reserve)
                return act()
            case "frozen":
                self.run(self.clock + FROZEN)
                if actor.is_of_restored != self._restored:
                    raise Killed  # the stage is stopped before a restore, for longer than any call lives
                return act()
            case "clock back" | "clock ahead":
                actor.behind = SKEW if wrong == "clock back" else -SKEW
                return act()
            case "destination frozen":
                self._freeze()
                return act()
            case "lost":
                act()
            case "late":
                late()
            case "refused":
                pass
        if kind == "bank":
            return Unknown(str(wrong))
        raise (ReadTimeoutError if wrong == "lost" else ConnectTimeoutError)(endpoint_url="table")

    def follower(self) -> follow.Follower:
        actor = Actor(self.now, self._restored)
        return follow.Follower(
            Store(_Table(self, actor), "lives", pause=lambda tries: None, adds=(KEYS.signed,)),
            _Wire(self, actor),
            actor.now,
            KEYS.is_proven,
            ACCOUNTS,
        )

    def attempt(self, act: Callable[[follow.Follower], Any]) -> bool:
        """Let a new caller act; return whether it finished."""
        try:
            act(self.follower())
        except (StoreUnavailable, PayoutFenced, Killed) as error:
            self.trace.append(f"{timestamp(self.clock)} {type(error).__name__} {error}")
            return False
        except (AccountClosed, AccountFrozen):
            self._again = self.clock + NOT_TAKEN
        return True

    # The world

    def live(self) -> "Life":
        with mock.patch.object(follow, "count"):  # it prints each hundredth
            self._live()
        self._judge()
        return self

    def _live(self) -> None:
        while not (self.state() or self.is_refused) and self.clock < START + HORIZON:
            self.attempt(self._reserve)
            self.clock += RETRY
        if self.script.account != "open":
            self._block("frozen_at" if self.script.account == "frozen" else "closed_at")
        self.run(START + HORIZON)

    def run(self, until: datetime) -> None:
        while True:
            due = self._due()
            if due is None or due[0] > until:
                break
            if self.calls > CALLS_MAX:
                self.broken.append("it is called for ever")
                break
            self.clock = max(self.clock, due[0])
            due[1]()
        self.clock = max(self.clock, until)

    def _due(self) -> tuple[datetime, Callable[[], None]] | None:
        things: list[tuple[datetime, Callable[[], None]]] = [
            (at, partial(self._arrive, at, body)) for at, body in self._arrivals
        ]
        things += [
            (at, partial(self._tell, at))
            for at in self.bank.changes()
            if at not in self._told and at < START + HORIZON and self.script.events != "never"
        ]
        if self.script.statement:
            morning = self._unbooked()
            if morning is not None:
                things.append((max(morning, self._not_before, self._lines_after), self._book))
        state = self.state()
        if state and state.trouble is None and state.listed_at is not None:
            look_at = max(datetime.fromisoformat(state.listed_at), self._not_before)
            things.append((look_at, self._look))
        if state and state.trouble is not None and self.script.persons != "none":
            since = datetime.fromisoformat(str(state.listed_at)) + HOUR
            things.append((max(since, self._not_before, self._again), self._decide))
        things += self._due_in_the_world()
        return min(things, key=lambda thing: thing[0], default=None)

    def _due_in_the_world(self) -> Iterator[tuple[datetime, Callable[[], None]]]:
        if self.script.opens_after < NEVER and "frozen_at" in self.table.items[ACCOUNT]:
            yield START + self.script.opens_after, self._open
        if self.script.freezes_after < NEVER and not self._frozen:
            yield START + self.script.freezes_after, self._freeze
        if self.script.restored_after < NEVER and not self._restored and self.state():
            yield START + self.script.restored_after, self._restore
        if self.script.alters_after < NEVER and not self._altered and self.state():
            yield START + self.script.alters_after, self._alter

    def _block(self, name: str) -> None:
        self.table.items[ACCOUNT] = {**self.table.items[ACCOUNT], name: {"S": timestamp(START)}}

    def _open(self) -> None:
        row = self.table.items[ACCOUNT]
        self.table.items[ACCOUNT] = {name: row[name] for name in row if name != "frozen_at"}

    def _freeze(self) -> None:
        self._frozen = True
        store = Store(self.table, "lives", pause=lambda tries: None, adds=(KEYS.signed,))
        with suppress(AlreadyApplied):
            store.transact(destination.freeze(PLACE.id, caller("dora"), self.clock))

    def _alter(self) -> None:
        """Write another IBAN on the payout's row, bypassing its functions."""
        self._altered = True
        state = self.state()
        assert state
        altered = replace(state, iban=ANOTHER)
        if state.is_sent:
            altered = replace(altered, sent_sha256=sha256(self.bank.body(altered)).hexdigest())
        self.table.items[ROW] = to_wire(altered.to_row())
        self.state()

    def _restore(self) -> None:
        """Restore the payout's rows to its reservation; delete its later entries.

        The stage stops until requests under way have arrived.
        """
        self._restored = True
        for at, body in sorted(self._arrivals):
            self.clock = max(self.clock, at)
            self._arrive(at, body)
        state = self.state()
        assert state
        assert self._reserved
        self.table.items[ROW] = self._reserved
        self._read, self._state = self._reserved, State.from_row(from_wire(self._reserved))
        gone = [place for place in self.table.items if place[0].startswith(("BANK_LINE#", "PAYOUT_LINE#"))]
        gone += [place for place in self.table.items if place[0].startswith("ENTRIES#")][1:]
        for place in gone:
            del self.table.items[place]
        self._booked.clear()
        self.balances = {"alice": -PAYOUT.amount, "transit:EUR": PAYOUT.amount}
        self.table.items[ACCOUNT] = {
            **self.table.items[ACCOUNT],
            "available": {"N": str(FUNDS - PAYOUT.amount)},
        }

    def _look(self) -> None:
        before = self.state()
        self.attempt(lambda one: one.look(PAYOUT.key))
        if self.state() == before or self.is_due():
            self._not_before = self.clock + RETRY

    def is_due(self) -> bool:
        state = self.state()
        return bool(
            state and state.trouble is None and state.listed_at and state.listed_at <= timestamp(self.clock)
        )

    def _reserve(self, one: follow.Follower) -> None:
        try:
            Reservations(one.store, LIMITS, one.is_proven, one.now).reserve(PAYOUT)
        except DestinationRefused:
            self.is_refused = True

    def _arrive(self, at: datetime, body: bytes) -> None:
        self._arrivals.remove((at, body))
        self.bank.arrive(body)

    def _tell(self, at: datetime) -> None:
        self._told.add(at)
        for _ in range(2 if self.script.events == "twice" else 1):
            self.hint()

    def hint(self) -> None:
        self.attempt(lambda one: hints.bring_forward(one.store, PAYOUT.reference, one.now()))

    def _unbooked(self) -> datetime | None:
        """Return when persons next book a line, if any is left.

        They book each line twice, since the list of lines lags.
        """
        moments = [
            at
            for number, payment in enumerate(self.bank.payments)
            for at in self._line_times(number, payment)
        ]
        return min(moments, default=None)

    def _line_times(self, number: int, payment: Any) -> Iterator[datetime]:
        was, self.clock = self.clock, START + HORIZON
        lines = self.bank.lines()
        self.clock = was
        for line in lines:
            for time in (0, 1):
                if (line.name, time) not in self._booked:
                    yield morning_after(line) + time * HOUR

    def _book(self) -> None:
        for line in self.bank.lines():
            for time in (0, 1):
                if (line.name, time) in self._booked or morning_after(line) + time * HOUR > self.clock:
                    continue
                self._read_statement(line)
                if self._is_early(line):
                    self._lines_after = self.clock + HOUR
                elif self.attempt(lambda one, line=line: self._book_line(one, line)):  # type: ignore[misc]
                    self._booked.add((line.name, time))
                else:
                    self._not_before = self.clock + RETRY
                return

    def _is_early(self, line: BookedLine) -> bool:
        """Try to book a line on a restored row. Return whether the row, which forgot its send, refuses it."""
        state = self.state()
        if not (self._restored and state and not state.is_sent):
            return False
        self.attempt(lambda one: one.book_listed(recorded(line).line.identity))
        now = self.state()
        return now is not None and not now.is_sent

    def _read_statement(self, line: BookedLine) -> None:
        """Record a line as the reader of statements does, and match it if an order has it."""
        one = recorded(line)
        if (f"BANK_LINE#{one.line.identity}", "LINE") in self.table.items:
            return
        written = [record.line(one, FILE), lines.listed(one)]
        if line.is_taken:
            of_an_order = record.Match(
                *(one.line.identity, "withdraw-by-a-person", "alice", "EUR", line.amount, Side.OUT),
                timestamp(self.clock),
            )
            written.append(record.match_line(of_an_order, AlreadyApplied))
        for write in written:
            if write:
                self.table.put_item(TableName="lives", Item=to_wire(write.parameters["Item"]))

    def _book_line(self, one: follow.Follower, line: BookedLine) -> None:
        identity = recorded(line).line.identity
        found = one.book_listed(identity)
        listed = self.table.items.get((f"PAYOUT_LINE#{identity}", "LINE"), {})
        if not listed:
            self.broken.append(f"a line is not listed: {line.name}")
        elif found is not None and (line.is_taken or not line.is_right):
            self.broken.append(f"a wrong line is booked: {line.name}")
        elif "refused" in listed:
            refusal = listed["refused"]["S"]
            self.findings.append(refusal)
            if line.is_right and not self._has_failed(refusal):
                self.broken.append(f"a right line is refused: {refusal}")
            if line.reference != PAYOUT.reference and PAYOUT.key in refusal:
                self.broken.append(f"a line of nobody is taken for the payout's: {refusal}")
        elif not line.is_right:
            self.broken.append(f"nobody hears of a wrong line: {line.name}")
        elif "gsi1pk" in listed:
            self.broken.append(f"a booked line stays listed: {line.name}")

    def _has_failed(self, refusal: str) -> bool:
        """Return whether the bank refused a payment after making it, so persons book two lines."""
        return self.script.word_of_return is Word.REFUSED and refusal.endswith("which was refused")

    # Persons

    def _decide(self) -> None:
        was = self._shown()
        for is_approval, order, person in self._orders(was):
            if self._shown().trouble is None:
                break
            order_of = partial(self._order, is_approval=is_approval, order=order, person=person)
            self.attempt(order_of)
        self.attempt(lambda one: one.look(PAYOUT.key))
        now = self._shown()
        if now.trouble is not None:  # the longer a case is open, the rarer they try
            is_open_for = self.clock - datetime.fromisoformat(str(now.listed_at))
            pause = TAKEN_LATER if now.trouble == follow.NOT_TAKEN else max(RETRY, is_open_for / 4)
            self._again = max(self._again, self.clock + pause)

    def _shown(self) -> State:
        state = self.state()
        assert state
        return state

    def _order(self, one: follow.Follower, *, is_approval: bool, order: Decision, person: str) -> None:
        state, now = one.state(PAYOUT.key), one.now()
        try:
            if is_approval:
                place = order.place
                write = decision.approve(state, order, one.store.read(place), caller(person), now)
            else:
                write = decision.propose(state, order, caller(person), now)
            one.store.transact([write])
        except AlreadyApplied:
            return
        except ResolutionRefused as refused:
            self.trace.append(f"{timestamp(self.clock)} refused {refused}")

    def _orders(self, state: State) -> Iterator[tuple[bool, Decision, str]]:
        """Yield an approval without a proposal, one person's wrong decision, and two persons' right one."""

        def order(verdict: Verdict) -> Decision:
            return Decision(
                key=PAYOUT.key,
                case=state.cases,
                digest=state.digest,
                verdict=verdict,
                reason="as the bank says",
                contradicts=self._contradicts(state),
            )

        truth = self._truth(state)
        wrong = next((one for one in decision.verdicts(state) if one is not truth), None)
        if wrong:
            if not self._is_proposed(order(wrong)):
                yield True, order(wrong), "dora"
            yield False, order(wrong), "carl"
            yield True, order(wrong), "carl"
        for stale in self._stale:
            if stale.case < state.cases:
                yield False, stale, "ada"
                yield True, stale, "bea"
        if truth is Verdict.ASK:
            self._stale = [order(wrong)] if wrong else []
        yield False, order(truth), "ada"
        self._agreed.add((str(state.cases), truth))
        yield True, order(truth), "bea"

    def _contradicts(self, state: State) -> bool:
        """Return whether persons contradict the bank; patient persons do so only if it is silent."""
        return self.script.persons != "patient" or state.trouble == follow.SILENT

    def _is_proposed(self, order: Decision) -> bool:
        place = order.place
        return (place["pk"], place["sk"]) in self.table.items

    def _truth(self, state: State) -> Verdict:
        """Return the verdict of two persons, who phone the bank or decide from the row alone."""
        if state.in_suspense:
            return Verdict.GIVE_BACK
        if self.script.persons == "ask first" and state.cases == 1:
            return Verdict.ASK
        if state.status is Status.LIMBO and not state.is_sent and self.bank.payments:
            return Verdict.ASK  # the row has forgotten its send
        if self.script.persons == "from the row":
            has_left = state.said in (Word.ACCEPTED, Word.PAID)
        elif self.bank.is_pending():
            return Verdict.ASK
        else:
            has_left = self.bank.paid() > 0
        if state.status is Status.LIMBO:
            verdict = Verdict.PAID if has_left else Verdict.NOT_PAID
            is_against = state.said in decision.AGAINST[verdict]
            return Verdict.ASK if is_against and not self._contradicts(state) else verdict
        return Verdict.CLOSE if has_left else Verdict.NOT_PAID

    # The rules

    def state(self) -> State | None:
        item = self.table.items.get(ROW)
        if item is not self._read:
            self._read, self._state = item, State.from_row(from_wire(item)) if item else None
        return self._state

    def _committed(self, changes: Changes) -> None:
        self.broken += self._of_orders(changes)
        for before, after in changes:
            if after and after["pk"]["S"].startswith("ENTRIES#"):
                row = from_wire(after)
                if before:
                    self.broken.append("an entry is overwritten")
                self.balances[row["debit"]] = self.balances.get(row["debit"], 0) - row["amount"]
                self.balances[row["credit"]] = self.balances.get(row["credit"], 0) + row["amount"]
        for _, after in changes:
            if after and after["pk"]["S"].startswith("PAYOUT#"):
                self._moved(after)

    @staticmethod
    def _of_orders(changes: Changes) -> Iterator[str]:
        """Yield persons' orders that `settle audit` would not list."""
        listed = {after["pk"]["S"] for before, after in changes if after and not before and "gsi1pk" in after}
        for before, after in changes:
            name = after["pk"]["S"] if after else ""
            is_frozen = "frozen_at" in (after or ()) and "frozen_at" not in (before or ())
            is_order = name.startswith("PAYOUT_CASE#") or (name.startswith("DESTINATION#") and is_frozen)
            if is_order and name not in listed:
                yield f"a person's order is in no list: {name}"

    def _moved(self, item: Any) -> None:
        before, state = self._state, State.from_row(from_wire(item))
        self._reserved = self._reserved or item
        self._read, self._state = item, state
        if before and state.sequence not in (before.sequence, before.sequence + 1):
            self.broken.append(f"its sequence goes from {before.sequence} to {state.sequence}")
        self.broken += [*self._of_a_move(before, state)]
        self.states.add(state.status)
        self.trace.append(f"{timestamp(self.clock)} -> {state.status} {state.sequence}")
        under_way = PAYOUT.amount if state.status in UNDER_WAY else 0
        if self.balances.get("transit:EUR", 0) != under_way:
            self.broken.append(f"transit is {self.balances.get('transit:EUR', 0)} while {state.status}")
        has_left = PAYOUT.amount if state.status in (Status.PAID, Status.CONFIRMED) else 0
        if self.balances.get("external:EUR", 0) != has_left:
            self.broken.append(f"external is {self.balances.get('external:EUR', 0)} while {state.status}")
        if state.status in (Status.REFUSED, Status.RETURNED) and self.bank.net() and not self.script.wrong:
            self.broken.append(f"given back ({state.status}) while the bank has paid")
        if state.status is Status.RETURNED and not self.bank.paid() and not self.script.lies:
            self.broken.append("returned, though it never left")
        if state.status is Status.CONFIRMED and state.debit_line is None:
            self.broken.append("confirmed without a line")

    def _of_a_move(self, before: State | None, state: State) -> Iterator[str]:
        if self._frozen and state.attempts > (before.attempts if before else 0) and not self.bank.payments:
            yield "it is sent, though its destination is frozen"
        for name in ("debit_line", "return_line"):
            line, earlier = getattr(state, name), getattr(before, name) if before else None
            if earlier and line != earlier:
                yield "a line takes another's place"
            if line and line != earlier:
                match = self.table.items.get((f"BANK_LINE#{line}", "MATCH"))
                order = ROW[0] + ("#RETURN" if name == "return_line" else "")
                if match is None or match["order"]["S"] != order:
                    yield "a line moves the payout, and is not matched with it"
        decided = (state.decided or {}).get("case"), (state.decided or {}).get("verdict")
        if self._is_new(before, state, Status.REFUSED) and self._is_unheard(state):
            yield "not paid, though the bank is silent and nobody contradicts it"
        is_decided = bool(before) and state.decided != before.decided  # type: ignore[union-attr]
        if is_decided and decided not in self._agreed:
            yield f"{decided[1]} is carried out, which two persons have not decided"
        if before and state.cases > before.cases:
            yield from self._of_a_new_case(before, state)
        if (state.in_suspense == 1) != bool(self.balances.get("suspense:EUR")):
            yield "its row and suspense disagree"
        is_told = (
            state.said in (Word.PAID, Word.RETURNED) or state.debit_line or state.return_line or state.decided
        )
        if self._is_new(before, state, Status.PAID) and not is_told:
            yield "paid, and neither bank, line nor persons say so"

    def _of_a_new_case(self, before: State, state: State) -> Iterator[str]:
        if state.in_suspense or not before.decided:
            return
        waited = self.clock - datetime.fromisoformat(before.decided["approved_at"])
        if before.decided["verdict"] == Verdict.CLOSE:
            yield "it is closed, and comes to persons again"
        is_paid = before.status in (Status.PAID, Status.RETURNED)
        if is_paid and before.decided["verdict"] == Verdict.ASK and waited < policy.PAID_FOR - RETRY:
            yield "persons gave it more days, and it comes back earlier"

    def _is_unheard(self, state: State) -> bool:
        told = state.decided or {}
        return bool(told) and "contradicts" not in told and self.bank.is_silent()

    @staticmethod
    def _is_new(before: State | None, state: State, status: Status) -> bool:
        return state.status is status and (before is None or before.status is not status)

    def _judge(self) -> None:
        state = self.state()
        if state is None:
            if not (self.is_refused and self._frozen) or self.balances:
                self.broken.append("the payout was never reserved")
            return
        self.broken += [*self._of_the_bank(), *self._of_rest(state), *self._of_the_books(state)]

    def _of_the_bank(self) -> Iterator[str]:
        if self.bank.paid() > 1:
            yield f"the bank has paid {self.bank.paid()} times"
        if len(self.bank.payments) > 1:
            yield "the payout is sent twice"
        if any(len(bodies) > 1 for bodies in self.bank.bodies.values()):
            yield "one reference was sent with two contents"
        if len(self.bank.bodies) > 1:
            yield "the payout was sent under two references"
        if self.bank.paid_to - {PLACE.iban}:
            yield "it was sent to another bank account than was reserved"

    def _of_rest(self, state: State) -> Iterator[str]:
        if not (state.is_at_rest or state.trouble is not None):
            yield f"it never comes to rest: {state.status}"
        is_awaited = state.in_suspense and (self.script.account, self.script.opens_after) != ("open", NEVER)
        if state.trouble is not None and self.script.persons != "none" and not is_awaited:
            yield "persons cannot end its case"
        is_honest = not (self.script.wrong or self.script.lies)
        if state.status is Status.PAID and self.script.statement and is_honest:
            yield "its line is booked, and it is not confirmed"

    def _of_the_books(self, state: State) -> Iterator[str]:
        books = self.balances.get("external:EUR", 0)
        if state.status is not Status.LIMBO and not self.script.wrong and books != self.bank.net():
            yield f"the books say {books}, the bank {self.bank.net()}"
        row = from_wire(self.table.items["ACCOUNT#alice", "BALANCE"])
        if row["available"] != FUNDS + self.balances.get("alice", 0):
            yield "the customer's balance is not that of the entries"
        in_suspense = self.balances.get("suspense:EUR", 0)
        is_open = not {"frozen_at", "closed_at"} & self.table.items[ACCOUNT].keys()
        if in_suspense and (is_open or state.trouble is None):
            yield "money is in suspense, and nobody knows why"
        if in_suspense and state.status is Status.REFUSED:
            yield "a refusal did not go back to the customer"
        if state.status is Status.RETURNED and not is_open and not in_suspense:
            yield "a return went to an account that does not take it"


class _Table:
    """One caller's DynamoDB client."""

    def __init__(self, life: Life, actor: Actor) -> None:
        self._life, self._actor = life, actor

    def get_item(self, **asked: Any) -> Any:
        kind = asked["Key"]["pk"]["S"].partition("#")[0]
        return self._call("read", kind, lambda: self._life.table.get_item(**asked))

    def transact_write_items(self, **asked: Any) -> Any:
        (first,) = asked["TransactItems"][0].values()
        what = first.get("UpdateExpression", "put")[:30]
        return self._call("table", what, lambda: self._life.table.transact_write_items(**asked))

    def _call(self, kind: Literal["table", "read"], what: str, act: Callable[[], Any]) -> Any:
        return self._life.call(kind, what, self._actor, act, lambda: None)


class _Wire:
    """The bank, as one caller reaches it."""

    def __init__(self, life: Life, actor: Actor) -> None:
        self._life, self._actor, self.declared = life, actor, life.bank.declared
        self.request = life.bank.request

    def submit(self, state: State, body: bytes) -> Any:
        life = self._life

        def act() -> Any:
            answer = life.bank.submit(state, body)
            if life.script.events == "early":
                life.hint()
            return answer

        return life.call(
            "bank", "submit", self._actor, act, lambda: life._arrivals.append((life.clock + FROZEN, body))
        )

    def find(self, state: State) -> Any:
        return self._life.call("bank", "find", self._actor, lambda: self._life.bank.find(state), lambda: None)


def morning_after(line: BookedLine) -> datetime:
    return line.at.replace(hour=6, minute=0, second=0, microsecond=0) + DAY


@lru_cache
def recorded(line: BookedLine) -> Recorded:
    day = line.at.date().isoformat()
    told = BankLine(
        identity=sha256(f"{line.name} {day}".encode()).hexdigest(),
        account=OWN_ACCOUNT,
        currency="EUR",
        amount=line.amount,
        side=Side.OUT if line.sign > 0 else Side.IN,
        booked=day,
        valued=day,
        bank_reference=line.name,
        reference=line.reference,
        returns="AC04" if line.sign < 0 or line.is_recall else "",
        statement="S",
        file="day.xml",
        at=1,
    )
    return Recorded(told, 0, frozenset({line.reference, "thank you"}))


SCRIPTS: tuple[Script, ...] = (
    Script(name="pays", window=DAY),
    Script(name="pays, no statement", window=DAY, statement=False, persons="ask first"),
    Script(name="pays, no keys"),
    Script(name="pays, no keys, no statement", statement=False),
    Script(name="pays, no keys, no persons", persons="none"),
    Script(name="refuses", window=DAY, refuses=True),
    Script(name="refuses, no keys", refuses=True, statement=False),
    Script(name="refuses, closed", window=DAY, refuses=True, account="closed"),
    Script(name="refuses later", window=DAY, pays_after=NEVER, refuses_after=5 * HOUR, events="never"),
    Script(name="pays in an hour", pays_after=HOUR, events="early"),
    Script(name="pays in five days", window=DAY, pays_after=5 * DAY, persons="ask first"),
    Script(name="returns", window=DAY, returns_after=3 * DAY, events="twice"),
    Script(name="returns, no keys, no statement", returns_after=3 * DAY, statement=False),
    Script(name="returns at once", returns_after=timedelta(), events="never"),
    Script(name="returns, closed", window=DAY, returns_after=3 * DAY, account="closed"),
    Script(name="returns, frozen", returns_after=3 * HOUR, statement=False, account="frozen"),
    Script(name="fails after it was paid", returns_after=4 * HOUR, word_of_return=Word.REFUSED),
    Script(
        name="closed, then dark", closed_for=26 * HOUR, dark_for=4 * DAY, persons="ask first", statement=False
    ),
    Script(name="dark, keys", window=DAY, dark_for=4 * DAY, persons="ask first", statement=False),
    Script(name="dark, no keys", dark_for=4 * DAY),
    Script(name="dark, keys of a month", window=30 * DAY, dark_for=62 * HOUR, statement=False),
    Script(name="keys of an hour", window=HOUR, events="never"),
    Script(name="keys of four hours", window=4 * HOUR, statement=False),
    Script(name="in progress", window=DAY, in_progress=True),
    Script(name="stray", window=DAY, wrong="stray"),
    Script(name="refuses later, events", pays_after=NEVER, refuses_after=5 * HOUR),
    Script(name="never opens", closed_for=NEVER, statement=False),
    Script(name="dark for ever", window=DAY, dark_for=NEVER, statement=False),
    Script(name="half", window=DAY, wrong="half"),
    Script(name="second debit", window=DAY, wrong="second debit"),
    Script(name="second return", returns_after=2 * DAY, wrong="second return"),
    Script(name="return of a refused", window=DAY, refuses=True, wrong="return of a refused"),
    Script(
        name="returns, frozen, then opens",
        window=DAY,
        returns_after=3 * DAY,
        account="frozen",
        opens_after=12 * DAY,
    ),
    Script(name="says paid, pays nothing", window=DAY, lies=True),
    Script(
        name="returns at once, no line of it",
        returns_after=timedelta(),
        wrong="no line of the return",
        persons="ask first",
    ),
    Script(
        name="returns at once, its line is late",
        returns_after=timedelta(),
        return_line_after=15 * DAY,
        persons="ask first",
    ),
    Script(name="booked by an order", window=DAY, wrong="booked by an order"),
    Script(name="dark, booked by an order", dark_for=4 * DAY, wrong="booked by an order", events="never"),
    Script(name="frozen before it is sent", closed_for=HOUR, freezes_after=RETRY),
    Script(name="frozen after it is sent", window=DAY, freezes_after=timedelta(seconds=20)),
    Script(name="restored", restored_after=10 * HOUR),
    Script(name="restored, frozen", restored_after=10 * HOUR, freezes_after=9 * HOUR, statement=False),
    Script(name="restored, returned", restored_after=30 * HOUR, returns_after=20 * HOUR),
    Script(name="restored, dark", restored_after=10 * HOUR, dark_for=2 * DAY),
    Script(name="recalled", window=DAY, returns_after=2 * DAY, wrong="recalled"),
    Script(name="silent, persons wait", refuses=True, dark_for=6 * DAY, persons="patient", statement=False),
    Script(name="silent for ever, persons wait", closed_for=NEVER, persons="patient", statement=False),
    Script(name="altered before it is sent", closed_for=HOUR, alters_after=RETRY),
    Script(name="altered after it is sent", window=DAY, alters_after=timedelta(seconds=20)),
)

ALONE = Script(
    name="the bank speaks after persons decided",
    dark_for=76.5 * HOUR,
    persons="from the row",
    statement=False,
)
"""A script that has no deviations, since two persons would decide wrongly after a lost answer."""

REPEATED_MAX = 5
"""Maximum calls disturbed per place (kind, effect and status), besides the place's last call."""

FIRST_MAX, APART_MAX = 6, 6
"""In a pair, the first deviation is within FIRST_MAX calls, the second within APART_MAX more."""


def singles(script: Script, every: int = 1) -> Iterator[Life]:
    """Yield the undisturbed life, and a life for each deviation at each call, or for one in `every`."""
    plain = Life(script).live()
    yield plain
    deviations = [Deviation(at, kind) for at, call in _distinct(plain) for kind in KINDS[call]]
    for one in random.Random(script.name).sample(deviations, -(-len(deviations) // every)):
        yield Life(script, (one,)).live()


def _distinct(life: Life) -> Iterator[tuple[int, str]]:
    """Yield the calls, without most repetitions of daily looks."""
    before, after = Counter[tuple[str, str, str]](), Counter(life.places)
    for at, place in enumerate(life.places, 1):
        before[place] += 1
        after[place] -= 1
        if before[place] <= REPEATED_MAX or not after[place]:
            yield at, place[0]


def pairs(script: Script) -> Iterator[Life]:
    for first in _with_one_more(Life(script).live(), FIRST_MAX):
        yield from _with_one_more(first, APART_MAX)


def _with_one_more(life: Life, calls: int) -> Iterator[Life]:
    """Yield lives with one more deviation, at one of the next calls that change something."""
    done = max((one.at for one in life.deviations), default=0)
    next_ones = [(at, call) for at, call in enumerate(life.kinds, 1) if at > done and call != "read"]
    for at, call in next_ones[:calls]:
        for kind in KINDS[call]:
            if kind in OF_PAIRS:
                yield Life(life.script, (*life.deviations, Deviation(at, kind))).live()
