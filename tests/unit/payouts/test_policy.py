from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from settlement.core.model.timestamps import timestamp
from settlement.payouts import moves, policy
from settlement.payouts.payout import State, Status, Word
from settlement.payouts.policy import Act, may_send_again, may_submit, next_act, next_look
from settlement.payouts.port import Declared
from tests.unit.payouts.rows import CASES, LINE, STATES
from tests.world.environment import NOW

SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)
KNOWS = Declared(name="knows", window_seconds=86_400, refusals=frozenset())
FORGETS = Declared(name="forgets", window_seconds=0, refusals=frozenset())

RESERVED, SENDING, UNKNOWN, PAID = (
    STATES[status] for status in (Status.RESERVED, Status.SENDING, Status.UNKNOWN, Status.PAID)
)
NEVER_SEEN = replace(UNKNOWN, said=Word.NEVER_SEEN, said_at=timestamp(NOW))
NEVER_SENT = replace(RESERVED, status=Status.UNKNOWN, asked_from=timestamp(NOW + DAY))
CLOSED = moves.counted(CASES["paid"], NOW, decided={"verdict": "close", "case": "1"})
LACKS_RETURN = moves.noted(STATES[Status.RETURNED], NOW, debit_line=LINE)


@pytest.mark.parametrize(
    ("state", "bank", "after", "act"),
    [
        (RESERVED, KNOWS, timedelta(), Act.SEND),
        (RESERVED, KNOWS, DAY - SECOND, Act.SEND),
        (RESERVED, KNOWS, DAY, Act.STICK),
        (NEVER_SENT, FORGETS, 2 * DAY - SECOND, Act.SEND),
        (NEVER_SENT, KNOWS, 2 * DAY, Act.STICK),
        (SENDING, KNOWS, 30 * SECOND - SECOND, Act.WAIT),
        (SENDING, KNOWS, 30 * SECOND, Act.ASK),
        (UNKNOWN, KNOWS, SECOND, Act.ASK),
        (UNKNOWN, FORGETS, 30 * DAY, Act.ASK),
        (NEVER_SEEN, KNOWS, SECOND, Act.SEND),
        (NEVER_SEEN, KNOWS, DAY - 3 * HOUR, Act.SEND),
        (NEVER_SEEN, KNOWS, DAY - 3 * HOUR + SECOND, Act.ASK),
        (NEVER_SEEN, FORGETS, timedelta(), Act.ASK),
        (STATES[Status.ACCEPTED], KNOWS, 30 * DAY, Act.ASK),
        (PAID, KNOWS, 10 * DAY - SECOND, Act.ASK),
        (PAID, KNOWS, 10 * DAY, Act.OPEN_CASE),
        (moves.counted(PAID, NOW, trouble="late"), KNOWS, 10 * DAY, Act.WAIT),
        (LACKS_RETURN, KNOWS, 10 * DAY - SECOND, Act.WAIT),
        (LACKS_RETURN, KNOWS, 10 * DAY, Act.OPEN_CASE),
        (replace(PAID, asked_from=timestamp(NOW + 10 * DAY)), KNOWS, 20 * DAY - SECOND, Act.ASK),
        (replace(PAID, asked_from=timestamp(NOW + 10 * DAY)), KNOWS, 20 * DAY, Act.OPEN_CASE),
        (CLOSED, KNOWS, 99 * DAY, Act.WAIT),
        *(
            (STATES[status], KNOWS, 99 * DAY, Act.WAIT)
            for status in (Status.CONFIRMED, Status.REFUSED, Status.RETURNED, Status.LIMBO)
        ),
    ],
)
def test_the_next_act_follows_from_row_bank_and_time(
    state: State, bank: Declared, after: timedelta, act: Act
) -> None:
    assert next_act(state, bank, NOW + after) is act


def test_a_bank_that_declares_no_window_gets_no_second_send() -> None:
    assert not may_send_again(NEVER_SEEN, FORGETS, NOW)


