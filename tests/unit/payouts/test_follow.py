"""Tests malformed, unknown and contradictory input, which simulated payouts (tests/simulation) never meet."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from settlement.bank import record
from settlement.bank.matching import Recorded
from settlement.bank.statement import Side
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import AccountFrozen, LineRefused, PayoutNotFound, ResolutionRefused
from settlement.core.model.stored import MalformedRow
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import from_wire, to_wire
from settlement.payouts import decision, destination, follow, hints, lines, moves
from settlement.payouts.decision import Decision, Verdict
from settlement.payouts.follow import Follower
from settlement.payouts.payout import Payout, State, Status, Word
from settlement.payouts.port import (
    Accepted,
    Declared,
    Found,
    NeverSeen,
    NotSendable,
    Refused,
    Unknown,
)
from tests.unit.payouts.rows import (
    ACCOUNTS,
    ADA,
    BEA,
    CASES,
    KEYS,
    PAYOUT,
    RETURN_LINE,
    STATES,
    destination_rows,
    rows_of,
)
from tests.world.bank_rows import FILE, MATCH
from tests.world.bank_rows import LINE as BANK_LINE
from tests.world.environment import NOW
from tests.world.memory_dynamodb import MemoryDynamoDb

Having = Callable[..., Follower]


DECLARED = Declared(name="a-bank", window_seconds=86_400, refusals=frozenset())
OTHER = Payout(**{name: getattr(PAYOUT, name) for name in PAYOUT.content}, key="payout-2026-000102")
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


def put(table: MemoryDynamoDb, *rows: Row) -> None:
    for row in rows:
        table.put_item(TableName="payouts", Item=to_wire(row))


def available(table: MemoryDynamoDb) -> int:
    return int(from_wire(table.items["ACCOUNT#alice", "BALANCE"])["available"])


def approve(
    table: MemoryDynamoDb,
    state: State,
    verdict: Verdict,
    forged: Row | None = None,
    *,
    contradicts: bool = True,
) -> None:
    order = Decision(
        key=state.key,
        case=state.cases,
        digest=state.digest,
        verdict=verdict,
        reason="a letter",
        contradicts=contradicts,
    )
    first = decision.propose(state, order, ADA, NOW).parameters["Item"]
    second = decision.approve(state, order, first, BEA, NOW).parameters["Item"]
    put(table, KEYS.signed(first), KEYS.signed({**second, **(forged or {})}))


@pytest.fixture
def table() -> MemoryDynamoDb:
    table = MemoryDynamoDb()
    put(table, {**keys.account("alice"), "available": 0, "currency": "EUR"}, *destination_rows())
    return table


@pytest.fixture
def having(table: MemoryDynamoDb) -> Having:
    """Return a function that builds a follower whose table has the given payouts."""

    def follower(*states: State, bank: Bank | None = None, later: timedelta = timedelta()) -> Follower:
        for state in states:
            put(table, *rows_of(state))
        store = Store(table, "payouts", pause=lambda tries: None)
        return Follower(store, bank or Bank(), lambda: NOW + later, KEYS.is_proven, ACCOUNTS)

    return follower


def line(*references: str, **changed: Any) -> Recorded:
    returns = "AC04" if changed.get("side") is Side.IN else ""
    one = BANK_LINE._replace(side=Side.OUT, amount=PAYOUT.amount, returns=returns)._replace(**changed)
    return Recorded(one, 0, frozenset(references))


def test_an_unknown_payout_is_refused_and_changes_nothing(having: Having, table: MemoryDynamoDb) -> None:
    follower, before = having(), dict(table.items)

    with pytest.raises(PayoutNotFound):
        follower.look(PAYOUT.key)
    with pytest.raises(PayoutNotFound):
        hints.bring_forward(follower.store, "A", NOW)
    assert follower.book(line("INV-7", "")) is None
    assert table.items == before


@pytest.mark.parametrize("case", CASES)
def test_a_hint_leaves_an_open_case_alone(having: Having, case: str) -> None:
    follower = having(CASES[case])

    hints.bring_forward(follower.store, PAYOUT.reference, NOW + timedelta(days=1))

    assert follower.state(PAYOUT.key) == CASES[case]


@pytest.mark.parametrize("status", Status)
def test_a_hint_moves_no_payout(having: Having, status: Status) -> None:
    state = STATES[status]
    follower = having(state)

    hinted = hints.bring_forward(follower.store, PAYOUT.reference, NOW + timedelta(seconds=1))

    assert (hinted.status, hinted.sequence) == (status, state.sequence)
    assert (hinted.listed_at is None) == (state.listed_at is None)


def test_a_payout_waits_while_the_bank_cannot_be_asked(having: Having) -> None:
    bank = Bank(is_open=True)
    follower = having(STATES[Status.RESERVED], bank=bank)

    held = follower.look(PAYOUT.key)

    assert (held.status, held.detail, held.attempts, bank.sent) == (
        Status.RESERVED,
        "the circuit is open",
        0,
        0,
    )


GB = "GB29NWBK60161331926819"
NEVER_SEEN = replace(STATES[Status.UNKNOWN], said=Word.NEVER_SEEN, said_at=STATES[Status.UNKNOWN].sent_at)
SENT = hashlib.sha256(Bank().body).hexdigest()
SECOND_SEND = replace(NEVER_SEEN, sent_sha256=SENT)
UNPROVEN = {"iban": GB, "holder": "Mallory"}


def test_a_second_send_has_the_same_bytes(having: Having) -> None:
    bank = Bank()

    sent = having(SECOND_SEND, bank=bank, later=timedelta(minutes=1)).look(PAYOUT.key)

    assert (sent.status, sent.attempts, bank.sent) == (Status.ACCEPTED, 2, 1)


@pytest.mark.parametrize(
    ("answer", "status", "said", "detail"),
    [
        (Accepted(), Status.ACCEPTED, Word.ACCEPTED, None),
        (Refused("ac04"), Status.REFUSED, Word.REFUSED, "ac04"),
        (Refused("other"), Status.UNKNOWN, None, "other"),
        (Unknown("500"), Status.UNKNOWN, None, "500"),
    ],
)
def test_the_answer_to_a_send_stays_on_the_row(
    having: Having, answer: Any, status: Status, said: Word | None, detail: str | None
) -> None:
    declared = replace(DECLARED, refusals=frozenset({"ac04"}))
    follower = having(STATES[Status.RESERVED], bank=Bank(declared, answer=answer))

    sent = follower.look(PAYOUT.key)

    assert sent == follower.state(PAYOUT.key)
    assert (sent.status, sent.said, sent.detail) == (status, said, detail)
    assert sent.said_at == (timestamp(NOW) if said else None)


@pytest.mark.parametrize(
    ("found", "said", "detail"),
    [(NeverSeen(), Word.NEVER_SEEN, None), (Unknown("503"), None, "503")],
    ids=["never seen", "silent"],
)
def test_the_answer_to_a_poll_stays_on_the_row(
    having: Having, found: Any, said: Word | None, detail: str | None
) -> None:
    follower = having(STATES[Status.UNKNOWN], bank=Bank(found=found), later=timedelta(minutes=1))
    asked = follower.look(PAYOUT.key)
    follower.now = lambda: NOW + timedelta(days=30)

    stuck = follower.look(PAYOUT.key)

    assert (asked.status, asked.said, asked.detail) == (Status.UNKNOWN, said, detail)
    assert (stuck.said, stuck.detail) == (said, detail)


def test_a_second_send_with_different_bytes_is_not_made(having: Having) -> None:
    bank = Bank(body=b"another order")

    held = having(SECOND_SEND, bank=bank, later=timedelta(minutes=1)).look(PAYOUT.key)

    assert (held.status, held.said, bank.sent) == (Status.UNKNOWN, None, 0)
    assert held.detail == "its request has other bytes than were sent"


def bar(table: MemoryDynamoDb, what: str) -> None:
    """Forbid the payout's send, for the given reason."""
    store = Store(table, "payouts", pause=lambda tries: None)
    row, place = table.items["PAYOUT#" + PAYOUT.key, "PAYOUT"], ("DESTINATION#landlord", "DESTINATION")
    (entry,) = (key for key in table.items if key[0] == "ENTRIES#alice")
    match what:
        case "frozen":
            store.transact(destination.freeze("landlord", BEA, NOW))
        case "destination missing":
            del table.items[place]
        case "iban" | "holder":
            table.items[row["pk"]["S"], "PAYOUT"] = {**row, what: {"S": UNPROVEN[what]}}
        case "entry missing":
            del table.items[entry]
        case "unsigned entry":
            table.items[entry] = {k: v for k, v in table.items[entry].items() if k != "signature"}
        case "forged entry":
            forged = destination_of(GB)
            table.items[entry] = {**table.items[entry], "paid_to": {"S": forged}}
            table.items[row["pk"]["S"], "PAYOUT"] = {**row, "iban": {"S": GB}}


