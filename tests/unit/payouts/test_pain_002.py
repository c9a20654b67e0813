from contextlib import suppress
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xsdata.formats.dataclass.parsers import XmlParser
from xsdata.formats.dataclass.parsers.config import ParserConfig

from settlement.payouts.pain_002 import REFUSALS, UnreadableReport, heard, read
from settlement.payouts.payout import Word
from settlement.payouts.port import Found, Unknown
from tests.unit.payouts.reports import NAMESPACE, report
from tests.unit.payouts.rows import PAYOUT

OURS = PAYOUT.reference
OTHER = "A" * len(OURS)
ACCEPTED, PAID = Found(Word.ACCEPTED), Found(Word.PAID)
PROGRESS = ("RCVD", "PDNG", "ACTC", "ACCP", "ACWC", "ACSP")
LATER, EARLIER = "2026-11-30T09:15:01+01:00", "2026-11-30T08:14:59"  # by a second; without a zone, UTC

STRICT = ParserConfig(
    fail_on_unknown_properties=True, fail_on_unknown_attributes=True, fail_on_converter_warnings=True
)


def word(*files: bytes) -> Found | Unknown:
    return heard([read(file, OURS) for file in files])


def refused(*reasons: str, **more: Any) -> bytes:
    return report(OURS, transaction="RJCT", reasons=reasons, **more)


def test_a_rejected_group_refuses_the_payout() -> None:
    assert word(report(OURS, group="RJCT", reasons=["AC04"], version="03")) == Found(Word.REFUSED, "ac04")


def test_a_rejected_transaction_refuses_the_payout() -> None:
    file = report(OURS, group="PART", payment="PART", transaction="RJCT", reasons=["MD07"], version="09")

    assert word(file) == Found(Word.REFUSED, "md07")


def test_a_progress_status_means_accepted_and_a_settlement_paid() -> None:
    progress = [report(OURS, group="ACCP", transaction=code) for code in PROGRESS]

    assert heard([]) == ACCEPTED
    assert {word(one) for one in progress} == {ACCEPTED}
    for settled in ("ACSC", "ACCC"):
        assert word(*progress, report(OURS, transaction=settled)) == PAID


def test_the_most_specific_status_decides() -> None:
    assert word(report(OURS, group="RCVD", payment="ACTC", transaction="ACSC")) == PAID
    assert word(report(OURS, group="RCVD", payment="ACSC")) == PAID
    assert word(report(OURS, group="RJCT", payment="ACSP", reasons=["AC04"])) == ACCEPTED


@pytest.mark.parametrize("code", sorted(REFUSALS))
def test_a_listed_reason_refuses_the_payout_at_each_level(code: str) -> None:
    for level in ("group", "payment", "transaction"):
        file = report(OURS, **{level: "RJCT"}, reasons=[code.upper()])
        assert word(file) == Found(Word.REFUSED, code)


@pytest.mark.parametrize("code", ["AM05", "DUPL", "DU01", "DU02", "DU03", "DU04", "AM04", "MS03", "NARR"])
def test_a_duplicate_or_another_reason_never_refuses(code: str) -> None:
    assert code.lower() not in REFUSALS
    for files in (
        [refused(code)],
        [refused("AC04", code)],
        [refused("AC04"), refused(code)],
        [refused(code), refused("AC04", created=LATER)],
    ):
        assert word(*files) == Found(Word.REFUSED, code.lower())


def test_a_rejection_without_an_iso_reason_never_refuses() -> None:
    assert word(refused()) == Found(Word.REFUSED, "none")
    assert word(refused("AC04", own=["X17"])) == Found(Word.REFUSED, "proprietary")
    assert word(refused("AC04"), refused()) == Found(Word.REFUSED, "none")
    assert not {"none", "proprietary"} & REFUSALS


