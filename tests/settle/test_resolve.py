from typing import Any

import pytest

from settle.actions import resolution
from settle.exit_codes import CommandFailed, Exit
from settle.queries import table_scan
from settlement.model.orders import TEXT_LENGTH_MAX, Decision
from tests.settle.desk import ADA, KEY, REASON, Desk

WRITTEN_OFF = ["500.00", "7.72", "40.00", "-47.72"]
COMPLETED = ["451.80", "7.72", "40.00"]
UNREADABLE = ["", " ", "\t", "one\ntwo", "one\r", "\u2028", "x" * (TEXT_LENGTH_MAX + 1), "\ud800"]


def resolve(
    desk: Desk, decision: Decision = Decision.WRITE_OFF, reason: str = REASON, case: int | None = None
) -> dict[str, Any]:
    return resolution.resolve(desk.stack, KEY, decision, reason, case)


def refused(
    desk: Desk, decision: Decision, reason: str = REASON, case: int | None = None, key: str = KEY
) -> CommandFailed:
    """Return the refusal of a decision; nothing is written, and nothing is sent."""
    before = desk.ledger.rows()
    with pytest.raises(CommandFailed) as told:
        resolution.resolve(desk.stack, key, decision, reason, case)
    assert desk.ledger.rows() == before
    assert (desk.machines.sent, desk.machines.started) == ([], [])
    return told.value


def test_the_waiting_execution_is_told_what_why_who_and_which_case(desk: Desk) -> None:
    desk.stuck()

    resolve(desk)

    assert desk.machines.sent == [{"decision": "write-off", "reason": REASON, "by": ADA, "case": 1}]
    assert desk.machines.started == []


def test_a_write_off_makes_the_payer_whole_at_the_cost_of_the_losses(desk: Desk) -> None:
    desk.stuck()

    outcome = resolve(desk)

    assert (outcome["status"], outcome["escrow"]) == ("COMPENSATED", "0.00")
    assert desk.available("alice", "bob", "shop", "losses:EUR") == WRITTEN_OFF
    assert table_scan.check(desk.stack).conserved


def test_a_completion_leaves_the_payee_what_they_have_and_settles(desk: Desk) -> None:
    desk.stuck()

    outcome = resolve(desk, Decision.COMPLETE)

    assert (outcome["status"], outcome["escrow"], outcome["failure"]) == ("SETTLED", "0.00", None)
    assert desk.available("alice", "bob", "shop", "fees:EUR") == [*COMPLETED, "0.48"]
    assert table_scan.check(desk.stack).conserved


def test_a_retry_reverses_once_the_cause_is_gone(desk: Desk) -> None:
    desk.stuck()
    desk.pay_back()

    outcome = resolve(desk, Decision.RETRY)

    assert (outcome["status"], outcome["reversed"]) == ("COMPENSATED", ["hold", "release"])
    assert desk.available("alice", "bob", "shop") == ["400.00", "60.00", "40.00"]
    assert table_scan.check(desk.stack).conserved


def test_what_gets_stuck_again_is_told_as_stuck(desk: Desk) -> None:
    desk.stuck()

    outcome = resolve(desk, Decision.RETRY)

    assert outcome["status"] == "LIMBO"
    assert desk.row()["resolutions"] == 1
    assert desk.machines.sent[0]["case"] == 1


def test_each_case_is_decided_by_itself(desk: Desk) -> None:
    """After a retry that did not help, another decision is no contradiction: it is on another case."""
    desk.stuck()
    resolve(desk, Decision.RETRY)

    outcome = resolve(desk, Decision.WRITE_OFF, "it will not come back")

    assert outcome["status"] == "COMPENSATED"
    assert [one["case"] for one in desk.machines.sent] == [1, 2]
    assert desk.available("alice", "bob", "shop", "losses:EUR") == WRITTEN_OFF