def destination_of(iban: str) -> str:
    return destination.paid_to("landlord", iban, STATES[Status.RESERVED].holder)


BARRED = {
    "frozen": follow.FROZEN,
    "destination missing": follow.FROZEN,
    **dict.fromkeys(("iban", "holder", "entry missing", "unsigned entry", "forged entry"), follow.ALTERED),
}


@pytest.mark.parametrize("what", BARRED)
def test_a_barred_first_send_opens_a_case(having: Having, table: MemoryDynamoDb, what: str) -> None:
    bank = Bank()
    follower = having(STATES[Status.RESERVED], bank=bank)
    bar(table, what)

    stuck = follower.look(PAYOUT.key)

    assert (stuck.status, stuck.trouble, stuck.attempts, bank.sent) == (Status.LIMBO, BARRED[what], 0, 0)
    assert decision.verdicts(stuck) == (Verdict.NOT_PAID, Verdict.ASK)


@pytest.mark.parametrize("what", BARRED)
def test_a_barred_second_send_keeps_asking_the_bank(having: Having, table: MemoryDynamoDb, what: str) -> None:
    """The first send may still arrive at the bank."""
    bank = Bank()
    follower = having(SECOND_SEND, bank=bank, later=timedelta(minutes=1))
    bar(table, what)

    held = follower.look(PAYOUT.key)

    assert (held.status, held.said, held.said_at, held.detail, held.attempts, bank.sent) == (
        *(Status.UNKNOWN, None, None, BARRED[what]),
        *(1, 0),
    )
    assert follower.state(PAYOUT.key) == held


