import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from botocore.exceptions import ReadTimeoutError

from settle import stack
from settle.exit_codes import CommandFailed, Exit
from settle.settlements import start as starting
from settle.settlements.machines import Machine, explain
from settle.settlements.request_file import INPUT_BYTES_MAX, key_of, read_requests
from settle.settlements.start import Ended, start, start_code
from settle.stack import Stack
from settlement.core.ledger.keys import Row
from settlement.core.model.command import command
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status
from settlement.core.policy import outcome
from tests.settle.conftest import Command, failing, raising
from tests.world.constants import KEY
from tests.world.saga import FINISHED

REQUEST = json.dumps({"key": KEY})


class Machines:
    """Step Functions: records starts, and ends executions as prepared."""

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
        assert key == KEY
        return SettlementState.from_row(self.row) if self.row else None


def stack_of(machines: Machines) -> Stack:
    outputs = {"SettlementExpressArn": "arn:express", "SettlementStandardArn": "arn:standard"}
    config = StageConfig.from_json(os.environ["STAGE_CONFIG"])
    found = SimpleNamespace(outputs=outputs, client=machines.client, store=machines, config=config)
    found.command = command
    return cast(Stack, found)


def row_of(status: str) -> Row:
    return {
        **FINISHED,
        "status": status,
        "escrow": 48,
        **{f"{step}_at": FINISHED["claimed_at"] for step in ("hold", "verify", "release")},
        "failure": {"step": "compensate:release", "error": "InsufficientFunds", "cause": "spent"},
    }


@pytest.mark.parametrize(
    ("cause", "message"),
    [
        ('{"errorMessage": "amount: missing", "errorType": "InvalidRequest"}', "amount: missing"),
        ('{"Error": "States.Timeout"}', "States.Timeout: "),
        ('{"Error": "A", "Cause": "{\\"Error\\": \\"B\\", \\"Cause\\": \\"why\\"}"}', "A: B: why"),
        ('{"Error": "A", "Cause": "{\\"errorMessage\\": \\"why\\"}"}', "A: why"),
        ("the machine was stopped", "the machine was stopped"),
        ("", ""),
        ("{}", "{}"),
        ("null", "null"),
        ('["errorMessage"]', '["errorMessage"]'),
        ('{"errorMessage": null}', "None"),
        ('{"broken', '{"broken'),
    ],
)
def test_a_cause_of_any_form_becomes_one_line(cause: str, message: str) -> None:
    assert explain(cause) == message


CODES = {
    Status.PROCESSING: Exit.IN_FLIGHT,
    Status.COMPENSATING: Exit.IN_FLIGHT,
    Status.SETTLED: Exit.FINE,
    Status.REJECTED: Exit.REFUSED,
    Status.COMPENSATED: Exit.REFUSED,
    Status.LIMBO: Exit.LIMBO,
}


def test_start_and_status_give_each_status_the_same_exit_code() -> None:
    assert {status: Exit.of_status(status) for status in Status} == CODES
    assert {status: start_code(Ended(KEY, "e", {"status": status})) for status in Status} == CODES
    assert [int(code) for code in Exit] == list(range(8))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("InvalidRequest", Exit.USAGE),
        ("IdempotencyConflict", Exit.CONFLICT),
        ("SettlementStalled", Exit.FAILED),
        (None, Exit.FAILED),
    ],
)
def test_each_error_of_a_start_has_its_exit_code(error: str | None, code: Exit) -> None:
    assert start_code(Ended(KEY, "e", None, error, "why")) == code


def test_exit_codes_are_ordered_by_gravity() -> None:
    by_gravity = sorted(Exit, key=lambda code: code.gravity)

    assert by_gravity[0] is Exit.FINE
    assert by_gravity[-3:] == [Exit.IN_FLIGHT, Exit.LIMBO, Exit.FAILED]


@pytest.mark.parametrize(
    ("statuses", "code"),
    [(["REJECTED", "SETTLED"], 4), (["SETTLED", "PROCESSING", "REJECTED"], 7), (["SETTLED", "SETTLED"], 0)],
)
def test_starting_several_requests_exits_with_the_gravest_code(
    settle: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, statuses: list[str], code: int
) -> None:
    answers = iter(statuses)
    monkeypatch.setattr(stack, "find", lambda name: None)
    monkeypatch.setattr(starting, "start", lambda *_: Ended(KEY, "e", {"key": KEY, "status": next(answers)}))
    file = tmp_path / "requests.jsonl"
    file.write_text("\n".join([REQUEST] * len(statuses)))

    assert settle("start", str(file), "--json")[0] == code


