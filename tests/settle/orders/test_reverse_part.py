import pytest
from botocore.exceptions import ReadTimeoutError

from settle.exit_codes import CommandFailed, Exit
from settle.orders import partial_reversal
from settlement.aws import event_bus as _event_bus
from tests.settle.conftest import Command, raising
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


def test_each_reversed_part_has_its_own_number(desk: Desk) -> None:
    desk.pay()
    assert partial_reversal.next_part(desk.stack, KEY, "5.00", WHY) == 1

    assert reverse(desk, reason=f"  {WHY} ") == "5.00"

    assert desk.door.given[-1] == ("reverse-part", {"key": KEY, "part": 1, "amount": "5.00", "reason": WHY})
    assert partial_reversal.next_part(desk.stack, KEY, "0.5", WHY) == 2
    assert reverse(desk, "0.5", 2) == "5.50"


@pytest.mark.parametrize("option", [(), ("--propose",), ("--break-glass",)])
def test_repeating_the_same_command_reverses_nothing_more(
    desk: Desk, command: Command, monkeypatch: pytest.MonkeyPatch, option: tuple[str, ...]
) -> None:
    """The first answer was lost. To reverse as much again, a command must name the next part."""
    monkeypatch.setattr(_event_bus, "put", lambda kind, detail: None)
    desk.pay()
    line = ("reverse", KEY, "--amount", "5.00", "--reason", f" {WHY}")
    desk.door.losing = 1
    assert command(*line)[0] == Exit.FAILED

    code, _, told = command(*line, *option)

    assert (code, desk.row()["reversed_in_part"]) == (Exit.CONFLICT, 500)
    assert f"part: part 1 of {KEY} gave back 5.00 for this reason" in told
    assert told.endswith("to repeat it: --part 1; to give back as much again: --part 2\n")
    assert command(*line, "--part", "2")[0] == command(*line[:3], "4.00", *line[4:])[0] == Exit.FINE
    assert desk.row()["reversed_in_part"] == 1400


def test_an_unanswered_partial_reversal_is_repeated_with_its_number(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.pay()

    with monkeypatch.context() as losing:
        losing.setattr(desk.door, "send", raising(ReadTimeoutError(endpoint_url="https://orders.invalid")))
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
def test_an_invalid_partial_reversal_is_refused_and_nothing_is_written(
    desk: Desk, amount: str, part: int, code: Exit, message: str
) -> None:
    desk.pay()
    with desk.writes_nothing():
        found, told = refused(desk, amount, part)

    assert (found, told.startswith(message)) == (code, True), told


@pytest.mark.parametrize(("option", "route"), [("--propose", "propose"), ("--break-glass", "break-glass")])
def test_each_option_of_a_partial_reversal_uses_its_own_route(
    desk: Desk, command: Command, monkeypatch: pytest.MonkeyPatch, option: str, route: str
) -> None:
    monkeypatch.setattr(_event_bus, "put", lambda kind, detail: None)
    desk.pay()

    code, out, _ = command("reverse", KEY, "--amount", "5.00", "--reason", WHY, option)

    assert (code, "5.00" in out) == (Exit.FINE, True)
    assert desk.door.given[-1] == (
        f"reverse-part/{route}",
        {"key": KEY, "part": 1, "amount": "5.00", "reason": WHY},
    )