def test_a_freeze_between_reads_and_record_stops_the_send(having: Having, table: MemoryDynamoDb) -> None:
    bank = Bank()
    follower = having(STATES[Status.RESERVED], bank=bank)

    def is_proven(entry: Row) -> bool:  # the last read before the record
        bar(table, "frozen")
        return KEYS.is_proven(entry)

    follower.is_proven = is_proven

    assert follower.look(PAYOUT.key).trouble == follow.FROZEN
    assert bank.sent == 0


def test_the_not_paid_verdict_returns_a_frozen_payouts_money(having: Having, table: MemoryDynamoDb) -> None:
    follower = having(STATES[Status.RESERVED])
    bar(table, "frozen")
    approve(table, follower.look(PAYOUT.key), Verdict.NOT_PAID)

    assert follower.look(PAYOUT.key).status is Status.REFUSED
    assert available(table) == PAYOUT.amount


def test_a_frozen_payout_opens_a_new_case_after_ask(having: Having, table: MemoryDynamoDb) -> None:
    bank = Bank()
    follower = having(STATES[Status.RESERVED], bank=bank)
    bar(table, "frozen")
    approve(table, follower.look(PAYOUT.key), Verdict.ASK)

    assert follower.look(PAYOUT.key).status is Status.UNKNOWN
    again = follower.look(PAYOUT.key)

    assert (again.status, again.trouble, again.cases, bank.sent) == (Status.LIMBO, follow.FROZEN, 2, 0)


def test_a_silent_bank_does_not_revoke_its_earlier_answer(having: Having) -> None:
    """The earlier answer stands, so a "not paid" verdict must say that it contradicts it."""
    for found in (Unknown("500"), NeverSeen()):
        follower = having(STATES[Status.ACCEPTED], bank=Bank(found=found), later=timedelta(days=3))

        stuck = follower.look(PAYOUT.key)

        assert (stuck.status, stuck.said) == (Status.LIMBO, Word.ACCEPTED)
        order = Decision(
            key=PAYOUT.key, case=1, digest=stuck.digest, verdict=Verdict.NOT_PAID, reason="a letter"
        )
        with pytest.raises(ResolutionRefused, match="the bank said accepted"):
            decision.propose(stuck, order, ADA, NOW)


def test_a_caller_six_seconds_after_its_record_does_not_send(having: Having) -> None:
    times = iter([NOW, NOW, NOW, NOW + timedelta(seconds=6)])
    bank = Bank()
    follower = having(STATES[Status.RESERVED], bank=bank)
    follower.now = lambda: next(times)

    assert follower.look(PAYOUT.key).status is Status.SENDING
    assert bank.sent == 0


# A restored table has forgotten the send


RESTORED, LATE = STATES[Status.RESERVED], timedelta(minutes=6)


@pytest.mark.parametrize(
    ("word", "status"),
    [
        (Word.ACCEPTED, Status.ACCEPTED),
        (Word.PAID, Status.PAID),
        (Word.RETURNED, Status.PAID),
        (Word.REFUSED, Status.UNKNOWN),
    ],
)
@pytest.mark.parametrize("is_frozen", [False, True])
def test_a_payout_that_the_bank_knows_is_not_sent(
    having: Having, table: MemoryDynamoDb, word: Word, status: Status, *, is_frozen: bool
) -> None:
    bank = Bank(found=Found(word))
    follower = having(RESTORED, bank=bank, later=LATE)
    if is_frozen:
        bar(table, "frozen")

    known = follower.look(PAYOUT.key)

    assert (known.status, known.attempts, bank.sent) == (status, 1, 0)
    assert known.said == (None if word is Word.REFUSED else word)  # the reason is no declared one
    assert (known.sent_sha256, known.trouble) == (SENT, None)
    assert follower.state(PAYOUT.key) == known


def test_a_caller_that_dies_after_the_record_is_replaced(having: Having) -> None:
    bank = Bank(found=Found(Word.PAID))
    follower = having(RESTORED, bank=bank, later=LATE)
    follower._words = None  # type: ignore[assignment]
    with pytest.raises(TypeError):
        follower.look(PAYOUT.key)

    follower = having(bank=bank, later=LATE + timedelta(minutes=1))

    assert follower.state(PAYOUT.key).status is Status.SENDING
    assert follower.look(PAYOUT.key).status is Status.PAID
    assert bank.sent == 0


def test_a_payout_that_the_bank_has_never_seen_is_sent(having: Having) -> None:
    bank = Bank(found=NeverSeen())

    sent = having(RESTORED, bank=bank, later=LATE).look(PAYOUT.key)

    assert (sent.status, sent.attempts, bank.sent) == (Status.ACCEPTED, 1, 1)


def test_a_silent_bank_defers_a_first_send(having: Having) -> None:
    bank = Bank(found=SILENT)

    held = having(RESTORED, bank=bank, later=LATE).look(PAYOUT.key)

    assert (held.status, held.detail, held.attempts, bank.sent) == (Status.RESERVED, "500", 0, 0)


def test_a_fresh_payout_is_sent_without_asking_the_bank(having: Having) -> None:
    bank = Bank(found=SILENT)

    sent = having(RESTORED, bank=bank, later=timedelta(minutes=5)).look(PAYOUT.key)

    assert (sent.status, bank.sent) == (Status.ACCEPTED, 1)


