import json
import os
from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import ReadTimeoutError

from settle.actions import start as starting
from settle.actions.start import Ended, start, start_code
from settle.exit_codes import CommandFailed, Exit
from settle.machines import Machine, explain
from settle.request_file import INPUT_BYTES_MAX, key_of
from settle.stack import Stack
from settlement.ledger import keys
from settlement.ledger.keys import Row
from settlement.model.stage_config import StageConfig
from settlement.model.state import SettlementState
from settlement.model.status import Status

KEY = "order-2026-000101"
REQUEST = json.dumps({"key": KEY})


class Machines:
    """Step Functions, as far as starting goes: one prepared end, and a record of what was started."""

    def __init__(self, row: Row | None = None, **end: Any) -> None:
        self.end = end
        self.row = row
        self.started: list[dict[str, Any]] = []

    def client(self, service: str, attempts: int = 5) -> "Machines":
        assert service == "stepfunctions"
        self.attempts = attempts
        return self

    def start_sync_execution(self, **parameters: Any) -> dict[str, Any]:
        assert self.attempts == 1, "a start that is sent twice is two executions"
        self.started.append(parameters)
        return self.end

    def start_execution(self, **parameters: Any) -> dict[str, Any]:
        assert self.attempts == 1, "a start that is sent twice is two executions"
        self.started.append(parameters)
        return {"executionArn": f"arn:of:{parameters['name']}"}

    def describe_execution(self, **parameters: Any) -> dict[str, Any]:
        assert parameters == {"executionArn": f"arn:of:{self.started[-1]['name']}"}
        return self.end

    def settlement(self, key: str) -> SettlementState | None:
        """The table beside the machines, which has this one settlement's row."""
        assert key == KEY
        return SettlementState.from_row(self.row) if self.row else None


def stack_of(machines: Machines) -> Stack:
    outputs = {"SettlementExpressArn": "arn:express", "SettlementStandardArn": "arn:standard"}
    config = StageConfig.from_json(os.environ["STAGE_CONFIG"])
    return cast(
        Stack, SimpleNamespace(outputs=outputs, client=machines.client, store=machines, config=config)
    )


def row_of(status: str) -> Row:
    """The settlement's row while its machine runs."""
    failure = {"step": "compensate:release", "error": "InsufficientFunds", "cause": "spent"}
    return {
        **keys.settlement(KEY),
        "status": status,
        "payer": "alice",
        "payee": "bob",
        "amount": 4820,
        "fee": 48,
        "currency": "EUR",
        "escrow": 48,
        "steps": {"hold", "verify", "release"},
        "claimed_at": "2026-11-20T12:00:00.123Z",
        "deadline_at": "2026-11-20T12:15:00.123Z",
        "request_hash": "not-compared-here",
        "owner": f"{KEY}-1",
        "owner_epoch": 0,
        "failure": failure,
    }


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        (
            '{"errorMessage": "amount: must be positive", "errorType": "InvalidRequest"}',
            "amount: must be positive",
        ),
        (
            json.dumps(
                {"Error": "AccountNotFound", "Cause": json.dumps({"errorMessage": "bob: no such account"})}
            ),
            "AccountNotFound: bob: no such account",
        ),
        ('{"Error": "States.Timeout"}', "States.Timeout: "),
        ('{"Error": "States.Timeout", "Cause": "the task timed out"}', "States.Timeout: the task timed out"),
        ('{"Error": "A", "Cause": "{\\"Error\\": \\"B\\", \\"Cause\\": \\"why\\"}"}', "A: B: why"),
        ("the machine was stopped", "the machine was stopped"),
        ("", ""),
        ("{}", "{}"),
        ("[]", "[]"),
        ("null", "null"),
        ("17", "17"),
        ('"errorMessage"', '"errorMessage"'),
        ('["errorMessage"]', '["errorMessage"]'),
        ('{"errorMessage": null}', "None"),
        ('{"broken', '{"broken'),
    ],
)
def test_a_cause_of_any_form_is_explained_in_one_line(cause: str, message: str) -> None:
    assert explain(cause) == message


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("PROCESSING", 7),
        ("COMPENSATING", 7),
        ("SETTLED", 0),
        ("REJECTED", 4),
        ("COMPENSATED", 4),
        ("LIMBO", 5),
    ],
)
def test_a_status_has_the_same_exit_code_in_start_and_in_status(status: str, code: int) -> None:
    assert start_code(Ended(KEY, "e", {"status": status})) == code
    assert Exit.of_status(status) == code


