"""A run's file: its header and lines, one JSON object a line, named by the SHA-256 of its bytes.

Equal lines give an equal file, from any spreadsheet. Each line's idempotency key follows from the file and
the line's number, so a file never pays twice.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from settlement.core.model import money, strict_json
from settlement.core.model.errors import InvalidRequest
from settlement.core.model.request import ACCOUNT, parse_request
from settlement.core.model.stage_config import StageConfig
from settlement.payouts.reservation import parse_payout

LINES_MAX = 100_000
NUMBER_MAX = 999_999
"""Highest line number. Numbers are the spreadsheet's, and lines may be left out."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
"""A run's name, such as `sellers-2026-11`. It is in the file, so another name makes another run."""

RUN = re.compile(r"[0-9a-f]{32}", re.ASCII)
DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)

_DIGITS = 32
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


class Kind(StrEnum):
    PAYMENTS = "payments"
    PAYOUTS = "payouts"


class DamagedFile(ValueError):
    """A malformed file, or not the expected one."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """A file's header. `parent`: the earlier run whose refused lines this file mends.

    `repeats`: numbers of lines that are paid although they equal another line, of this or an
    earlier run.
    """

    name: str
    kind: Kind
    payer: str
    payer_name: str | None = None
    parent: str | None = None
    repeats: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line to pay. `payee` is an account, or a payout's destination. `amount` is decimal text."""

    number: int
    payee: str
    amount: str
    currency: str
    payee_name: str | None = None
    reference: str | None = None


@dataclass(frozen=True)
class RunFile:
    header: Header
    lines: Sequence[Line]

    @property
    def content(self) -> bytes:
        return b"".join(rendered(self.header, self.lines))

    def sums(self, config: StageConfig) -> dict[str, int]:
        """The sum of each currency, in minor units. Raises DamagedFile."""
        found: dict[str, int] = {}
        for line in self.lines:
            minor = minor_units(line, config)
            found[line.currency] = found.get(line.currency, 0) + minor
        return found


def rendered(header: Header, lines: Iterable[Line]) -> Iterator[bytes]:
    ones: tuple[Header | Line, ...] = (header, *lines)
    for one in ones:
        told = {name: value for name, value in asdict(one).items() if value not in (None, ())}
        yield f"{_ENCODER.encode(told)}\n".encode()


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def run_of(digest: str) -> str:
    """The run's id: the first 128 bits of its file's digest."""
    return digest[:_DIGITS]


def key_of(run: str, number: int) -> str:
    return f"payrun-{run}-{number:06}"


def parse(content: bytes, digest: str) -> RunFile:
    """Parse a file. Raises DamagedFile if it is malformed or has another digest."""
    if digest_of(content) != digest:
        raise DamagedFile("its bytes are not those that were approved")
    first, *rest = content.splitlines(keepends=True) or [b""]
    try:
        told = _object(first)
        told |= {"kind": Kind(told["kind"]), "repeats": tuple(told.get("repeats", ()))}
        found = RunFile(Header(**told), [Line(**_object(one)) for one in rest])
    except (KeyError, TypeError, ValueError) as wrong:
        raise DamagedFile(f"it is no run's file: {wrong}") from None
    if problem := next(_problems(found), None):
        raise DamagedFile(problem)
    if found.content != content:
        raise DamagedFile("it is not written as a run's file")
    return found


def _object(line: bytes) -> dict[str, Any]:
    found = strict_json.parse(line)
    if not isinstance(found, dict):
        raise DamagedFile("a line is no JSON object")
    return found


def _problems(file: RunFile) -> Iterator[str]:
    header, numbers = file.header, [line.number for line in file.lines]
    ones: tuple[Header | Line, ...] = (header, *file.lines)
    known = {number for number in numbers if type(number) is int}
    if not all(_is_text(one, name) for one in ones for name in _TEXTS):
        yield "its names, ids, amounts and references must be texts"
        return
    if not all(type(number) is int and number in known for number in header.repeats):
        yield "its repeats must be numbers of its lines"
    if not (isinstance(header.name, str) and NAME.fullmatch(header.name)):
        yield f"its name must match ^{NAME.pattern}$"
    if not (isinstance(header.payer, str) and ACCOUNT.fullmatch(header.payer)):
        yield "its payer is no account"
    if header.parent is not None and not (isinstance(header.parent, str) and RUN.fullmatch(header.parent)):
        yield "its parent is no run"
    if not 1 <= len(numbers) <= LINES_MAX:
        yield f"it must have 1 to {LINES_MAX} lines"
    if not all(type(number) is int and 1 <= number <= NUMBER_MAX for number in numbers):
        yield f"a line's number must be from 1 to {NUMBER_MAX}"
    elif numbers != sorted(set(numbers)):
        yield "its lines must be in order, each number once"


_TEXTS = ("payer", "payer_name", "payee", "payee_name", "amount", "currency", "reference")


def _is_text(one: Header | Line, name: str) -> bool:
    return isinstance(getattr(one, name, None), str | None)


def minor_units(line: Line, config: StageConfig) -> int:
    """A line's amount. Raises DamagedFile."""
    try:
        return money.parse(line.amount, config.currencies[line.currency])
    except (KeyError, ValueError, TypeError):
        raise DamagedFile(f"line {line.number}: its amount or currency is none of this stage") from None


def request_of(run: str, header: Header, line: Line) -> dict[str, Any]:
    """The request that pays a line, as a caller would send it."""
    told: Mapping[str, Any] = {
        "key": key_of(run, line.number),
        "amount": line.amount,
        "currency": line.currency,
    }
    if header.kind is Kind.PAYOUTS:
        return {**told, "account": header.payer, "destination": line.payee}
    optional = {
        "payer_name": header.payer_name,
        "payee_name": line.payee_name,
        "reference": line.reference,
    }
    parties = {"payer": header.payer, "payee": line.payee}
    return {**told, **parties, **{name: text for name, text in optional.items() if text is not None}}


def problem_of(run: str, header: Header, line: Line, config: StageConfig) -> str | None:
    """The stage's reason to refuse a line, before accounts are read; None if there is none."""
    request = request_of(run, header, line)
    try:
        if header.kind is Kind.PAYOUTS:
            parse_payout(request, config)
        elif problems := parse_request(request, config).claim_problems(config):
            return "; ".join(problems)
    except InvalidRequest as refused:
        return str(refused)
    return None