def test_a_send_removes_notes_that_came_since_its_read(having: Having, table: MemoryDynamoDb) -> None:
    follower = having(RESTORED, bank=Bank(answer=SILENT))

    def is_proven(entry: Row) -> bool:  # the last read before the record
        noted = replace(RESTORED, detail="500", said=Word.NEVER_SEEN, said_at=RESTORED.reserved_at)
        put(table, noted.to_row())
        return KEYS.is_proven(entry)

    follower.is_proven = is_proven
    follower.look(PAYOUT.key)

    state = follower.state(PAYOUT.key)
    assert (state.status, state.said, state.detail) == (Status.UNKNOWN, None, "500")


@pytest.mark.parametrize("status", [Status.RESERVED, Status.REFUSED])
@pytest.mark.parametrize("side", Side)
def test_a_line_of_a_payout_that_never_left_is_refused(having: Having, status: Status, side: Side) -> None:
    with pytest.raises(LineRefused):
        having(STATES[status]).book(line(PAYOUT.reference, side=side))


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("side", Side)
def test_a_line_of_another_bank_account_moves_nothing(
    having: Having, table: MemoryDynamoDb, status: Status, side: Side
) -> None:
    """A statement of the customer's own account can also name the payout."""
    follower = having(STATES[status])
    before = dict(table.items)

    with pytest.raises(LineRefused, match=r"of another bank account$"):
        follower.book(line(PAYOUT.reference, side=side, account="GB29NWBK60161331926819"))

    assert table.items == before


def test_a_begun_booking_is_finished_despite_a_removed_account(having: Having, table: MemoryDynamoDb) -> None:
    state = replace(STATES[Status.PAID], debit_line=BANK_LINE.identity)
    follower = having(state)
    follower.accounts = frozenset({"GB29NWBK60161331926819"})

    found = follower.book(line(PAYOUT.reference))

    assert found is not None
    assert found.status is Status.CONFIRMED


def test_a_line_that_names_two_payouts_is_refused(having: Having) -> None:
    states = (STATES[Status.PAID], replace(STATES[Status.PAID], payout=OTHER))

    with pytest.raises(LineRefused, match="several"):
        having(*states).book(line(PAYOUT.reference, OTHER.reference))


@pytest.mark.parametrize("changed", [{"amount": 1}, {"currency": "USD"}], ids=str)
def test_a_line_with_another_amount_or_currency_is_refused(having: Having, changed: dict[str, Any]) -> None:
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
    ("kind", "verdict", "status", "given_back"),
    [
        ("limbo", Verdict.PAID, Status.PAID, 0),
        ("limbo", Verdict.NOT_PAID, Status.REFUSED, PAYOUT.amount),
        ("limbo", Verdict.ASK, Status.UNKNOWN, 0),
        ("paid", Verdict.NOT_PAID, Status.RETURNED, PAYOUT.amount),
        ("paid", Verdict.ASK, Status.PAID, 0),
        ("paid", Verdict.CLOSE, Status.PAID, 0),
        ("returned", Verdict.ASK, Status.RETURNED, 0),
        ("returned", Verdict.CLOSE, Status.RETURNED, 0),
        ("suspense", Verdict.GIVE_BACK, Status.RETURNED, PAYOUT.amount),
    ],
)
def test_a_look_carries_out_what_two_persons_decided(
    having: Having, table: MemoryDynamoDb, kind: str, verdict: Verdict, status: Status, given_back: int
) -> None:
    case = CASES[kind]
    follower = having(case)
    assert follower.look(PAYOUT.key) == case
    approve(table, case, verdict)

    decided = follower.look(PAYOUT.key)

    assert (decided.status, decided.trouble, decided.sequence) == (status, None, case.sequence + 1)
    assert decided.decided
    assert (decided.decided["by"], decided.decided["approved_by"]) == (ADA.by, BEA.by)
    assert decided.is_closed == (verdict is Verdict.CLOSE)
    assert (decided.asked_from is not None) == (verdict is Verdict.ASK)
    assert follower.state(PAYOUT.key) == decided
    assert available(table) == given_back
    again = follower.look(PAYOUT.key)
    assert (again.cases, available(table)) == (case.cases, given_back)


@pytest.mark.parametrize("kind", ["paid", "returned"])
def test_the_ask_verdict_waits_ten_days_for_a_line(having: Having, table: MemoryDynamoDb, kind: str) -> None:
    follower = having(CASES[kind])
    approve(table, CASES[kind], Verdict.ASK)
    follower.look(PAYOUT.key)

    follower.now = lambda: NOW + timedelta(days=10, seconds=-1)
    assert follower.look(PAYOUT.key).trouble is None
    follower.now = lambda: NOW + timedelta(days=20)
    again = follower.look(PAYOUT.key)

    assert (again.trouble, again.cases) == (CASES[kind].trouble, 2)


def test_a_line_still_moves_a_closed_payout(having: Having, table: MemoryDynamoDb) -> None:
    follower = having(CASES["paid"])
    approve(table, CASES["paid"], Verdict.CLOSE)
    closed = follower.look(PAYOUT.key)
    assert closed.listed_at is None

    follower.book(line(PAYOUT.reference))
    returned = follower.book(line(PAYOUT.reference, side=Side.IN, identity=RETURN_LINE))

    assert returned
    assert (returned.status, available(table)) == (Status.RETURNED, PAYOUT.amount)


