from collections.abc import Callable
from typing import Any

import pytest

from settle.door import Answer
from settle.exit_codes import CommandFailed, Exit
from settle.orders import reversal
from settle.settlements import recovery
from settle.stack import Stack
from tests.settle.conftest import failing
from tests.settle.desk import ADA, GRACE, Desk
from tests.settle.test_settlement import completed, stuck
from tests.settle.ways import lacks_funds, rejected, reversed_on_order
from tests.world.constants import KEY, NONCE

WHY = "the goods came back"


def reverse(desk: Desk, reason: str = WHY, *, is_on_record: bool = True) -> dict[str, Any]:
    outcome = reversal.reverse(desk.stack, KEY, reason)
    assert reversal.is_on_record(desk.stack, KEY, reason) is is_on_record
    return outcome


def unheard(desk: Desk) -> dict[str, Any]:
    return reverse(desk, "another reason", is_on_record=False)


def refused(desk: Desk) -> tuple[Exit, str]:
    with pytest.raises(CommandFailed) as told:
        reverse(desk)
    return told.value.code, str(told.value)


@pytest.mark.parametrize(
    ("until", "status"), [("fee", "SETTLED"), ("claim", "PROCESSING"), ("release", "PROCESSING")]
)
def test_a_reason_is_enough_to_reverse_settled_or_stalled_payments(
    desk: Desk, until: str, status: str
) -> None:
    wire = desk.pay(until=until)

    outcome = reverse(desk, f"  {WHY} ")

    order = {"key": KEY, "expected_status": status, "reason": WHY}
    assert desk.door.given[-1] == ("reverse", order)
    assert desk.orders == [{"settlement": wire, "order": "reverse"}]
    assert desk.machines.names[0].startswith(f"{KEY}-reverse-")
    assert (outcome["status"], outcome["failure"]) == (
        "COMPENSATED",
        {"step": "reverse", "error": "ReversalRequested", "cause": f"{WHY} (by {ADA})"},
    )
    assert desk.recovery.sent == []


@pytest.mark.parametrize(
    ("make", "status"), [(reversed_on_order, "COMPENSATED"), (rejected, "COMPENSATED"), (stuck, "LIMBO")]
)
def test_a_reversed_or_limbo_settlement_is_only_reported(
    desk: Desk, make: Callable[[Desk], None], status: str
) -> None:
    make(desk)
    before, given = desk.ledger.rows(), len(desk.door.given)
    desk.machines.started.clear()

    assert unheard(desk)["status"] == status

    assert (desk.ledger.rows(), desk.orders, desk.machines.sent) == (before, [], [])
    assert (desk.recovery.sent, len(desk.door.given)) == ([], given)


def test_a_reversal_that_gets_stuck_ends_in_limbo(desk: Desk) -> None:
    desk.pay()
    desk.spend()

    assert reverse(desk)["status"] == "LIMBO"

    assert desk.recovery.sent == []  # only the machine carries out an order


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (completed, "SETTLED and cannot be reversed: a person decided to complete it"),
        (lacks_funds, "REJECTED and cannot be reversed: nothing was ever held"),
    ],
)
def test_a_completed_or_rejected_settlement_is_not_reversed(
    desk: Desk, make: Callable[[Desk], None], why: str
) -> None:
    make(desk)
    before = desk.ledger.rows(), [*desk.orders]

    assert refused(desk) == (Exit.CONFLICT, f"{KEY}: is {why}")

    assert (desk.ledger.rows(), desk.orders) == before


def test_an_empty_reason_is_refused_before_any_call(desk: Desk) -> None:
    """A call would instead report that no payment has the key."""
    with failing(Exit.USAGE, r"^reason: must be one line"):
        reverse(desk, " ")


def test_a_settlement_changed_since_the_read_is_a_conflict(desk: Desk) -> None:
    """The payment settles before the order arrives, so a person must check it."""
    desk.pay(until="release")
    send = desk.door.send

    def overtaken(decision: str, order: dict[str, Any]) -> Answer:
        desk.pay()
        return send(decision, order)

    desk.door.send = overtaken  # type: ignore[method-assign]

    code, told = refused(desk)

    assert (code, told.startswith("reverse: NotReversible: reverse: ")) == (Exit.CONFLICT, True)
    assert desk.row()["status"] == "SETTLED"


def test_the_command_gives_up_on_a_machine_that_never_ends(desk: Desk) -> None:
    desk.pay()
    desk.machines.runs = False

    code, told = refused(desk)

    assert (code, told.startswith(f"{KEY}: is still COMPENSATING; look at it with")) == (Exit.FAILED, True)


def test_recovery_restarts_a_dead_reversal_for_its_first_reason(desk: Desk) -> None:
    desk.half_reversed().abort()

    outcome = unheard(desk)

    assert (outcome["status"], outcome["failure"]["cause"]) == ("COMPENSATED", f"first (by {GRACE})")
    assert desk.recovery.sent == [{"key": KEY}]
    assert desk.machines.names == [f"{KEY}-c1-{NONCE}"]


def test_a_running_reversal_is_followed_and_not_started_twice(desk: Desk) -> None:
    runs = desk.half_reversed()

    with pytest.raises(CommandFailed, match=f"^{KEY}: is still COMPENSATING; look at it with") as told:
        unheard(desk)

    assert (told.value.code, desk.recovery.sent, desk.orders) == (Exit.FAILED, [{"key": KEY}], [])
    runs.run()
    assert unheard(desk)["status"] == "COMPENSATED"


def test_a_reversal_ending_just_before_recovery_is_reported_as_ended(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs, real = desk.half_reversed(), recovery.recover

    def late(stack: Stack, key: str) -> Any:
        runs.run()
        return real(stack, key)

    monkeypatch.setattr(recovery, "recover", late)

    assert unheard(desk)["status"] == "COMPENSATED"
    assert (desk.recovery.sent, desk.orders) == ([], [])
