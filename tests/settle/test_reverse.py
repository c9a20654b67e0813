from typing import Any

import pytest

from settle.actions import resolution, reversal
from settle.exit_codes import CommandFailed, Exit
from settle.queries import table_scan
from settlement.model.orders import Decision
from tests.settle.desk import ADA, KEY, REASON, Desk
from tests.settle.test_resolve import UNREADABLE

WHY = "the goods came back"


def reverse(desk: Desk, reason: str = WHY) -> dict[str, Any]:
    """The outcome of the command, whose reason is the one on record."""
    outcome = reversal.reverse(desk.stack, KEY, reason)
    assert reversal.is_on_record(desk.stack, KEY, reason)
    return outcome


def unheard(desk: Desk, reason: str = WHY) -> dict[str, Any]:
    """The outcome of the command, whose reason is not on record: another one is, or none."""
    outcome = reversal.reverse(desk.stack, KEY, reason)
    assert not reversal.is_on_record(desk.stack, KEY, reason)
    return outcome


def test_what_has_settled_is_reversed_with_its_fee(desk: Desk) -> None:
    desk.pay()

    outcome = reverse(desk)

    assert (outcome["status"], outcome["escrow"]) == ("COMPENSATED", "0.00")
    assert outcome["reversed"] == ["fee", "hold", "release"]
    assert outcome["failure"] == {
        "step": "reverse",
        "error": "ReversalRequested",
        "cause": f"{WHY} (by {ADA})",
    }
    assert desk.available("alice", "bob", "fees:EUR") == ["500.00", "0.00", "0.00"]
    assert table_scan.check(desk.stack).conserved


def test_who_reverses_and_why_goes_on_record(desk: Desk) -> None:
    wire = desk.pay()

    reverse(desk)

    assert desk.machines.started == [
        {"settlement": wire, "reversal": {"reason": WHY, "by": ADA, "expected_status": "SETTLED"}}
    ]
    entry = desk.entry("reverse")
    assert entry is not None
    assert (entry["reason"], entry["by"]) == (WHY, ADA)
    assert desk.machines.machines.executions[-1].name.startswith(f"{KEY}-reverse-")
    assert desk.functions.asked == []


def test_what_was_reversed_before_is_only_told(desk: Desk) -> None:
    desk.pay()
    first = reverse(desk)
    desk.machines.started.clear()
    before = desk.ledger.rows()

    assert unheard(desk, "another reason") == first

    assert (desk.ledger.rows(), desk.machines.started, desk.functions.asked) == (before, [], [])


def test_what_is_reversed_already_without_a_person_is_only_told(desk: Desk) -> None:
    desk.compensate(desk.pay(until="release"))
    before = desk.ledger.rows()

    outcome = unheard(desk)

    assert (outcome["status"], outcome["failure"]["error"]) == ("COMPENSATED", "KycRejected")
    assert (desk.ledger.rows(), desk.machines.started, desk.functions.asked) == (before, [], [])


@pytest.mark.parametrize("until", ["claim", "hold", "verify", "release"])
def test_what_has_stalled_is_given_up_and_the_payer_is_whole(desk: Desk, until: str) -> None:
    wire = desk.pay(until=until)

    outcome = reverse(desk)

    assert outcome["status"] == "COMPENSATED"
    assert desk.machines.started == [
        {"settlement": wire, "reversal": {"reason": WHY, "by": ADA, "expected_status": "PROCESSING"}}
    ]
    assert desk.functions.asked == []
    assert desk.available("alice", "bob") == ["500.00", "0.00"]
    assert table_scan.check(desk.stack).conserved


def test_a_reason_is_on_record_with_blanks_around_it_or_without(desk: Desk) -> None:
    desk.pay()

    assert reverse(desk, f"  {WHY} ") == reverse(desk)