@pytest.mark.parametrize("machine", Machine)
def test_a_request_is_started_unchanged_under_a_new_execution_name(machine: Machine) -> None:
    machines = Machines(status="SUCCEEDED", output='{"status": "SETTLED"}')
    longest = json.dumps({"key": "k" * 64}).ljust(INPUT_BYTES_MAX)

    for request in (REQUEST, REQUEST, longest):
        ended = start(stack_of(machines), machine, request)

        started = machines.started[-1]
        assert ended == Ended(key_of(request), started["name"], {"status": "SETTLED"})
        assert (started["stateMachineArn"], started["input"]) == (f"arn:{machine}", request)
        assert started["name"].startswith(f"{key_of(request)}-")
        assert len(started["name"]) <= 80
    assert len({started["name"] for started in machines.started}) == 3


@pytest.mark.parametrize("machine", Machine)
@pytest.mark.parametrize(
    ("end", "error", "message"),
    [
        (
            {"status": "FAILED", "error": "SettlementStalled", "cause": '{"Error": "A", "Cause": "x"}'},
            *("SettlementStalled", "A: x"),
        ),
        ({"status": "TIMED_OUT"}, "TIMED_OUT", ""),
    ],
)
def test_a_failed_execution_is_reported_with_its_error_only(
    machine: Machine, end: dict[str, str], error: str, message: str
) -> None:
    """The execution's error counts even if the row is in LIMBO."""
    machines = Machines(row_of("LIMBO"), **end)

    ended = start(stack_of(machines), machine, REQUEST)

    name = machines.started[0]["name"]
    assert ended.outcome is None
    assert ended.describe() == {"key": KEY, "execution": name, "error": error, "message": message}