def test_every_status_has_an_exit_code() -> None:
    assert {Exit.of_status(status) for status in Status} == {
        Exit.FINE,
        Exit.REFUSED,
        Exit.LIMBO,
        Exit.IN_FLIGHT,
    }


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("InvalidRequest", Exit.USAGE),
        ("IdempotencyConflict", Exit.CONFLICT),
        ("SettlementStalled", Exit.FAILED),
        ("TIMED_OUT", Exit.FAILED),
        ("ABORTED", Exit.FAILED),
        (None, Exit.FAILED),
    ],
)
def test_an_error_has_its_exit_code(error: str | None, code: Exit) -> None:
    assert start_code(Ended(KEY, "e", None, error, "why")) == code


def test_of_several_answers_one_of_which_nothing_is_known_is_the_gravest() -> None:
    by_gravity = sorted(Exit, key=lambda code: code.gravity)

    assert by_gravity[0] is Exit.FINE
    assert by_gravity[-3:] == [Exit.IN_FLIGHT, Exit.LIMBO, Exit.FAILED]


@pytest.mark.parametrize("machine", Machine)
def test_a_machine_that_succeeds_ends_with_its_output(machine: Machine) -> None:
    machines = Machines(status="SUCCEEDED", output='{"status": "SETTLED"}')

    ended = start(stack_of(machines), machine, REQUEST)

    assert ended == Ended(KEY, machines.started[0]["name"], {"status": "SETTLED"})
    assert [(one["stateMachineArn"], one["input"]) for one in machines.started] == [
        (f"arn:{machine}", REQUEST)
    ]


@pytest.mark.parametrize("machine", Machine)
def test_a_machine_that_fails_ends_with_its_error_and_no_outcome(machine: Machine) -> None:
    machines = Machines(
        status="FAILED", error="SettlementStalled", cause='{"Error": "AccountNotFound", "Cause": "x"}'
    )

    ended = start(stack_of(machines), machine, REQUEST)

    assert (ended.outcome, ended.error, ended.message) == (None, "SettlementStalled", "AccountNotFound: x")


@pytest.mark.parametrize("machine", Machine)
@pytest.mark.parametrize("status", ["TIMED_OUT", "ABORTED"])
def test_a_machine_that_ends_without_an_error_is_no_success(machine: Machine, status: str) -> None:
    ended = start(stack_of(Machines(status=status)), machine, REQUEST)

    assert (ended.outcome, ended.error, ended.message) == (None, status, "")


def test_each_start_has_a_name_of_its_own_that_begins_with_the_key() -> None:
    machines = Machines(status="SUCCEEDED", output="{}")

    names = {start(stack_of(machines), Machine.EXPRESS, REQUEST).execution for _ in range(50)}

    assert len(names) == 50
    assert all(name.startswith(f"{KEY}-") and len(name) <= 80 for name in names)


def test_the_name_of_the_longest_key_fits_into_80_characters() -> None:
    machines = Machines(status="SUCCEEDED", output="{}")

    ended = start(stack_of(machines), Machine.EXPRESS, json.dumps({"key": "k" * 64}))

    assert len(ended.execution) <= 80


