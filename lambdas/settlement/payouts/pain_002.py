"""A bank's report on one payout: pain.002 of ISO 20022, versions 001.03 to 001.14.

No text of a report is shown, except codes of ISO's form.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NoReturn
from xml.parsers import expat

from settlement.payouts.payout import Word
from settlement.payouts.port import Found, Unknown

REFUSALS = frozenset({"ac01", "ac03", "ac04", "ac06", "ag01", "md07", "rc01"})
"""Final refusals: an account, its holder or its bank cannot be paid.

Not a duplicate (AM05, DUPL): the first delivery may be paid. Not a lack of money (AM04): banks try again.
"""

_REJECTED = "RJCT"
_SETTLED = {"ACSC", "ACCC"}
"""Settlement on the debtor's, or the creditor's, account has been completed."""

_ACCEPTED = {"ACCP", "ACTC", "ACWC", "ACSP", "PDNG", "RCVD"}
_NO_REASON, _PROPRIETARY = "none", "proprietary"

_REPORT = "/Document/CstmrPmtStsRpt"
_GROUP = f"{_REPORT}/OrgnlGrpInfAndSts"
_PAYMENT = f"{_REPORT}/OrgnlPmtInfAndSts"
_TRANSACTION = f"{_PAYMENT}/TxInfAndSts"
_LEVELS = {_TRANSACTION: "TxSts", _PAYMENT: "PmtInfSts", _GROUP: "GrpSts"}
"""Each level's status, the most specific first."""

_STATUSES = [f"{level}/{status}" for level, status in _LEVELS.items()]
_CODES = [f"{level}/StsRsnInf/Rsn/Cd" for level in _LEVELS]
_OWN_CODES = [f"{level}/StsRsnInf/Rsn/Prtry" for level in _LEVELS]
_CREATED = f"{_REPORT}/GrpHdr/CreDtTm"
_MESSAGE, _END_TO_END = f"{_GROUP}/OrgnlMsgId", f"{_TRANSACTION}/OrgnlEndToEndId"

_TEXTS = {_CREATED, _MESSAGE, _END_TO_END, *_STATUSES, *_CODES, *_OWN_CODES}
_ONCE = {_CREATED, _MESSAGE, _END_TO_END, *_STATUSES, *_LEVELS}
"""Elements that appear at most once: a file has one payout."""

_KNOWN = {path[:end] for path in _TEXTS for end in range(1, len(path) + 1) if path[end:][:1] in ("", "/")}
_SKIPPED, _BLANKS = "-", " \t\r\n"

_NAMESPACE = re.compile(r"urn:iso:std:iso:20022:tech:xsd:pain\.002\.001\.(0[3-9]|1[0-4])", re.ASCII)
_STATUS = re.compile(r"[A-Z]{4}", re.ASCII)
_REASON = re.compile(r"[A-Z][A-Z0-9]{3}", re.ASCII)
_ENCODINGS = {"utf-8", "us-ascii", "iso-8859-1"}
_DEPTH_MAX, _NAMESPACE_MAX = 64, 256


class UnreadableReport(ValueError):
    """The file cannot be read as a report on this payout alone."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """A report's content.

    `codes`: the statuses, the most specific first. `reasons`: of all levels, in small letters.
    """

    created: datetime
    codes: tuple[str, ...]
    reasons: frozenset[str]

    @property
    def is_rejection(self) -> bool:
        return self.codes[0] == _REJECTED


def read(content: bytes, reference: str) -> Report:
    """Read a report, whose size the caller bounds. Raises UnreadableReport."""
    told = _Reader().read(content)
    for path in (_MESSAGE, *((_END_TO_END,) if _TRANSACTION in told else ())):
        if told.get(path) != [reference]:
            raise UnreadableReport(f"{_name(path)} is not the payout's reference")
    codes = tuple(_code(path, told[path][0], _STATUS) for path in _STATUSES if path in told)
    if not codes:
        raise UnreadableReport("it has no status")
    reasons = {_code(path, text, _REASON).lower() for path in _CODES for text in told.get(path, ())}
    if any(path in told for path in _OWN_CODES):
        reasons.add(_PROPRIETARY)
    return Report(
        created=_time(told.get(_CREATED, [""])[0]),
        codes=codes,
        reasons=frozenset(reasons or {_NO_REASON}),
    )


def heard(reports: Collection[Report]) -> Found | Unknown:
    """Derive the bank's word from all reports on a payout. Without reports, the payout is accepted."""
    for report in reports:
        if report.codes[0] not in {_REJECTED, *_SETTLED, *_ACCEPTED}:
            return Unknown(f"the bank reports {report.codes[0]}, which decides nothing")
    every = {code for report in reports for code in report.codes}
    is_settled = not _SETTLED.isdisjoint(every)
    if is_settled and _REJECTED in every:
        return Unknown("the bank's reports contradict each other: settled, and rejected")
    rejections = [report for report in reports if report.is_rejection]
    if rejections:
        return _rejected(reports, rejections)
    return Found(Word.PAID if is_settled else Word.ACCEPTED)


