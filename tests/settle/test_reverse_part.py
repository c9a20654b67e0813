"""`settle reverse --amount`: the part that its user is shown, once."""

import pytest
from botocore.exceptions import ReadTimeoutError

from settle.actions import partial_reversal
from settle.exit_codes import CommandFailed, Exit
from tests.settle.desk import Desk
from tests.world.constants import KEY

WHY = "one came back"


def reverse(desk: Desk, amount: str = "5.00", part: int = 1, reason: str = WHY) -> str:
    outcome = partial_reversal.reverse_part(desk.stack, KEY, amount, reason, part)
    assert outcome["status"] == "SETTLED"
    told: str = outcome["reversed_in_part"]
    return told


def refused(desk: Desk, amount: str = "5.00", part: int = 1, reason: str = WHY) -> tuple[Exit, str]:
    with pytest.raises(CommandFailed) as told:
        reverse(desk, amount, part, reason)
    return told.value.code, str(told.value)


def test_each_part_has_the_number_that_is_shown(desk: Desk) -> None:
    desk.pay()
    assert partial_reversal.next_part(desk.stack, KEY) == 1

    assert reverse(desk, reason=f"  {WHY} ") == "5.00"

    assert desk.door.given[-1] == ("reverse-part", {"key": KEY, "part": 1, "amount": "5.00", "reason": WHY})
    assert partial_reversal.next_part(desk.stack, KEY) == 2
    assert reverse(desk, "0.5", 2) == "5.50"


def test_a_part_may_be_repeated_with_its_number(desk: Desk) -> None:
    desk.pay()
    reverse(desk)
    before = desk.ledger.rows()

    assert reverse(desk) == "5.00"

    assert desk.ledger.rows() == before
    code, told = refused(desk, "6.00")
    assert (code, told[:56]) == (Exit.CONFLICT, "reverse-part: PartRefused: part: number 1 is on record s")


def test_a_part_without_an_answer_is_to_be_repeated_with_its_number(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.pay()

    def lost(*order: object) -> None:
        raise ReadTimeoutError(endpoint_url="https://orders.invalid")

    with monkeypatch.context() as losing:
        losing.setattr(desk.door, "send", lost)
        code, told = refused(desk)

    assert code is Exit.FAILED
    assert told.endswith(f"repeat it with its key {KEY} and --part 1")
    assert reverse(desk) == "5.00"


@pytest.mark.parametrize(
    ("amount", "part", "code", "message"),
    [
        ("5.001", 1, Exit.USAGE, "amount: must be a decimal string with at most 2 decimals"),
        ("0", 1, Exit.USAGE, "amount: must be greater than zero"),
        ("5.00", 0, Exit.USAGE, "part: must be the number of this part"),
        ("47.73", 1, Exit.CONFLICT, "reverse-part: PartRefused: amount: is more than what is left"),
        ("5.00", 2, Exit.CONFLICT, "reverse-part: PartRefused: part: the next one is number 1"),
    ],
)
def test_a_wrong_part_is_refused_and_nothing_is_written(
    desk: Desk, amount: str, part: int, code: Exit, message: str
) -> None:
    desk.pay()
    before = desk.ledger.rows()

    found, told = refused(desk, amount, part)

    assert (found, told.startswith(message)) == (code, True), told
    assert desk.ledger.rows() == before


def test_a_payee_who_has_spent_it_is_told_and_nothing_goes_into_limbo(desk: Desk) -> None:
    desk.pay()
    desk.spend()

    code, told = refused(desk, "47.72")

    assert (code, "InsufficientFunds: payee" in told) == (Exit.REFUSED, True)
