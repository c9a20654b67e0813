"""A bank that takes files: for each payout one SEPA credit transfer (pain.001.001.09) in a bucket.

A file in the bucket counts as handed over, and must stay. The bank's statement has the outcome; a report
(pain.002) in the bucket may have it earlier. A payout with neither after three days becomes a case.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

from botocore.exceptions import BotoCoreError, ClientError

from settlement.bank.fields import shown
from settlement.core.model import money
from settlement.http.connection import Cutoff
from settlement.payouts import pain_002
from settlement.payouts.iban import is_iban
from settlement.payouts.pain_002 import Report, UnreadableReport
from settlement.payouts.payout import State, is_holder
from settlement.payouts.port import (
    Accepted,
    Declared,
    Found,
    NeverSeen,
    NotSendable,
    Refused,
    Unknown,
)

PREFIX, ANSWERS = "payouts/", "answers/"
ANSWERS_MAX, ANSWER_BYTES_MAX = 20, 256 * 1024
"""Maximum reports of a payout, and maximum bytes of one. A bank sends some five, of a few KiB."""

CALLED_WITHIN_SECONDS = 2
"""Time in which all calls of a question begin, so that the last one ends within EXCHANGE_WITHIN."""

CURRENCY, _EXPONENT = "EUR", 2
"""SEPA has one currency."""

_PAIN_001 = """<?xml version="1.0" encoding="UTF-8"?>
<Document xmlns="urn:iso:std:iso:20022:tech:xsd:pain.001.001.09"><CstmrCdtTrfInitn>
<GrpHdr><MsgId>{reference}</MsgId><CreDtTm>{created}</CreDtTm><NbOfTxs>1</NbOfTxs><CtrlSum>{amount}</CtrlSum>
<InitgPty><Nm>{debtor}</Nm></InitgPty></GrpHdr>
<PmtInf><PmtInfId>{reference}</PmtInfId><PmtMtd>TRF</PmtMtd><BtchBookg>false</BtchBookg>
<NbOfTxs>1</NbOfTxs><CtrlSum>{amount}</CtrlSum><PmtTpInf><SvcLvl><Cd>SEPA</Cd></SvcLvl></PmtTpInf>
<ReqdExctnDt><Dt>{day}</Dt></ReqdExctnDt><Dbtr><Nm>{debtor}</Nm></Dbtr>
<DbtrAcct><Id><IBAN>{debtor_iban}</IBAN></Id></DbtrAcct>
<DbtrAgt><FinInstnId><Othr><Id>NOTPROVIDED</Id></Othr></FinInstnId></DbtrAgt><ChrgBr>SLEV</ChrgBr>
<CdtTrfTxInf><PmtId><EndToEndId>{reference}</EndToEndId></PmtId>
<Amt><InstdAmt Ccy="EUR">{amount}</InstdAmt></Amt><Cdtr><Nm>{creditor}</Nm></Cdtr>
<CdtrAcct><Id><IBAN>{creditor_iban}</IBAN></Id></CdtrAcct></CdtTrfTxInf></PmtInf>
</CstmrCdtTrfInitn></Document>
"""


@dataclass(frozen=True, kw_only=True)
class Debtor:
    """The account from which the bank pays. Raises ValueError."""

    name: str
    iban: str

    def __post_init__(self) -> None:
        if not is_holder(self.name):
            raise ValueError("debtor: name must be printable text of 1 to 70 characters")
        if not is_iban(self.iban):
            raise ValueError("debtor: iban must be an IBAN in capitals, without blanks")


class OverFiles:
    """A bank that takes files, through the S3 `client`.

    It declares no window, because each payout gets one file.
    """

    def __init__(self, client: Any, bucket: str, name: str, debtor: Debtor) -> None:
        self.declared = Declared(name=name, window_seconds=0, refusals=pain_002.REFUSALS)
        self._client, self._bucket, self._debtor = client, bucket, debtor

    def request(self, state: State) -> bytes:
        payout = state.payout
        if payout.currency != CURRENCY:
            raise NotSendable(f"{self.declared.name} takes no {payout.currency}")
        told: Mapping[str, str] = {
            "reference": payout.reference,
            "created": state.reserved_at,
            "day": state.reserved_at.partition("T")[0],
            "amount": money.render(payout.amount, _EXPONENT),
            "debtor": self._debtor.name,
            "debtor_iban": self._debtor.iban,
            "creditor": state.holder,
            "creditor_iban": state.iban,
        }
        return _PAIN_001.format_map({name: escape(text) for name, text in told.items()}).encode()

    def submit(self, state: State, body: bytes) -> Accepted | Refused | Unknown:
        try:
            self._client.put_object(Bucket=self._bucket, Key=_key(state), Body=body, IfNoneMatch="*")
        except (ClientError, BotoCoreError) as failed:
            return Unknown(f"the bucket: {type(failed).__name__}")
        return Accepted()

    def find(self, state: State) -> Found | NeverSeen | Unknown:
        cutoff = Cutoff(CALLED_WITHIN_SECONDS)
        try:
            if not self._is_there(state):
                return NeverSeen()
            return pain_002.heard(list(self._reports(state.payout.reference, cutoff)))
        except (ClientError, BotoCoreError) as failed:
            return Unknown(f"the bucket: {type(failed).__name__}")
        except UnreadableReport as why:
            return Unknown(f"the bank's answers: {why}")
        finally:
            cutoff.cancel()

    def _is_there(self, state: State) -> bool:
        try:
            self._client.head_object(Bucket=self._bucket, Key=_key(state))
        except ClientError as failed:
            if failed.response["Error"]["Code"] in ("404", "NoSuchKey", "NotFound"):
                return False
            raise
        return True

    def _reports(self, reference: str, cutoff: Cutoff) -> Iterator[Report]:
        prefix = f"{ANSWERS}{reference}/"
        _ensure_in_time(cutoff)
        listed = self._client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, MaxKeys=ANSWERS_MAX + 1)
        found = listed.get("Contents", ())
        if len(found) > ANSWERS_MAX or listed.get("IsTruncated"):
            raise UnreadableReport(f"there are over {ANSWERS_MAX}")
        for key in (one["Key"] for one in found if one["Key"].lower().endswith(".xml")):
            _ensure_in_time(cutoff)
            body = self._client.get_object(Bucket=self._bucket, Key=key)["Body"]
            with body:
                content = body.read(ANSWER_BYTES_MAX + 1)
            try:
                yield _report(content, reference)
            except UnreadableReport as why:
                raise UnreadableReport(f"{shown(key.removeprefix(prefix))}: {why}") from None


def _ensure_in_time(cutoff: Cutoff) -> None:
    if not cutoff.seconds_left:
        raise UnreadableReport(cutoff.told)


def _report(content: bytes, reference: str) -> Report:
    if len(content) > ANSWER_BYTES_MAX:
        raise UnreadableReport(f"has over {ANSWER_BYTES_MAX:,} bytes")
    return pain_002.read(content, reference)


def _key(state: State) -> str:
    return f"{PREFIX}{state.payout.reference}.xml"
