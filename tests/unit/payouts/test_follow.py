"""What the lives of tests/simulation/payouts leave out: malformed, unknown and contradictory input."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from settlement.bank.matching import Recorded
from settlement.bank.statement import Side
from settlement.core.ledger import keys
from settlement.core.model.errors import LineRefused, PayoutNotFound, ResolutionRefused
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import from_wire, to_wire
from settlement.payouts.decision import Decision, Verdict
from settlement.payouts.follow import Follower
from settlement.payouts.payout import Payout, State, Status, Word
from settlement.payouts.port import (
    Accepted,
    Declared,
    Found,
    Hint,
    MalformedEvent,
    NeverSeen,
    NotSendable,
    Unknown,
)
from tests.unit.payouts.rows import ADA, BEA, PAYOUT, STATES
from tests.world.bank_rows import LINE as BANK_LINE
from tests.world.environment import NOW
from tests.world.memory_dynamodb import MemoryDynamoDb

Having = Callable[..., Follower]


DECLARED = Declared(name="a-bank", window_seconds=86_400, refusals=frozenset())
TAKEN, SILENT = Accepted(), Unknown("500")


@dataclass
class Bank:
    declared: Declared = DECLARED
    body: bytes = b"order"
    answer: Any = TAKEN
    found: Any = SILENT
    is_open: bool = False
    sent: int = 0

    def request(self, state: State) -> bytes:
        if self.is_open:
            raise NotSendable("the circuit is open")
        return self.body

    def submit(self, state: State, body: bytes) -> Any:
        self.sent += 1
        return self.answer

    def find(self, state: State) -> Any:
        return self.found

    def parse_event(self, event: bytes) -> Hint:
        try:
            return Hint(json.loads(event))
        except ValueError:
            raise MalformedEvent("event") from None


@pytest.fixture
def table() -> MemoryDynamoDb:
    table = MemoryDynamoDb()
    row = {**keys.account("alice"), "available": 0, "currency": "EUR"}
    table.put_item(TableName="payouts", Item=to_wire(row))
    return table


@pytest.fixture
def having(table: MemoryDynamoDb) -> Having:
    """Return a follower whose table has these payouts."""

    def follower(*states: State, bank: Bank | None = None, later: timedelta = timedelta()) -> Follower:
        for state in states:
            named = {**keys.payout_reference(state.payout.reference), "key": state.key}
            for row in (state.to_row(), named):
                table.put_item(TableName="payouts", Item=to_wire(row))
        store = Store(table, "payouts", pause=lambda tries: None)
        return Follower(store, bank or Bank(), lambda: NOW + later)

    return follower


def line(*references: str, **changed: Any) -> Recorded:
    returns = "AC04" if changed.get("side") is Side.IN else ""
    one = BANK_LINE._replace(side=Side.OUT, amount=PAYOUT.amount, returns=returns)._replace(**changed)
    return Recorded(one, 0, frozenset(references))


def test_an_unknown_payout_is_named_and_nothing_else(having: Having, table: MemoryDynamoDb) -> None:
    follower, before = having(), dict(table.items)

    with pytest.raises(PayoutNotFound):
        follower.look(PAYOUT.key)
    with pytest.raises(PayoutNotFound):
        follower.hint(b'"A"')
    with pytest.raises(MalformedEvent):
        follower.hint(b"{")
    assert follower.book(line("INV-7", "")) is None
    assert table.items == before


@pytest.mark.parametrize("status", Status)
def test_a_hint_moves_no_payout(having: Having, status: Status) -> None:
    state = STATES[status]

    hinted = having(state, later=timedelta(seconds=1)).hint(json.dumps(PAYOUT.reference).encode())

    assert (hinted.status, hinted.sequence) == (status, state.sequence)
    assert (hinted.listed_at is None) == (state.listed_at is None)


def test_a_payout_waits_while_the_bank_cannot_be_asked(having: Having) -> None:
    bank = Bank(is_open=True)
    follower = having(STATES[Status.RESERVED], bank=bank)

    held = follower.look(PAYOUT.key)

    assert (held.status, held.reason, held.attempts, bank.sent) == (
        Status.RESERVED,
        "the circuit is open",
        0,
        0,
    )


def test_other_bytes_are_never_sent_again(having: Having) -> None:
    state = replace(STATES[Status.UNKNOWN], said=Word.NEVER_SEEN, said_at=STATES[Status.UNKNOWN].sent_at)
    bank = Bank(body=b"another order")

    held = having(state, bank=bank, later=timedelta(minutes=1)).look(PAYOUT.key)

    assert (held.status, held.said, bank.sent) == (Status.UNKNOWN, None, 0)
    assert held.reason == "its request has other bytes than were sent"


def test_a_word_is_not_taken_back_by_silence(having: Having) -> None:
    """A person who says "not paid" has to contradict the bank's own word."""
    for found in (Unknown("500"), NeverSeen()):
        follower = having(STATES[Status.ACCEPTED], bank=Bank(found=found), later=timedelta(days=3))

        stuck = follower.look(PAYOUT.key)

        assert (stuck.status, stuck.said) == (Status.LIMBO, Word.ACCEPTED)
        order = Decision(
            key=PAYOUT.key, case=1, digest=stuck.digest, verdict=Verdict.NOT_PAID, reason="a letter"
        )
        with pytest.raises(ResolutionRefused, match="the bank said accepted"):
            follower.decide(order, ADA)


