from datetime import timedelta

import pytest

from settlement.core.model.errors import PayoutFenced
from settlement.core.model.timestamps import timestamp
from settlement.payouts import moves
from settlement.payouts.moves import HEARD, RULES, Move, after, transfer
from settlement.payouts.payout import State, Status, Word
from tests.unit.payouts.rows import CASES, LINE, NOTES, PAYOUT, STATES
from tests.world.environment import NOW

LEGAL = {
    Move.SEND: "RESERVED UNKNOWN -> SENDING",
    Move.DOUBT: "SENDING -> UNKNOWN",
    Move.ACCEPT: "SENDING UNKNOWN -> ACCEPTED",
    Move.PAY: "SENDING UNKNOWN ACCEPTED LIMBO -> PAID: transit:EUR -> external:EUR",
    Move.CONFIRM: "PAID -> CONFIRMED",
    Move.REFUSE: "SENDING UNKNOWN ACCEPTED LIMBO -> REFUSED: transit:EUR -> alice",
    Move.STICK: "RESERVED UNKNOWN ACCEPTED -> LIMBO",
    Move.ASK: "LIMBO -> UNKNOWN",
}


GIVE_BACK = "RETURNED -> RETURNED: suspense:EUR -> alice"


def told(move: Move, states: list[Status]) -> str:
    moved = transfer(STATES[states[0]], move)
    money = f": {moved.debit} -> {moved.credit}" if moved else ""
    return f"{' '.join(states)} -> {RULES[move].to}{money}"


@pytest.mark.parametrize("move", LEGAL)
def test_each_move_has_the_listed_states_and_transfer(move: Move) -> None:
    assert told(move, [*RULES[move].money]) == LEGAL[move]


def test_a_return_moves_the_money_back_to_the_account() -> None:
    assert {status: told(Move.RETURN, [status]) for status in RULES[Move.RETURN].money} == {
        Status.PAID: "PAID -> RETURNED: external:EUR -> alice",
        Status.CONFIRMED: "CONFIRMED -> RETURNED: external:EUR -> alice",
    }


def test_suspense_is_given_back_once() -> None:
    given = after(CASES["suspense"], Move.GIVE_BACK, NOW)

    assert told(Move.GIVE_BACK, [Status.RETURNED]) == GIVE_BACK
    assert (given.in_suspense, given.trouble, given.listed_at) == (None, None, None)


def test_the_tests_cover_every_move() -> None:
    assert {*RULES} == {*Move} == {*LEGAL, Move.RETURN, Move.GIVE_BACK}


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("move", Move)
def test_a_move_leaves_a_readable_row_or_is_fenced(move: Move, status: Status) -> None:
    state = STATES[status]
    if status in RULES[move].money:
        moved = after(state, move, NOW, **NOTES.get(move, {}))
        assert State.from_row(moved.to_row()) == moved
        assert (moved.status, moved.sequence) == (RULES[move].to, state.sequence + 1)
    else:
        with pytest.raises(PayoutFenced, match=status):
            after(state, move, NOW)
        with pytest.raises(PayoutFenced, match=move):
            transfer(state, move)


def test_a_return_to_a_closed_account_goes_into_suspense() -> None:
    moved = transfer(STATES[Status.PAID], Move.RETURN, to_suspense=True)

    assert moved
    assert (moved.debit, moved.credit, moved.amount) == ("external:EUR", "suspense:EUR", PAYOUT.amount)


def test_no_answer_of_the_bank_moves_a_payout_at_rest() -> None:
    assert {status for status, _ in HEARD} == {Status.UNKNOWN, Status.ACCEPTED, Status.PAID}
    assert all(word not in (Word.NEVER_SEEN, Word.UNKNOWN) for _, word in HEARD)


def test_each_answer_of_the_bank_leads_to_a_legal_move() -> None:
    assert all(status in RULES[move].money for (status, _), move in HEARD.items())


@pytest.mark.parametrize("status", Status)
def test_a_payout_is_listed_until_it_is_at_rest(status: Status) -> None:
    row = STATES[status].to_row()
    at_rest = {Status.CONFIRMED, Status.REFUSED, Status.RETURNED}

    listed = row.get("gsi1pk", "").partition("#")[0]

    assert listed == ("" if status in at_rest else "PAYOUT_CASES" if status is Status.LIMBO else "PAYOUTS")


def test_a_case_stays_listed_under_its_start_time() -> None:
    case = STATES[Status.LIMBO]

    assert moves.noted(case, NOW.replace(year=2027), detail="500").listed_at == case.listed_at


def test_a_returned_payout_stays_listed_until_its_return_line_arrives() -> None:
    returned = moves.noted(STATES[Status.RETURNED], NOW, debit_line=LINE)

    assert returned.listed_at is not None
    assert moves.noted(returned, NOW, return_line="7e" * 32).listed_at is None


def test_opening_and_ending_a_case_each_raise_the_sequence() -> None:
    paid = STATES[Status.PAID]

    opened = moves.counted(paid, NOW, trouble="late")
    ended = moves.counted(opened, NOW, decided={"verdict": "ask", "case": "1"})

    assert [one.sequence - paid.sequence for one in (opened, ended)] == [1, 2]
    assert [(one.cases, one.trouble) for one in (opened, ended)] == [(1, "late"), (1, None)]


def test_many_hints_cause_one_look_in_five_seconds() -> None:
    hinted = STATES[Status.PAID]
    for seconds in range(5):
        hinted = moves.brought_forward(hinted, NOW + timedelta(seconds=seconds))

    assert hinted.listed_at == timestamp(NOW + timedelta(seconds=5))


def test_a_hint_never_postpones_a_look() -> None:
    state = STATES[Status.UNKNOWN]

    assert moves.brought_forward(state, NOW.replace(year=2027)) == state
    assert moves.brought_forward(state, NOW.replace(year=2025)).listed_at == "2025-11-20T12:00:05.123Z"