def test_a_decision_that_was_made_already_is_only_followed(desk: Desk) -> None:
    desk.stuck()
    first = resolve(desk)
    desk.machines.sent.clear()
    before = desk.ledger.rows()

    second = resolve(desk)

    assert second == first
    assert desk.ledger.rows() == before
    assert (desk.machines.sent, desk.machines.started) == ([], [])


def test_a_second_and_different_decision_is_a_conflict_that_tells_the_first(desk: Desk) -> None:
    desk.stuck()
    resolve(desk)
    desk.machines.sent.clear()
    others = [
        (Decision.RETRY, REASON),
        (Decision.COMPLETE, REASON),
        (Decision.WRITE_OFF, "another reason"),
    ]

    told = [refused(desk, decision, reason) for decision, reason in others]

    decided_at = desk.row()["resolution"]["decided_at"]
    assert {one.code for one in told} == {Exit.CONFLICT}
    first = f"{KEY}: case 1 was resolved by write-off at {decided_at}: {REASON} ({ADA})"
    assert {str(one) for one in told} == {first}


@pytest.mark.parametrize("then_decides_again", [False, True], ids=["once", "and decides the next case too"])
def test_a_command_that_another_decision_overtakes_reports_that_decision(
    desk: Desk, then_decides_again: bool
) -> None:
    """Another person decides between this command's read of the row and its message to the machine."""
    desk.stuck()

    def overtake() -> None:
        desk.machines.before_send = lambda: None
        resolve(desk, Decision.RETRY, "bob has paid in")
        if then_decides_again:
            resolve(desk, Decision.COMPLETE, "bob has not")

    desk.machines.before_send = overtake

    with pytest.raises(CommandFailed, match=r"case 1 was resolved by retry at .*: bob has paid in") as told:
        resolve(desk, Decision.WRITE_OFF)

    assert told.value.code is Exit.CONFLICT


def test_an_unclaimed_key_is_not_found(desk: Desk) -> None:
    told = refused(desk, Decision.RETRY, key="order-unclaimed-01")

    assert told.code is Exit.NOT_FOUND
    assert str(told) == "key: no request has claimed order-unclaimed-01 in under-test"


@pytest.mark.parametrize(("until", "status"), [("release", "PROCESSING"), ("fee", "SETTLED")])
def test_what_is_not_in_limbo_takes_no_decision(desk: Desk, until: str, status: str) -> None:
    desk.pay(until=until)

    for decision in Decision:
        told = refused(desk, decision)

        assert (told.code, str(told)) == (Exit.CONFLICT, f"{KEY}: is {status}, not in LIMBO")


def test_what_was_reversed_without_getting_stuck_takes_no_decision(desk: Desk) -> None:
    desk.compensate(desk.pay(until="release"))

    told = refused(desk, Decision.RETRY)

    assert (told.code, str(told)) == (Exit.CONFLICT, f"{KEY}: is COMPENSATED, not in LIMBO")


def test_an_unreadable_reason_is_a_usage_error_before_anything_is_asked(desk: Desk) -> None:
    desk.stuck()

    told = [refused(desk, Decision.RETRY, reason) for reason in UNREADABLE]

    assert {one.code for one in told} == {Exit.USAGE}
    (message,) = {str(one) for one in told}
    assert message.startswith(f"resolution.reason: must be one line of at most {TEXT_LENGTH_MAX} ")
    assert message.isprintable()
    assert desk.identity.asked == 0


def test_the_longest_reason_goes_on_record_as_it_is(desk: Desk) -> None:
    desk.stuck()
    reason = ("[/bold] ä " * TEXT_LENGTH_MAX)[: TEXT_LENGTH_MAX - 1] + "."

    resolve(desk, reason=reason)

    entry = desk.entry("resolve:1")
    assert entry is not None
    assert (entry["reason"], entry["by"], entry["decision"]) == (reason, ADA, "write-off")


def test_a_reason_is_the_same_with_blanks_around_it(desk: Desk) -> None:
    desk.stuck()

    assert resolve(desk, reason=f"  {REASON} ") == resolve(desk)


