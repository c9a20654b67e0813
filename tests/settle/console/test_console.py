import csv
import io
import re
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError, NoCredentialsError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from settle.console import pages
from settle.reports import queue, report
from settle.reports.page import render
from settle.reports.page.render import Frame
from settlement.core.model.timestamps import timestamp
from tests.settle.bank.recording import on_record
from tests.settle.conftest import raising
from tests.settle.desk import Desk
from tests.settle.reports.test_report import HOSTILE, attacked, local, misnamed, parsed, texts
from tests.settle.reports.test_report_queue import CloudWatch, cells
from tests.settle.visitor import Visitor
from tests.world.bank_files import line
from tests.world.constants import KEY
from tests.world.environment import NOW
from tests.world.step_functions import client_error

OURS = re.compile(r"/(search|bank|(settlements|accounts)/[\w.~/%-]*(\?live=0)?)?", re.ASCII)
FLYING, SETTLED = "order-flying-0001", "order-settled-0001"


@pytest.fixture(autouse=True)
def cloudwatch(desk: Desk) -> None:
    desk.stack.clients["cloudwatch"] = CloudWatch()


@pytest.fixture
def visitor(desk: Desk) -> Visitor:
    return Visitor(desk).enter()


def links(page: str) -> set[str]:
    return {one.get("href") or "" for one in parsed(page).iter() if local(one) == "a"}


def test_the_queue_page_links_each_settlement_and_its_decision(desk: Desk, visitor: Visitor) -> None:
    desk.stuck()
    desk.pay(FLYING, until="hold")

    page = visitor.page("/")

    assert {f"/settlements/{KEY}", f"/settlements/{KEY}/decide", f"/settlements/{FLYING}"} <= links(page)
    (case,) = cells(page, "Open cases")
    assert case[4:6] == ["47.72 EUR", "InsufficientFunds"]
    assert "as arn:aws:iam::123456789012:user/ada" in texts(page)


def test_only_pages_of_settlements_in_flight_refresh_themselves(desk: Desk, visitor: Visitor) -> None:
    desk.pay(FLYING, until="hold")
    desk.stuck()
    desk.pay(SETTLED)

    def refresh(path: str) -> str | None:
        return visitor.get(path).headers.get("refresh")

    flying = f"/settlements/{FLYING}"
    assert refresh(flying) == f"{pages.LIVE_SECONDS}; url={flying}?live={pages.LIVE_TIMES - 1}"
    assert refresh(f"{flying}?live=1") == f"{pages.LIVE_SECONDS}; url={flying}?live=0"
    assert refresh(f"{flying}?live=0") is None
    assert f"{flying}?live=0" in links(visitor.page(flying))
    assert f"{flying}?live=60" in links(visitor.page(f"{flying}?live=0"))
    assert refresh(f"/settlements/{SETTLED}?live=5") is None
    assert refresh(f"/settlements/{KEY}?live=5") is None
    assert refresh("/") is None
    assert refresh("/?live=7") == f"{pages.LIVE_SECONDS}; url=/?live=6"


@pytest.mark.parametrize("live", ["-1", "x", "999", "٣", "1e9", "61"])
def test_an_invalid_refresh_count_is_replaced_by_a_bounded_one(
    desk: Desk, visitor: Visitor, live: str
) -> None:
    desk.pay(FLYING, until="hold")

    answer = visitor.get(f"/settlements/{FLYING}?live={live}")

    assert answer.status_code == 200
    assert int(answer.headers["refresh"].rpartition("=")[2]) < pages.LIVE_TIMES


def test_a_settlement_page_is_the_report_with_links(desk: Desk, visitor: Visitor) -> None:
    desk.stuck()

    page = visitor.page(f"/settlements/{KEY}")

    assert {"/accounts/alice", "/accounts/bob", f"/settlements/{KEY}/decide"} <= links(page)
    for part in ("Is it safe to retry this key?", "Timeline", "Entries", "digest of the rows"):
        assert part in texts(page)


def test_the_bank_page_compares_only_on_request(desk: Desk, visitor: Visitor) -> None:
    assert "No statement was read in the last 35 days." in texts(visitor.page("/bank"))
    gift = line("70.00", text="<script>alert(1)</script>", bank_reference="B9")
    on_record(desk, [gift], NOW, day="2026-11-19")

    unasked, asked = visitor.page("/bank"), visitor.page("/bank?since=90d")

    assert [row[1:4] for row in cells(unasked, "Read in the last 35 days")] == [
        ["day.xml", "DE89370400440532013000", "2026-11-19"]
    ]
    assert "Differences" not in texts(unasked)
    assert "DOES NOT AGREE" in texts(asked)
    assert "only at the bank" in {row[0] for row in cells(asked, "1 difference")}
    assert "<script>" not in asked
    assert misnamed(asked) == []


