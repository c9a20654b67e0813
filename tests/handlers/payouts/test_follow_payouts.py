"""A look moves one payout. A run looks at all due payouts, and goes on after a failure."""

import io
import json
from itertools import chain, repeat
from typing import Any

import pytest

from handlers import _dependencies
from handlers.payouts import _bank
from settlement.bank import record
from settlement.bank.matching import Recorded
from settlement.bank.statement import Side
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import InvalidRequest, PayoutNotFound, StoreUnavailable
from settlement.core.model.stored import MalformedRow
from settlement.http.circuit import State as Circuit
from settlement.payouts import lines, rounds
from settlement.payouts.payout import Status, Word, reference_of
from settlement.payouts.port import Found, Refused, Unknown
from tests.handlers.payouts.conftest import HOLDER, IBAN, KEY, REFERENCE, Desk, numbered
from tests.world.bank_rows import FILE
from tests.world.bank_rows import LINE as BANK_LINE
from tests.world.functions import Context

LEVELS = ("PayoutLookLateSeconds", "PayoutCases", "PayoutLineFaults", "PayoutUnknown", "BankCircuit")
QUIET = dict.fromkeys(LEVELS, 0)


def bank_line(desk: Desk, reference: str, identity: str = "6d" * 32, **changed: Any) -> str:
    """Put a bank line and its list row, as ReadStatements does."""
    told: dict[str, Any] = {"side": Side.OUT, "amount": 48_20, "reference": reference} | changed
    recorded = Recorded(BANK_LINE._replace(identity=identity, **told), 0, frozenset({reference}))
    listed = lines.listed(recorded)
    assert listed
    _dependencies.store.transact((record.line(recorded, FILE), listed))
    return identity


def listed(desk: Desk, partition: str) -> list[Row]:
    return [row for row in desk.calls.ledger.rows() if row.get("gsi1pk") == partition]


# A look


def test_a_look_sends_a_reserved_payout_once(desk: Desk) -> None:
    desk.reserve()

    assert desk.look()["status"] == "ACCEPTED"
    assert desk.look()["status"] == "ACCEPTED"

    assert (desk.bank.sent, desk.bank.asked) == ([KEY], [KEY])
    assert desk.moved() == {"alice": -48_20, "transit:EUR": 48_20}


def test_two_concurrent_looks_send_a_payout_once(desk: Desk) -> None:
    desk.reserve()
    desk.calls.meanwhile(_dependencies.store, "transact", lambda: desk.calls.functions.answers({"key": KEY}))

    with pytest.raises(Exception, match="has moved on"):
        desk.look()

    assert desk.bank.sent == [KEY]


def test_a_declared_refusal_gives_the_money_back(desk: Desk) -> None:
    desk.reserve()
    desk.bank.answer = Refused("account_closed")

    assert desk.look()["status"] == "REFUSED"
    assert desk.moved() == {}


def test_a_payout_with_a_lost_answer_is_not_sent_again(desk: Desk) -> None:
    desk.reserve()
    desk.bank.answer = Unknown("no sound answer")
    assert desk.look()["status"] == "UNKNOWN"
    desk.bank.found = Found(Word.PAID)
    desk.calls.later(minutes=1)

    assert desk.look()["status"] == "PAID"

    assert desk.bank.sent == [KEY]
    assert desk.moved() == {"alice": -48_20, "external:EUR": 48_20}


@pytest.mark.parametrize("key", [None, 7, ["k"], "short", "k" * 65, "\ud800" * 20, ""], ids=ascii)
def test_a_look_with_an_invalid_key_is_refused(desk: Desk, key: Any) -> None:
    with desk.calls.writes_nothing(), pytest.raises(InvalidRequest):
        desk.look(key)


def test_a_look_at_an_unknown_key_finds_no_payout(desk: Desk) -> None:
    with desk.calls.writes_nothing(), pytest.raises(PayoutNotFound):
        desk.look("a-strangers-key-0001")

    assert desk.calls.counted() == {"StepCalled": 1, "PayoutNotFound": 1}


def test_a_look_at_a_damaged_row_never_calls_the_bank(desk: Desk) -> None:
    desk.reserve()
    desk.alter(iban="DE00")

    with desk.calls.writes_nothing(), pytest.raises(MalformedRow):
        desk.look()

    assert (desk.bank.sent, desk.bank.asked) == ([], [])


