"""All lives of one payout, with up to two deviations, on a virtual clock.

A life runs one payout from its reservation until nothing is left to do. A deviation happens at a call of the
bank or at a write of the table; a fault between two calls is one at the later call. A caller that is frozen
waits while everything else goes on.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError

from settlement.bank.matching import BankLine, Recorded
from settlement.bank.statement import Side
from settlement.core.ledger import keys
from settlement.core.ledger.transaction import AlreadyApplied
from settlement.core.model.errors import LineRefused, PayoutFenced, ResolutionRefused, StoreUnavailable
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import from_wire, to_wire
from settlement.http.caller import Caller
from settlement.payouts import follow, writes
from settlement.payouts.decision import Decision, Verdict
from settlement.payouts.destination import Destination
from settlement.payouts.payout import UNDER_WAY, Payout, State, Status, Word
from settlement.payouts.port import Unknown
from settlement.payouts.writes import Limits
from tests.simulation.payouts.bank import DAY, HOUR, NEVER, BookedLine, Script, SimulatedBank
from tests.world.memory_dynamodb import Changes, MemoryDynamoDb

START = datetime.fromisoformat("2026-11-30T09:00:00.000+00:00")
HORIZON = timedelta(days=45)
FROZEN, BACK = timedelta(hours=2), timedelta(seconds=10)
CALL = timedelta(milliseconds=20)
RETRY = timedelta(minutes=1)

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

Kind = Literal[
    "lost", "late", "refused", "killed before", "killed after", "second caller", "frozen", "clock back"
]
KINDS: dict[str, tuple[Kind, ...]] = {
    "bank": (
        *("lost", "late", "refused", "killed before", "killed after"),
        *("second caller", "frozen", "clock back"),
    ),
    "table": ("lost", "killed before", "second caller", "frozen", "clock back"),
}
"""At the table, a caller whose write is refused ends as one that is killed before it."""


class Deviation(NamedTuple):
    at: int
    kind: Kind


class Killed(BaseException):
    """The caller is gone."""


@dataclass
class Actor:
    """One caller, with a clock of its own."""

    clock: Callable[[], datetime]
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
    """Of each call: bank or table."""

    def __post_init__(self) -> None:
        self.table = MemoryDynamoDb(committed=self._committed)
        self.bank = SimulatedBank(self.script, START, self.now)
        self._arrivals: list[tuple[datetime, bytes]] = []
        self._booked: set[tuple[str, int]] = set()
        self._told: set[datetime] = set()
        self._not_before = START
        self._read: Any = None
        self._state: State | None = None
        self._stale: list[Decision] = []
        for row in (
            {**keys.account("alice"), "available": FUNDS, "currency": "EUR", "limbo_cases": 0},
            {
                **keys.destination(PLACE.id),
                **{n: v for n, v in vars(PLACE).items() if v is not None and n != "id"},
            },
        ):
            self.table.put_item(TableName="lives", Item=to_wire(row))

    def now(self) -> datetime:
        return self.clock

    # The calls, and what goes wrong with them

    def call(
        self,
        kind: Literal["bank", "table"],
        what: str,
        actor: Actor,
        act: Callable[[], Any],
        late: Callable[[], None],
    ) -> Any:
        self.calls += 1
        self.clock += CALL
        number = self.calls
        self.kinds.append(kind)
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
                return act()
            case "clock back":
                actor.behind = BACK
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
        actor = Actor(self.now)
        return follow.Follower(
            Store(_Table(self, actor), "lives", pause=lambda tries: None), _Wire(self, actor), actor.now
        )

    def attempt(self, act: Callable[[follow.Follower], Any]) -> bool:
        """Let a new caller act; whether it came to an end."""
        try:
            act(self.follower())
        except (StoreUnavailable, PayoutFenced, Killed) as error:
            self.trace.append(f"{timestamp(self.clock)} {type(error).__name__} {error}")
            return False
        return True

    # The world

    def live(self) -> "Life":
        while not self.state() and self.clock < START + HORIZON:
            self.attempt(self._reserve)
            self.clock += RETRY
        if self.script.account != "open":
            name = "frozen_at" if self.script.account == "frozen" else "closed_at"
            row = self.table.items["ACCOUNT#alice", "BALANCE"]
            self.table.items["ACCOUNT#alice", "BALANCE"] = {**row, name: {"S": timestamp(START)}}
        self.run(START + HORIZON)
        self._judge()
        return self

    def run(self, until: datetime) -> None:
        """Let everything happen that is due until then."""
        while True:
            due = self._due()
            if due is None or due[0] > until:
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
                things.append((max(morning, self._not_before), self._book))
        state = self.state()
        if state and state.trouble is None and state.listed_at is not None:
            look_at = max(datetime.fromisoformat(state.listed_at), self._not_before)
            things.append((look_at, self._look))
        if state and state.status is Status.LIMBO and self.script.persons != "none":
            since = datetime.fromisoformat(str(state.listed_at)) + HOUR
            things.append((max(since, self._not_before), self._decide))
        return min(things, key=lambda thing: thing[0], default=None)

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
            one.store.transact(writes.reserve(PAYOUT, PLACE, LIMITS, one.now()))
        except AlreadyApplied:
            return

    def _arrive(self, at: datetime, body: bytes) -> None:
        self._arrivals.remove((at, body))
        self.bank.arrive(body)

    def _tell(self, at: datetime) -> None:
        self._told.add(at)
        for _ in range(2 if self.script.events == "twice" else 1):
            self.hint()

    def hint(self) -> None:
        event = json.dumps({"reference": PAYOUT.reference}).encode()
        self.attempt(lambda one: one.hint(event))

    def _unbooked(self) -> datetime | None:
        """The next morning with a line that is not booked. Each line comes twice: a file is read again."""
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
            morning = line.at.replace(hour=6, minute=0, second=0, microsecond=0) + DAY
            for time in (0, 1):
                if (line.name, time) not in self._booked:
                    yield morning + time * HOUR

    def _book(self) -> None:
        for line in self.bank.lines():
            morning = line.at.replace(hour=6, minute=0, second=0, microsecond=0) + DAY
            for time in (0, 1):
                if (line.name, time) not in self._booked and morning + time * HOUR <= self.clock:
                    if self.attempt(lambda one, line=line: self._book_line(one, line)):  # type: ignore[misc]
                        self._booked.add((line.name, time))
                    else:
                        self._not_before = self.clock + RETRY
                    return

    def _book_line(self, one: follow.Follower, line: BookedLine) -> None:
        try:
            found = one.book(recorded(line))
        except LineRefused as refused:
            self.findings.append(str(refused))
            if line.is_right:
                self.broken.append(f"a right line is refused: {refused}")
            if line.reference != PAYOUT.reference:
                self.broken.append(f"a line of nobody is taken for the payout's: {refused}")
        else:
            if not line.is_right and found is not None:
                self.broken.append(f"a wrong line is booked: {line.name}")

    # Persons

    def _decide(self) -> None:
        state = self.state()
        assert state
        was = state
        stale_ones = [one for one in self._stale if one.case < state.cases]
        for order, person in [
            *((stale, person) for stale in stale_ones for person in ("ada", "bea")),
            *self._orders(state),
        ]:
            now = self.state()
            if now is None or now.status is not Status.LIMBO:
                break
            self.attempt(lambda one, order=order, person=person: self._order(one, order, person))  # type: ignore[misc]
        if self.state() == was or self.state().status is Status.LIMBO:  # type: ignore[union-attr]
            self._not_before = self.clock + RETRY

    def _order(self, one: follow.Follower, order: Decision, person: str) -> None:
        try:
            one.decide(
                order,
                Caller(by=f"arn:aws:iam::1:user/{person}", user_id=person, request_id="1", source_ip="::1"),
            )
        except ResolutionRefused as refused:
            self.trace.append(f"{timestamp(self.clock)} refused {refused}")

    def _orders(self, state: State) -> Iterator[tuple[Decision, str]]:
        """One person errs and says the opposite; then two say what is true."""

        def order(verdict: Verdict, contradicts: bool = True) -> Decision:
            return Decision(
                key=PAYOUT.key,
                case=state.cases,
                digest=state.digest,
                verdict=verdict,
                reason="as the bank says",
                contradicts=contradicts,
            )

        truth = Verdict.PAID if self.bank.paid() else Verdict.NOT_PAID
        wrong = Verdict.NOT_PAID if self.bank.paid() else Verdict.PAID
        yield order(wrong), "carl"
        yield order(wrong), "carl"
        if self.bank.is_pending() or (self.script.persons == "ask first" and state.cases == 1):
            self._stale = [order(truth)]
            truth = Verdict.ASK
        yield order(truth), "ada"
        yield order(truth), "bea"

    # The rules

    def state(self) -> State | None:
        item = self.table.items.get(("PAYOUT#" + PAYOUT.key, "PAYOUT"))
        if item is not self._read:
            self._read, self._state = item, State.from_row(from_wire(item)) if item else None
        return self._state

    def _committed(self, changes: Changes) -> None:
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

    def _moved(self, item: Any) -> None:
        before, state = self._state, State.from_row(from_wire(item))
        self._read, self._state = item, state
        if before and state.sequence not in (before.sequence, before.sequence + 1):
            self.broken.append(f"its sequence goes from {before.sequence} to {state.sequence}")
        if before and before.debit_line and state.debit_line != before.debit_line:
            self.broken.append("a line takes another's place")
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
        if state.status is Status.RETURNED and not self.bank.paid():
            self.broken.append("returned, though it never left")
        if state.status is Status.CONFIRMED and state.debit_line is None:
            self.broken.append("confirmed without a line")

    def _judge(self) -> None:
        state = self.state()
        if state is None:
            self.broken.append("the payout was never reserved")
            return
        self.broken += [*self._of_the_bank(), *self._of_rest(state), *self._of_the_books(state)]

    def _of_the_bank(self) -> Iterator[str]:
        if self.bank.paid() > 1:
            yield f"the bank has paid {self.bank.paid()} times"
        if any(len(bodies) > 1 for bodies in self.bank.bodies.values()):
            yield "one reference was sent with two contents"
        if len(self.bank.bodies) > 1:
            yield "the payout was sent under two references"
        wrong = [one for one in self.bank.lines() if not one.is_right and one.reference == PAYOUT.reference]
        if wrong and not self.findings:
            yield "nobody hears of a wrong line"

    def _of_rest(self, state: State) -> Iterator[str]:
        if not (state.is_at_rest or state.trouble is not None):
            yield f"it never comes to rest: {state.status}"
        if state.status is Status.LIMBO and self.script.persons != "none":
            yield "persons cannot end its case"
        if state.status is Status.PAID and self.script.statement and not self.script.wrong:
            yield "its line is booked, and it is not confirmed"

    def _of_the_books(self, state: State) -> Iterator[str]:
        books = self.balances.get("external:EUR", 0)
        if state.status is not Status.LIMBO and not self.script.wrong and books != self.bank.net():
            yield f"the books say {books}, the bank {self.bank.net()}"
        row = from_wire(self.table.items["ACCOUNT#alice", "BALANCE"])
        if row["available"] != FUNDS + self.balances.get("alice", 0):
            yield "the customer's balance is not that of the entries"
        in_suspense = self.balances.get("suspense:EUR", 0)
        if in_suspense and (self.script.account == "open" or state.trouble is None):
            yield "money is in suspense, and nobody knows why"
        if in_suspense and state.status is Status.REFUSED:
            yield "a refusal did not go back to the customer"
        if state.status is Status.RETURNED and self.script.account != "open" and not in_suspense:
            yield "a return went to an account that does not take it"


class _Table:
    """The table's client of one caller. Reads are never lost: a fault there is one at the next call."""

    def __init__(self, life: Life, actor: Actor) -> None:
        self._life, self._actor = life, actor

    def get_item(self, **asked: Any) -> Any:
        return self._life.table.get_item(**asked)

    def transact_write_items(self, **asked: Any) -> Any:
        what = ",".join(
            next(iter(one.values())).get("UpdateExpression", "put")[:30] for one in asked["TransactItems"][:1]
        )
        return self._life.call(
            "table", what, self._actor, lambda: self._life.table.transact_write_items(**asked), lambda: None
        )


