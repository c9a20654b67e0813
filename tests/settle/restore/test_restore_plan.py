import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest

from handlers import _dependencies
from settle import instants
from settle.exit_codes import Exit
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import AlreadyClaimed, InReview
from settlement.core.model.timestamps import timestamp
from settlement.journal import lines
from settlement.journal.sealed_journal import SealedJournal
from tests.settle.conftest import Command
from tests.settle.desk import Desk
from tests.world import tables
from tests.world.environment import NOW
from tests.world.ledger import Ledger, signing
from tests.world.memory_s3 import MemoryS3
from tests.world.provider import APPROVED, IN_REVIEW
from tests.world.sealed import inserted
from tests.world.step_functions import client_error

pytestmark = pytest.mark.server

OLD, HELD, REVIEWED, STUCK, NEW = (f"order-2026-00020{number}" for number in range(5))
INSTANT = NOW + timedelta(hours=1)
LATER = NOW + timedelta(hours=2)
ENABLED = {"PointInTimeRecoveryDescription": {"PointInTimeRecoveryStatus": "ENABLED"}}


class Described:
    """DynamoDB that describes the restored table as AWS does; a local server cannot."""

    def __init__(self, client: Any, table: str) -> None:
        self._client, self._table = client, table
        self.restored: dict[str, Any] = {
            "RestoreSummary": {"RestoreDateTime": INSTANT},
            "StreamSpecification": {"StreamViewType": "NEW_AND_OLD_IMAGES"},
            "DeletionProtectionEnabled": True,
        }
        self.backups: dict[str, Any] = ENABLED

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def describe_table(self, TableName: str) -> Any:  # noqa: N803
        answer = self._client.describe_table(TableName=TableName)["Table"]
        return {"Table": answer | (self.restored if TableName == self._table else {})}

    def describe_continuous_backups(self, TableName: str) -> Any:  # noqa: N803
        assert TableName == self._table
        return {"ContinuousBackupsDescription": self.backups}


