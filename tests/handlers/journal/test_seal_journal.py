import gzip
import io
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ReadTimeoutError

from handlers.journal import seal_journal
from settlement.core.model.errors import JournalUnavailable
from settlement.journal import bucket as _journal
from settlement.journal import lines, seals
from settlement.journal.copy import Bucket
from settlement.journal.sealed_journal import SealedJournal
from settlement.proof import sealed
from tests.handlers.conftest import Counted, Later, Meanwhile
from tests.world.environment import NOW
from tests.world.functions import Context
from tests.world.memory_s3 import MemoryS3
from tests.world.stream import TIME_TO_LIVE, record

AT = int(NOW.timestamp())
ENTRY = {
    "pk": {"S": "ENTRIES#canary-account"},
    "sk": {"S": "2026-11-20T12:00:00.123Z#order-2026-000101:hold"},
    "step": {"S": "hold"},
    "posted_at": {"S": "2026-11-20T12:00:00.123Z"},
    "debit": {"S": "canary-account"},
    "amount": {"N": "4820"},
}
ORDER = {
    "pk": {"S": "EVIDENCE#order-2026-000101"},
    "sk": {"S": "order-2026-000101:reverse"},
    "posted_at": {"S": "2026-11-20T12:00:00.123Z"},
    "reason": {"S": "canary-reason"},
    "by": {"S": "canary-person"},
}
MINUTE = "journal/2026-11-20T1200/"


@pytest.fixture(autouse=True)
def _clock(later: Later) -> None:
    later(seconds=0)


def copy(*records: dict[str, Any]) -> None:
    seal_journal.handler({"Records": list(records)}, Context())


def seal() -> None:
    seal_journal.handler({}, Context())


def told(s3: MemoryS3) -> Iterator[dict[str, Any]]:
    for name, content in s3.objects.items():
        if name.startswith(seals.OBJECTS):
            yield from map(json.loads, gzip.decompress(content).splitlines())


def put(*, row: Any = ENTRY) -> dict[str, Any]:
    return record(None, row, AT)


def test_a_batch_becomes_one_object_named_by_its_content(s3: MemoryS3) -> None:
    copy(put(), put(row=ORDER))

    ((name, content),) = s3.objects.items()
    assert name == f"{MINUTE}{seals.digest(gzip.decompress(content))}.jsonl.gz"
    assert [lines.subject(one) for one in told(s3)] == [
        ("ENTRIES#canary-account", ENTRY["sk"]["S"]),
        ("EVIDENCE#order-2026-000101", ORDER["sk"]["S"]),
    ]


def test_an_entry_is_copied_whole_and_personal_texts_as_digests(s3: MemoryS3) -> None:
    copy(put(), put(row=ORDER))

    entry, order = (one["new"] for one in told(s3))
    assert entry["row"] == lines.plain_row(ENTRY)
    assert order["row"] == {name: ORDER[name]["S"] for name in ("pk", "posted_at", "sk")}
    assert order["sha256"] == lines.digest(lines.plain_row(ORDER))


@pytest.mark.parametrize("attribute", ["reason", "by"])
def test_the_digest_covers_attributes_that_are_not_copied(attribute: str) -> None:
    forged = lines.plain_row(ORDER) | {attribute: "forged"}

    assert lines.digest(forged) != lines.digest(lines.plain_row(ORDER))


def test_a_batch_copied_again_makes_the_same_object(s3: MemoryS3) -> None:
    batch = [put(), put(row=ORDER)]

    copy(*batch)
    copy(*batch)

    assert [len(versions) for versions in s3.versions.values()] == [1]


@pytest.mark.parametrize("failure", ["SlowDown", "ConditionalRequestConflict", None])
def test_a_batch_is_redelivered_if_s3_gives_no_answer(
    s3: MemoryS3, monkeypatch: pytest.MonkeyPatch, counted: Counted, failure: str | None
) -> None:
    def fail(**_: Any) -> None:
        if failure is None:
            raise ReadTimeoutError(endpoint_url="s3")
        raise ClientError({"Error": {"Code": failure, "Message": ""}}, "PutObject")

    batch = put()
    with monkeypatch.context() as patch:
        patch.setattr(s3, "put_object", fail)
        with pytest.raises(JournalUnavailable, match=r"^put_object: "):
            copy(batch)
    assert counted()["JournalUnavailable"] == 1

    copy(batch)

    assert len(list(told(s3))) == 1


@pytest.mark.parametrize(
    ("old", "new", "change"), [(ENTRY, ENTRY | {"amount": {"N": "1"}}, "MODIFY"), (ENTRY, None, "REMOVE")]
)
def test_a_changed_entry_alarms_and_records_both_images(
    s3: MemoryS3, counted: Counted, log: io.StringIO, old: Any, new: Any, change: str
) -> None:
    counted()

    copy(put(row=ORDER), record(old, new, AT))

    assert counted() == {"StepCalled": 1, "JournalTampered": 1}
    (line,) = (json.loads(one) for one in log.getvalue().splitlines())
    ((name, _),) = s3.objects.items()
    wanted = {"kind": "ENTRIES", "row": ENTRY["sk"]["S"], "change": change, "object": name}
    assert wanted.items() <= line.items()
    (_, sealed_line) = told(s3)
    assert sealed_line["old"]["row"]["amount"] == 4820
    assert sealed_line.get("new", {}).get("row", {}).get("amount") == (1 if new else None)