def test_money_in_suspense_waits_until_its_account_is_unfrozen(having: Having, table: MemoryDynamoDb) -> None:
    follower = having(CASES["suspense"])
    account = {**keys.account("alice"), "available": 0, "currency": "EUR"}
    put(table, {**account, "frozen_at": "2026-11-20T12:00:00.123Z"})
    approve(table, CASES["suspense"], Verdict.GIVE_BACK)

    with pytest.raises(AccountFrozen):
        follower.look(PAYOUT.key)
    assert follower.state(PAYOUT.key) == CASES["suspense"]
    put(table, account)
    follower.look(PAYOUT.key)

    assert (follower.state(PAYOUT.key).in_suspense, available(table)) == (None, PAYOUT.amount)


@pytest.mark.parametrize("gone", [{"currency": "EUR", "closed_at": "2026"}, {"currency": "USD"}], ids=str)
def test_money_that_its_account_cannot_take_opens_another_case(
    having: Having, table: MemoryDynamoDb, gone: dict[str, str]
) -> None:
    follower = having(CASES["suspense"])
    put(table, {**keys.account("alice"), "available": 0} | gone)
    approve(table, CASES["suspense"], Verdict.GIVE_BACK)

    again = follower.look(PAYOUT.key)

    assert (again.status, again.in_suspense, again.trouble) == (Status.RETURNED, 1, follow.NOT_TAKEN)
    assert (again.cases, available(table)) == (2, 0)
    put(table, {**keys.account("alice"), "available": 0, "currency": "EUR"})
    approve(table, again, Verdict.GIVE_BACK)
    assert follower.look(PAYOUT.key).in_suspense is None
    assert available(table) == PAYOUT.amount


def test_a_decided_return_to_a_frozen_account_waits_in_suspense(
    having: Having, table: MemoryDynamoDb
) -> None:
    follower = having(CASES["paid"])
    put(table, {**keys.account("alice"), "available": 0, "currency": "EUR", "frozen_at": "2026"})
    approve(table, CASES["paid"], Verdict.NOT_PAID)

    decided = follower.look(PAYOUT.key)

    assert (decided.status, decided.in_suspense, decided.trouble) == (Status.RETURNED, 1, follow.SUSPENSE)
    assert (decided.cases, available(table)) == (2, 0)


@pytest.mark.parametrize(
    ("kind", "verdict", "found"),
    [
        ("limbo", Verdict.PAID, Found(Word.ACCEPTED)),
        ("limbo", Verdict.NOT_PAID, Found(Word.ACCEPTED)),
        ("paid", Verdict.NOT_PAID, Found(Word.PAID)),
    ],
)
def test_a_new_answer_of_the_bank_opens_another_case(
    having: Having, table: MemoryDynamoDb, kind: str, verdict: Verdict, found: Any
) -> None:
    case = replace(CASES[kind], said=None, said_at=None)
    follower = having(case, bank=Bank(found=found))
    approve(table, case, verdict)

    again = follower.look(PAYOUT.key)

    assert (again.status, again.cases, again.decided) == (case.status, 2, None)
    assert again.trouble == f"the bank says {again.said} since two persons decided {verdict}"
    assert follower.look(PAYOUT.key) == again
    approve(table, again, verdict)
    assert follower.look(PAYOUT.key).trouble is None


UNHEARD = replace(CASES["paid"], said=None, said_at=None)
NEVER_SENT = moves.after(STATES[Status.RESERVED], moves.Move.STICK, NOW, trouble=follow.NEVER_SENT)


@pytest.mark.parametrize("case", [CASES["limbo"], NEVER_SENT, UNHEARD], ids=lambda case: case.status)
def test_a_not_paid_verdict_waits_for_the_bank(having: Having, table: MemoryDynamoDb, case: State) -> None:
    bank = Bank(found=SILENT)
    follower = having(case, bank=bank)
    approve(table, case, Verdict.NOT_PAID, contradicts=False)

    assert follower.look(PAYOUT.key) == case == follower.state(PAYOUT.key)
    bank.found = NeverSeen()
    decided = follower.look(PAYOUT.key)

    assert (decided.trouble, available(table)) == (None, PAYOUT.amount)
    assert "contradicts" not in (decided.decided or {})


@pytest.mark.parametrize("case", [CASES["limbo"], NEVER_SENT], ids=lambda case: case.status)
def test_two_persons_may_contradict_a_silent_bank(having: Having, table: MemoryDynamoDb, case: State) -> None:
    follower = having(case, bank=Bank(found=SILENT))
    approve(table, case, Verdict.NOT_PAID)

    decided = follower.look(PAYOUT.key)

    assert (decided.status, available(table)) == (Status.REFUSED, PAYOUT.amount)
    assert (decided.decided or {})["contradicts"] == "yes"


def test_a_bank_that_stays_silent_brings_a_new_case(having: Having, table: MemoryDynamoDb) -> None:
    """While an approval waits for the bank, no other decision is possible, so the new case ends the wait."""
    case = CASES["limbo"]
    follower = having(case, bank=Bank(found=SILENT), later=timedelta(days=1))
    approve(table, case, Verdict.NOT_PAID, contradicts=False)
    assert follower.look(PAYOUT.key) == case

    follower.now = lambda: NOW + timedelta(days=1, milliseconds=1)
    again = follower.look(PAYOUT.key)

    assert (again.status, again.cases, again.trouble) == (Status.LIMBO, 2, follow.SILENT)
    approve(table, again, Verdict.NOT_PAID)
    assert follower.look(PAYOUT.key).status is Status.REFUSED
    assert available(table) == PAYOUT.amount


