import json
import re
from dataclasses import replace
from typing import Any

import pytest

from settlement.payruns.file import (
    LINES_MAX,
    DamagedFile,
    Line,
    RunFile,
    digest_of,
    key_of,
    minor_units,
    parse,
    problem_of,
    request_of,
    run_of,
)
from tests.unit.payruns.rows import FILE, HEADER, LINES, SUMS, payout_file
from tests.unit.vectors import CONFIG

RUN = run_of(digest_of(FILE.content))
FIRST, LINE, *_ = FILE.content.splitlines(keepends=True)


def written(*objects: Any) -> bytes:
    return b"".join(
        json.dumps(one, sort_keys=True, separators=(",", ":")).encode() + b"\n" for one in objects
    )


def with_header(**changed: Any) -> bytes:
    return written(json.loads(FIRST) | changed, json.loads(LINE))


def with_line(**changed: Any) -> bytes:
    return written(json.loads(FIRST), json.loads(LINE) | changed)


@pytest.mark.parametrize(
    "file",
    [FILE, payout_file(), RunFile(replace(HEADER, parent="ab" * 16, payer_name="Ü\u2028\n\r"), LINES)],
    ids=lambda file: file.header.kind,
)
def test_a_rendered_file_parses_to_itself(file: RunFile) -> None:
    assert parse(file.content, digest_of(file.content)) == RunFile(file.header, [*file.lines])


def test_a_files_bytes_follow_from_its_lines_alone() -> None:
    assert (
        FIRST == b'{"kind":"payments","name":"sellers-2026-11","payer":"market","payer_name":"Market Ltd"}\n'
    )
    assert digest_of(FILE.content).startswith(RUN)
    assert digest_of(replace(FILE, lines=LINES[:2]).content) != digest_of(FILE.content)
    assert key_of(RUN, 7) == f"payrun-{RUN}-000007"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "it is no run's file"),
        (b"\n", "it is no run's file"),
        (FIRST, f"it must have 1 to {LINES_MAX} lines"),
        (FIRST + b"[]\n", "a line is no JSON object"),
        (FIRST + b"{}\n", "it is no run's file"),
        (FIRST + b'{"number":1,"number":2}\n', "each field once"),
        (FIRST + LINE[:-1], "it is not written as a run's file"),
        (FIRST + LINE.replace(b":", b": "), "it is not written as a run's file"),
        (FIRST + LINE.replace(b"\n", b"\r\n"), "it is not written as a run's file"),
        (b"\xef\xbb\xbf" + FIRST + LINE, "byte order mark"),
        (FIRST + b"\xff" + LINE, "UTF-8"),
        (FIRST + b"[" * 9_999 + b"]" * 9_999 + b"\n", "nested"),
        (with_header(kind="gifts"), "gifts"),
        (with_header(kind=["payments"]), "payments"),
        (with_header(more=1), "more"),
        (with_header(name="a b"), "its name must match"),
        (with_header(name=7), "its name must match"),
        (with_header(payer="a:b"), "its payer is no account"),
        (with_header(payer=None), "its payer is no account"),
        (with_header(parent="ab"), "its parent is no run"),
        (with_header(parent=7), "its parent is no run"),
        (with_line(number=0), "from 1 to 999999"),
        (with_line(number=1_000_000), "from 1 to 999999"),
        (with_line(number=True), "from 1 to 999999"),
        (with_line(number="2"), "from 1 to 999999"),
        (with_line(number=2.0), "from 1 to 999999"),
        *(
            (with_line(**{name: value}), "must be texts")
            for name in ("payee", "payee_name", "amount", "currency", "reference")
            for value in (7, ["x"])
        ),
        (with_header(payer_name=7), "must be texts"),
        (with_header(repeats=7), "it is no run's file"),
        *(
            (with_header(repeats=[value]), "its repeats must be numbers of its lines")
            for value in (9, "2", 2.0, True, [2])
        ),
        (with_header(repeats=[]), "it is not written as a run's file"),
        (with_line(reference=None), "it is not written as a run's file"),
        (FIRST + LINE + LINE, "each number once"),
        (RunFile(HEADER, LINES[::-1]).content, "in order"),
    ],
    ids=lambda value: ascii(value)[:70],
)
def test_each_damage_of_a_file_is_named(content: bytes, told: str) -> None:
    with pytest.raises(DamagedFile, match=re.escape(told)):
        parse(content, digest_of(content))


def test_a_file_with_other_bytes_than_approved_is_damaged() -> None:
    with pytest.raises(DamagedFile, match="not those that were approved"):
        parse(FILE.content + LINE, digest_of(FILE.content))


def test_a_file_has_no_more_lines_than_its_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("settlement.payruns.file.LINES_MAX", 2)

    with pytest.raises(DamagedFile, match="1 to 2 lines"):
        parse(FILE.content, digest_of(FILE.content))


def test_sums_are_by_currency_in_minor_units() -> None:
    assert FILE.sums(CONFIG) == SUMS


@pytest.mark.parametrize(
    "changed",
    [{"amount": "1.001"}, {"amount": "-1"}, {"amount": 1}, {"amount": None}, {"currency": "XXX"}],
    ids=str,
)
def test_a_line_with_invalid_amount_or_currency_is_damaged(changed: dict[str, Any]) -> None:
    line = replace(LINES[0], **changed)
    with pytest.raises(DamagedFile, match="line 2: its amount or currency"):
        RunFile(HEADER, [line]).sums(CONFIG)
    with pytest.raises(DamagedFile):
        minor_units(line, CONFIG)


def test_a_line_whose_currency_is_a_list_is_damaged() -> None:
    with pytest.raises(DamagedFile):
        RunFile(HEADER, [replace(LINES[0], currency=["EUR"])]).sums(CONFIG)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("file", "line", "request_"),
    [
        (
            FILE,
            LINES[0],
            {
                "payer": "market",
                "payee": "bob",
                "payer_name": "Market Ltd",
                "payee_name": "Bob",
                "reference": "November",
            },
        ),
        (FILE, LINES[1], {"payer": "market", "payee": "carol", "payer_name": "Market Ltd"}),
        (payout_file(), LINES[0], {"account": "market", "destination": "bob"}),
    ],
    ids=["named payment", "payment", "payout"],
)
def test_a_lines_request_is_as_a_caller_would_send_it(
    file: RunFile, line: Line, request_: dict[str, str]
) -> None:
    told = {"key": f"payrun-{RUN}-{line.number:06}", "amount": line.amount, "currency": "EUR"}

    assert request_of(RUN, file.header, line) == told | request_
    assert problem_of(RUN, file.header, line, CONFIG) is None


@pytest.mark.parametrize("file", [FILE, payout_file()], ids=["payment", "payout"])
@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"amount": "0"}, "amount: must be "),
        ({"amount": 7}, "amount"),
        ({"currency": "XXX"}, "currency: must be one of"),
        ({"payee": "\u00e9 "}, "must be a string that matches"),
        ({"payee": 7}, "must be a string that matches"),
    ],
    ids=str,
)
def test_a_line_that_the_stage_would_refuse_is_named(
    file: RunFile, changed: dict[str, Any], told: str
) -> None:
    assert told in str(problem_of(RUN, file.header, replace(LINES[0], **changed), CONFIG))


def test_a_missing_payee_name_that_the_stage_requires_is_reported() -> None:
    demanding = replace(CONFIG, party_names="required")

    assert problem_of(RUN, HEADER, LINES[0], demanding) is None
    assert problem_of(RUN, HEADER, LINES[1], demanding) == "payee_name: missing"