def test_an_unreadable_bank_row_leaves_the_comparison_not_proven(desk: Desk, visitor: Visitor) -> None:
    on_record(desk, [line("70.00", bank_reference="B9")], NOW, day="2026-11-19")
    (found,) = [row for row in desk.ledger.rows() if row["sk"] == "LINE"]
    desk.ledger.put(found | {"amount": "70"})

    page = visitor.page("/bank?since=90d")

    assert "NOT PROVEN" in texts(page)
    assert found["pk"] in texts(page)


def test_each_page_shows_the_time_to_which_its_ages_refer(desk: Desk, visitor: Visitor) -> None:
    desk.stuck()
    desk.pay(FLYING, until="hold")

    paths = ("/", f"/settlements/{KEY}", f"/settlements/{KEY}/decide", "/accounts/bob", "/search?by=")
    for path in paths:
        page = visitor.page(path)
        assert f", at {timestamp(visitor.at)} " in texts(page)
        assert "59 min ago" in texts(page)
        assert not re.search(r"\d (s|min|h|d) before", texts(page))
        assert misnamed(page) == []


# Accounts


def test_a_long_statement_opens_at_its_latest_page(
    desk: Desk, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "STATEMENT_LINES", 2)
    for number in range(5):
        desk.pay(f"order-2026-00020{number}", amount="1.00", fee="0.00")

    def shown(page: str) -> list[str]:
        return [line[1] for line in cells(visitor.page(f"/accounts/bob{page}"), "5 entries")]

    assert shown("") == ["order-2026-000204"]
    assert shown("?page=1") == ["order-2026-000200", "order-2026-000201"]
    assert shown("?page=2") == ["order-2026-000202", "order-2026-000203"]
    assert shown("?page=99") == shown("?page=x") == shown("")
    assert "/accounts/bob?page=2&since=&until=" in links(visitor.page("/accounts/bob"))
    assert "/settlements/order-2026-000204" in links(visitor.page("/accounts/bob"))


def test_a_statement_bounded_in_time_shows_only_its_entries(desk: Desk, visitor: Visitor) -> None:
    desk.pay()
    (entry,) = [row for row in desk.ledger.rows() if row["pk"] == "ENTRIES#bob"]
    visitor.at = NOW + timedelta(days=1)

    def count(**times: str) -> int:
        query = "&".join(f"{name}={at}" for name, at in times.items())
        return len(list(cells(visitor.page(f"/accounts/bob?{query}"), "1 entries")))

    at = entry["posted_at"]
    behind = timestamp(datetime.fromisoformat(at) + timedelta(milliseconds=1))
    assert [count(since=at), count(until=at), count(since=at, until=behind)] == [1, 0, 1]
    assert "must be after" in visitor.get(f"/accounts/bob?since={at}&until={at}").text
    assert count(since=timestamp(NOW + timedelta(hours=5))) == 0
    assert count(until=timestamp(NOW - timedelta(hours=5))) == 0
    assert "wrong" in visitor.get(f"/accounts/bob?since={at}&until=1d").text


def test_the_csv_statement_has_plain_numbers_and_no_formulas(desk: Desk, visitor: Visitor) -> None:
    desk.pay("-2-3-cmd-calc-00001", reference="=1+2")

    answer = visitor.get("/accounts/alice/statement.csv")

    lines = list(csv.DictReader(io.StringIO(answer.text)))
    assert answer.headers["content-disposition"] == 'attachment; filename="alice.csv"'
    assert lines[-1]["key"].startswith("'-2-3")
    assert (lines[-1]["change"], lines[-1]["reference"]) == ("-48.20", "'=1+2")
    assert (
        visitor.get("/accounts/fees:EUR/statement.csv")
        .headers["content-disposition"]
        .endswith('"fees-EUR.csv"')
    )


# Search