def test_the_window_counts_from_the_first_send() -> None:
    again = moves.after(NEVER_SEEN, moves.Move.SEND, NOW + 20 * HOUR, sent_sha256="5c" * 32)

    assert again.sent_at == timestamp(NOW + 20 * HOUR)
    assert not may_send_again(again, KNOWS, NOW + 22 * HOUR)


def test_persons_decide_three_days_after_the_last_send() -> None:
    """Until then, the last request may still be on its way."""
    remembers = replace(KNOWS, window_seconds=30 * 86_400)
    last = NOW + policy.ASKED_FOR - policy.WINDOW_MARGIN
    again = moves.after(NEVER_SEEN, moves.Move.SEND, last, sent_sha256="5c" * 32)
    doubted = moves.after(again, moves.Move.DOUBT, last + HOUR)

    assert may_send_again(NEVER_SEEN, remembers, last)
    assert not may_send_again(NEVER_SEEN, remembers, last + SECOND)
    assert not policy.is_asked_out(doubted, last + policy.ASKED_FOR - SECOND)
    assert policy.is_asked_out(doubted, last + policy.ASKED_FOR)


def test_after_the_ask_verdict_the_bank_is_asked_before_sending() -> None:
    stuck = replace(STATES[Status.LIMBO], said=Word.NEVER_SEEN, said_at=timestamp(NOW))

    asked = moves.after(stuck, moves.Move.ASK, NOW + HOUR)

    assert asked.said is None
    assert next_act(asked, KNOWS, NOW + HOUR) is Act.ASK


@pytest.mark.parametrize(
    ("after", "may"),
    [(timedelta(), True), (5 * SECOND, True), (5.001 * SECOND, False), (-SECOND, False), (2 * HOUR, False)],
)
def test_a_caller_sends_only_within_five_seconds_of_its_record(after: timedelta, may: bool) -> None:
    recorded_at = datetime.fromisoformat(str(SENDING.sent_at))

    assert may_submit(SENDING, recorded_at + after) is may


def test_an_exchange_ends_ten_seconds_before_others_can_ask() -> None:
    slack = policy.ANSWER_WITHIN - policy.SUBMIT_WITHIN - policy.EXCHANGE_WITHIN

    assert slack >= 10 * SECOND


@pytest.mark.parametrize("asked_from", [None, NOW + DAY])
def test_asking_ends_three_days_after_send_or_ask_verdict(asked_from: datetime | None) -> None:
    state = replace(UNKNOWN, asked_from=timestamp(asked_from) if asked_from else None)
    ends_at = (asked_from or NOW) + policy.ASKED_FOR

    assert not policy.is_asked_out(state, ends_at - SECOND)
    assert policy.is_asked_out(state, ends_at)


def test_asking_about_a_paid_payout_has_no_time_limit() -> None:
    assert not policy.is_asked_out(PAID, NOW + 99 * DAY)


@pytest.mark.parametrize(
    ("state", "after", "pause"),
    [
        (UNKNOWN, timedelta(), 30 * SECOND),
        (UNKNOWN, HOUR, HOUR),
        (UNKNOWN, DAY, 6 * HOUR),
        (PAID, 9 * DAY, DAY),
        (LACKS_RETURN, timedelta(), 10 * DAY),
    ],
)
def test_pauses_between_looks_double_up_to_a_bound(state: State, after: timedelta, pause: timedelta) -> None:
    assert next_look(state, NOW + after) == NOW + after + pause


def test_a_sending_payout_is_due_thirty_seconds_after_its_send() -> None:
    assert next_look(SENDING, NOW + HOUR) == datetime.fromisoformat(str(SENDING.sent_at)) + 30 * SECOND


@pytest.mark.parametrize(
    "wrong",
    [{"name": "A bank"}, {"window_seconds": -1}, {"window_seconds": True}, {"refusals": frozenset({"No"})}],
)
def test_a_wrong_field_of_a_banks_declaration_is_named(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Declared(**{"name": "a-bank", "window_seconds": 0, "refusals": frozenset()} | wrong)  # type: ignore[arg-type]