def test_a_late_sender_leaves_its_record_alone(having: Having) -> None:
    times = iter([NOW, NOW, NOW + timedelta(seconds=6)])
    bank = Bank()
    follower = having(STATES[Status.RESERVED], bank=bank)
    follower.now = lambda: next(times)

    assert follower.look(PAYOUT.key).status is Status.SENDING
    assert bank.sent == 0


@pytest.mark.parametrize("status", [Status.RESERVED, Status.REFUSED])
@pytest.mark.parametrize("side", Side)
def test_a_line_of_a_payout_that_never_left_is_refused(having: Having, status: Status, side: Side) -> None:
    with pytest.raises(LineRefused):
        having(STATES[status]).book(line(PAYOUT.reference, side=side))


def test_a_line_that_names_two_payouts_is_refused(having: Having) -> None:
    other = Payout(**{name: getattr(PAYOUT, name) for name in PAYOUT.content}, key="payout-2026-000102")
    states = (STATES[Status.PAID], replace(STATES[Status.PAID], payout=other))

    with pytest.raises(LineRefused, match="several"):
        having(*states).book(line(PAYOUT.reference, other.reference))


@pytest.mark.parametrize("changed", [{"amount": 1}, {"currency": "USD"}], ids=str)
def test_another_amount_is_refused(having: Having, changed: dict[str, Any]) -> None:
    with pytest.raises(LineRefused, match="amount"):
        having(STATES[Status.PAID]).book(line(PAYOUT.reference, **changed))


@pytest.mark.parametrize(
    "status", [Status.SENDING, Status.UNKNOWN, Status.ACCEPTED, Status.LIMBO, Status.PAID]
)
def test_a_debit_confirms_and_a_return_gives_back_once(
    having: Having, table: MemoryDynamoDb, status: Status
) -> None:
    follower = having(STATES[status])
    back = line(PAYOUT.reference, side=Side.IN, identity="7e" * 32)

    for _ in range(2):
        follower.book(line(PAYOUT.reference))
    assert follower.state(PAYOUT.key).status is Status.CONFIRMED
    for _ in range(2):
        follower.book(back)

    assert follower.state(PAYOUT.key).status is Status.RETURNED
    assert from_wire(table.items["ACCOUNT#alice", "BALANCE"])["available"] == PAYOUT.amount
    with pytest.raises(LineRefused, match="second return"):
        follower.book(line(PAYOUT.reference, side=Side.IN, identity="8f" * 32))
    with pytest.raises(LineRefused, match="second debit"):
        follower.book(line(PAYOUT.reference, identity="8f" * 32))