# A run


def test_an_idle_run_publishes_its_level_metrics_as_zero(desk: Desk) -> None:
    assert desk.run() == {"lines": 0, "looked": 0, "due": 0, "cases": 0}

    assert desk.calls.counted() == {"StepCalled": 1, **QUIET}


def test_a_run_looks_only_at_due_payouts(desk: Desk) -> None:
    desk.many(10)
    desk.calls.later(seconds=5)

    assert desk.run() == {"lines": 0, "looked": 10, "due": 10, "cases": 0}
    assert sorted(desk.bank.sent) == [numbered(number) for number in range(10)]
    assert desk.calls.counted()["PayoutLookLateSeconds"] == 5
    assert desk.run()["due"] == 0


def test_a_poisoned_payout_does_not_delay_the_others(desk: Desk, log: io.StringIO) -> None:
    first, *others = desk.many(3)
    desk.bank.poisoned = {first}
    desk.calls.counted()

    for _ in range(2):
        desk.run()
        desk.calls.later(seconds=1)

    assert sorted(desk.bank.sent) == others
    assert desk.calls.counted()["PayoutNotFollowed"] == 2
    assert desk.state(first).status is Status.RESERVED


def test_malformed_rows_do_not_delay_sound_payouts(desk: Desk) -> None:
    *spoilt, last = desk.many(60)
    for key in spoilt:
        desk.alter(key, amount="canary")
    desk.calls.counted()

    desk.run()

    assert desk.bank.sent == [last]
    assert desk.calls.counted()["PayoutNotFollowed"] == len(spoilt)


@pytest.mark.parametrize("at", ["", "canary", "2026-01-01", "2026-01-01T00:00:00", "0"])
def test_a_forged_index_time_does_not_stop_a_run(desk: Desk, at: str) -> None:
    desk.reserve()
    forged = {"pk": "PAYOUT#" + "k" * 900, "sk": "PAYOUT", **keys.payouts_index(KEY, at or " ")}
    desk.calls.ledger.put(forged)
    desk.calls.counted()

    assert desk.run()["looked"] == 1


def test_only_the_beginning_of_a_long_forged_key_is_logged(desk: Desk, log: io.StringIO) -> None:
    desk.calls.ledger.put({"pk": "PAYOUT#" + "k" * 900, "sk": "PAYOUT", **keys.payouts_index(KEY, "2026")})

    desk.run()

    assert "k" * 64 in log.getvalue()
    assert "k" * 65 not in log.getvalue()


def test_the_longest_overdue_payout_of_any_partition_comes_first(desk: Desk) -> None:
    keys_ = desk.many(40)
    for number, key in enumerate(keys_):
        desk.alter(key, gsi1sk=f"2026-11-20T11:{59 - number:02}:00.000Z")

    due = rounds.due(_dependencies.store, _dependencies.now())

    assert [keys.subject(row)[1] for row in due] == keys_[::-1]
    assert len({row["gsi1pk"] for row in desk.calls.ledger.rows() if row["sk"] == "PAYOUT"}) > 4


@pytest.mark.parametrize("calls_in_time", [0, 3])
def test_a_run_without_time_leaves_the_rest_to_the_next(desk: Desk, calls_in_time: int) -> None:
    desk.many(10)
    desk.calls.counted()

    told = desk.run(chain(repeat(50_000, calls_in_time), repeat(24_999)))

    assert (told["due"], told["looked"]) == (10, calls_in_time)
    assert desk.calls.counted()["PayoutRunCutShort"] == 10 - calls_in_time
    assert desk.run()["looked"] == 10 - calls_in_time
    assert len(desk.bank.sent) == 10


def test_a_payout_moved_by_another_look_is_not_a_failure(desk: Desk) -> None:
    desk.reserve()
    desk.calls.meanwhile(_dependencies.store, "transact", lambda: desk.calls.functions.answers({"key": KEY}))

    assert desk.run()["looked"] == 0

    assert desk.bank.sent == [KEY]
    assert "PayoutNotFollowed" not in desk.calls.counted()