@pytest.mark.parametrize("step", ["hold", "nothing"])
def test_a_decision_that_makes_no_sense_is_a_conflict(desk: Desk, step: str) -> None:
    desk.stuck(step)

    complete, write_off = refused(desk, Decision.COMPLETE), refused(desk, Decision.WRITE_OFF)

    assert (complete.code, write_off.code) == (Exit.CONFLICT, Exit.CONFLICT)
    assert str(complete).startswith(f"{KEY}: complete: ")
    assert str(write_off).startswith(f"{KEY}: write-off: ")
    assert "; use retry" in str(complete)
    assert "; use retry" in str(write_off)


def test_a_repeated_command_is_never_taken_for_a_decision_on_the_next_case(desk: Desk) -> None:
    """A person who repeats a command whose answer was lost has not seen that it is stuck again."""
    desk.stuck()
    resolve(desk, Decision.RETRY)
    desk.machines.sent.clear()

    told = refused(desk, Decision.RETRY)

    assert told.code is Exit.LIMBO
    assert str(told).startswith(f"{KEY}: that was carried out as case 1, and it is stuck again as case 2; ")
    assert str(told).endswith("then decide with --case 2")


def test_the_printed_way_out_of_a_repeated_decision_carries_it_out(desk: Desk) -> None:
    """The same decision on the next case, named by its number, is a decision of its own."""
    desk.stuck()
    resolve(desk, Decision.RETRY)
    desk.machines.sent.clear()
    told = refused(desk, Decision.RETRY)
    desk.pay_back()

    outcome = resolve(desk, Decision.RETRY, case=2)

    assert str(told).endswith("then decide with --case 2")
    assert outcome["status"] == "COMPENSATED"
    assert [one["case"] for one in desk.machines.sent] == [2]


def test_a_decision_that_names_its_case_is_on_that_case(desk: Desk) -> None:
    desk.stuck()
    resolve(desk, Decision.RETRY, REASON, case=1)
    desk.pay_back()

    outcome = resolve(desk, Decision.RETRY, "bob has paid in", case=2)

    assert outcome["status"] == "COMPENSATED"
    assert [one["case"] for one in desk.machines.sent] == [1, 2]
    assert resolve(desk, Decision.RETRY, REASON, case=1) == outcome


@pytest.mark.parametrize("case", [2, 17])
def test_a_case_that_there_is_not_takes_no_decision(desk: Desk, case: int) -> None:
    desk.stuck()

    told = refused(desk, Decision.RETRY, case=case)

    assert (told.code, str(told)) == (Exit.CONFLICT, f"{KEY}: is LIMBO, and has no case {case}")


@pytest.mark.parametrize("case", [0, -1])
def test_a_number_that_no_case_has_is_a_usage_error(desk: Desk, case: int) -> None:
    desk.stuck("nothing")

    assert refused(desk, Decision.RETRY, case=case).code is Exit.USAGE


@pytest.mark.parametrize("case", [None, 1])
def test_a_decided_settlement_is_resumed_if_no_execution_runs_it(desk: Desk, case: int | None) -> None:
    desk.stuck()
    desk.machines.detached = True
    with pytest.raises(CommandFailed, match="is still LIMBO"):
        resolve(desk)
    died = desk.machines.machines.executions[0].run(until="VoidHold")
    died.abort()
    desk.machines.detached = False
    assert desk.row()["status"] == "COMPENSATING"

    outcome = resolve(desk, case=case)

    assert outcome["status"] == "COMPENSATED"
    assert desk.available("alice", "bob", "shop", "losses:EUR") == WRITTEN_OFF


def test_a_command_gives_up_on_a_machine_that_does_not_come_to_an_end(desk: Desk) -> None:
    desk.stuck()
    desk.machines.detached = True

    with pytest.raises(
        CommandFailed, match=f"^{KEY}: is still LIMBO; look at it with `settle status`"
    ) as gave_up:
        resolve(desk)

    assert gave_up.value.code is Exit.FAILED
    assert desk.machines.sent[0]["case"] == 1
