"""A payout's life in a town: the room's own functions write each row."""

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from settlement.bank import record
from settlement.bank.matching import BankLine, Recorded
from settlement.bank.record import File
from settlement.bank.statement import Side
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied
from settlement.core.model.errors import SettlementError
from settlement.core.model.timestamps import timestamp
from settlement.http.caller import Caller
from settlement.payouts import decision, destination, lines
from settlement.payouts.decision import Decision, Verdict
from settlement.payouts.destination import Destination
from settlement.payouts.follow import Follower
from settlement.payouts.payout import Payout, State, Word
from settlement.payouts.port import Accepted, Declared, Found, NeverSeen, Refused, Unknown
from settlement.payouts.reservation import Reservations
from settlement.payouts.writes import Limits
from tests.proof.town import Town

LIMITS = Limits(payout={"EUR": 50_000}, day={"EUR": 90_000}, rest_seconds=3_600)
FILE = File("9f" * 32, "day.xml", "2026-11-28T06:00:00.000Z")
IBANS = ("DE89370400440532013000", "NL91ABNA0417164300")
ADA, BEA = (
    Caller(by=f"arn:aws:iam::1:user/{name}", user_id=f"AIDA{name}", request_id="1", source_ip="::1")
    for name in ("ada", "bea")
)


@dataclass
class ScriptedBank:
    """A bank that answers with `said`, or not at all if `said` is UNKNOWN."""

    said: Word = Word.UNKNOWN
    declared: Declared = field(
        default_factory=lambda: Declared(name="b", window_seconds=86_400, refusals=frozenset({"closed"}))
    )

    def request(self, state: State) -> bytes:
        return state.payout.reference.encode()

    def submit(self, state: State, body: bytes) -> Accepted | Refused | Unknown:
        match self.said:
            case Word.ACCEPTED:
                return Accepted()
            case Word.REFUSED:
                return Refused("closed")
        return Unknown("no answer")

    def find(self, state: State) -> Found | NeverSeen | Unknown:
        match self.said:
            case Word.UNKNOWN:
                return Unknown("no answer")
            case Word.NEVER_SEEN:
                return NeverSeen()
            case word:
                return Found(word, "closed" if word is Word.REFUSED else "")


class Died(Exception):
    """Raised where a function dies."""


class Dying(Follower):
    """A follower that dies between a line's two moves."""

    def _finish(self, state: State, line: BankLine) -> State:
        raise Died


@dataclass
class Life:
    """One payout, and the acts that change it. `other` is the customer's other account."""

    town: Town
    payout: Payout
    iban: str = IBANS[0]
    other: str = "carol"
    bank: ScriptedBank = field(default_factory=ScriptedBank)

    def now(self) -> datetime:
        return self.town.tick(0.013)

    def is_proven(self, row: Row) -> bool:
        return self.town.row_keys is None or self.town.row_keys.is_proven(row)

    def follower(self, kind: type[Follower] = Follower) -> Follower:
        return kind(self.town.store, self.bank, self.now, self.is_proven, frozenset({IBANS[1]}))

    def state(self) -> State:
        return State.from_row(self.town.row(keys.payout(self.payout.key)))

    def added(self) -> None:
        given = {"id": self.payout.destination, "account": self.payout.account, "iban": self.iban}
        given |= {"holder": f"Holder of {self.payout.destination}", "reason": "rent"}
        self.town.store.transact((destination.add(given, ADA, self.now()),))

    def confirmed(self) -> None:
        name = self.payout.destination
        found = Destination.from_rows(self.town.row(keys.destination(name)), None)
        self.town.store.transact((destination.confirm(found, vars(found), BEA, LIMITS.rest, self.now()),))
        self.town.tick(LIMITS.rest_seconds + 1)

    def reserve(self) -> None:
        self.added()
        self.confirmed()
        self.again()

    def again(self) -> None:
        Reservations(self.town.store, LIMITS, self.is_proven, self.now).reserve(self.payout)

    def act(self, what: str) -> bool:
        """Do the act `what`, such as "hear paid"; return whether it changed anything."""
        before = dict(self.town.table.items)
        name, _, more = what.partition(" ")
        with suppress(SettlementError, AlreadyApplied, Died):
            getattr(self, name)(*([more] if more else []))
        return dict(self.town.table.items) != before

    def hear(self, word: str) -> None:
        """Look at the due time; the bank answers with `word`."""
        self.bank.said = Word(word)
        listed = self.state().listed_at
        if listed and self.state().trouble is None:
            self.town.now = max(self.town.now, datetime.fromisoformat(listed))
        self.follower().look(self.payout.key)

    def wait(self, days: str) -> None:
        self.town.tick(int(days) * 86_400)
        self.hear(Word.UNKNOWN)

    def debit(self) -> None:
        self.line(Side.OUT)

    def back(self) -> None:
        self.line(Side.IN)

    def half(self, side: str) -> None:
        """Book a line, but die between its two moves."""
        self.line(Side(side), Dying)

    def rebook(self, side: str) -> None:
        identity = self.identity(Side(side))
        if self.town.store.read(keys.bank_line(identity)):
            self.follower().book_listed(identity)

    def identity(self, side: Side) -> str:
        return ({"out": "6d", "in": "7e"}[side] + self.payout.reference.encode().hex())[:64]

    def line(self, side: Side, kind: type[Follower] = Follower) -> None:
        """Record a bank line of the payout, and book it."""
        identity, reference = self.identity(side), self.payout.reference
        one = BankLine(
            identity=identity,
            account=IBANS[1],
            currency=self.payout.currency,
            amount=self.payout.amount,
            side=side,
            booked=timestamp(self.town.now)[:10],
            valued=timestamp(self.town.now)[:10],
            bank_reference="B-1",
            reference=reference,
            returns="AC04" if side is Side.IN else "",
            statement="S-1",
            file="day.xml",
            at=9,
        )
        recorded = Recorded(one, 0, frozenset({reference.lower()}))
        listed = lines.listed(recorded)
        assert listed
        self.town.store.transact((record.line(recorded, FILE), listed))
        self.follower(kind).book_listed(identity)

    def propose(self, verdict: str) -> Decision:
        """Propose a verdict: "paid", "not-paid against" the bank, "give-back other" to the other account."""
        state = self.state()
        verdict, _, more = verdict.partition(" ")
        order = Decision(
            key=state.key,
            case=state.cases,
            digest=state.digest,
            verdict=Verdict(verdict),
            reason=f"for {state.key}",
            contradicts=more == "against",
            account=self.other if more == "other" else None,
        )
        self.town.store.transact((decision.propose(state, order, ADA, self.now()),))
        return order

    def approve(self, verdict: str) -> None:
        order = self.propose(verdict)
        first = self.town.row(order.place)
        self.town.store.transact((decision.approve(self.state(), order, first, BEA, self.now()),))

    def decide(self, verdict: str) -> None:
        self.approve(verdict)
        self.bank.said = Word.UNKNOWN
        self.follower().look(self.payout.key)

    def freeze(self) -> None:
        self.town.state("freeze", f"freeze-{self.payout.key}", self.payout.account)

    def unfreeze(self) -> None:
        self.town.state("unfreeze", f"unfreeze-{self.payout.key}", self.payout.account)

    def frozen(self) -> None:
        self.town.store.transact(destination.freeze(self.payout.destination, BEA, self.now()))


def lived(town: Town, payout: Payout, *acts: str, iban: str = IBANS[0], other: str = "carol") -> Life:
    """Return a life after these acts; each must have changed something."""
    life = Life(town, payout, iban, other)
    life.reserve()
    for what in acts:
        assert life.act(what), (what, acts)
    return life