class _Wire:
    """The bank, as one caller reaches it."""

    def __init__(self, life: Life, actor: Actor) -> None:
        self._life, self._actor, self.declared = life, actor, life.bank.declared
        self.request, self.parse_event = life.bank.request, life.bank.parse_event

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


def recorded(line: BookedLine) -> Recorded:
    day = line.at.date().isoformat()
    told = BankLine(
        identity=sha256(f"{line.name} {day}".encode()).hexdigest(),
        account="DE02120300000000202051",
        currency="EUR",
        amount=line.amount,
        side=Side.OUT if line.sign > 0 else Side.IN,
        booked=day,
        valued=day,
        bank_reference=line.name,
        reference=line.reference,
        returns="" if line.sign > 0 else "AC04",
        statement="S",
        file="day.xml",
        at=1,
    )
    return Recorded(told, 0, frozenset({line.reference, "thank you"}))


SCRIPTS: tuple[Script, ...] = (
    Script(name="pays", window=DAY),
    Script(name="pays, no statement", window=DAY, statement=False),
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
)

FIRST_MAX, APART_MAX = 6, 6
"""Of two deviations, the first is among the first calls, and the second soon after it."""


def singles(script: Script, every: int = 1) -> Iterator[Life]:
    """The undisturbed life, and one for each deviation at each of its calls, or for a part of them."""
    plain = Life(script).live()
    yield plain
    deviations = [Deviation(at, kind) for at, call in enumerate(plain.kinds, 1) for kind in KINDS[call]]
    for one in deviations[::every]:
        yield Life(script, (one,)).live()


def pairs(script: Script) -> Iterator[Life]:
    for first in _firsts(script):
        (one,) = first.deviations
        for at, call in enumerate(first.kinds[one.at : one.at + APART_MAX], one.at + 1):
            for kind in KINDS[call]:
                yield Life(script, (one, Deviation(at, kind))).live()


def _firsts(script: Script) -> Iterator[Life]:
    for at, call in enumerate(Life(script).live().kinds[:FIRST_MAX], 1):
        for kind in KINDS[call]:
            yield Life(script, (Deviation(at, kind),)).live()
