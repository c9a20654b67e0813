from collections.abc import Callable
from typing import Any

import pytest

from settle.door import Answer
from settle.exit_codes import CommandFailed, Exit
from settle.orders import proposing as proposal
from settle.orders import resolution
from settlement.aws import event_bus as _event_bus
from settlement.core.ledger import keys
from settlement.core.model.orders import TEXT_LENGTH_MAX, Decision
from tests.settle.conftest import Command
from tests.settle.desk import ADA, REASON, Desk
from tests.settle.test_settlement import stuck
from tests.settle.ways import begun, rejected, settled
from tests.world.constants import KEY, WIRE

RETRY, WRITE_OFF, COMPLETE = Decision
UNREADABLE = ["", " ", "\t", "one\ntwo", "one\r", "\u2028", "x" * (TEXT_LENGTH_MAX + 1), "\ud800"]


def resolve(
    desk: Desk, decision: Decision = WRITE_OFF, reason: str = REASON, case: int | None = None
) -> dict[str, Any]:
    return resolution.resolve(desk.stack, KEY, decision, reason, case)


def refused(
    desk: Desk, decision: Decision = RETRY, reason: str = REASON, case: int | None = None
) -> tuple[Exit, str]:
    """Return a refusal's code and message; check that nothing is written or sent."""
    before, sent = desk.ledger.rows(), (len(desk.machines.sent), len(desk.orders))
    with pytest.raises(CommandFailed) as told:
        resolve(desk, decision, reason, case)
    assert desk.ledger.rows() == before
    assert (len(desk.machines.sent), len(desk.orders)) == sent
    return told.value.code, str(told.value)


@pytest.mark.parametrize(
    ("decision", "status"), [(RETRY, "LIMBO"), (WRITE_OFF, "COMPENSATED"), (COMPLETE, "SETTLED")]
)
def test_the_waiting_execution_carries_out_and_reports_the_decision(
    desk: Desk, decision: Decision, status: str
) -> None:
    desk.stuck()

    outcome = resolve(desk, decision)

    assert (outcome["status"], outcome["key"]) == (status, KEY)
    order = {"key": KEY, "case": 1, "decision": decision, "reason": REASON}
    assert desk.door.given[-1] == (decision, order)
    assert (desk.machines.sent, desk.orders) == ([{"case": 1}], [])
    assert desk.entry("resolve:1")["by"] == ADA


def test_a_repeated_decision_is_followed_and_another_is_a_conflict(desk: Desk) -> None:
    desk.stuck()
    first = resolve(desk)
    before, desk.machines.sent[:] = desk.ledger.rows(), []

    assert resolve(desk) == resolve(desk, reason=f"  {REASON} ") == first
    assert (desk.ledger.rows(), desk.machines.sent, desk.orders) == (before, [], [])
    decided_at = desk.row()["resolution"]["decided_at"]
    conflict = f"{KEY}: case 1 was resolved by write-off at {decided_at}: {REASON} ({ADA})"
    for decision, reason in [(RETRY, REASON), (COMPLETE, REASON), (WRITE_OFF, "another reason")]:
        assert refused(desk, decision, reason) == (Exit.CONFLICT, conflict)


@pytest.mark.parametrize(
    ("make", "case", "why"),
    [
        (begun, None, "is PROCESSING, not in LIMBO"),
        (settled, None, "is SETTLED, not in LIMBO"),
        (rejected, None, "is COMPENSATED, not in LIMBO"),
        (stuck, 2, "is LIMBO, and has no case 2"),
    ],
)
def test_deciding_a_case_that_is_not_open_is_a_conflict(
    desk: Desk, make: Callable[[Desk], None], case: int | None, why: str
) -> None:
    make(desk)

    assert refused(desk, case=case) == (Exit.CONFLICT, f"{KEY}: {why}")


def test_a_malformed_reason_or_case_is_refused_before_any_request(desk: Desk) -> None:
    given = len(desk.door.given)
    message = f"reason: must be one line of at most {TEXT_LENGTH_MAX} "

    for code, told in [refused(desk, reason=reason) for reason in UNREADABLE]:
        assert (code, told.startswith(message), told.isprintable()) == (Exit.USAGE, True, True)
    assert [refused(desk, case=case)[0] for case in (0, -1)] == [Exit.USAGE] * 2
    assert len(desk.door.given) == given