@pytest.mark.parametrize("request_text", ["null", "{}", '{"key": 17}', '{"key": "too-short"}'])
def test_a_request_without_a_valid_key_reaches_the_machine(request_text: str) -> None:
    machines = Machines(status="FAILED", error="InvalidRequest", cause='{"errorMessage": "key: missing"}')

    ended = start(stack_of(machines), Machine.EXPRESS, request_text)

    assert ended.error == "InvalidRequest"
    assert machines.started[0]["name"].startswith("refused-")


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("", "must be JSON"),
        ("nonsense", "must be JSON"),
        ('{"amount": NaN}', "which has no NaN"),
        ('{"amount": -Infinity}', "which has no -Infinity"),
        ('{"key": "a"} {"key": "b"}', "must be JSON"),
        ("\ufeff{}", "must begin without a byte order mark"),
        ('{"amount": ' + "1" * 5000 + "}", "must be JSON"),
        (json.dumps({"key": "x" * INPUT_BYTES_MAX}), f"must be at most {INPUT_BYTES_MAX} bytes"),
        (json.dumps({"key": "ä" * (INPUT_BYTES_MAX // 2)}, ensure_ascii=False), "must be at most"),
        ("[" * 100_000, "must be nested at most 100 levels deep"),
        ('"\udcff"', "must be"),
    ],
    ids=lambda text: ascii(text)[:20],
)
def test_a_request_that_no_machine_can_read_is_not_sent(request_text: str, expected: str) -> None:
    machines = Machines(status="SUCCEEDED", output="{}")

    with pytest.raises(CommandFailed, match=rf"^request: .*{expected}.*$") as refused:
        start(stack_of(machines), Machine.EXPRESS, request_text)

    assert (refused.value.code, machines.started) == (Exit.USAGE, [])


@pytest.mark.parametrize("status", [None, "COMPENSATING", "SETTLED"])
def test_start_exits_as_in_flight_if_the_execution_still_runs(
    monkeypatch: pytest.MonkeyPatch, status: str | None
) -> None:
    monkeypatch.setattr(starting, "STANDARD_SECONDS_MAX", -1)
    machines = Machines(row_of(status) if status else None, status="RUNNING")

    with failing(Exit.IN_FLIGHT, "is still running; see `settle status"):
        start(stack_of(machines), Machine.STANDARD, REQUEST)


def test_start_returns_limbo_while_the_execution_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person may take days, so the command does not wait for a decision."""
    monkeypatch.setattr(starting, "STANDARD_SECONDS_MAX", -1)
    machines = Machines(row_of("LIMBO"), status="RUNNING")

    ended = start(stack_of(machines), Machine.STANDARD, REQUEST)

    state = SettlementState.from_row(row_of("LIMBO"))
    stuck = outcome.of_state(state, stack_of(machines).config, replayed=False)
    assert (ended.outcome, start_code(ended)) == (stuck, Exit.LIMBO)


@pytest.mark.parametrize("machine", Machine)
@pytest.mark.parametrize(
    "lost", ["start_sync_execution start_execution", "start_sync_execution describe_execution"]
)
def test_a_lost_answer_reports_the_key_and_an_unknown_outcome(
    monkeypatch: pytest.MonkeyPatch, machine: Machine, lost: str
) -> None:
    """The request may have started a payment, so the person must learn its key."""

    for method in lost.split():
        monkeypatch.setattr(Machines, method, raising(ReadTimeoutError(endpoint_url="http://127.0.0.1")))

    with failing(Exit.FAILED, rf"^{KEY}: its outcome is unknown; see `settle status"):
        start(stack_of(Machines()), machine, REQUEST)


class Queue:
    file: Path

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []
        self.failing: Exception | None = None

    def send_message(self, *, QueueUrl: str, MessageBody: str) -> None:  # noqa: N803
        if self.failing:
            raise self.failing
        self.sent.append((QueueUrl, MessageBody))


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Queue:
    """The start queue of a stack, and a file with one request."""
    queue = Queue()
    queue.file = tmp_path / "payments.jsonl"
    queue.file.write_text(f"{REQUEST}\n")
    found = SimpleNamespace(outputs={"StartQueueUrl": "the-queue"}, client=lambda service: queue)
    monkeypatch.setattr(stack, "find", lambda name: found)
    return queue


def test_with_queue_requests_are_sent_unchanged_without_waiting(queue: Queue, settle: Command) -> None:
    other = json.dumps({"key": "order-2026-000102"})
    queue.file.write_text(f"{REQUEST}\n{other}\n")

    code, out, said = settle("start", str(queue.file), "--queue")

    assert queue.sent == [("the-queue", REQUEST), ("the-queue", other)]
    assert (code, out) == (Exit.IN_FLIGHT, "")
    assert said == f"{KEY}: sent to the start queue\norder-2026-000102: sent to the start queue\n"


WORDS = ("--reference", "invoice 1", "--meta", "shop=web", "--meta", "sum=1=1")
LABELS = {"reference": "invoice 1", "metadata": {"shop": "web", "sum": "1=1"}}


def test_reference_and_metadata_options_are_added_to_each_request(queue: Queue, settle: Command) -> None:
    queue.file.write_text(f'{REQUEST}\n{{"key": "order-2026-000102", "payer": "Zoë"}}\n')

    code, _, _ = settle("start", str(queue.file), "--queue", *WORDS)

    assert code == Exit.IN_FLIGHT
    sent = [json.loads(body) for _, body in queue.sent]
    assert sent == [{"key": KEY, **LABELS}, {"key": "order-2026-000102", "payer": "Zoë", **LABELS}]


@pytest.mark.parametrize(
    ("content", "given", "said"),
    [
        ({"key": KEY, "reference": "r"}, WORDS, "reference: the request has its own; nothing was sent"),
        ({"key": KEY, "metadata": {}}, WORDS, "metadata: the request has its own; nothing was sent"),
        ([], WORDS, "request: must be a JSON object"),
        ({"key": KEY}, ("--meta", "shop"), "meta: must be NAME=VALUE"),
        ({"key": KEY}, ("--meta", "=web"), "meta: must be NAME=VALUE"),
        ({"key": KEY}, ("--meta", "shop=web", "--meta", "shop="), "meta: shop comes twice"),
    ],
)
def test_invalid_references_or_metadata_send_nothing(
    queue: Queue, settle: Command, content: Any, given: tuple[str, ...], said: str
) -> None:
    queue.file.write_text(f"{REQUEST}\n{json.dumps(content)}\n")

    code, _, err = settle("start", str(queue.file), "--queue", *given)

    assert (code, err, queue.sent) == (Exit.USAGE, f"settle: {said}\n", [])


def test_a_request_that_is_possibly_not_queued_must_be_repeated(queue: Queue, settle: Command) -> None:
    queue.failing = ReadTimeoutError(endpoint_url="https://sqs.invalid")

    code, _, said = settle("start", str(queue.file), "--queue")

    assert code == Exit.FAILED
    first, second = said.splitlines()
    assert first == "settle: 0 of 1 requests are in the start queue"
    assert second.startswith(f"settle: {KEY}: may not be in the queue: send it again.")


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_only_a_line_feed_ends_a_request(tmp_path: Path, separator: str) -> None:
    """A JSON string may contain some of these separators; the others are invalid JSON."""
    file = tmp_path / "payments.jsonl"
    first = f'{{"key": "{KEY}", "reference": "a{separator}b"}}'
    file.write_text(f"{first}\r\n\n{{", "utf-8", newline="")

    with pytest.raises(CommandFailed) as refused:
        read_requests(str(file))

    line = 3 if separator in "\u2028\u2029\x85" else 1
    assert str(refused.value).startswith(f"line {line}: request: must be JSON: ")