def test_money_sent_before_a_restore_is_not_given_back(having: Having, table: MemoryDynamoDb) -> None:
    bank = Bank(found=Found(Word.PAID))
    follower = having(NEVER_SENT, bank=bank, later=LATE)
    approve(table, NEVER_SENT, Verdict.NOT_PAID)

    again = follower.look(PAYOUT.key)
    assert (again.status, again.said, again.cases, available(table)) == (Status.LIMBO, Word.PAID, 2, 0)
    approve(table, again, Verdict.ASK)
    statuses = [follower.look(PAYOUT.key).status for _ in range(2)]

    assert statuses == [Status.UNKNOWN, Status.PAID]
    assert bank.sent == 0


@pytest.mark.parametrize("found", [SILENT, NeverSeen(), Found(Word.ACCEPTED)], ids=str)
def test_a_decision_is_executed_if_the_bank_says_nothing_new(
    having: Having, table: MemoryDynamoDb, found: Any
) -> None:
    case = replace(CASES["limbo"], said=Word.ACCEPTED, said_at="2026-11-20T12:00:00.123Z")
    follower = having(case, bank=Bank(found=found))
    approve(table, case, Verdict.NOT_PAID)

    assert follower.look(PAYOUT.key).status is Status.REFUSED


def test_an_approval_is_ignored_once_the_row_has_changed(having: Having, table: MemoryDynamoDb) -> None:
    follower = having(CASES["suspense"])
    approve(table, CASES["suspense"], Verdict.GIVE_BACK)
    other = replace(CASES["suspense"], detail="ac04")
    put(table, other.to_row())

    assert follower.look(PAYOUT.key) == other
    assert available(table) == 0


@pytest.mark.parametrize(
    "changed", [{"approved_by": ADA.by}, {"digest": "0" * 64}, {"verdict": "close"}], ids=str
)
def test_a_forged_approval_moves_nothing(having: Having, table: MemoryDynamoDb, changed: Row) -> None:
    follower = having(CASES["limbo"])
    approve(table, CASES["limbo"], Verdict.PAID, changed)

    with pytest.raises(MalformedRow):
        follower.look(PAYOUT.key)
    assert follower.state(PAYOUT.key) == CASES["limbo"]


def test_a_refusal_counts_only_with_a_declared_reason(having: Having) -> None:
    found = Found(Word.REFUSED, "in_progress")
    follower = having(STATES[Status.UNKNOWN], bank=Bank(found=found), later=timedelta(minutes=1))

    looked = follower.look(PAYOUT.key)

    assert (looked.status, looked.said) == (Status.UNKNOWN, None)
    assert "in_progress" in str(looked.detail)


def test_an_incoming_line_without_a_return_code_is_refused(having: Having) -> None:
    """Without the code, it can be a line of the payee's own statement, which has our reference too."""
    with pytest.raises(LineRefused, match="is no return"):
        having(STATES[Status.PAID]).book(line(PAYOUT.reference, side=Side.IN, returns=""))


@pytest.mark.parametrize("status", sorted(STATES.keys() - {Status.RESERVED, Status.REFUSED}))
def test_a_debit_that_is_itself_a_return_is_refused(
    having: Having, table: MemoryDynamoDb, status: Status
) -> None:
    """Such a line reverses the bank's return, so persons have to check it."""
    state = replace(STATES[status], debit_line=None) if status is not Status.CONFIRMED else STATES[status]
    follower, one = having(state), line(PAYOUT.reference, returns="AC04", identity="8f" * 32)
    read(table, one)

    assert follower.book_listed(one.line.identity) is None

    assert "refused" in listed(table, one)
    assert follower.state(PAYOUT.key) == state


@pytest.mark.parametrize("changed", [str.lower, str.swapcase, str.title])
def test_a_reference_in_any_letter_case_names_a_payout(having: Having, changed: Callable[[str], str]) -> None:
    booked = having(STATES[Status.PAID]).book(line(changed(PAYOUT.reference)))

    assert booked
    assert booked.status is Status.CONFIRMED


def test_a_non_ascii_letter_in_a_reference_names_no_payout(having: Having) -> None:
    name = next(one for one in (PAYOUT.reference, OTHER.reference) if {*"IS"} & {*one})
    strange = name.replace("I", "\u0131").replace("S", "\u017f")
    assert strange.upper() == name

    assert having(STATES[Status.PAID]).book(line(strange)) is None


def test_a_late_return_closes_the_case_of_its_debit(having: Having) -> None:
    """The bank's hint causes an early look, but does not open a case early."""
    follower = having(STATES[Status.PAID], bank=Bank(found=Found(Word.RETURNED)), later=timedelta(minutes=1))
    follower.look(PAYOUT.key)
    follower.book(line(PAYOUT.reference))
    hints.bring_forward(follower.store, PAYOUT.reference, follower.now())
    assert follower.look(PAYOUT.key).trouble is None
    follower.now = lambda: NOW + timedelta(days=11)
    assert follower.look(PAYOUT.key).trouble == "the bank said returned, and a statement has its debit alone"

    follower.book(line(PAYOUT.reference, side=Side.IN, identity="7e" * 32))

    ended = follower.state(PAYOUT.key)
    assert (ended.status, ended.trouble, ended.listed_at) == (Status.RETURNED, None, None)


