"""Tests payouts sent as files in a bucket, and the bank's answer files."""

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

from settlement.payouts import over_files
from settlement.payouts.over_files import ANSWER_BYTES_MAX, ANSWERS, ANSWERS_MAX, PREFIX, Debtor, OverFiles
from settlement.payouts.payout import Payout, Status, Word
from settlement.payouts.port import Accepted, Found, NeverSeen, NotSendable, Unknown
from tests.unit.payouts.reports import report
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


@pytest.fixture
def filed(bank: OverFiles) -> OverFiles:
    assert bank.submit(RESERVED, bank.request(RESERVED)) == Accepted()
    return bank


def answer(s3: Any, name: str, content: bytes, reference: str = PAYOUT.reference) -> None:
    s3.put_object(Bucket="files", Key=f"{ANSWERS}{reference}/{name}", Body=content)


def of(status: str, *reasons: str) -> bytes:
    return report(PAYOUT.reference, transaction=status, reasons=reasons)


class Failing:
    """An S3 client whose calls raise the given error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def put_object(self, **named: Any) -> None:
        raise self.error

    head_object = put_object


def test_a_file_is_valid_by_the_standards_schema(bank: OverFiles) -> None:
    try_valid_xml(bank.request(RESERVED), SCHEMA)


def test_a_file_has_the_same_content_as_an_independent_writers(bank: OverFiles) -> None:
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


def test_a_payout_counts_as_accepted_once_its_file_is_stored(bank: OverFiles) -> None:
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
def test_a_failing_bucket_makes_the_answer_unknown(error: Exception) -> None:
    bank = OverFiles(Failing(error), "files", "a-bank", DEBTOR)

    assert isinstance(bank.submit(RESERVED, b""), Unknown)
    assert isinstance(bank.find(RESERVED), Unknown)


def test_only_a_payout_in_euros_is_sent(bank: OverFiles) -> None:
    dollars = Payout(**{**RESERVED.payout.content, "currency": "USD"}, key=PAYOUT.key)

    with pytest.raises(NotSendable, match="takes no USD"):
        bank.request(replace(RESERVED, payout=dollars))


def test_a_bank_over_files_declares_no_window_for_second_sends(bank: OverFiles) -> None:
    assert bank.declared.window_seconds == 0


@pytest.mark.parametrize(
    ("changed", "told"), [({"name": ""}, "debtor: name"), ({"iban": "NL00"}, "debtor: iban")]
)
def test_a_wrong_debtor_is_named(changed: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        Debtor(**{"name": "A", "iban": DEBTOR.iban} | changed)


def test_each_new_answer_file_of_the_payout_counts(filed: OverFiles, s3: Any) -> None:
    answer(s3, "", b"")  # a folder of the console
    answer(s3, "a note.txt", b"paid")
    answer(s3, "other.xml", of("RJCT", "AC04"), reference=f"{PAYOUT.reference}2")
    assert filed.find(RESERVED) == Found(Word.ACCEPTED)

    answer(s3, "1.xml", of("ACSP"))
    assert filed.find(RESERVED) == Found(Word.ACCEPTED)

    answer(s3, "2.XML", of("ACSC"))
    assert filed.find(RESERVED) == Found(Word.PAID)

    answer(s3, "3.xml", of("RJCT", "AC04"))
    assert isinstance(filed.find(RESERVED), Unknown)


def test_a_rejection_as_duplicate_is_not_a_declared_refusal(filed: OverFiles, s3: Any) -> None:
    for code, is_declared in (("AC04", True), ("AM05", False)):
        answer(s3, "1.xml", of("RJCT", code))

        assert filed.find(RESERVED) == Found(Word.REFUSED, code.lower())
        assert (code.lower() in filed.declared.refusals) is is_declared


def test_answers_are_ignored_if_the_payouts_file_is_missing(bank: OverFiles, s3: Any) -> None:
    answer(s3, "1.xml", of("RJCT", "AC04"))

    assert bank.find(RESERVED) == NeverSeen()


def test_too_many_answers_are_unknown(filed: OverFiles, s3: Any) -> None:
    for number in range(ANSWERS_MAX):
        answer(s3, f"{number}.xml", of("ACSC"))
    assert filed.find(RESERVED) == Found(Word.PAID)

    answer(s3, "more.xml", of("ACSC"))
    assert filed.find(RESERVED) == Unknown("the bank's answers: there are over 20")


def test_a_huge_answer_is_unknown_and_named(filed: OverFiles, s3: Any) -> None:
    answer(s3, "1.xml", of("ACSC").ljust(ANSWER_BYTES_MAX))
    assert filed.find(RESERVED) == Found(Word.PAID)

    answer(s3, "1.xml", of("ACSC").ljust(ANSWER_BYTES_MAX + 1))
    assert filed.find(RESERVED) == Unknown("the bank's answers: '1.xml': has over 262,144 bytes")


def test_an_answer_about_another_payout_is_unknown(filed: OverFiles, s3: Any) -> None:
    answer(s3, "\x1b1\u202e.xml", report("A" * 32, transaction="RJCT", reasons=["AC04"]))

    found = filed.find(RESERVED)

    named = "OrgnlGrpInfAndSts/OrgnlMsgId is not the payout's reference"
    assert found == Unknown(f"the bank's answers: '\\x1b1\\u202e.xml': {named}")


class Faulty:
    def __init__(self, client: Any, operation: str, error: Exception) -> None:
        self.client, self.operation, self.error = client, operation, error

    def __getattr__(self, name: str) -> Any:
        return self.fail if name == self.operation else getattr(self.client, name)

    def fail(self, **_: Any) -> None:
        raise self.error


@pytest.mark.parametrize("operation", ["list_objects_v2", "get_object"])
@pytest.mark.parametrize("code", ["AccessDenied", "InternalError", "404", "NoSuchKey"])
def test_answers_that_cannot_be_read_are_unknown(
    filed: OverFiles, s3: Any, operation: str, code: str
) -> None:
    answer(s3, "1.xml", of("ACSC"))
    client = Faulty(s3, operation, ClientError({"Error": {"Code": code}}, operation))

    assert isinstance(OverFiles(client, "files", "a-bank", DEBTOR).find(RESERVED), Unknown)


class Broken:
    is_closed = False

    def __enter__(self) -> "Broken":
        return self

    def __exit__(self, *_: object) -> None:
        self.is_closed = True

    def read(self, _count: int) -> bytes:
        raise ReadTimeoutError(endpoint_url="s3")


def test_an_answer_that_breaks_off_is_unknown(
    filed: OverFiles, s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(s3, "1.xml", of("ACSC"))
    body = Broken()
    monkeypatch.setattr(s3, "get_object", lambda **_: {"Body": body})

    assert filed.find(RESERVED) == Unknown("the bucket: ReadTimeoutError")
    assert body.is_closed


def test_a_slow_buckets_answer_is_unknown(filed: OverFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(over_files, "CALLED_WITHIN_SECONDS", 0)

    assert filed.find(RESERVED) == Unknown("the bank's answers: the exchange took longer than 0 s")