@pytest.mark.parametrize("settled", ["ACSC", "ACCC"])
def test_a_rejection_beside_a_settlement_is_unknown(settled: str) -> None:
    files = [refused("AC04"), report(OURS, transaction=settled), report(OURS, transaction="ACSP")]

    for order in permutations(files):
        assert word(*order) == Unknown("the bank's reports contradict each other: settled, and rejected")
    assert isinstance(word(refused("AC04", group=settled)), Unknown)
    assert isinstance(word(report(OURS, group="RJCT", transaction=settled)), Unknown)


def test_a_rejection_refuses_only_if_nothing_later_accepts() -> None:
    early, late = (report(OURS, transaction="ACSP", created=at) for at in (EARLIER, LATER))

    assert word(refused("AC04"), early) == word(early, refused("AC04")) == Found(Word.REFUSED, "ac04")
    assert isinstance(word(late, refused("AC04")), Unknown)


@pytest.mark.parametrize(
    ("rejected_at", "is_last"),
    [
        ("2026-11-30T09:30:00+02:00", False),
        ("2026-11-30T08:30:00-01:00", True),
        ("2026-11-30T07:30:00", False),
        ("2026-11-30T09:00:00", True),
    ],
)
def test_reports_are_ordered_by_instant_with_utc_as_default_zone(rejected_at: str, *, is_last: bool) -> None:
    accepted = report(OURS, transaction="ACSP", created="2026-11-30T08:00:00Z")

    found = word(refused("AC04", created=rejected_at), accepted)

    assert isinstance(found, Found) == is_last


def test_another_status_is_unknown_and_named() -> None:
    for code in ("CANC", "PART", "ACXX"):
        assert word(report(OURS, group=code)) == Unknown(f"the bank reports {code}, which decides nothing")
        assert isinstance(word(refused("AC04"), report(OURS, group=code)), Unknown)


