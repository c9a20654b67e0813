"""Tests the circuit around a bank with its real rules and row, on an in-memory table."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from settlement.core.ledger import keys
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import from_wire, to_wire
from settlement.http import shared_circuit
from settlement.http.circuit import State as Circuit
from settlement.http.circuit import Thresholds
from settlement.http.shared_circuit import CACHE_SECONDS, SharedCircuit
from settlement.payouts.follow import Follower
from settlement.payouts.guarded import CIRCUIT, NOT_ADMITTED, OPEN, Guarded
from settlement.payouts.payout import State, Status, Word
from settlement.payouts.port import (
    Accepted,
    Declared,
    Found,
    NeverSeen,
    NotSendable,
    Refused,
    Unknown,
)
from tests.unit.payouts.rows import ACCOUNTS, KEYS, STATES, destination_rows, rows_of
from tests.world.environment import NOW
from tests.world.memory_dynamodb import MemoryDynamoDb

LIMITS = Thresholds(failures=3, within_seconds=900, recovery_seconds=30)
DECLARED = Declared(name="a-bank", window_seconds=86_400, refusals=frozenset({"closed"}))
SILENT, TAKEN, PAID = Unknown("500"), Accepted(), Found(Word.PAID)


@dataclass
class Bank:
    answer: Any = TAKEN
    found: Any = PAID
    unsendable: bool = False
    calls: list[str] = field(default_factory=list)
    declared: Declared = DECLARED

    def request(self, state: State) -> bytes:
        if self.unsendable:
            raise NotSendable("a-bank takes no XAU")
        return state.key.encode()

    def submit(self, state: State, body: bytes) -> Any:
        assert body == state.key.encode()
        return self._called(f"submit {state.key}", self.answer)

    def find(self, state: State) -> Any:
        return self._called(f"find {state.key}", self.found)

    def _called(self, call: str, answer: Any) -> Any:
        self.calls.append(call)
        if isinstance(answer, Exception):
            raise answer
        return answer


@dataclass
class Town:
    """Function environments that share one circuit row, one clock and one bank."""

    bank: Bank = field(default_factory=Bank)
    table: MemoryDynamoDb = field(default_factory=MemoryDynamoDb)
    seconds: int = 1_800_000_000
    announced: list[Circuit] = field(default_factory=list)

    def guarded(self, table: Any = None) -> Guarded:
        circuit = SharedCircuit(
            *(CIRCUIT, table or self.table, "payouts", LIMITS), self.announced.append, lambda: self.seconds
        )
        return Guarded(self.bank, circuit)

    def opened(self) -> tuple[Guarded, list[State]]:
        """Open the circuit; return the guard and the payouts without an answer."""
        guarded, failed = self.guarded(), [payout(f"failed-{number}") for number in range(LIMITS.failures)]
        self.bank.answer = SILENT
        for state in failed:
            assert send(guarded, state) == SILENT
        assert self.state == "OPEN"
        self.bank.calls.clear()
        return guarded, [payout(state.key, Status.UNKNOWN) for state in failed]

    def wait(self, seconds: int = LIMITS.recovery_seconds) -> None:
        self.seconds += seconds

    @property
    def row(self) -> dict[str, Any]:
        key = keys.circuit("bank")
        return from_wire(self.table.items.get((key["pk"], key["sk"]), {}))

    @property
    def state(self) -> str:
        return str(self.row["state"])


@pytest.fixture
def town() -> Town:
    return Town()


def payout(key: str, status: Status = Status.RESERVED) -> State:
    state = STATES[status]
    return replace(state, payout=replace(state.payout, key=key))


def send(guarded: Guarded, state: State) -> Any:
    return guarded.submit(state, guarded.request(state))


def is_refused(guarded: Guarded, state: State) -> bool:
    try:
        guarded.request(state)
    except NotSendable as held:
        return str(held) == OPEN
    return False


def test_answers_pass_the_closed_circuit_without_a_write(town: Town) -> None:
    guarded = town.guarded()
    answers = [TAKEN, Refused("closed")]
    words = [PAID, NeverSeen()]

    for town.bank.answer in answers:
        assert send(guarded, payout("payout-1")) == town.bank.answer
    for town.bank.found in words:
        assert guarded.find(payout("payout-1", Status.UNKNOWN)) == town.bank.found

    assert (len(town.bank.calls), town.row) == (len(answers) + len(words), {})
    assert guarded.declared is DECLARED


def test_unknown_answers_of_sends_and_finds_open_the_circuit(town: Town) -> None:
    town.bank.answer = town.bank.found = SILENT
    first, second = town.guarded(), town.guarded()

    assert send(first, payout("one")) == SILENT
    assert second.find(payout("two", Status.ACCEPTED)) == SILENT
    assert town.state == "CLOSED"
    assert second.find(payout("three", Status.PAID)) == SILENT

    assert (town.state, town.announced) == ("OPEN", [Circuit.OPEN])
    assert is_refused(town.guarded(), payout("four"))


def test_an_unanswered_payout_counts_as_one_failure(town: Town) -> None:
    town.bank.answer = town.bank.found = SILENT
    guarded = town.guarded()

    send(guarded, payout("one"))
    for _ in range(10):
        guarded.find(payout("one", Status.UNKNOWN))

    assert (town.state, town.row["failure_count"]) == ("CLOSED", 1)


def test_an_open_circuit_calls_no_bank(town: Town) -> None:
    guarded, failed = town.opened()

    assert is_refused(guarded, payout("new"))
    assert guarded.find(failed[0]) == Unknown(OPEN)
    assert guarded.find(payout("other", Status.ACCEPTED)) == Unknown(OPEN)

    assert town.bank.calls == []


def test_a_refusal_by_the_circuit_counts_as_no_failure(town: Town) -> None:
    guarded, failed = town.opened()
    before = town.row

    for state in failed:
        guarded.find(state)
        is_refused(guarded, payout(f"new-{state.key}"))

    assert town.row == before


def test_a_send_without_a_lease_does_not_reach_the_bank(town: Town) -> None:
    """Another caller may have recorded the send, or it was recorded before the circuit opened."""
    guarded, state, other = town.guarded(), payout("one"), payout("two")

    assert guarded.submit(state, b"one") == Unknown(NOT_ADMITTED)
    body = guarded.request(other)
    assert guarded.submit(state, body) == Unknown(NOT_ADMITTED)
    assert send(guarded, state) == TAKEN
    assert guarded.submit(state, b"one") == Unknown(NOT_ADMITTED)

    assert town.bank.calls == ["submit one"]


def test_a_refused_request_ends_its_payouts_earlier_lease(town: Town) -> None:
    guarded, state = town.guarded(), payout("one")
    body = guarded.request(state)
    town.bank.unsendable = True

    with pytest.raises(NotSendable, match="XAU"):
        guarded.request(state)

    assert guarded.submit(state, body) == Unknown(NOT_ADMITTED)
    assert town.bank.calls == []


def test_an_unsendable_payout_does_not_take_the_probes_lease(town: Town) -> None:
    guarded, _ = town.opened()
    town.wait()
    town.bank.unsendable = True

    with pytest.raises(NotSendable, match="XAU"):
        guarded.request(payout("gold"))

    assert town.state == "OPEN"


def test_an_answered_send_of_a_new_payout_closes_the_circuit(town: Town) -> None:
    guarded, failed = town.opened()
    town.wait()
    town.bank.answer = TAKEN

    body = guarded.request(payout("new"))
    assert town.guarded().find(failed[0]) == Unknown(OPEN)  # while the probe is under way
    assert guarded.submit(payout("new"), body) == TAKEN

    assert (town.state, town.row["failure_count"]) == ("CLOSED", 0)
    assert town.announced == [Circuit.OPEN, Circuit.HALF_OPEN, Circuit.CLOSED]
    assert guarded.find(failed[0]) == PAID


def test_an_unanswered_probe_keeps_the_circuit_open(town: Town) -> None:
    guarded, failed = town.opened()
    town.wait()

    assert send(guarded, payout("new")) == SILENT

    assert town.state == "OPEN"
    assert is_refused(guarded, payout("newer"))
    assert guarded.find(failed[0]) == Unknown(OPEN)


@pytest.mark.parametrize("found", [PAID, NeverSeen()], ids=["paid", "never seen"])
def test_an_answer_about_a_failed_payout_closes_the_circuit(town: Town, found: Any) -> None:
    """Perhaps no other payout would probe the bank before people decide about this one."""
    guarded, failed = town.opened()
    town.bank.found = SILENT
    for state in failed:
        town.wait()
        assert guarded.find(state) == SILENT
        assert guarded.find(state) == Unknown(OPEN)

    town.bank.found = found
    town.wait()

    assert guarded.find(failed[0]) == found
    assert town.state == "CLOSED"
    assert guarded.find(failed[1]) == found


def test_a_second_send_can_be_the_probe(town: Town) -> None:
    guarded, failed = town.opened()
    town.bank.answer = TAKEN
    town.wait()

    assert send(guarded, failed[0]) == TAKEN
    assert town.state == "CLOSED"


def test_after_an_answered_poll_one_failed_send_reopens_the_circuit(town: Town) -> None:
    """A bank can answer polls and still not take payouts."""
    guarded, failed = town.opened()
    town.wait()
    assert guarded.find(failed[0]) == PAID

    assert send(town.guarded(), payout("new")) == SILENT

    assert town.state == "OPEN"


def test_another_call_probes_if_the_probe_is_never_sent(town: Town) -> None:
    guarded, failed = town.opened()
    town.wait()
    guarded.request(payout("lost the race"))

    town.wait(LIMITS.recovery_seconds - 1)
    assert town.guarded().find(failed[0]) == Unknown(OPEN)
    town.wait(1)

    assert town.guarded().find(failed[0]) == PAID
    assert town.state == "CLOSED"


def test_an_overtaken_probe_is_sent_and_leaves_the_circuit_unchanged(town: Town) -> None:
    slow, failed = town.opened()
    town.wait()
    body = slow.request(payout("slow"))
    town.wait()
    assert town.guarded().find(failed[0]) == PAID
    closed = town.row

    assert slow.submit(payout("slow"), body) == SILENT

    assert (town.bank.calls[-1], town.row) == ("submit slow", closed)


def test_an_exception_of_the_bank_is_raised_and_not_counted(town: Town) -> None:
    guarded, bug = town.guarded(), ZeroDivisionError()
    town.bank.answer = town.bank.found = bug

    for _ in range(LIMITS.failures):
        with pytest.raises(ZeroDivisionError):
            send(guarded, payout("one"))
        with pytest.raises(ZeroDivisionError):
            guarded.find(payout("one", Status.UNKNOWN))

    assert town.row == {}


class CutOff(MemoryDynamoDb):
    def get_item(self, **_: Any) -> Any:
        raise EndpointConnectionError(endpoint_url="https://dynamodb.invalid")

    put_item = get_item


def test_an_unreadable_circuit_stops_no_payout(town: Town) -> None:
    guarded = town.guarded(CutOff())
    town.bank.answer = SILENT

    for number in range(LIMITS.failures * 2):
        assert send(guarded, payout(f"payout-{number}")) == SILENT
    assert guarded.find(payout("one", Status.ACCEPTED)) == PAID


def test_other_environments_learn_of_an_open_circuit(town: Town) -> None:
    behind = town.guarded()
    behind.find(payout("one", Status.ACCEPTED))
    town.opened()

    town.wait(CACHE_SECONDS)

    assert is_refused(behind, payout("new"))


def test_a_circuit_from_the_future_counts_as_clock_ahead(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []
    monkeypatch.setattr(shared_circuit, "count", counted.append)
    town.wait(3_600)
    _, failed = town.opened()
    town.wait(-3_600)

    assert town.guarded().find(failed[0]) == Unknown(OPEN)

    assert counted == ["BankCircuitClockAhead"]


# The follower

PAYOUT = STATES[Status.RESERVED].key


def follower(town: Town, guarded: Guarded, state: State) -> Follower:
    for row in (*rows_of(state), *destination_rows()):
        town.table.put_item(TableName="payouts", Item=to_wire(row))
    store = Store(town.table, "payouts", pause=lambda tries: None)
    return Follower(store, guarded, lambda: NOW, KEYS.is_proven, ACCOUNTS)


def test_an_open_circuit_leaves_a_reserved_payout_reserved(town: Town) -> None:
    guarded, _ = town.opened()
    following = follower(town, guarded, STATES[Status.RESERVED])

    held = following.look(PAYOUT)

    assert (held.status, held.detail, held.attempts) == (Status.RESERVED, OPEN, 0)
    assert town.bank.calls == []
    town.bank.answer = TAKEN
    town.wait()
    assert following.look(PAYOUT).status is Status.ACCEPTED
    assert town.bank.calls == [f"submit {PAYOUT}"]


def test_an_open_circuit_leaves_an_unknown_payout_unknown(town: Town) -> None:
    guarded, _ = town.opened()
    following = follower(town, guarded, STATES[Status.UNKNOWN])

    asked = following.look(PAYOUT)

    assert (asked.status, asked.detail, asked.said) == (Status.UNKNOWN, OPEN, None)
    town.wait()
    assert following.look(PAYOUT).status is not Status.UNKNOWN
    assert town.bank.calls == [f"find {PAYOUT}"]