@pytest.mark.parametrize(
    "request_text",
    [
        "null",
        "[]",
        '"text"',
        "17",
        "{}",
        '{"key": 17}',
        '{"key": "too-short"}',
        '{"key": "a b c d e f g h i j"}',
    ],
)
def test_a_request_without_a_good_key_is_for_the_machine_to_refuse(request_text: str) -> None:
    machines = Machines(status="FAILED", error="InvalidRequest", cause='{"errorMessage": "key: missing"}')

    ended = start(stack_of(machines), Machine.EXPRESS, request_text)

    assert ended.error == "InvalidRequest"
    assert machines.started[0]["name"].startswith("refused-")


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("", "must be JSON"),
        ("nonsense", "must be JSON"),
        ('{"amount": NaN}', "NaN is no JSON"),
        ('{"amount": Infinity}', "Infinity is no JSON"),
        ('{"amount": -Infinity}', "-Infinity is no JSON"),
        ('{"key": "a"} {"key": "b"}', "must be JSON"),
        ("\ufeff{}", "must be JSON"),
        ('{"amount": ' + "1" * 5000 + "}", "must be JSON"),
        (json.dumps({"key": "x" * INPUT_BYTES_MAX}), f"must be at most {INPUT_BYTES_MAX} bytes"),
        (json.dumps({"key": "ä" * (INPUT_BYTES_MAX // 2)}, ensure_ascii=False), "must be at most"),
        ("[" * 100_000, "must be JSON"),
        ('"\udcff"', "must be"),
    ],
    ids=[
        "empty",
        "not JSON",
        "NaN",
        "Infinity",
        "-Infinity",
        "two values",
        "byte order mark",
        "too long a number",
        "too long",
        "too long in bytes",
        "too deep",
        "not Unicode",
    ],
)
def test_what_no_machine_could_read_is_refused_before_it_is_sent(request_text: str, expected: str) -> None:
    machines = Machines(status="SUCCEEDED", output="{}")

    with pytest.raises(CommandFailed, match=expected) as refused:
        start(stack_of(machines), Machine.EXPRESS, request_text)

    assert refused.value.code == Exit.USAGE
    assert str(refused.value).startswith("request: ")
    assert "\n" not in str(refused.value)
    assert machines.started == []


def test_the_key_is_told_with_what_went_wrong() -> None:
    machines = Machines(status="FAILED", error="IdempotencyConflict", cause='{"errorMessage": "key: used"}')

    ended = start(stack_of(machines), Machine.EXPRESS, REQUEST)

    assert ended.describe() == {
        "key": KEY,
        "execution": machines.started[0]["name"],
        "error": "IdempotencyConflict",
        "message": "key: used",
    }
    assert key_of(REQUEST) == KEY


def test_a_request_of_exactly_the_longest_size_is_sent() -> None:
    machines = Machines(status="SUCCEEDED", output="{}")

    start(stack_of(machines), Machine.EXPRESS, REQUEST.ljust(INPUT_BYTES_MAX))

    assert len(machines.started) == 1


@pytest.mark.parametrize("status", [None, "PROCESSING", "COMPENSATING", "COMPENSATED", "SETTLED"])
def test_waiting_for_a_standard_machine_has_an_end(
    monkeypatch: pytest.MonkeyPatch, status: str | None
) -> None:
    monkeypatch.setattr(starting, "STANDARD_SECONDS_MAX", -1)
    machines = Machines(row_of(status) if status else None, status="RUNNING")

    with pytest.raises(CommandFailed, match="is still running; ask again with `settle status`") as gave_up:
        start(stack_of(machines), Machine.STANDARD, REQUEST)

    assert gave_up.value.code == Exit.IN_FLIGHT


def test_a_standard_machine_whose_settlement_waits_for_a_person_is_waited_for_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A person may take days; the outcome is the row's, which says that it is stuck and why."""
    monkeypatch.setattr(starting, "STANDARD_SECONDS_MAX", -1)
    machines = Machines(row_of("LIMBO"), status="RUNNING")

    ended = start(stack_of(machines), Machine.STANDARD, REQUEST)

    assert ended.outcome == {
        "key": KEY,
        "status": "LIMBO",
        "payer": "alice",
        "payee": "bob",
        "amount": "48.20",
        "fee": "0.48",
        "currency": "EUR",
        "escrow": "0.48",
        "steps": ["hold", "verify", "release"],
        "reversed": [],
        "failure": {"step": "compensate:release", "error": "InsufficientFunds", "cause": "spent"},
        "replayed": False,
        "claimed_at": "2026-11-20T12:00:00.123Z",
        "finished_at": None,
    }
    assert start_code(ended) is Exit.LIMBO


def test_a_machine_that_has_ended_is_believed_over_a_row_in_limbo() -> None:
    machines = Machines(row_of("LIMBO"), status="FAILED", error="SettlementStalled", cause="aborted")

    ended = start(stack_of(machines), Machine.STANDARD, REQUEST)

    assert (ended.outcome, ended.error, ended.message) == (None, "SettlementStalled", "aborted")


@pytest.mark.parametrize("machine", Machine)
@pytest.mark.parametrize(
    "lost", ["start_sync_execution start_execution", "start_sync_execution describe_execution"]
)
def test_an_answer_that_is_lost_leaves_a_key_to_ask_for(
    monkeypatch: pytest.MonkeyPatch, machine: Machine, lost: str
) -> None:
    """The request may have been taken: the person must learn which key it was, and that it is not known."""

    def lose(self: Machines, **parameters: Any) -> None:
        raise ReadTimeoutError(endpoint_url="http://127.0.0.1")

    for method in lost.split():
        monkeypatch.setattr(Machines, method, lose)

    with pytest.raises(CommandFailed, match=rf"^{KEY}: outcome unknown, ask with `settle status`") as told:
        start(stack_of(Machines()), machine, REQUEST)

    assert told.value.code is Exit.FAILED