def test_the_tampering_alarm_does_not_depend_on_s3(
    s3: MemoryS3, counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted()
    monkeypatch.setattr(
        s3, "put_object", lambda **_: (_ for _ in ()).throw(ReadTimeoutError(endpoint_url=""))
    )

    with pytest.raises(JournalUnavailable):
        copy(record(ENTRY, None, AT))

    assert counted()["JournalTampered"] == 1


EXPIRING = ENTRY | {"expires_at": {"N": str(AT + 400 * 86_400)}}
OVER = AT + 400 * 86_400 + 3_600


def expired(row: Any = EXPIRING, at: int = OVER, **identity: Any) -> dict[str, Any]:
    return record(row, None, at) | (identity or TIME_TO_LIVE)


def test_an_expired_entrys_deletion_is_neither_copied_nor_an_alarm(
    s3: MemoryS3, counted: Counted, change_config: Callable[..., None]
) -> None:
    change_config(shortest_retention_days=400)
    counted()

    copy(expired())
    assert s3.objects == {}
    copy(expired(), put(row=ORDER))

    assert [lines.subject(one)[0] for one in told(s3)] == ["EVIDENCE#order-2026-000101"]
    assert counted() == {"StepCalled": 2}


@pytest.mark.parametrize(
    "deletion",
    [
        pytest.param(record(EXPIRING, None, OVER), id="by a person"),
        pytest.param(expired(userIdentity=None), id="by no one"),
        pytest.param(expired(userIdentity={"type": "Service", "principalId": "lambda"}), id="by another"),
        pytest.param(expired(userIdentity={"type": "User"} | {"principalId": "x"}), id="by a user"),
        pytest.param(expired(at=AT + 400 * 86_400 - 1), id="before its time"),
        pytest.param(expired(ENTRY), id="of an entry that was to stay"),
        pytest.param(expired(EXPIRING | {"expires_at": {"N": str(AT + 399 * 86_400)}}), id="too early"),
        pytest.param(expired(EXPIRING | {"expires_at": {"N": str(AT + 400 * 86_400 + 1)}}), id="no days"),
        pytest.param(expired(EXPIRING | {"expires_at": {"S": "1"}}), id="of no number"),
        pytest.param(expired(EXPIRING | {"step": {"S": "deposit"}}), id="of a deposit"),
        pytest.param(expired(EXPIRING | {"step": {"S": "resolve:1"}}), id="of a decision"),
        pytest.param(expired(EXPIRING | {"step": {"L": [{"S": "hold"}]}}), id="of no text"),
        pytest.param(expired(EXPIRING | {"posted_at": {"N": "1"}}), id="of no time"),
        pytest.param(expired(EXPIRING | {"posted_at": {"S": "2026-02-31T00:00:00.000Z"}}), id="of no day"),
        pytest.param(expired(EXPIRING | {"pk": {"S": "EVIDENCE#k"}}), id="of evidence"),
        pytest.param(expired(EXPIRING | {"pk": {"S": "SETTLEMENT#k"}}), id="of a settlement"),
        pytest.param(expired(EXPIRING | {"pk": {"S": "ACCOUNT#alice"}}), id="of a balance"),
        pytest.param(expired(EXPIRING | {"pk": {"S": "ORDER#k"}}), id="of an order"),
    ],
)
def test_any_other_deletion_raises_the_alarm_and_is_recorded(
    s3: MemoryS3, counted: Counted, change_config: Callable[..., None], deletion: dict[str, Any]
) -> None:
    """DynamoDB deletes each expired row, so an expiry that no function sets must raise the alarm."""
    change_config(shortest_retention_days=400)
    counted()

    copy(deletion)

    assert counted()["JournalTampered"] == 1
    assert [one["event"] for one in told(s3)] == ["REMOVE"]


def test_each_deletion_raises_the_alarm_if_entries_never_expire(s3: MemoryS3, counted: Counted) -> None:
    counted()

    copy(expired())

    assert counted()["JournalTampered"] == 1


@pytest.mark.parametrize(
    "row",
    [{"N": "1.5"}, {"L": [{"S": "x"}]}, {"B": "eA=="}, {"NULL": True}, {"M": {"a": {"SS": ["b", "a"]}}}],
)
def test_a_forged_row_of_any_type_is_copied(s3: MemoryS3, row: Any) -> None:
    """A row that cannot be copied would block all later rows."""
    copy(put(row=ENTRY | {"amount": row}))

    assert len(list(told(s3))) == 1


def test_each_seal_covers_an_hour_and_names_the_previous_seal(s3: MemoryS3, later: Later) -> None:
    copy(put())
    later(hours=1, minutes=10)
    seal()
    later(hours=2, minutes=10)
    seal()

    first, second = (seals.parse(one) for name, one in s3.objects.items() if name.startswith(seals.SEALS))
    assert (first.start, first.end) == ("2026-11-20T12:00:00.000Z", "2026-11-20T13:00:00.000Z")
    assert first.objects == tuple(name for name in s3.objects if name.startswith(MINUTE))
    assert first.previous is None
    assert (second.start, second.objects) == (first.end, ())
    assert second.previous == seals.digest(s3.objects[first.name])


def test_a_seal_is_never_dated_before_the_previous_seal() -> None:
    hour = timedelta(hours=1)
    before = seals.seal(NOW, NOW + hour, NOW + 3 * hour, None, (), ())

    following = seals.seal(NOW + hour, NOW + 2 * hour, NOW + 2 * hour, before, (), ())

    assert following.sealed_at == before.sealed_at


def test_a_period_is_sealed_only_after_its_grace_period(s3: MemoryS3, later: Later) -> None:
    copy(put())
    later(hours=1, minutes=9)

    seal()

    (made,) = (seals.parse(one) for name, one in s3.objects.items() if name.startswith(seals.SEALS))
    assert (made.end, made.objects) == ("2026-11-20T12:00:00.000Z", ())


def test_an_object_written_after_its_seal_is_in_the_next(s3: MemoryS3, later: Later) -> None:
    copy(put())
    later(hours=1, minutes=10)
    seal()
    later(minutes=59)
    copy(put(row=ORDER))
    later(hours=2, minutes=10)

    seal()

    late = seals.parse(s3.objects["seals/2026-11-20T1300.json"]).late
    assert [name.startswith("journal/2026-11-20T1259/") for name in late] == [True]


def test_the_periods_of_a_pause_are_sealed_in_batches(s3: MemoryS3, later: Later) -> None:
    copy(put())
    later(hours=60, minutes=10)

    seal()
    first = sum(name.startswith(seals.SEALS) for name in s3.objects)
    seal()

    assert first == seals.AT_ONCE_MAX
    assert sum(name.startswith(seals.SEALS) for name in s3.objects) == 60


def test_the_slower_of_two_concurrent_sealing_runs_gives_way(
    s3: MemoryS3, later: Later, meanwhile: Meanwhile
) -> None:
    """The slower run has two hours to seal, and the other run seals the first one just before it does."""
    copy(put())
    later(hours=2, minutes=10)

    def quicker() -> None:
        moment = NOW + timedelta(hours=1, minutes=10)
        _journal.journal().seal(moment, period=_journal.PERIOD, grace=_journal.GRACE)

    meanwhile(s3, "put_object", quicker)
    seal()
    seal()

    found = sealed.compare(Bucket(s3, "journal"), [lines.plain_row(ENTRY)], NOW + timedelta(hours=2.5))
    assert (found.faults, found.seals, found.rows) == ([], 2, 1)


def test_the_calls_log_line_has_the_latest_seals_digest(
    s3: MemoryS3, later: Later, capfd: pytest.CaptureFixture[str]
) -> None:
    later(hours=1, minutes=10)

    seal()

    (content,) = s3.objects.values()
    assert json.loads(capfd.readouterr().out)["head"] == seals.digest(content)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"start": 1}'])