def _rejected(reports: Collection[Report], rejections: list[Report]) -> Found | Unknown:
    """Return the refusal, with an undeclared reason, if any: then no money moves."""
    last = max(report.created for report in rejections)
    if any(report.created > last for report in reports):
        return Unknown("the bank's reports contradict each other: rejected, and later accepted")
    reasons = frozenset[str]().union(*(report.reasons for report in rejections))
    return Found(Word.REFUSED, min(reasons - REFUSALS or reasons))


def _code(path: str, text: str, form: re.Pattern[str]) -> str:
    if form.fullmatch(text) is None:
        raise UnreadableReport(f"{_name(path)} is no code of ISO 20022")
    return text


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise UnreadableReport(f"{_name(_CREATED)} is no time of ISO 8601") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _name(path: str) -> str:
    return path.removeprefix(f"{_REPORT}/")


class _Reader:
    """Reads with expat. A DTD is refused, so no entity is expanded and nothing is fetched."""

    def __init__(self) -> None:
        self._parser = parser = expat.ParserCreate(None, " ")
        parser.buffer_text = True
        parser.XmlDeclHandler = self._declaration
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartNamespaceDeclHandler = self._prefix
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        self._namespace = ""
        self._paths: list[str] = []
        self._told: dict[str, list[str]] = {}

    def read(self, content: bytes) -> dict[str, list[str]]:
        """Return the texts of the wanted elements, by path. Raises UnreadableReport."""
        try:
            self._parser.Parse(content, True)
        except expat.ExpatError as error:
            raise UnreadableReport(
                f"line {error.lineno}: must be well-formed XML: {expat.ErrorString(error.code)}"
            ) from None
        return {path: [text.strip(_BLANKS) for text in texts] for path, texts in self._told.items()}

    def _declaration(self, _version: str, encoding: str | None, _standalone: int) -> None:
        if encoding is not None and encoding.lower() not in _ENCODINGS:
            self._refuse("its encoding must be UTF-8 or ISO-8859-1")

    def _doctype(self, *_: object) -> None:
        self._refuse("a report must have no DOCTYPE")

    def _prefix(self, _prefix: str | None, uri: str | None) -> None:
        """Refuse a long namespace, which expat would repeat in each name."""
        if len(uri or "") > _NAMESPACE_MAX:
            self._refuse(f"a namespace must have at most {_NAMESPACE_MAX} characters")

    def _start(self, name: str, _attributes: object) -> None:
        namespace, _, local = name.rpartition(" ")
        if not self._paths:
            if local != "Document" or _NAMESPACE.fullmatch(namespace) is None:
                self._refuse("must be Document of pain.002.001.NN, NN from 03 to 14")
            self._namespace = namespace
        parent = self._paths[-1] if self._paths else ""
        if parent in _TEXTS:
            self._refuse(f"{_name(parent)} must have text only")
        if len(self._paths) == _DEPTH_MAX:
            self._refuse(f"elements must be nested at most {_DEPTH_MAX} levels deep")
        path = f"{parent}/{local}"
        if namespace != self._namespace or path not in _KNOWN:
            path = _SKIPPED
        self._paths.append(path)
        if path in _ONCE and path in self._told:
            self._refuse(f"{_name(path)} must appear once")
        if path in _ONCE or path in _TEXTS:
            self._told.setdefault(path, []).append("")

    def _end(self, _element: str) -> None:
        self._paths.pop()

    def _characters(self, text: str) -> None:
        if self._paths[-1] in _TEXTS:
            self._told[self._paths[-1]][-1] += text

    def _refuse(self, what: str) -> NoReturn:
        raise UnreadableReport(f"line {self._parser.CurrentLineNumber}: {what}")
