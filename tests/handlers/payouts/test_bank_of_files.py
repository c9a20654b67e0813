"""FollowPayouts exchanges files with a bank through a bucket."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from handlers.payouts import _bank, _payouts
from settlement.core.ledger import keys
from settlement.payouts import bucket
from settlement.payouts.over_files import ANSWERS, CALLED_WITHIN_SECONDS, PREFIX
from settlement.payouts.payout import Status
from settlement.payouts.policy import EXCHANGE_WITHIN
from tests.handlers.payouts.conftest import HOLDER, IBAN, REFERENCE, Desk
from tests.handlers.payouts.test_bank import REAL_BANK
from tests.unit.payouts.reports import report

DEBTOR = {"name": "Market & Sons", "iban": "NL91ABNA0417164300"}
FILE = f"{PREFIX}{REFERENCE}.xml"
ADDRESSES_MAX = 8
"""Maximum number of S3 addresses in DNS; each can use the whole connect timeout."""


class S3:
    """S3, whose next call may fail after its effect."""

    def __init__(self, client: Any) -> None:
        self.client, self.is_silent = client, False

    def put_object(self, **given: Any) -> Any:
        answer = self.client.put_object(**given)
        if self.is_silent:
            raise self.client.exceptions.ClientError({"Error": {"Code": "503"}}, "PutObject")
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)


@pytest.fixture
def s3() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="files")
        yield client


@pytest.fixture
def filed(
    desk: Desk, s3: Any, configure: Callable[[str | None], None], monkeypatch: pytest.MonkeyPatch
) -> tuple[Desk, S3]:
    files = {"bucket": "files", "name": "a-bank", "debtor": DEBTOR}
    kept = {name: _payouts.config()[name] for name in ("limits", "accounts")}
    configure(json.dumps({**kept, "files": files}))
    monkeypatch.setattr(_bank, "bank", REAL_BANK)
    monkeypatch.setattr(bucket, "_client", found := S3(s3))
    desk.calls.secrets.content = "unreadable"
    return desk, found


def names(s3: S3) -> list[str]:
    return [one["Key"] for one in s3.client.list_objects_v2(Bucket="files").get("Contents", ())]


def test_a_payout_is_sent_as_a_file_without_any_secret(filed: tuple[Desk, S3]) -> None:
    desk, s3 = filed
    desk.reserve()

    assert desk.look()["status"] == "ACCEPTED"
    desk.calls.later(hours=1)
    assert desk.look()["status"] == "ACCEPTED"

    assert names(s3) == [FILE]
    text = s3.client.get_object(Bucket="files", Key=FILE)["Body"].read().decode()
    assert all(f">{one}<" in text for one in (IBAN, HOLDER, "48.20", DEBTOR["iban"], "Market &amp; Sons"))
    assert desk.calls.secrets.read == []


def test_a_run_writes_a_file_for_each_due_payout(filed: tuple[Desk, S3]) -> None:
    desk, s3 = filed
    keys_ = desk.many(24)

    assert desk.run()["looked"] == 24

    assert {desk.state(key).status for key in keys_} == {Status.ACCEPTED}
    assert len(names(s3)) == 24


def test_a_run_with_a_bank_of_files_reports_no_circuit(filed: tuple[Desk, S3]) -> None:
    desk, _ = filed
    desk.calls.counted()

    desk.run()

    assert "BankCircuit" not in desk.calls.counted()
    assert desk.calls.ledger.row(keys.circuit("bank")) is None


def test_a_file_with_a_lost_answer_is_written_once(filed: tuple[Desk, S3]) -> None:
    desk, s3 = filed
    desk.reserve()
    s3.is_silent = True
    assert desk.look()["status"] == "UNKNOWN"
    s3.is_silent = False
    desk.calls.later(minutes=1)

    assert desk.look()["status"] == "ACCEPTED"

    versions = s3.client.list_object_versions(Bucket="files")["Versions"]
    assert [one["Key"] for one in versions] == [FILE]


def test_a_file_that_was_removed_is_never_written_again(filed: tuple[Desk, S3]) -> None:
    desk, s3 = filed
    desk.reserve()
    desk.look()
    s3.client.delete_object(Bucket="files", Key=FILE)

    for day in range(1, 6):
        desk.calls.later(days=day)
        desk.look()

    assert names(s3) == []
    assert desk.state().status is Status.LIMBO


def answered(filed: tuple[Desk, S3], status: str, *reasons: str) -> dict[str, Any]:
    desk, s3 = filed
    desk.reserve()
    desk.look()
    content = report(REFERENCE, transaction=status, reasons=reasons)
    s3.client.put_object(Bucket="files", Key=f"{ANSWERS}{REFERENCE}/1.xml", Body=content)
    desk.calls.later(hours=1)
    return desk.look()


def test_a_rejection_gives_the_money_back(filed: tuple[Desk, S3]) -> None:
    assert answered(filed, "RJCT", "AC04")["status"] == "REFUSED"

    assert filed[0].state().detail == "ac04"
    assert filed[0].moved() == {}


def test_a_rejection_as_duplicate_moves_nothing(filed: tuple[Desk, S3]) -> None:
    assert answered(filed, "RJCT", "AM05")["status"] == "ACCEPTED"

    assert filed[0].state().detail == "the bank refuses for an undeclared reason: am05"
    assert filed[0].moved() == {"alice": -48_20, "transit:EUR": 48_20}


def test_a_settled_report_marks_the_payout_as_paid(filed: tuple[Desk, S3]) -> None:
    assert answered(filed, "ACSC")["status"] == "PAID"

    assert filed[0].moved() == {"alice": -48_20, "external:EUR": 48_20}


def test_a_bucket_call_ends_within_the_exchanges_time_limit() -> None:
    config: Any = bucket.CONFIG

    longest = ADDRESSES_MAX * config.connect_timeout + config.read_timeout
    assert CALLED_WITHIN_SECONDS + longest <= EXCHANGE_WITHIN.total_seconds()
    assert config.retries["total_max_attempts"] == 1
