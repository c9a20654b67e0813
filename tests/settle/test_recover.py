"""`settle recover` asks the function of the schedule and tells what it did. It writes nothing itself."""

import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from settle.exit_codes import Exit
from tests.settle.conftest import Ended
from tests.settle.desk import RECOVERY, Desk, refusal
from tests.settle.flight import at, claimed, finished, key_of, stuck

# The function's own tests run on both engines; here it is what the command makes of its answers.
pytestmark = pytest.mark.parametrize("ledger", ["moto"], indirect=True)

Command = Callable[..., Ended]
KEY = key_of(1)


@dataclass
class Recovery:
    """Lambda with the function RecoverStalled, which does and answers what the test says."""

    desk: Desk
    action: str = "settle"
    execution: str | None = f"{KEY}-r1"
    error: dict[str, str] | None = None
    effect: Callable[[], object] = lambda: None
    asked: list[dict[str, Any]] = field(default_factory=list)

    def invoke(self, **parameters: Any) -> dict[str, Any]:
        self.asked.append(parameters)
        self.effect()
        if self.error:
            return {"FunctionError": "Unhandled", "Payload": io.BytesIO(json.dumps(self.error).encode())}
        answer = {"key": KEY, "action": self.action, "execution": self.execution}
        return {"Payload": io.BytesIO(json.dumps(answer).encode())}

    def nothing(self) -> "Recovery":
        self.action, self.execution = "none", None
        return self


@pytest.fixture
def recovery(desk: Desk) -> Recovery:
    recovery = Recovery(desk)
    desk.stack.clients["lambda"] = recovery
    return recovery


def told(ended: Ended) -> tuple[int, dict[str, Any], str]:
    """The exit code, the one JSON value, and standard error."""
    code, out, err = ended
    return code, json.loads(out), err


def test_the_schedules_function_is_asked_about_the_one_key_and_the_command_writes_nothing(
    desk: Desk, command: Command, recovery: Recovery
) -> None:
    claimed(desk, due=600)  # long before it is due
    before = desk.ledger.rows()

    command("recover", KEY)

    (asked,) = recovery.asked
    assert json.loads(asked.pop("Payload")) == {"key": KEY}
    assert asked == {"FunctionName": RECOVERY, "InvocationType": "RequestResponse"}
    assert desk.ledger.rows() == before


@pytest.mark.parametrize(
    ("action", "execution"), [("settle", f"{KEY}-r1"), ("compensate", f"{KEY}-compensate-1")]
)
def test_what_was_taken_on_is_told_with_the_status_that_it_has_by_then(
    desk: Desk, command: Command, recovery: Recovery, action: str, execution: str
) -> None:
    claimed(desk)
    recovery.action, recovery.execution = action, execution
    recovery.effect = lambda: claimed(desk, status="COMPENSATING")

    assert told(command("recover", KEY, "--json")) == (
        Exit.FINE,
        {"key": KEY, "status": "COMPENSATING", "action": action, "execution": execution},
        "",
    )


def test_a_person_is_told_the_same_a_field_a_line(desk: Desk, command: Command, recovery: Recovery) -> None:
    claimed(desk)

    code, out, err = command("recover", KEY)

    assert (code, err) == (Exit.FINE, "")
    assert [line.split() for line in out.splitlines()] == [
        ["key", KEY],
        ["status", "PROCESSING"],
        ["action", "settle"],
        ["execution", f"{KEY}-r1"],
    ]


@pytest.mark.parametrize("status", ["SETTLED", "REJECTED", "COMPENSATED"])
def test_what_was_taken_on_and_has_ended_by_then_is_fine_however_it_ended(
    desk: Desk, command: Command, recovery: Recovery, status: str
) -> None:
    claimed(desk)
    recovery.effect = lambda: finished(desk, status=status)

    code, result, err = told(command("recover", KEY, "--json"))

    assert (code, result["status"], result["action"], err) == (Exit.FINE, status, "settle", "")


FINISHED = [("SETTLED", Exit.FINE), ("REJECTED", Exit.REFUSED), ("COMPENSATED", Exit.REFUSED)]


@pytest.mark.parametrize(("status", "code"), FINISHED)
def test_a_finished_settlement_is_told_and_recovery_is_not_asked(
    desk: Desk, command: Command, recovery: Recovery, status: str, code: Exit
) -> None:
    finished(desk, status=status)

    assert told(command("recover", KEY, "--json")) == (
        code,
        {"key": KEY, "status": status, "action": "none", "execution": None},
        f"{KEY} is {status}: there is nothing to recover\n",
    )
    assert recovery.asked == []