class Day:
    """A stage whose table was copied at an instant, and whose work continued."""

    def __init__(self, desk: Desk, restored: Ledger, command: Command, aws: Described) -> None:
        self.desk, self.restored, self.aws, self._command = desk, restored, aws, command
        self.s3, self._sealed = MemoryS3(), set[tuple[str, str]]()
        desk.stack.clients.update({"s3": self.s3, "dynamodb": aws})
        desk.stack.outputs["JournalBucket"] = "journal"

    def seal(self, at: datetime) -> None:
        """Copy the new rows to the sealed journal, like SealJournal."""
        new = [row for row in self.desk.ledger.rows() if lines.is_sealed(row) and self._is_new(row)]
        SealedJournal(self.s3, "journal").add([inserted(row, int(at.timestamp())) for row in new], at)

    def restore(self) -> None:
        for row in self.desk.ledger.rows():
            self.restored.put(row)

    def plan(self, *arguments: str) -> tuple[int, Any, str]:
        code, out, err = self._command(
            "restore", "plan", "--table", self.restored.table_name, "--json", *arguments
        )
        return code, json.loads(out) if out else None, err

    def move(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let functions and command use the restored table, as after a deployment."""
        ledger = signing(self.restored)
        monkeypatch.setattr(_dependencies, "store", ledger.store)
        self.desk.ledger = ledger
        self.desk.stack.outputs["TableName"] = ledger.table_name
        vars(self.desk.stack).pop("store", None)

    def _is_new(self, row: Row) -> bool:
        before = len(self._sealed)
        self._sealed.add((row["pk"], row["sk"]))
        return len(self._sealed) > before


@pytest.fixture
def day(desk: Desk, command: Command, server_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Day]:
    """At the instant, one payment is settled, one held, one in review, one in LIMBO."""
    monkeypatch.setattr(instants, "now", lambda: LATER + timedelta(hours=1))
    with tables.on_server(server_url) as restored:
        day = Day(desk, restored, command, Described(desk.ledger.client, restored.table_name))
        desk.stuck(key=STUCK)  # first, as Bob must have nothing else
        desk.pay(OLD)
        desk.pay(HELD, "hold")
        desk.provider.answer = IN_REVIEW
        with suppress(InReview):
            desk.pay(REVIEWED, "verify")
        desk.provider.answer = APPROVED
        day.seal(NOW)
        day.restore()
        yield day


def keys_of(told: Iterable[Any]) -> list[str]:
    return [one["key"] for one in told]


def test_a_complete_table_is_ready_and_names_payments_in_flight(day: Day) -> None:
    code, told, _ = day.plan()

    assert (code, told["ready"], told["since"], told["settings"], told["books"]) == (0, True, [], [], [])
    assert [(one["key"], one["status"], one["steps_since"]) for one in told["in_flight"]] == [
        (HELD, "PROCESSING", []),
        (REVIEWED, "PROCESSING", []),
        (STUCK, "LIMBO", []),
    ]
    assert told["restored_to"] == timestamp(INSTANT)


def test_a_stage_continues_on_a_restored_table_that_is_ready(
    day: Day, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert day.plan()[0] == Exit.FINE
    before = day.desk.row(OLD)

    day.move(monkeypatch)
    with pytest.raises(AlreadyClaimed):
        day.desk.pay(OLD)
    day.desk.pay(HELD)
    day.desk.pay(NEW)

    assert day.desk.row(OLD) == before
    assert [day.desk.row(key)["status"] for key in (HELD, NEW)] == ["SETTLED", "SETTLED"]
    assert command("reconcile")[0] == Exit.FINE


def test_payments_made_after_the_restore_point_are_listed_with_amounts(day: Day) -> None:
    """The journal has only a digest of a verdict's texts, so a rebuilt row fails its signature."""
    day.desk.pay(NEW)
    day.seal(LATER)
    before = day.restored.rows()

    code, told, _ = day.plan()

    (new,) = told["since"]
    assert (code, told["ready"], new["key"], new["claimed_since"]) == (Exit.FAILED, False, NEW, True)
    assert [(one["step"], one["amount"]) for one in new["steps"]] == [
        ("hold", "48.20 EUR"),
        ("verify", None),
        ("release", "47.72 EUR"),
        ("fee", "0.48 EUR"),
    ]
    assert (new["rows"], new["proven"]) == (5, 3)
    assert day.restored.rows() == before


def test_later_steps_of_a_restored_payment_in_flight_are_listed(day: Day) -> None:
    """Recovery would resume at the restored step, and might end differently."""
    day.desk.pay(HELD)
    day.seal(LATER)

    _, told, _ = day.plan()

    assert [(one["key"], one["claimed_since"]) for one in told["since"]] == [(HELD, False)]
    since = {one["key"]: one["steps_since"] for one in told["in_flight"]}
    assert since == {HELD: ["verify", "release", "fee"], REVIEWED: [], STUCK: []}


def test_orders_given_after_the_restore_point_are_listed(day: Day) -> None:
    day.desk.pay_back()
    day.desk.reverse("as agreed", OLD)
    day.seal(LATER)

    _, told, _ = day.plan()

    steps = {one["key"]: [step["step"] for step in one["steps"]] for one in told["since"]}
    assert steps[OLD][0] == "reverse"
    assert "order-rich-00001" in steps


def test_an_entry_without_a_valid_signature_is_not_proven(day: Day) -> None:
    forged = {
        **keys.entry("bob", "2026-11-20T13:30:00.000Z", NEW, "release"),
        **{"step": "release", "posted_at": "2026-11-20T13:30:00.000Z", "request_hash": "x"},
        **{"debit": f"escrow:{NEW}", "credit": "bob", "side": "credit", "amount": 1, "currency": "EUR"},
        "signature": "1:AAAAAAAAAAAAAAAA",
    }
    day.desk.ledger.put(forged)
    day.seal(LATER)

    _, told, _ = day.plan()

    assert [(one["key"], one["rows"], one["proven"]) for one in told["since"]] == [(NEW, 1, 0)]


@pytest.mark.parametrize(
    ("kind", "change"), [("ENTRIES#alice", {"amount": 1}), ("SETTLEMENT#", {"reference": "forged"})]
)
def test_a_restored_row_that_differs_from_its_seal_is_named(day: Day, kind: str, change: Row) -> None:
    (row,) = (
        row for row in day.restored.rows() if row["pk"].startswith(kind) and HELD in row["pk"] + row["sk"]
    )
    day.restored.put(row | change)

    code, told, _ = day.plan("--at", "2026-11-20T12:00:00Z")

    assert (code, told["changed"]) == (Exit.FAILED, [f"{row['pk']} {row['sk']}: is not as it was sealed"])
    assert told["books"]


@pytest.mark.parametrize(
    ("name", "value", "fault"),
    [
        ("StreamSpecification", {}, "stream: is off, must be NEW_AND_OLD_IMAGES"),
        ("DeletionProtectionEnabled", False, "deletion protection: is off"),
        ("TableStatus", "CREATING", "status: is CREATING, must be ACTIVE"),
        ("GlobalSecondaryIndexes", [], "index: gsi1 is not there, must be ACTIVE"),
        ("SSEDescription", {"KMSMasterKeyArn": "arn:other"}, "key: is arn:other, must be None"),
    ],
)
def test_a_table_setting_lost_by_the_restore_is_named(day: Day, name: str, value: Any, fault: str) -> None:
    day.aws.restored[name] = value

    code, told, _ = day.plan()

    assert (code, told["settings"], told["ready"]) == (Exit.FAILED, [fault], False)


@pytest.mark.parametrize(("answer", "told"), [({}, "off"), (None, "not known (AccessDenied)")])
def test_missing_or_unknown_point_in_time_recovery_is_named(
    day: Day, answer: Any, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(TableName: str) -> Any:  # noqa: N803
        if answer is None:
            raise client_error("DescribeContinuousBackups", "AccessDenied")
        return answer

    monkeypatch.setattr(day.aws, "describe_continuous_backups", asked)

    assert day.plan()[1]["settings"] == [f"point-in-time recovery: is {told}"]


def test_a_restored_table_of_unknown_time_needs_the_at_option(day: Day) -> None:
    del day.aws.restored["RestoreSummary"]

    refused, _, said = day.plan()

    assert (refused, "pass --at" in said) == (Exit.USAGE, True)
    assert day.plan("--at", "2026-11-20T13:00:00Z")[0] == Exit.FINE


def test_a_missing_table_is_reported_as_not_found(day: Day, command: Command) -> None:
    code, _, said = command("restore", "plan", "--table", "nowhere")

    assert (code, said) == (Exit.NOT_FOUND, "settle: table: nowhere: there is none in this region\n")


def test_the_plan_needs_no_original_table(day: Day) -> None:
    day.desk.stack.outputs["TableName"] = "lost"

    assert day.plan()[:2] == (0, day.plan()[1])


def test_a_changed_journal_object_after_the_restore_point_is_refused(day: Day) -> None:
    day.desk.pay(NEW)
    day.seal(LATER)
    early, late = sorted(day.s3.objects)
    day.s3.versions[early] = [b"changed"]
    assert keys_of(day.plan()[1]["since"]) == [NEW]

    day.s3.versions[late] = [b"changed"]

    code, _, said = day.plan()
    assert (code, said.startswith(f"settle: {late}: cannot be read: ")) == (Exit.FAILED, True)


def test_the_plan_prints_lines_and_the_verdict_last(day: Day, command: Command) -> None:
    day.desk.pay(NEW)
    day.seal(LATER)

    code, out, _ = command("restore", "plan", "--table", day.restored.table_name)

    told = out.splitlines()
    new = "hold 48.20 EUR, verify, release 47.72 EUR, fee 0.48 EUR; 3 of 5 rows whole"
    assert code == Exit.FAILED
    assert f"NEW SINCE {NEW}: {new}" in told
    assert f"PROCESSING {HELD} 48.20 EUR; since then: nothing" in told
    assert told[-1].startswith("NOT READY: ")