def test_no_seal_follows_an_invalid_seal(s3: MemoryS3, later: Later, content: bytes) -> None:
    s3.put_object(Bucket="", Key="seals/2026-11-20T1100.json", Body=content)
    later(hours=1, minutes=10)

    with pytest.raises(JournalUnavailable, match=r"seals/2026-11-20T1100\.json"):
        seal()


def test_rows_are_copied_even_if_the_seal_chain_is_broken(s3: MemoryS3, later: Callable[..., None]) -> None:
    s3.put_object(Bucket="", Key="seals/2026-11-20T1100.json", Body=b"")

    copy(put())

    assert len(list(told(s3))) == 1


def test_each_put_sends_the_checksum_that_object_lock_requires() -> None:
    """The SDK's setting `when_required` would leave the checksum out."""
    config = Config(
        region_name="eu-west-1",
        request_checksum_calculation="when_required",
        retries={"total_max_attempts": 1},
    )
    client = boto3.client("s3", config=config, aws_access_key_id="a", aws_secret_access_key="b")
    sent: list[Any] = []

    def refuse(request: Any, **_: Any) -> None:
        sent.append(request.headers)
        raise ReadTimeoutError(endpoint_url=request.url)

    client.meta.events.register("before-send.s3.PutObject", refuse)
    with pytest.raises(JournalUnavailable):
        SealedJournal(client, "journal").add([{"key": "k"}], NOW)

    assert sent
    assert {headers["x-amz-sdk-checksum-algorithm"] for headers in sent} == {b"CRC32"}