def test_a_payout_stays_due_if_the_table_is_unavailable(desk: Desk) -> None:
    desk.reserve()
    desk.calls.counted()
    with desk.calls.fails("transact", StoreUnavailable("DynamoDB: dead")):
        desk.run()

    assert desk.calls.counted()["PayoutNotFollowed"] == 1
    assert desk.bank.sent == []
    assert desk.run()["looked"] == 1


def test_an_unreadable_token_fails_the_run(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable() -> None:
        raise StoreUnavailable("bank: secret: GetParameterError")

    desk.reserve()
    monkeypatch.setattr(_bank, "bank", unreadable)

    with desk.calls.writes_nothing(), pytest.raises(StoreUnavailable):
        desk.run()


def test_a_run_counts_payouts_in_doubt_for_over_an_hour(desk: Desk) -> None:
    desk.reserve()
    desk.bank.answer = desk.bank.found = Unknown("500")
    desk.look()
    for minutes, unknown in ((59, 0), (180, 1)):
        desk.calls.later(minutes=minutes)
        desk.calls.counted()

        desk.run()

        assert desk.calls.counted()["PayoutUnknown"] == unknown


@pytest.mark.parametrize(
    "frozen", [{}, {"frozen_at": "2026-11-20T12:00:00.000Z"}], ids=["account", "suspense"]
)
def test_each_returned_payout_is_counted_once(desk: Desk, frozen: dict[str, Any]) -> None:
    desk.reserve()
    desk.look()
    account = desk.calls.ledger.row(keys.account("alice"))
    assert account
    desk.calls.ledger.put(account | frozen)
    desk.bank.found = Found(Word.RETURNED)
    desk.calls.counted()

    for minutes in (1, 10, 20):
        desk.calls.later(minutes=minutes)
        desk.look()

    assert desk.state().status is Status.RETURNED
    assert desk.calls.counted()["PayoutReturned"] == 1


def test_a_return_that_two_looks_book_is_counted_once(desk: Desk) -> None:
    desk.reserve()
    desk.look()
    desk.bank.found = Found(Word.RETURNED)
    desk.calls.later(minutes=1)
    desk.look()
    desk.calls.later(minutes=10)
    desk.calls.counted()
    desk.calls.meanwhile(_dependencies.store, "transact", lambda: desk.calls.functions.answers({"key": KEY}))

    assert desk.look()["status"] == "RETURNED"

    assert desk.calls.counted()["PayoutReturned"] == 1


def test_a_run_publishes_an_open_circuit(desk: Desk) -> None:
    desk.calls.ledger.put({**keys.circuit("bank"), "version": 1, "state": Circuit.HALF_OPEN.value})

    desk.run()

    assert desk.calls.counted()["BankCircuit"] == 1


# Cases


def test_a_run_carries_an_approved_decision_out(desk: Desk) -> None:
    desk.case()
    desk.calls.functions.answers = lambda event: {}
    desk.decided()
    desk.calls.counted()

    assert desk.run()["cases"] == 1

    assert desk.state().status is Status.REFUSED
    assert desk.calls.counted()["PayoutCases"] == 0


def test_runs_look_at_many_cases_in_turn(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "TURN", 4)
    desk.bank.answer = desk.bank.found = Unknown("500")
    cases, seen = set(desk.many(10)), set[str]()
    desk.run()
    desk.calls.later(days=4)
    desk.run()
    looked: list[str] = []
    real = _dependencies.store.read

    def read(key: Row) -> Row | None:
        looked.append(key["pk"].partition("#")[2])
        return real(key)

    monkeypatch.setattr(_dependencies.store, "read", read)
    desk.calls.counted()

    for minute in range(3):
        desk.calls.later(days=4, minutes=minute)
        looked.clear()
        assert desk.run()["cases"] == 10
        assert len(cases & set(looked)) == 4
        seen |= set(looked)

    assert cases <= seen
    assert desk.calls.counted()["PayoutCases"] == 3 * 10


def test_a_payout_to_a_frozen_payee_becomes_a_case(desk: Desk) -> None:
    desk.reserve()
    desk.order("freeze-payee", {"id": "landlord"})

    desk.run()

    assert (desk.state().status, desk.bank.sent) == (Status.LIMBO, [])


# Lines


def test_a_listed_line_confirms_its_payout_once(desk: Desk) -> None:
    desk.reserve()
    desk.look()
    bank_line(desk, REFERENCE.lower())

    assert desk.run()["lines"] == 1
    assert desk.run()["lines"] == 0

    assert desk.state().status is Status.CONFIRMED
    assert listed(desk, keys.PAYOUT_LINES) == listed(desk, keys.PAYOUT_LINE_FAULTS) == []
    assert desk.moved() == {"alice": -48_20, "external:EUR": 48_20}


@pytest.mark.parametrize(
    ("reference", "changed"),
    [(REFERENCE, {"amount": 48_21}), (REFERENCE, {"side": Side.IN}), (reference_of("nobody"), {})],
    ids=["amount", "no return", "nobody's"],
)
def test_a_contradicting_line_is_a_fault_until_booked_elsewhere(
    desk: Desk, reference: str, changed: dict[str, Any]
) -> None:
    desk.reserve()
    desk.look()
    bank_line(desk, reference, **changed)
    desk.calls.counted()

    for _ in range(2):
        desk.run()
        assert desk.calls.counted()["PayoutLineFaults"] == 1

    (fault,) = listed(desk, keys.PAYOUT_LINE_FAULTS)
    assert IBAN not in fault["refused"]
    assert desk.moved() == {"alice": -48_20, "transit:EUR": 48_20}
    desk.calls.ledger.put({**keys.bank_match("6d" * 32), "order": "a-deposit-of-the-books"})
    desk.run()
    assert desk.calls.counted()["PayoutLineFaults"] == 0


def test_of_two_debits_one_confirms_and_one_is_a_fault(desk: Desk) -> None:
    desk.reserve()
    desk.look()
    for number in (1, 2):
        bank_line(desk, REFERENCE, f"{number}" * 64)
    desk.calls.counted()

    desk.run()
    desk.run()

    assert desk.state().status is Status.CONFIRMED
    assert desk.calls.counted()["PayoutLineFaults"] > 0
    assert desk.moved() == {"alice": -48_20, "external:EUR": 48_20}


def test_a_run_killed_before_a_booking_leaves_its_line_listed(desk: Desk) -> None:
    desk.reserve()
    desk.look()
    bank_line(desk, REFERENCE)
    with desk.calls.dies_at_write(0):
        desk.run()
    assert listed(desk, keys.PAYOUT_LINES)

    assert desk.run()["lines"] == 1

    assert desk.state().status is Status.CONFIRMED


def test_a_listed_line_without_its_row_is_counted_as_failure(desk: Desk) -> None:
    identity = bank_line(desk, REFERENCE)
    desk.calls.ledger.delete(keys.bank_line(identity))
    desk.calls.counted()

    assert desk.run()["lines"] == 0

    assert desk.calls.counted()["PayoutNotFollowed"] == 1


def test_runs_look_at_many_refused_lines_in_turn(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "TURN", 2)
    for number in range(5):
        bank_line(desk, reference_of(f"nobody {number}"), f"{number}" * 64)
    desk.run()
    for number in range(5):
        desk.calls.ledger.put({**keys.bank_match(f"{number}" * 64), "order": "an-order-of-the-books"})

    for minute in range(5):
        desk.calls.later(minutes=minute)
        desk.run()

    assert listed(desk, keys.PAYOUT_LINE_FAULTS) == []


# Logs


def test_no_log_line_shows_a_bank_account_or_its_holder(
    desk: Desk, log: io.StringIO, capfd: pytest.CaptureFixture[str]
) -> None:
    first, second, *_ = desk.many(3)
    desk.bank.poisoned = {first}
    desk.alter(second, holder=f"{HOLDER}\n")
    capfd.readouterr()

    desk.run()
    desk.post({"key": KEY, "iban": IBAN, "holder": HOLDER})

    output = f"{log.getvalue()}{capfd.readouterr()}"
    assert {line["what"] for line in map(json.loads, log.getvalue().splitlines())} == {first, second}
    assert IBAN not in output
    assert HOLDER not in output


def test_an_event_without_a_key_starts_a_run(desk: Desk) -> None:
    """A schedule made in the console can send its own event."""
    desk.reserve()

    events: tuple[Any, ...] = ({"source": "aws.events"}, [], None)
    for event in events:
        desk.calls.handlers["FollowPayouts"](event, Context())

    assert desk.bank.sent == [KEY]