@pytest.mark.parametrize(
    ("verdict", "status"),
    [
        (Verdict.PAID, Status.PAID),
        (Verdict.NOT_PAID, Status.REFUSED),
        (Verdict.ASK, Status.UNKNOWN),
    ],
)
def test_two_persons_end_a_case_and_are_on_record(having: Having, verdict: Verdict, status: Status) -> None:
    case = STATES[Status.LIMBO]
    follower = having(case)
    order = Decision(key=PAYOUT.key, case=1, digest=case.digest, verdict=verdict, reason="a letter")

    for _ in range(2):
        assert follower.decide(order, ADA).status is Status.LIMBO
    decided = follower.decide(order, BEA)

    assert (decided.status, decided.trouble) == (status, None)
    assert decided.decided
    assert (decided.decided["by"], decided.decided["approved_by"]) == (ADA.by, BEA.by)
    assert State.from_row(from_wire(table_row(follower))) == decided
    with pytest.raises(ResolutionRefused, match="not in LIMBO"):
        follower.decide(order, BEA)


@pytest.mark.parametrize("verdict", [Verdict.PAID, Verdict.NOT_PAID])
def test_no_decision_is_carried_out_if_the_bank_speaks_meanwhile(having: Having, verdict: Verdict) -> None:
    case = STATES[Status.LIMBO]
    bank = Bank()
    follower = having(case, bank=bank)
    order = Decision(key=PAYOUT.key, case=1, digest=case.digest, verdict=verdict, reason="a letter")
    follower.decide(order, ADA)
    bank.found = Found(Word.ACCEPTED)

    with pytest.raises(ResolutionRefused, match="the bank says accepted now"):
        follower.decide(order, BEA)

    undecided = follower.state(PAYOUT.key)
    assert (undecided.status, undecided.said, undecided.proposed) == (Status.LIMBO, Word.ACCEPTED, None)
    assert (undecided.cases, undecided.trouble) == (case.cases, case.trouble)
    with pytest.raises(ResolutionRefused, match="not what you were shown"):
        follower.decide(order, BEA)


def test_the_bank_refuses_only_for_a_declared_reason(having: Having) -> None:
    found = Found(Word.REFUSED, "in_progress")
    follower = having(STATES[Status.UNKNOWN], bank=Bank(found=found), later=timedelta(minutes=1))

    looked = follower.look(PAYOUT.key)

    assert (looked.status, looked.said) == (Status.UNKNOWN, None)
    assert "in_progress" in str(looked.reason)


def test_an_incoming_line_without_a_return_code_is_refused(having: Having) -> None:
    """The payee's account may be on a statement too, with our reference."""
    with pytest.raises(LineRefused, match="is no return"):
        having(STATES[Status.PAID]).book(line(PAYOUT.reference, side=Side.IN, returns=""))


def test_a_late_return_closes_the_case_of_its_debit(having: Having) -> None:
    """No hint opens the case before its time."""
    follower = having(STATES[Status.PAID], bank=Bank(found=Found(Word.RETURNED)), later=timedelta(minutes=1))
    follower.look(PAYOUT.key)
    follower.book(line(PAYOUT.reference))
    follower.hint(json.dumps(PAYOUT.reference).encode())
    assert follower.look(PAYOUT.key).trouble is None
    follower.now = lambda: NOW + timedelta(days=11)
    assert follower.look(PAYOUT.key).trouble == "the bank said returned, and a statement has its debit alone"

    follower.book(line(PAYOUT.reference, side=Side.IN, identity="7e" * 32))

    ended = follower.state(PAYOUT.key)
    assert (ended.status, ended.trouble, ended.listed_at) == (Status.RETURNED, None, None)


def test_an_unknown_payout_is_returned_in_two_looks(having: Having) -> None:
    follower = having(
        STATES[Status.UNKNOWN], bank=Bank(found=Found(Word.RETURNED)), later=timedelta(minutes=1)
    )

    assert [follower.look(PAYOUT.key).status for _ in range(2)] == [Status.ACCEPTED, Status.RETURNED]


def table_row(follower: Follower) -> Any:
    items: Any = follower.store.client.items
    return items[f"PAYOUT#{PAYOUT.key}", "PAYOUT"]