@pytest.mark.parametrize("step", ["hold", "nothing"])
def test_an_impossible_decision_is_a_conflict_and_names_the_retry(desk: Desk, step: str) -> None:
    desk.stuck(step)

    for decision in (COMPLETE, WRITE_OFF):
        code, told = refused(desk, decision)
        assert code is Exit.CONFLICT
        assert told.startswith(f"{KEY}: decision: ")
        assert "; use retry" in told


def test_a_repeated_command_decides_a_new_case_only_if_named(desk: Desk) -> None:
    """A person who repeats a command after a lost answer has not seen the new case."""
    desk.stuck()
    resolve(desk, RETRY, case=1)

    assert refused(desk) == (
        Exit.LIMBO,
        f"{KEY}: that was carried out as case 1, and it is stuck again as case 2;"
        f" look at it with `settle limbo show {KEY} --stack under-test`, then decide with --case 2",
    )
    desk.pay_back()
    outcome = resolve(desk, RETRY, case=2)
    assert outcome["status"] == "COMPENSATED"
    assert [one["case"] for one in desk.machines.sent] == [1, 2]
    assert resolve(desk, RETRY, case=1) == outcome


def test_without_a_case_only_the_first_case_is_decided(desk: Desk) -> None:
    """The person may have seen case 1, which another person has decided since."""
    desk.stuck()
    resolve(desk, RETRY, "bob has paid in")

    code, told = refused(desk, WRITE_OFF)

    assert code is Exit.CONFLICT
    assert told == (
        f"case: {KEY} is stuck again, as case 2; look at it with"
        f" `settle limbo show {KEY} --stack under-test`, then decide with"
        f" `settle limbo resolve {KEY} write-off --case 2"
        " --reason '<why>' --stack under-test`"
    )
    with pytest.raises(CommandFailed, match=f"resolve {KEY} retry --break-glass --case 2"):
        proposal.break_glass(desk.stack, KEY, RETRY, REASON)
    with pytest.raises(CommandFailed, match=f"propose {KEY} retry --case 2"):
        proposal.propose(desk.stack, KEY, RETRY, REASON)


@pytest.mark.parametrize(
    "line",
    [
        ("reverse", KEY),
        ("limbo", "resolve", KEY, "write-off"),
        ("limbo", "resolve", KEY, "write-off", "--case", "1"),
    ],
    ids=" ".join,
)
def test_a_repeated_break_glass_command_pages_only_once(
    desk: Desk, command: Command, monkeypatch: pytest.MonkeyPatch, line: tuple[str, ...]
) -> None:
    """The first order takes effect and pages, but its answer is lost; the repeat gets the same answer."""
    paged: list[str] = []
    monkeypatch.setattr(_event_bus, "put", lambda kind, detail: paged.append(kind))
    send = desk.door.send

    def allowed(decision: str, order: dict[str, Any]) -> Answer:
        return send(decision, order) if decision.endswith("/break-glass") else Answer(403, {})

    monkeypatch.setattr(desk.door, "send", allowed)
    if line[0] == "limbo":
        desk.stuck()
    else:
        desk.pay()
    desk.door.losing = 1
    assert command(*line, "--break-glass", "--reason", REASON)[0] == Exit.FAILED

    assert command(*line, "--break-glass", "--reason", REASON)[0] == Exit.FINE

    assert (desk.row()["status"], paged) == ("COMPENSATED", ["GlassBroken"])


@pytest.mark.parametrize("case", [None, 1])
def test_a_timed_out_command_is_repeatable_after_its_execution_died(desk: Desk, case: int | None) -> None:
    desk.stuck()
    desk.machines.runs = False
    status = f"`settle status {KEY} --stack under-test`"
    message = f"^{KEY}: is still COMPENSATING; look at it with {status}, then repeat this command$"
    with pytest.raises(CommandFailed, match=message) as gave_up:
        resolve(desk)
    desk.executions[0].run(until="VoidHold").abort()
    desk.ledger.delete(keys.waiting(KEY))
    desk.machines.runs = True
    assert (gave_up.value.code, desk.row()["status"]) == (Exit.FAILED, "COMPENSATING")

    assert resolve(desk, case=case)["status"] == "COMPENSATED"

    assert desk.orders == [{"settlement": WIRE}]  # by recovery: no execution ran
