"""`settle reconcile`: its processes, its second looks, and its findings."""

import json
import multiprocessing
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import Any

import boto3
import pytest

from handlers import _dependencies
from infra import kyc_config
from settle.exit_codes import CommandFailed, Exit
from settle.output import progress
from settle.proof import segments
from settle.stack import Place, Stack
from settlement.core.ledger import keys
from settlement.core.store.dynamodb import Store
from settlement.proof import CutOff, Difference, Look, Retention, Stage, Watch, second_look, table_scan
from settlement.proof.facts import BalanceFacts, EntryFacts, SweepFacts
from settlement.proof.pages import Part
from settlement.proof.watch import READING, looking_again
from settlement.retention.expiry import EXPIRES
from tests.settle.conftest import Command, raising
from tests.settle.desk import Desk
from tests.world.constants import KEY
from tests.world.environment import NOW
from tests.world.ledger import ROW_KEYS, adds

pytestmark = pytest.mark.server


def reached(outputs: dict[str, str], server: str | None) -> Stack:
    """Return a stack that reaches only DynamoDB, with the tests' row keys."""
    stack = Stack("under-test", outputs, boto3.Session(), server)
    vars(stack)["row_keys"] = ROW_KEYS
    return stack


@pytest.fixture
def stack(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Stack:
    """The desk's table, reachable by other processes."""
    server = desk.ledger.client.meta.endpoint_url
    monkeypatch.setattr(second_look, "_PAUSE_SECONDS", 0)
    return reached(desk.stack.outputs, server)


@pytest.mark.parametrize("processes", [2, 3])
def test_several_processes_find_the_same_as_one(desk: Desk, stack: Stack, processes: int) -> None:
    desk.stuck()
    desk.pay("order-2026-000102", until="release")
    told: list[tuple[str, int]] = []

    findings = segments.check(stack, processes, lambda phase, done: told.append((phase, done)))

    one = table_scan.check(stack.store)
    assert (findings.conserved, findings.settlements) == (True, 3)
    assert findings == one
    assert findings.rows == one.rows == len(desk.ledger.rows())
    assert (READING, findings.rows) in told


def test_several_processes_know_which_entries_have_expired(
    desk: Desk, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_dependencies.store, "_adds", adds(days=400))
    desk.pay()
    for row in desk.ledger.rows():
        if EXPIRES in row and not row["sk"].endswith(":release"):
            desk.ledger.delete({"pk": row["pk"], "sk": row["sk"]})
    later = Retention.at(NOW + timedelta(days=402), 400)

    found = [
        segments.check(stack, 2, lambda phase, done: None, Stage(retention=retention))
        for retention in (later, Retention.at(NOW, 400))
    ]

    assert [one.conserved for one in found] == [True, False]
    assert found[0].faults == []


def test_faults_and_unknown_rows_are_found_in_any_segment(desk: Desk, stack: Stack) -> None:
    desk.pay()
    row = desk.row()
    desk.alter(escrow=row["escrow"] + 1)
    desk.ledger.put({"pk": "LOAN#1", "sk": "LOAN", "amount": 5})
    desk.ledger.put({**keys.settlement("order-malformed"), "status": "PROCESSING"})

    findings = segments.check(stack, 2, lambda phase, done: None)

    named = {one.partition(":")[0] for one in findings.faults}
    assert named == {f"SETTLEMENT#{KEY}", "SETTLEMENT#order-malformed"}
    assert [one.partition(":")[0] for one in findings.unproven] == ["LOAN#1"]
    assert not findings.conserved


def test_a_second_look_knows_when_the_scan_began(
    desk: Desk, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scan may have missed an order given after that time."""
    desk.pay()
    desk.alter(escrow=desk.row()["escrow"] + 1)
    told, read = list[datetime](), list[datetime]()
    await_next = segments.Reader.await_next

    def look(store: Store, difference: Difference, began: datetime, watch: Watch) -> Look:
        told.append(began)
        return Look.DISAGREES

    def awaited(reader: segments.Reader) -> None:
        read.append(datetime.now(UTC))
        await_next(reader)

    monkeypatch.setattr(table_scan, "look", look)
    monkeypatch.setattr(segments.Reader, "await_next", awaited)
    started = datetime.now(UTC)

    segments.check(stack, 2, lambda phase, done: None)

    assert told
    assert all(started <= began <= read[0] for began in told)


def test_the_command_reads_in_the_given_number_of_processes(
    desk: Desk, stack: Stack, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("settle.stack.find", lambda name: stack)
    desk.pay()

    code, out, err = command("reconcile", "--segments", "2")

    assert (code, err) == (Exit.FINE, "")
    assert out.splitlines()[-1].startswith("conserved: 3 accounts, 1 settlements")


@pytest.mark.parametrize("given", ["0", "65", "-1", "two"])
def test_a_senseless_number_of_segments_is_a_usage_error(command: Command, given: str) -> None:
    code, out, err = command("reconcile", "--segments", given)

    assert (code, out) == (Exit.USAGE, "")
    assert "--segments" in err


def test_a_failed_reading_process_ends_the_command_in_one_line(
    stack: Stack, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = reached(stack.outputs | {"TableName": "gone"}, stack.endpoint_url)
    monkeypatch.setattr("settle.stack.find", lambda name: lost)

    code, out, err = command("reconcile", "--segments", "2")

    assert (code, out) == (Exit.FAILED, "")
    (line,) = err.splitlines()
    assert line.startswith("settle: reconcile: nothing is proven: segment ")
    assert "ResourceNotFoundException" in line


@pytest.mark.parametrize("phase", ["reading", "judging"])
def test_a_dying_process_ends_the_command_without_a_hang(
    desk: Desk, stack: Stack, monkeypatch: pytest.MonkeyPatch, phase: str
) -> None:
    desk.pay()
    method = "await_next" if phase == "reading" else "facts"
    real = getattr(segments.Reader, method)

    def killed(reader: Any, *arguments: Any) -> Any:
        if reader.part.number == 1:
            reader.process.kill()
            reader.process.join()
        return real(reader, *arguments)

    monkeypatch.setattr(segments.Reader, method, killed)

    with pytest.raises(CommandFailed, match="segment 2 of 2: its process has died with exit code -9"):
        segments.check(stack, 2, lambda phase, done: None)


def test_no_process_outlives_the_command(desk: Desk, stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Any] = []
    real = segments.Reader.__enter__

    def entered(reader: Any) -> Any:
        begun.append(real(reader))
        return begun[-1]

    monkeypatch.setattr(segments.Reader, "__enter__", entered)

    with pytest.raises(KeyboardInterrupt):
        segments.check(stack, 2, raising(KeyboardInterrupt))

    assert [one.process.is_alive() for one in begun] == [False, False]


def test_a_cut_off_segment_leaves_the_whole_table_unproven(
    desk: Desk, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of a settlement's entries would look like a fault."""
    desk.pay()
    real = segments.Reader.await_next

    def cut_off(reader: Any) -> None:
        real(reader)
        reader.cut_off = CutOff("DynamoDB: ThrottlingException") if reader.is_done else None

    monkeypatch.setattr(segments.Reader, "await_next", cut_off)

    findings = segments.check(stack, 2, lambda phase, done: None)

    assert (findings.faults, dict(findings.totals), findings.conserved) == ([], {}, False)
    (told,) = findings.unproven
    assert told == f"the table: cut off after {findings.rows} rows: DynamoDB: ThrottlingException"


def test_a_process_reports_that_dynamodb_has_stopped_answering(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason arrives unchanged, and the rows read before it count."""
    messages: list[Any] = []
    monkeypatch.setattr(signal, "signal", lambda *_: None)

    class Connection:
        def send(self, message: Any) -> None:
            messages.append(message)

        def recv(self) -> Any:
            raise EOFError

    class Nowhere(Place):
        def store(self) -> Any:
            raise CutOff("DynamoDB: ConnectTimeoutError")

    segments.read(Connection(), Nowhere("table", None, None), Part(0, 1), frozenset())  # type: ignore[arg-type]

    report = messages[-1]
    assert str(report.cut_off) == "DynamoDB: ConnectTimeoutError"
    assert report.found["rows"] == 0


def test_a_process_sends_its_facts_in_batches(
    desk: Desk, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.pay()
    ours, theirs = multiprocessing.Pipe()
    monkeypatch.setattr(segments, "BATCH", 2)
    reader = segments.Reader(stack.place, Part(0, 1), Stage({"EUR"}))
    reader.connection = ours

    def work() -> None:
        with suppress(EOFError):  # the test is over
            segments._work(theirs, stack.place, Part(0, 1), Stage({"EUR"}))

    worker = Thread(target=work, daemon=True)
    worker.start()
    while not reader.is_done:
        reader.await_next()

    found = {kind: len(list(reader.facts(kind))) for kind in (EntryFacts, BalanceFacts, SweepFacts)}

    ours.close()
    worker.join()
    assert found == {EntryFacts: 3, BalanceFacts: 3, SweepFacts: 0}


# Cut off during a second look


WHY = "no time is left"


@pytest.fixture
def wrong(desk: Desk) -> Desk:
    """A settled payment with a wrong escrow, and a payer with a wrong balance, which is judged last."""
    desk.pay()
    desk.alter(escrow=5)
    desk.alter(keys.account("alice"), available=1)
    return desk


def cut_off(phase: str, done: int) -> None:
    """Cut off only the second look at an account."""
    if phase == looking_again("ACCOUNT"):
        raise CutOff(WHY)


def test_the_command_names_the_unproven_account_and_earlier_faults(
    wrong: Desk, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def counting(estimates: object) -> Iterator[Any]:
        yield cut_off

    monkeypatch.setattr(progress, "counting", counting)

    code, out, _ = command("reconcile")

    assert code == Exit.FAILED
    lines = out.splitlines()
    assert any(line.startswith(f"FAULT SETTLEMENT#{KEY}: ") for line in lines)
    assert f"UNPROVEN ACCOUNT#alice: its second look was cut off: {WHY}" in lines
    assert not any("FAULT ACCOUNT#alice" in line for line in lines)
    assert any(line.startswith("UNPROVEN the table: cut off after ") for line in lines)


def test_second_looks_by_several_processes_can_be_cut_off(wrong: Desk, stack: Stack) -> None:
    findings = segments.check(stack, 2, cut_off)

    named = [one.partition(":")[0] for one in findings.unproven]
    assert (named, findings.cut_off) == (["ACCOUNT#alice", "the table"], WHY)
    assert {one.partition(":")[0] for one in findings.faults} == {f"SETTLEMENT#{KEY}"}


# Listed ahead


FAR = "2036-11-20T12:00:00.000Z"
NAMED = f"SETTLEMENT#{KEY}: the next look is at {FAR}"


@pytest.fixture
def hidden(desk: Desk) -> Desk:
    desk.pay(until="hold")
    desk.alter(deadline_at=FAR, gsi1sk=FAR)
    return desk


@pytest.mark.parametrize("segments", ["1", "2"])
def test_a_held_payment_listed_ahead_is_named(
    hidden: Desk, command: Command, stack: Stack, monkeypatch: pytest.MonkeyPatch, segments: str
) -> None:
    monkeypatch.setattr("settle.stack.find", lambda name: stack)

    code, out, _ = command("reconcile", "--segments", segments)
    as_json = json.loads(command("reconcile", "--segments", segments, "--json")[1])

    assert (code, f"LISTED AHEAD {NAMED}" in out.splitlines()) == (Exit.FINE, True)
    assert (as_json["conserved"], as_json["listed_ahead"]) == (True, [NAMED])


def test_a_review_does_not_hide_a_payment_listed_ahead(hidden: Desk, command: Command) -> None:
    hidden.alter(review="ver_1", in_flight_since=FAR)

    assert json.loads(command("reconcile", "--json")[1])["listed_ahead"] == [NAMED]


def test_the_longest_allowed_review_is_not_listed_ahead() -> None:
    longest = kyc_config._BOUNDS["review_seconds"][1]

    assert table_scan.REVIEW_LISTED_AHEAD_MAX.total_seconds() == longest + 3600
