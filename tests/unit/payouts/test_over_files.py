"""A pain.001 for each payout, put once in a bucket."""

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from typing import Any
from xml.etree import ElementTree

import boto3
import pytest
import sepaxml
from botocore.exceptions import ClientError, ReadTimeoutError
from moto import mock_aws
from sepaxml.validation import try_valid_xml

from settlement.payouts.over_files import PREFIX, Debtor, OverFiles
from settlement.payouts.payout import Payout, Status, Word
from settlement.payouts.port import Accepted, Found, NeverSeen, NotSendable, Unknown
from tests.unit.payouts.rows import PAYOUT, STATES

DEBTOR = Debtor(name="Market & Sons <EU>", iban="NL91ABNA0417164300")
RESERVED = STATES[Status.RESERVED]
SCHEMA = "pain.001.001.09"


@pytest.fixture
def s3() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="files")
        yield client


@pytest.fixture
def bank(s3: Any) -> OverFiles:
    return OverFiles(s3, "files", "a-bank", DEBTOR)


class Failing:
    """An S3 that fails."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def put_object(self, **named: Any) -> None:
        raise self.error

    head_object = put_object


def test_a_file_is_valid_by_the_standards_schema(bank: OverFiles) -> None:
    try_valid_xml(bank.request(RESERVED), SCHEMA)


def test_a_file_tells_what_another_writer_tells(bank: OverFiles) -> None:
    payout = RESERVED.payout
    other = sepaxml.SepaTransfer(
        {"name": DEBTOR.name, "IBAN": DEBTOR.iban, "batch": False, "currency": "EUR"}, schema=SCHEMA
    )
    other.add_payment(
        {
            "name": RESERVED.holder,
            "IBAN": RESERVED.iban,
            "amount": payout.amount,
            "execution_date": date.fromisoformat(RESERVED.reserved_at[:10]),
            "description": "-",
            "endtoend_id": payout.reference,
        }
    )

    ours, theirs = told(bank.request(RESERVED)), told(other.export())

    of_their_own = {"MsgId", "PmtInfId", "CreDtTm", "Ustrd", "Id"}  # of an agent, which we name otherwise
    assert {name: text for name, text in ours.items() if name not in of_their_own} == {
        name: text for name, text in theirs.items() if name not in of_their_own
    }
    assert ours["EndToEndId"] == [payout.reference]


def told(content: bytes) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for element in ElementTree.fromstring(content).iter():
        if text := (element.text or "").strip():
            found.setdefault(element.tag.rpartition("}")[2], []).append(text)
    return found


def test_hostile_names_stay_text(bank: OverFiles) -> None:
    state = replace(RESERVED, holder="</Nm><Nm>&evil; {reference}")

    assert told(bank.request(state))["Nm"][-1] == state.holder
    try_valid_xml(bank.request(state), SCHEMA)


def test_a_payout_has_one_file_with_one_content(bank: OverFiles, s3: Any) -> None:
    body = bank.request(RESERVED)

    assert bank.submit(RESERVED, body) == Accepted()
    assert isinstance(bank.submit(RESERVED, b"another"), Unknown)

    (file,) = s3.list_objects_v2(Bucket="files")["Contents"]
    assert file["Key"] == f"{PREFIX}{PAYOUT.reference}.xml"
    assert s3.get_object(Bucket="files", Key=file["Key"])["Body"].read() == body


def test_a_lost_answer_is_settled_by_the_file_itself(bank: OverFiles) -> None:
    assert bank.find(RESERVED) == NeverSeen()
    bank.submit(RESERVED, bank.request(RESERVED))

    assert bank.find(RESERVED) == Found(Word.ACCEPTED)


@pytest.mark.parametrize(
    "error",
    [
        ReadTimeoutError(endpoint_url="s3"),
        ClientError({"Error": {"Code": "AccessDenied"}}, "PutObject"),
        ClientError({"Error": {"Code": "503"}}, "HeadObject"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_bucket_that_fails_tells_nothing(error: Exception) -> None:
    bank = OverFiles(Failing(error), "files", "a-bank", DEBTOR)

    assert isinstance(bank.submit(RESERVED, b""), Unknown)
    assert isinstance(bank.find(RESERVED), Unknown)


def test_another_currency_is_not_sent(bank: OverFiles) -> None:
    dollars = Payout(**{**RESERVED.payout.content, "currency": "USD"}, key=PAYOUT.key)

    with pytest.raises(NotSendable, match="takes no USD"):
        bank.request(replace(RESERVED, payout=dollars))


def test_no_window_is_declared(bank: OverFiles) -> None:
    assert bank.declared.window_seconds == 0


@pytest.mark.parametrize(
    ("changed", "told"), [({"name": ""}, "debtor: name"), ({"iban": "NL00"}, "debtor: iban")]
)
def test_a_wrong_debtor_is_named(changed: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        Debtor(**{"name": "A", "iban": DEBTOR.iban} | changed)