@pytest.mark.parametrize(("status", "code"), FINISHED)
def test_what_has_finished_while_recovery_was_asked_is_told_as_well(
    desk: Desk, command: Command, recovery: Recovery, status: str, code: Exit
) -> None:
    claimed(desk)
    recovery.nothing().effect = lambda: finished(desk, status=status)

    ended, result, err = told(command("recover", KEY, "--json"))

    assert (ended, result["status"]) == (code, status)
    assert err == f"{KEY} is {status}: there is nothing to recover\n"


def test_what_is_in_review_is_left_to_it_and_the_note_says_until_when(
    desk: Desk, command: Command, recovery: Recovery
) -> None:
    claimed(desk, review="a-reference", deadline_at=at(86_400))
    recovery.nothing()

    code, result, err = told(command("recover", KEY, "--json"))

    assert (code, result["action"]) == (Exit.IN_FLIGHT, "none")
    assert err == f"{KEY} is in review until {at(86_400)}, unless the provider decides before\n"


@pytest.mark.parametrize("status", ["PROCESSING", "COMPENSATING"])
def test_a_running_settlement_is_left_to_its_execution_which_the_note_names(
    desk: Desk, command: Command, recovery: Recovery, status: str
) -> None:
    """A reversal is not in review, even with a review left on its row."""
    claimed(desk, status=status, **({"review": "a-reference"} if status == "COMPENSATING" else {}))
    recovery.nothing()

    code, _, err = told(command("recover", KEY, "--json"))

    assert (code, err) == (Exit.IN_FLIGHT, f"{KEY} needs no recovery: its execution {KEY}-1 runs\n")


@pytest.mark.parametrize("alerted", [True, False])
def test_what_is_in_limbo_ends_with_its_code_whether_it_is_alerted_again_or_waits(
    desk: Desk, command: Command, recovery: Recovery, alerted: bool
) -> None:
    stuck(desk)
    recovery.action, recovery.execution = ("alert", f"{KEY}-compensate-4") if alerted else ("none", None)

    code, result, err = told(command("recover", KEY, "--json"))

    assert (code, result["status"], result["action"]) == (Exit.LIMBO, "LIMBO", recovery.action)
    waits = f"{KEY} waits for a person's decision, and so does its execution; see `settle limbo show {KEY}`\n"
    assert err == ("" if alerted else waits)


def test_an_unclaimed_key_is_not_found_and_recovery_is_not_asked(
    desk: Desk, command: Command, recovery: Recovery
) -> None:
    code, out, err = command("recover", KEY, "--json")

    assert (code, out) == (Exit.NOT_FOUND, "")
    assert err == f"settle: key: no request has claimed {KEY} in under-test\n"
    assert recovery.asked == []


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ({"errorType": "StoreUnavailable", "errorMessage": "DynamoDB: gone"}, "DynamoDB: gone"),
        ({"errorMessage": "2026-11-20 Task timed out after 50.00 seconds"}, "Task timed out"),
    ],
)
def test_a_function_that_fails_fails_the_command_with_its_own_message(
    desk: Desk, command: Command, recovery: Recovery, error: dict[str, str], message: str
) -> None:
    claimed(desk)
    recovery.error = error

    code, out, err = command("recover", KEY, "--json")

    assert (code, out, len(err.splitlines())) == (Exit.FAILED, "", 1)
    assert err.startswith(f"settle: {KEY}: not recovered, or not known to be: ")
    assert message in err


def test_a_function_that_may_not_be_called_fails_the_command(
    desk: Desk, command: Command, recovery: Recovery
) -> None:
    claimed(desk)

    def denied() -> None:
        raise refusal("Invoke", "AccessDeniedException")

    recovery.effect = denied

    code, out, err = command("recover", KEY)

    assert (code, out, len(err.splitlines())) == (Exit.FAILED, "", 1)
    assert "AccessDeniedException" in err


def test_a_stack_from_before_the_function_is_to_be_deployed_again(
    desk: Desk, command: Command, recovery: Recovery
) -> None:
    claimed(desk)
    del desk.stack.outputs["RecoverStalledArn"]

    code, out, err = command("recover", KEY)

    assert (code, out) == (Exit.FAILED, "")
    assert err == (
        "settle: stack under-test: has no output RecoverStalledArn, as it is too old; deploy it again\n"
    )