@pytest.mark.parametrize(
    ("file", "told"),
    [
        (report(OTHER, group="ACSC"), "OrgnlGrpInfAndSts/OrgnlMsgId is not the payout's reference"),
        (report(OURS.lower(), group="ACSC"), "OrgnlGrpInfAndSts/OrgnlMsgId is not the payout's reference"),
        (report(OURS, transaction="RJCT", end_to_end=OTHER), "TxInfAndSts/OrgnlEndToEndId is not"),
        (report(OURS, transaction="RJCT", end_to_end=""), "TxInfAndSts/OrgnlEndToEndId is not"),
        (report(OURS), "it has no status"),
        (report(OURS, group="paid"), "OrgnlGrpInfAndSts/GrpSts is no code of ISO 20022"),
        (refused("AC04\x85"), "TxInfAndSts/StsRsnInf/Rsn/Cd is no code of ISO 20022"),
        (refused("AC&#10;4"), "TxInfAndSts/StsRsnInf/Rsn/Cd is no code of ISO 20022"),
        (refused("AC04\x1b"), "must be well-formed XML"),
        (refused("<b>AC04</b>"), "TxInfAndSts/StsRsnInf/Rsn/Cd must have text only"),
        (refused(created="yesterday"), "GrpHdr/CreDtTm is no time of ISO 8601"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_report_of_another_payout_or_invalid_code_is_unreadable(file: bytes, told: str) -> None:
    with pytest.raises(UnreadableReport, match=told):
        read(file, OURS)


def replaced(old: str, new: str, file: bytes = refused("AC04")) -> bytes:
    assert file.count(old.encode()) == 1
    return file.replace(old.encode(), new.encode())


@pytest.mark.parametrize(
    ("file", "told"),
    [
        (b"", "line 1: must be well-formed XML: no element found"),
        (refused("AC04")[:-9], "must be well-formed XML"),
        (refused("AC04") + b"<a/>", "must be well-formed XML: junk after document element"),
        (replaced("<Document", '<!DOCTYPE a [<!ENTITY b "bb">]><Document'), "must have no DOCTYPE"),
        (replaced("<Document", '<!DOCTYPE a SYSTEM "http://a/b"><Document'), "must have no DOCTYPE"),
        (replaced("MD07", "&b;", refused("MD07")), "must be well-formed XML: undefined entity"),
        (replaced('"UTF-8"', '"UTF-7"'), "its encoding must be UTF-8 or ISO-8859-1"),
        (report(OURS, group="RJCT", version="02"), "must be Document of pain.002"),
        (report(OURS, group="RJCT", version="15"), "must be Document of pain.002"),
        (replaced("pain.002", "pacs.002"), "must be Document of pain.002"),
        (b"<html/>", "must be Document of pain.002"),
        (replaced(NAMESPACE, "a" * 257), "a namespace must have at most 256 characters"),
        (replaced("<MsgId>", "<a>" * 62 + "</a>" * 62 + "<MsgId>"), "nested at most 64 levels"),
        (replaced("</TxSts>", "</TxSts><TxSts>RJCT</TxSts>"), "TxInfAndSts/TxSts must appear once"),
        (replaced("</OrgnlPmtInfAndSts>", "<TxInfAndSts/></OrgnlPmtInfAndSts>"), "TxInfAndSts must appear"),
        (replaced("</CstmrPmtStsRpt>", "<OrgnlPmtInfAndSts/></CstmrPmtStsRpt>"), "AndSts must appear once"),
        (replaced("<OrgnlGrpInfAndSts>", '<OrgnlGrpInfAndSts xmlns="a">'), "OrgnlMsgId is not"),
        (replaced("<CstmrPmtStsRpt>", "<A><CstmrPmtStsRpt>").replace(b"</Doc", b"</A></Doc"), "OrgnlMsgId"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_malformed_report_is_unreadable(file: bytes, told: str) -> None:
    with pytest.raises(UnreadableReport, match=told):
        read(file, OURS)


def test_elements_as_deep_as_allowed_are_read() -> None:
    assert read(replaced("<MsgId>", "<a>" * 61 + "</a>" * 61 + "<MsgId>"), OURS).codes == ("RJCT",)


@given(st.data())
def test_a_damaged_report_raises_only_unreadable_report(data: st.DataObject) -> None:
    file = data.draw(st.sampled_from([refused("AC04"), report(OURS, group="ACSC", version="03")]))
    start = data.draw(st.integers(0, len(file)))
    end = data.draw(st.integers(start, min(len(file), start + 20)))
    with suppress(UnreadableReport):
        word(file[:start] + data.draw(st.binary(max_size=8)) + file[end:])


SHAPES: list[dict[str, Any]] = [
    {"group": "RJCT", "reasons": ["AC04"]},
    {"group": "ACCP", "payment": "RJCT", "reasons": ["AC01", "AM05"]},
    {"group": "PART", "payment": "PART", "transaction": "RJCT", "reasons": ["MD07"], "own": ["X"]},
    {"group": "ACTC", "transaction": "ACSC"},
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_an_independent_reader_finds_the_same_statuses_and_reasons(shape: dict[str, Any]) -> None:
    file = report(OURS, **shape)
    from python_iso20022.pain.pain_002_001_14.models import Pain00200114  # noqa: PLC0415 (it takes seconds)

    found: Any = XmlParser(config=STRICT).from_bytes(file, Pain00200114).cstmr_pmt_sts_rpt
    group = found.orgnl_grp_inf_and_sts
    payments = found.orgnl_pmt_inf_and_sts
    transactions = [one for payment in payments for one in payment.tx_inf_and_sts]
    levels = [*((one, one.tx_sts) for one in transactions), *((one, one.pmt_inf_sts) for one in payments)]
    levels.append((group, group.grp_sts))
    reasons = {told.rsn.cd.lower() for one, _ in levels for told in one.sts_rsn_inf if told.rsn.cd}
    ours = read(file, group.orgnl_msg_id)

    assert ours.codes == tuple(code.strip() for _, code in levels if code)
    assert ours.reasons - {"none", "proprietary"} == reasons
