"""Who carries a decision out: the execution that waits for it, or a new one where that is gone."""

from collections.abc import Callable

import pytest
from botocore.exceptions import ClientError

from settlement.model.orders import Decision
from tests.settle.desk import ADA, KEY, REASON, Desk
from tests.settle.test_resolve import resolve

GONE = ["ExecutionDoesNotExist", "InvalidToken", "TaskDoesNotExist", "TaskTimedOut"]


def token_refused(desk: Desk, code: str) -> None:
    desk.machines.refused["send_task_success"] = code


def execution_unknown(desk: Desk, code: str) -> None:
    desk.machines.refused["describe_execution"] = code


def execution_aborted(desk: Desk, code: str) -> None:
    desk.machines.machines.executions[0].abort()
    desk.machines.before_send = lambda: pytest.fail("the token of an execution that has ended was used")


def no_execution_waits_yet(desk: Desk, code: str) -> None:
    row = desk.row()
    del row["waiting"]
    desk.ledger.put(row)


@pytest.mark.parametrize(
    ("lose", "code", "decision"),
    [
        *((token_refused, code, Decision.WRITE_OFF) for code in GONE),
        *((execution_unknown, code, Decision.WRITE_OFF) for code in GONE),
        *((execution_aborted, "", decision) for decision in Decision),
        (no_execution_waits_yet, "", Decision.WRITE_OFF),
    ],
)
def test_if_no_execution_waits_any_more_a_new_one_carries_the_decision_out(
    desk: Desk, lose: Callable[[Desk, str], None], code: str, decision: Decision
) -> None:
    desk.stuck()
    lose(desk, code)

    outcome = resolve(desk, decision)

    statuses = {Decision.RETRY: "LIMBO", Decision.WRITE_OFF: "COMPENSATED", Decision.COMPLETE: "SETTLED"}
    assert outcome["status"] == statuses[decision]
    assert desk.machines.sent == []
    (started,) = desk.machines.started
    assert started["settlement"] == {
        "key": KEY,
        "payer": "alice",
        "payee": "bob",
        "amount": "48.20",
        "currency": "EUR",
        "fee": "0.48",
    }
    assert started["resolution"] == {"decision": decision, "reason": REASON, "by": ADA, "case": 1}
    assert started.keys() == {"settlement", "resolution"}
    assert desk.machines.machines.executions[-1].name.startswith(f"{KEY}-resolve-")


@pytest.mark.parametrize(
    ("operation", "code"),
    [("describe_execution", "AccessDeniedException"), ("send_task_success", "InvalidOutput")],
)
def test_any_other_error_of_the_hand_over_is_raised_and_starts_nothing(
    desk: Desk, operation: str, code: str
) -> None:
    desk.stuck()
    desk.machines.refused[operation] = code

    with pytest.raises(ClientError, match=code):
        resolve(desk)

    assert desk.machines.started == []
    assert desk.row()["status"] == "LIMBO"