def test_a_returned_payout_is_first_recorded_as_paid(having: Having, table: MemoryDynamoDb) -> None:
    follower = having(
        STATES[Status.UNKNOWN], bank=Bank(found=Found(Word.RETURNED)), later=timedelta(minutes=1)
    )

    assert [follower.look(PAYOUT.key).status for _ in range(2)] == [Status.PAID, Status.RETURNED]
    assert from_wire(table.items["ACCOUNT#alice", "BALANCE"])["available"] == PAYOUT.amount


@pytest.mark.parametrize("status", [Status.SENDING, Status.UNKNOWN, Status.ACCEPTED, Status.LIMBO])
def test_a_return_before_its_debit_gives_the_money_back(
    having: Having, table: MemoryDynamoDb, status: Status
) -> None:
    follower = having(STATES[status])

    returned = follower.book(line(PAYOUT.reference, side=Side.IN, identity=RETURN_LINE))

    assert returned == follower.state(PAYOUT.key)
    assert (returned.status, returned.return_line) == (Status.RETURNED, RETURN_LINE)
    assert available(table) == PAYOUT.amount


@pytest.mark.parametrize("first", [Side.OUT, Side.IN])
@pytest.mark.parametrize("status", [Status.SENDING, Status.UNKNOWN, Status.ACCEPTED, Status.LIMBO])
def test_a_caller_that_died_between_two_moves_is_replaced(
    having: Having, status: Status, first: Side
) -> None:
    follower = having(STATES[status])
    one, ends = line(PAYOUT.reference, side=first), {Side.OUT: Status.CONFIRMED, Side.IN: Status.RETURNED}
    dying = having()
    dying._finish = lambda state, line: state  # type: ignore[method-assign]

    dead = dying.book(one)
    assert dead
    assert dead.status is Status.PAID
    booked = [follower.book(one) for _ in range(2)]

    assert [state.status for state in booked if state] == [ends[first]] * 2


def test_many_hints_cause_one_look_in_five_seconds(having: Having) -> None:
    bank = Bank(found=Found(Word.ACCEPTED))
    follower = having(STATES[Status.PAID], bank=bank)
    for seconds in range(5):
        hinted = hints.bring_forward(follower.store, PAYOUT.reference, NOW + timedelta(seconds=seconds))

    assert hinted.listed_at == "2026-11-20T12:00:05.123Z"
    assert hinted.sequence == STATES[Status.PAID].sequence


# Listed lines


def listed(table: MemoryDynamoDb, one: Recorded) -> Row:
    """Return the line's row in the list of lines to book."""
    return from_wire(table.items[f"PAYOUT_LINE#{one.line.identity}", "LINE"])


def read(table: MemoryDynamoDb, *ones: Recorded) -> None:
    """Record lines of a statement as its reader does."""
    for one in ones:
        write = lines.listed(one)
        put(table, record.line(one, FILE).parameters["Item"], *([write.parameters["Item"]] if write else []))


def test_a_listed_line_is_booked_and_leaves_the_list(having: Having, table: MemoryDynamoDb) -> None:
    follower, one = having(STATES[Status.PAID]), line(PAYOUT.reference)
    read(table, one)

    booked = [follower.book_listed(one.line.identity) for _ in range(2)]

    assert [state.status for state in booked if state] == [Status.CONFIRMED] * 2
    assert "gsi1pk" not in listed(table, one)
    match = record.match_of(from_wire(table.items[f"BANK_LINE#{one.line.identity}", "MATCH"]))
    assert (match.order, match.account, match.amount, match.side) == (
        *(f"PAYOUT#{PAYOUT.key}", "alice"),
        *(PAYOUT.amount, Side.OUT),
    )


def test_a_listed_line_that_is_not_on_record_stays_listed(having: Having, table: MemoryDynamoDb) -> None:
    follower, one = having(STATES[Status.PAID]), line(PAYOUT.reference)
    write = lines.listed(one)
    assert write
    put(table, write.parameters["Item"])

    with pytest.raises(MalformedRow, match="not on record"):
        follower.book_listed(one.line.identity)
    assert listed(table, one)["gsi1pk"] == "PAYOUT_LINES"
    assert follower.state(PAYOUT.key) == STATES[Status.PAID]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"amount": 1}, f"line: its amount is not that of {PAYOUT.key}"),
        ({"side": Side.IN, "returns": ""}, f"line: it names {PAYOUT.key}, but is no return"),
        ({"identity": RETURN_LINE}, f"line: a second debit of {PAYOUT.key}"),
    ],
    ids=str,
)
def test_a_refused_line_is_listed_with_the_reason(
    having: Having, table: MemoryDynamoDb, changed: dict[str, Any], why: str
) -> None:
    follower, one = having(STATES[Status.CONFIRMED]), line(PAYOUT.reference, **changed)
    read(table, one)

    for _ in range(2):
        assert follower.book_listed(one.line.identity) is None
        assert (listed(table, one)["gsi1pk"], listed(table, one)["refused"]) == ("PAYOUT_LINE_FAULTS", why)
    assert follower.state(PAYOUT.key) == STATES[Status.CONFIRMED]
    assert (f"BANK_LINE#{one.line.identity}", "MATCH") not in table.items