def test_what_waits_for_a_decision_is_told_and_left_to_it(desk: Desk) -> None:
    desk.stuck()
    before = desk.ledger.rows()

    outcome = unheard(desk)

    assert outcome["status"] == "LIMBO"
    assert (desk.ledger.rows(), desk.machines.started, desk.machines.sent) == (before, [], [])
    assert (desk.functions.asked, desk.identity.asked) == ([], 0)


def test_a_reversal_that_gets_stuck_ends_in_limbo(desk: Desk) -> None:
    desk.pay()
    desk.spend()

    outcome = reverse(desk)

    assert (outcome["status"], outcome["escrow"], outcome["reversed"]) == ("LIMBO", "0.48", ["fee"])
    assert desk.functions.asked == []  # only the machine carries out an order
    assert table_scan.check(desk.stack).conserved


def test_what_a_person_has_completed_is_not_reversed(desk: Desk) -> None:
    desk.stuck()
    resolution.resolve(desk.stack, KEY, Decision.COMPLETE, REASON)
    before = desk.ledger.rows()

    with pytest.raises(CommandFailed) as told:
        reverse(desk)

    assert told.value.code is Exit.CONFLICT
    assert str(told.value) == f"{KEY}: is SETTLED, and not to be reversed: it was completed out of LIMBO"
    assert (desk.ledger.rows(), desk.machines.started) == (before, [])


def test_what_was_rejected_has_nothing_to_reverse(desk: Desk) -> None:
    desk.pay(until="claim")
    desk.ledger.put(desk.row() | {"status": "REJECTED"})

    with pytest.raises(CommandFailed) as told:
        reverse(desk)

    assert (told.value.code, str(told.value)) == (
        Exit.CONFLICT,
        f"{KEY}: is REJECTED, and not to be reversed",
    )
    assert desk.machines.started == []


def test_an_unclaimed_key_is_not_found(desk: Desk) -> None:
    with pytest.raises(CommandFailed) as told:
        reverse(desk)

    assert told.value.code is Exit.NOT_FOUND
    assert desk.machines.started == []


def test_an_unreadable_reason_is_a_usage_error_before_anything_is_asked(desk: Desk) -> None:
    desk.pay()

    for reason in UNREADABLE:
        with pytest.raises(CommandFailed, match=r"^reversal\.reason: must be one line") as told:
            reverse(desk, reason)

        assert told.value.code is Exit.USAGE
    assert (desk.identity.asked, desk.machines.started) == (0, [])
    assert desk.row()["status"] == "SETTLED"


@pytest.mark.parametrize(
    ("until", "then", "status", "code"),
    [
        ("release", "fee", "SETTLED", Exit.CONFLICT),
        ("claim", "rejected", "REJECTED", Exit.CONFLICT),
        ("fee", "completed", "SETTLED", Exit.CONFLICT),
    ],
)
def test_what_has_moved_on_since_it_was_looked_at_is_not_reversed(
    desk: Desk, until: str, then: str, status: str, code: Exit
) -> None:
    """A settlement that was to be reversed as stalled settles meanwhile: a person must look at it."""
    wire = desk.pay(until=until)

    def overtake() -> None:
        desk.machines.before_start = lambda: None
        if then == "fee":
            desk.pay()
        elif then == "rejected":
            desk.ledger.put(desk.row() | {"status": "REJECTED"})
        else:
            desk.spend()
            desk.compensate(wire, reversal={"reason": "sent back", "by": ADA})
            resolution.resolve(desk.stack, KEY, Decision.COMPLETE, REASON)

    desk.machines.before_start = overtake

    with pytest.raises(CommandFailed) as told:
        reverse(desk)

    assert told.value.code is code
    assert desk.row()["status"] == status
    assert table_scan.check(desk.stack).conserved


def test_a_command_gives_up_on_a_machine_that_does_not_come_to_an_end(desk: Desk) -> None:
    desk.pay()
    desk.machines.detached = True

    with pytest.raises(CommandFailed, match=f"^{KEY}: is still SETTLED; look at it with") as gave_up:
        reverse(desk)

    assert gave_up.value.code is Exit.FAILED