def test_a_search_finds_by_key_account_status_time_and_person(desk: Desk, visitor: Visitor) -> None:
    desk.stuck()
    desk.pay(FLYING, until="hold")

    assert visitor.get(f"/search?key=+{KEY}+").headers["location"] == f"/settlements/{KEY}"
    assert visitor.get("/search?account=bob").headers["location"] == "/accounts/bob"
    assert f"/settlements/{KEY}" in links(visitor.page("/search?status=LIMBO"))
    assert f"/settlements/{FLYING}" in links(visitor.page("/search?status=PROCESSING&since=1h"))
    assert f"/settlements/{FLYING}" not in links(visitor.page("/search?status=COMPENSATING"))
    assert f"/settlements/{KEY}" not in links(visitor.page("/search?status=LIMBO&until=1d"))
    orders = list(cells(visitor.page("/search?by=ADA&since=1d"), "4 orders"))
    assert {line[1] for line in orders} == {"open", "deposit"}
    assert "No order is on record" in visitor.page("/search?by=grace")


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/settlements/order-2026-999999", 404, "no request has claimed order-2026-999999"),
        ("/settlements/x", 400, "key: must match"),
        ("/settlements/%3Cscript%3E/decide", 400, "key: must match"),
        ("/accounts/nobody-here", 404, "there is no nobody-here"),
        ("/accounts/escrow:EUR", 400, "escrow is shown by"),
        ("/search?key=short", 400, "key: must match"),
        ("/search?status=SETTLED", 400, "status: must be one of"),
        ("/search?status=LIMBO&since=yesterday", 400, "since: 'yesterday' must be an instant"),
        (f"/settlements/{KEY}/decide/write-off?verb=x", 400, "verb: must be one of"),
        (f"/settlements/{KEY}/decide/burn?verb=resolve", 400, "decision: must be one of"),
        (f"/settlements/{KEY}/decide/retry?verb=resolve", 409, "is SETTLED, not in LIMBO"),
        ("/bank?since=soon", 400, "since: 'soon' must be an instant"),
        ("/favicon.ico", 404, "no such page"),
    ],
)
def test_a_missing_or_wrong_target_shows_what_to_do_next(
    desk: Desk, visitor: Visitor, path: str, status: int, words: str
) -> None:
    desk.pay()

    with desk.writes_nothing():
        answer = visitor.get(path)

    assert answer.status_code == status
    shown = texts(answer.text)
    assert words in shown
    assert "What next" in shown


@pytest.mark.parametrize(
    ("failure", "status", "words"),
    [
        (client_error("GetItem", "AccessDeniedException"), 403, "settle permissions"),
        (client_error("GetItem", "ExpiredTokenException"), 502, "Log in to AWS again"),
        (client_error("GetItem", "ResourceNotFoundException"), 502, "being restored, or the stack was"),
        (client_error("GetItem", "InternalServerError"), 502, "AWS refuses it"),
        (EndpointConnectionError(endpoint_url="https://dynamodb.invalid"), 502, "AWS does not answer"),
        (NoCredentialsError(), 502, "There are no AWS credentials"),
        (ZeroDivisionError("secret"), 500, "A fault of the console"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_aws_failure_shows_a_page_without_a_traceback(
    visitor: Visitor,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    failure: Exception,
    status: int,
    words: str,
) -> None:
    monkeypatch.setattr(queue, "describe", raising(failure))

    answer = visitor.get("/")

    assert answer.status_code == status
    assert words in texts(answer.text)
    assert "Traceback" not in answer.text + "".join(capsys.readouterr())


def test_an_identity_that_aws_withholds_is_shown_as_unknown(desk: Desk) -> None:
    silent = raising(client_error("GetCallerIdentity", "AccessDenied"))
    desk.stack.clients["sts"] = SimpleNamespace(get_caller_identity=silent)

    assert "an identity that AWS does not tell" in texts(Visitor(desk).enter().page("/search"))


# Hostile texts


FEW = settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60) | st.just(HOSTILE)


@FEW
@given(text=TEXTS)
def test_hostile_text_in_the_address_adds_no_element(visitor: Visitor, text: str) -> None:
    for name in ("key", "account", "status", "by", "since", "page"):
        answer = visitor.client.get("/search", params={name: text})
        assert answer.status_code in (200, 303, 400)
        if answer.status_code != 303:
            root = parsed(answer.text)
            assert not [one for one in root.iter() if local(one) in ("script", "img")]


@FEW
@given(text=TEXTS)
def test_a_hostile_account_or_key_creates_no_foreign_link(told: dict[str, Any], text: str) -> None:
    frame = Frame("csrf", text, text, "/settlements/x", timestamp(NOW), 3)
    attacked_page = render.settlement(attacked(told, text), frame)
    waiting = {"key": text, "account": text}
    queue_page = render.queue(
        told["queue"] | {"limbo": told["queue"]["limbo"] | {"lines": [told["case"] | waiting]}}, frame
    )

    for page in (attacked_page, queue_page):
        for href in links(page):
            assert OURS.fullmatch(href)


@pytest.fixture
def told(desk: Desk) -> dict[str, Any]:
    desk.stuck()
    found = queue.describe(desk.stack, NOW)
    about = report.describe(desk.stack, KEY, NOW)
    return about | {"queue": found, "case": found["limbo"]["lines"][0]}