def test_an_unchanged_refusal_is_not_written_again(
    having: Having, table: MemoryDynamoDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower, one = having(STATES[Status.CONFIRMED]), line(PAYOUT.reference, amount=1)
    read(table, one)
    follower.book_listed(one.line.identity)
    written: list[Any] = []
    monkeypatch.setattr(table, "transact_write_items", lambda **told: written.append(told))
    monkeypatch.setattr(table, "update_item", lambda **told: written.append(told))

    assert follower.book_listed(one.line.identity) is None
    assert written == []


@pytest.mark.parametrize(
    "changed",
    [
        {"refused": "line: no payout has its reference"},
        {"gsi1pk": "PAYOUT_LINES"},
        {"gsi1sk": "2026-01-01"},
        {"refused": {"a set"}},
    ],
    ids=str,
)
def test_a_changed_refusal_or_list_position_is_written_again(
    having: Having, table: MemoryDynamoDb, changed: dict[str, Any]
) -> None:
    follower, one = having(STATES[Status.CONFIRMED]), line(PAYOUT.reference, amount=1)
    read(table, one)
    follower.book_listed(one.line.identity)
    right = listed(table, one)
    put(table, right | changed)

    follower.book_listed(one.line.identity)

    assert listed(table, one) == right


def test_a_line_of_an_unknown_payout_is_listed_as_refused(having: Having, table: MemoryDynamoDb) -> None:
    follower, one = having(STATES[Status.PAID]), line("A" * 32)
    read(table, one)

    assert follower.book_listed(one.line.identity) is None
    assert listed(table, one)["refused"] == "line: no payout has its reference"


@pytest.mark.parametrize(
    "references", [("A" * 32,), (PAYOUT.reference,)], ids=["no payout", "another amount"]
)
def test_a_refused_line_that_an_order_books_leaves_the_list(
    having: Having, table: MemoryDynamoDb, references: tuple[str, ...]
) -> None:
    follower, one = having(STATES[Status.PAID]), line(*references, amount=7)
    read(table, one)
    follower.book_listed(one.line.identity)
    assert "refused" in listed(table, one)
    put(table, record.match(MATCH._replace(line=one.line.identity))[0].parameters["Item"])

    assert follower.book_listed(one.line.identity) is None

    assert listed(table, one).keys() == {"pk", "sk", "booked"}
    assert follower.state(PAYOUT.key) == STATES[Status.PAID]


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("status", sorted(STATES.keys() - {Status.RESERVED, Status.REFUSED}))
def test_a_line_matched_to_an_order_moves_no_payout(
    having: Having, table: MemoryDynamoDb, status: Status, side: Side
) -> None:
    """The order has already booked the line's money."""
    state = replace(STATES[status], debit_line=None) if status is not Status.CONFIRMED else STATES[status]
    follower, one = having(state), line(PAYOUT.reference, side=side)
    read(table, one)
    put(table, record.match(MATCH._replace(line=one.line.identity))[0].parameters["Item"])

    assert follower.book_listed(one.line.identity) is None

    assert follower.state(PAYOUT.key) == state
    assert "gsi1pk" not in listed(table, one)
    with pytest.raises(LineRefused):
        follower.book(one)


def test_a_line_matched_to_another_payout_is_refused(having: Having, table: MemoryDynamoDb) -> None:
    follower, one = having(STATES[Status.PAID]), line(PAYOUT.reference)
    read(table, one)
    match = MATCH._replace(line=one.line.identity, order="PAYOUT#payout-2026-000102")
    put(table, record.match(match)[0].parameters["Item"])

    assert follower.book_listed(one.line.identity) is None
    assert listed(table, one)["refused"] == "line: it belongs to PAYOUT#payout-2026-000102"


def test_a_malformed_line_is_not_booked(having: Having, table: MemoryDynamoDb) -> None:
    follower, one = having(STATES[Status.PAID]), line(PAYOUT.reference)
    read(table, one)
    put(table, {**record.line(one, FILE).parameters["Item"], "amount": "4820"})

    with pytest.raises(MalformedRow):
        follower.book_listed(one.line.identity)
    assert listed(table, one)["gsi1pk"] == "PAYOUT_LINES"


def test_a_forged_reference_row_is_malformed(having: Having, table: MemoryDynamoDb) -> None:
    follower = having(STATES[Status.PAID])
    for key in ("payout-2026-000102", 7):
        put(table, {**keys.payout_reference(PAYOUT.reference), "key": key})
        with pytest.raises(MalformedRow):
            follower.book(line(PAYOUT.reference))


def test_a_return_line_leaves_a_case_of_suspense_open(having: Having) -> None:
    suspended = replace(CASES["suspense"], return_line=None)
    follower = having(suspended)

    booked = follower.book(line(PAYOUT.reference, side=Side.IN, identity=RETURN_LINE))

    assert booked == follower.state(PAYOUT.key)
    assert booked == replace(suspended, return_line=RETURN_LINE, sequence=suspended.sequence + 1)
