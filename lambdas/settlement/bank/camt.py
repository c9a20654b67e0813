"""Statements of ISO 20022: camt.053 (end of day) and camt.054 (notification), versions 001.02 to 001.13.

Read in one pass with flat memory, in the schema's order: the account before the entries; an entry's amount,
status and days before its details.

Status: required of each entry, also by the schema of camt.054. Only BOOK is a booking; PDNG and INFO are left
out.

Reversals: CdtDbtInd is the effect on the account, even with RvslInd (ISO: a CRDT reverses a debit).
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, NoReturn
from xml.parsers import expat

from settlement.bank import fields
from settlement.bank.camt_element import Element, Value
from settlement.bank.camt_statement import Book
from settlement.bank.fields import refuse, shown
from settlement.bank.statement import Line, Statement

_CHUNK = 65_536
_TAG_MAX = 4 * _CHUNK
"""Maximum bytes that expat holds of an unfinished tag, comment or instruction."""
_DEPTH_MAX = 64
_TEXT_MAX = 10_000
_NAMES_MAX = 10_000
"""Maximum different names of elements, attributes and prefixes: expat keeps each to the end."""
_REPEATS_MAX = 1_000

_NAMESPACE = re.compile(r"urn:iso:std:iso:20022:tech:xsd:(camt\.05[34])\.001\.(0[2-9]|1[0-3])", re.ASCII)
_MESSAGES = {"camt.053": ("BkToCstmrStmt", "Stmt"), "camt.054": ("BkToCstmrDbtCdtNtfctn", "Ntfctn")}
_ENCODINGS = {
    *("utf-8", "utf-16", "utf-16le", "utf-16be", "us-ascii", "ascii"),
    *("iso-8859-1", "iso-8859-2", "iso-8859-15", "windows-1250", "windows-1252", "latin1", "cp1252"),
}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff", b"<\x00", b"\x00<")
_TRUNCATED = {
    expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS],
    expat.errors.codes[expat.errors.XML_ERROR_UNCLOSED_TOKEN],
    expat.errors.codes[expat.errors.XML_ERROR_PARTIAL_CHAR],
    expat.errors.codes[expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION],
}
_JUNK = expat.errors.codes[expat.errors.XML_ERROR_JUNK_AFTER_DOC_ELEMENT]

_REPEATED = {"RmtInf/Ustrd", "RmtInf/Strd/CdtrRefInf/Ref"}
_PAGE = ("PgNb", "LastPgInd")
_DATE = ("Dt", "DtTm")
_GROUP = ("CreDtTm", *(f"MsgPgntn/{one}" for one in _PAGE))
_STATEMENT = (
    *("Id", "ElctrncSeqNb", "LglSeqNb", "CreDtTm", "FrToDt/FrDtTm", "FrToDt/ToDtTm"),
    *("Acct/Id/IBAN", "Acct/Id/Othr/Id", "Acct/Ccy"),
    *(f"{kind}Pgntn/{one}" for kind in ("Stmt", "Ntfctn") for one in _PAGE),
)
_BALANCE = ("Tp/CdOrPrtry/Cd", "Amt", "CdtDbtInd", *(f"Dt/{one}" for one in _DATE))
_ENTRY = (
    *("NtryRef", "Amt", "CdtDbtInd", "RvslInd", "Sts", "Sts/Cd", "AcctSvcrRef"),
    *(f"{name}/{one}" for name in ("BookgDt", "ValDt") for one in _DATE),
)
_DETAILS = ("Btch/PmtInfId", "Btch/NbOfTxs")
_TRANSACTION = (
    *(f"Refs/{one}" for one in ("EndToEndId", "InstrId", "TxId", "PmtInfId", "ClrSysRef", "AcctSvcrRef")),
    *(
        "Amt",
        "AmtDtls/TxAmt/Amt",
        "AmtDtls/InstdAmt/Amt",
        "CdtDbtInd",
        "RmtInf/Ustrd",
        "RmtInf/Strd/CdtrRefInf/Ref",
    ),
    *("RtrInf", *(f"RtrInf/{reason}/{one}" for reason in ("Rsn", "RtrRsn") for one in ("Cd", "Prtry"))),
)


def read(file: BinaryIO, currencies: Mapping[str, int]) -> Iterator[Line | Statement]:
    """Yield lines, and each statement after its lines.

    `currencies` maps codes to decimals. It can raise UnreadableStatement, with line and element, after it has
    yielded lines: book nothing before the end of the file.
    """
    return _Reader(currencies).read(file)


@dataclass(slots=True)
class _Node:
    """A node in the tree of wanted elements. Paths below a node with `scope` begin at that node."""

    name: str
    wanted: bool = False
    scope: bool = False
    path: str = ""
    children: dict[str, "_Node"] = field(default_factory=dict)

    def add(self, path: str, *, scope: bool = False) -> "_Node":
        node = self
        for name in path.split("/"):
            inner = "" if node.scope else node.path
            node = node.children.setdefault(name, _Node(name, path=f"{inner}/{name}" if inner else name))
        node.wanted, node.scope = not scope, scope
        return node

    def qualify(self, namespace: str) -> None:
        """Rename the children to the full names that expat reports."""
        for child in self.children.values():
            child.qualify(namespace)
        self.children = {f"{namespace} {name}": child for name, child in self.children.items()}


def _wanted(message: str, statement: str) -> _Node:
    top = _Node("", scope=True)
    body = top.add(message, scope=True)
    scopes = {"GrpHdr": _GROUP, statement: _STATEMENT}
    inner = {"Bal": _BALANCE, "Ntry": _ENTRY, "Ntry/NtryDtls": _DETAILS, "Ntry/NtryDtls/TxDtls": _TRANSACTION}
    scopes |= {f"{statement}/{path}": paths for path, paths in inner.items()}
    for scope, paths in scopes.items():
        node = body.add(scope, scope=True)
        for path in paths:
            node.add(path)
    return top


class _Reader:
    def __init__(self, currencies: Mapping[str, int]) -> None:
        self._book = Book(currencies)
        self._names: dict[str, str] = {}
        self._parser = parser = expat.ParserCreate(None, " ", self._names)
        parser.buffer_text = True
        parser.XmlDeclHandler = self._declaration
        parser.StartDoctypeDeclHandler = self._doctype
        parser.StartNamespaceDeclHandler = self._prefix
        parser.StartElementHandler = self._root
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        self._namespace = ""
        self._envelope = 0
        self._depth = 0
        self._skipped = 0
        self._text = ""
        self._node = _Node("")
        self._nodes: list[_Node] = []
        self._scopes: list[Element] = []
        self._starts: dict[str, Callable[[Element], None]] = {}
        self._ends: dict[str, Callable[[Element], None]] = {}

    def read(self, file: BinaryIO) -> Iterator[Line | Statement]:
        chunk, fed = file.read(_CHUNK), 0
        _check_kind(chunk)
        utf_16 = chunk.startswith(_UTF_16)
        while chunk:
            if not utf_16 and b"\x00" in chunk:
                self._parse(chunk[: chunk.index(b"\x00")])
                yield from self._book.take()
                refuse(self._parser.CurrentLineNumber, "a NUL byte", "must be text without one")
            self._parse(chunk)
            fed += len(chunk)
            self._check_bounds(fed)
            yield from self._book.take()
            chunk = file.read(_CHUNK)
        self._parse(b"", final=True)
        yield from self._book.take()

    def _parse(self, chunk: bytes, *, final: bool = False) -> None:
        try:
            self._parser.Parse(chunk, final)
        except expat.ExpatError as error:
            if final and error.code in _TRUNCATED:
                refuse(error.lineno, self._where(), "the file ends within it: it is truncated")
            if error.code == _JUNK:
                refuse(
                    error.lineno,
                    "after </Document>",
                    "a file must have one root element and nothing behind it",
                )
            refuse(error.lineno, self._where(), f"must be well-formed XML: {expat.ErrorString(error.code)}")

    def _check_bounds(self, fed: int) -> None:
        if fed - self._parser.CurrentByteIndex > _TAG_MAX:
            self._refuse(self._where(), f"a tag, comment or instruction has over {_TAG_MAX} bytes")
        if len(self._names) > _NAMES_MAX:
            self._refuse(self._where(), f"the file has over {_NAMES_MAX} different names")

    def _declaration(self, _version: str, encoding: str | None, _standalone: int) -> None:
        if encoding is not None and encoding.lower() not in _ENCODINGS:
            self._refuse(
                "XML declaration",
                f"encoding {shown(encoding)} must be UTF-8, UTF-16, ISO-8859-1 or windows-1252",
            )

    def _doctype(self, *_: object) -> None:
        self._refuse("DOCTYPE", "a statement must have none: entities and external references are refused")

    def _prefix(self, prefix: str | None, _uri: str | None) -> None:
        self._names.setdefault(f"xmlns:{prefix}", "")

    def _root(self, name: str, _attributes: Mapping[str, str]) -> None:
        namespace, _, local = name.rpartition(" ")
        match = _NAMESPACE.fullmatch(namespace)
        if local != "Document":
            self._refuse(f"root {shown(local)}", "must be Document of camt.053 or camt.054")
        if match is None:
            self._refuse("Document", _why_no_namespace(namespace))
        self._namespace = f"{namespace} "
        message, statement = _MESSAGES[match[1]]
        self._node = _wanted(message, statement)
        self._node.qualify(namespace)
        self._book.expect(message, statement)
        self._starts = {
            statement: self._book.start_statement,
            "Ntry": self._book.start_entry,
            "NtryDtls": self._book.start_details,
            "TxDtls": self._book.start_transaction,
        }
        self._ends = {
            "": self._book.end_document,
            "GrpHdr": self._book.end_group,
            statement: self._book.end_statement,
            "Bal": self._book.end_balance,
            "Ntry": self._book.end_entry,
            "NtryDtls": self._book.end_details,
            "TxDtls": self._book.end_transaction,
        }
        self._scopes.append(Element("Document", self._parser.CurrentLineNumber))
        self._depth = 1
        self._parser.StartElementHandler = self._start

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        self._depth += 1
        self._text = ""
        if self._depth > _DEPTH_MAX:
            self._refuse(self._where(), f"elements must be nested at most {_DEPTH_MAX} levels deep")
        if attributes and sum(map(len, attributes.values())) > _TEXT_MAX:
            self._refuse(self._where(), f"attributes must have at most {_TEXT_MAX} characters")
        child = None if self._skipped else self._node.children.get(name)
        if child is None:
            if self._node.wanted and not self._node.children and not self._skipped:
                self._refuse(self._where(), "must have text only, and has an element")
            self._skip(name)
            return
        self._nodes.append(self._node)
        self._node = child
        if child.scope:
            scope = Element(child.name, self._parser.CurrentLineNumber, self._scopes[-1])
            self._scopes.append(scope)
            if child.name in self._starts:
                self._starts[child.name](scope)
        elif child.wanted:
            self._value(child, attributes.get("Ccy", ""))

    def _value(self, node: _Node, currency: str) -> None:
        scope = self._scopes[-1]
        values = scope.values.setdefault(node.path, [])
        most = _REPEATS_MAX if node.path in _REPEATED else 1
        if len(values) >= most:
            self._refuse(
                f"{scope.where}/{node.path}",
                f"must appear at most {most:,} times" if most > 1 else "must appear once",
            )
        values.append(Value("", currency, self._parser.CurrentLineNumber))

    def _skip(self, name: str) -> None:
        self._skipped += 1
        if not self._envelope and not name.startswith(self._namespace):
            self._refuse(self._where(), f"element {shown(name)} must be of the namespace of Document")
        if not self._envelope and name == f"{self._namespace}Envlp":
            self._envelope = self._depth

    def _end(self, _name: str) -> None:
        text, self._text = self._text, ""
        if self._depth == self._envelope:
            self._envelope = 0
        self._depth -= 1
        if self._skipped:
            self._skipped -= 1
            return
        node = self._node
        if node.scope:
            scope = self._scopes.pop()
            if node.name in self._ends:
                self._ends[node.name](scope)
        elif node.wanted:
            self._scopes[-1].values[node.path][-1].text = text.strip()
        self._node = self._nodes.pop() if self._nodes else _Node("")

    def _characters(self, text: str) -> None:
        self._text += text
        if len(self._text) > _TEXT_MAX:
            self._refuse(self._where(), f"text must have at most {_TEXT_MAX:,} characters")

    def _where(self) -> str:
        if not self._scopes:
            return "Document"
        return self._scopes[-1].where + ("" if self._node.scope else f"/{self._node.path}")

    def _refuse(self, where: str, what: str) -> NoReturn:
        refuse(self._parser.CurrentLineNumber, where, what)


def _check_kind(head: bytes) -> None:
    if not head.strip():
        refuse(1, "start of the file", "it is empty, and must be XML")
    if head.startswith(_UTF_16):
        return
    kind = fields.kind(head)
    if kind != "XML":
        refuse(1, "start of the file", f"it is {kind}; must be XML of ISO 20022")


def _why_no_namespace(namespace: str) -> str:
    expected = "must be urn:iso:std:iso:20022:tech:xsd:camt.053.001.NN or camt.054, NN from 02 to 13"
    if ":camt.052." in namespace:
        return "is camt.052, a report within the day that is not final; must be camt.053 or camt.054"
    if not namespace:
        return f"has no namespace; {expected}"
    return f"namespace {shown(namespace[-40:])} {expected}"
