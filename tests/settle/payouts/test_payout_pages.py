"""The console's pages of payouts."""

import html

import pytest

from settle.console import rooms
from settle.payouts import payout_pages
from settlement.core.ledger import keys
from settlement.payouts.moves import Move
from tests.settle.conftest import Command
from tests.settle.desk import ADA
from tests.settle.payouts.office import HOLDER, IBAN, IN_LIMBO, KEY, STUCK, Office, office
from tests.settle.reports.test_report import HOSTILE, local, misnamed, parsed, texts
from tests.settle.reports.test_report_queue import cells
from tests.settle.visitor import Visitor

__all__ = ["office"]

FLYING = "payout-flying-0001"


@pytest.fixture
def visitor(office: Office) -> Visitor:
    return Visitor(office.desk).enter()


def test_the_page_frame_links_the_pages_of_each_room(visitor: Visitor) -> None:
    links = [one.get("href") for one in parsed(visitor.page("/payouts")).iter() if local(one) == "a"]

    assert links == ["/", "/search", "/bank", *(path for path, _ in rooms.links())]
    assert "No payout has an open case." in texts(visitor.page("/payouts"))


def test_cases_come_first_and_link_to_their_payout(office: Office, visitor: Visitor) -> None:
    office.put(*IN_LIMBO)
    office.put(Move.SEND, key=FLYING)

    page = visitor.page("/payouts")

    (case,), (flying,) = cells(page, "Open cases"), cells(page, "Payouts under way")
    assert [case[at] for at in (1, 2, 3, 5, 7)] == [KEY, "1", "LIMBO", "48.20 EUR", STUCK]
    assert [flying[at] for at in (1, 2, 4, 5, 6)] == [FLYING, "SENDING", "48.20 EUR", "flat-9", "1"]
    assert page.index(f"/payouts/{KEY}") < page.index(f"/payouts/{FLYING}")
    assert misnamed(page) == []


def test_a_payouts_page_has_the_commands_of_its_status(
    office: Office, visitor: Visitor, command: Command
) -> None:
    state = office.put(*IN_LIMBO)
    command("payout", "propose", KEY, "not-paid", "--reason", "the bank's letter")

    page = visitor.page(f"/payouts/{KEY}")

    verdicts = {row[0]: row for row in cells(page, "Two persons decide")}
    assert [*verdicts] == ["paid", "not-paid", "ask"]
    assert verdicts["not-paid"][1] == "the bank never pays it: 48.20 EUR go back to alice"
    assert ADA in verdicts["not-paid"][2]
    assert f"settle payout approve {KEY} not-paid --case 1 --digest {state.digest}" in verdicts["not-paid"][3]
    assert misnamed(page) == []


def test_a_decided_payout_names_both_persons(office: Office, visitor: Visitor, command: Command) -> None:
    decided = {"verdict": "not-paid", "case": "1", "by": "ada", "approved_by": "bea", "reason": "why"}
    office.put(*IN_LIMBO)
    office.alter(keys.payout(KEY), decided=decided | {"approved_at": "2026-11-20T12:00:00.000Z"})

    assert "by ada and bea" in texts(visitor.page(f"/payouts/{KEY}"))


def test_payout_pages_accept_no_order_and_hide_the_iban(office: Office, visitor: Visitor) -> None:
    office.put(*IN_LIMBO)

    for path in ("/payouts", f"/payouts/{KEY}"):
        with office.desk.writes_nothing():
            page = visitor.page(path)
        assert IBAN[:-4] not in page
        forms = [one.get("action") for one in parsed(page).iter() if local(one) == "form"]
        assert forms == ["/end"]
        assert visitor.send(path).status_code == 405
    assert HOLDER in page


def test_hostile_texts_add_no_element_and_no_link(office: Office, visitor: Visitor, command: Command) -> None:
    state = office.put(*IN_LIMBO)
    office.alter(keys.payout(KEY), trouble=HOSTILE, detail=HOSTILE)
    changed = state.from_row(office.row())
    command("payout", "propose", KEY, "not-paid", "--reason", "x")
    office.alter(keys.payout_proposed(KEY, 1, changed.digest, "not-paid"), reason=HOSTILE, by=HOSTILE)

    for path in ("/payouts", f"/payouts/{KEY}"):
        page = visitor.page(path)
        names = {local(one) for one in parsed(page).iter()}
        assert not names & {"script", "img"}
        assert html.escape("<script>alert(1)") in page
        assert not [one for one in "\x1b\u202e\x00\x7f" if one in page]


def test_a_malformed_row_is_named_beside_the_good_ones(office: Office, visitor: Visitor) -> None:
    office.put(*IN_LIMBO)
    office.put(*IN_LIMBO, key="payout-broken-0001")
    office.alter(keys.payout("payout-broken-0001"), amount="much")

    page = visitor.page("/payouts")

    assert [row[1] for row in cells(page, "Open cases")] == [KEY]
    assert "PAYOUT#payout-broken-0001: " in texts(page)


def test_a_case_with_a_malformed_proposal_is_still_shown(
    office: Office, visitor: Visitor, command: Command
) -> None:
    state = office.put(*IN_LIMBO)
    command("payout", "propose", KEY, "not-paid", "--reason", "x")
    office.alter(keys.payout_proposed(KEY, 1, state.digest, "not-paid"), reason=7)

    for path in ("/payouts", f"/payouts/{KEY}"):
        page = texts(visitor.page(path))
        assert "Rows that cannot be read" in page
        assert STUCK in page


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        (f"/payouts/{KEY}", 404, f"key: {KEY} has no payout"),
        ("/payouts/%3Cscript%3E", 400, "key: must match"),
        ("/payouts/payout-broken-0001", 502, "A row cannot be read"),
    ],
)
def test_a_missing_or_broken_payout_shows_a_failure(
    office: Office, visitor: Visitor, path: str, status: int, words: str
) -> None:
    office.put(key="payout-broken-0001")
    office.alter(keys.payout("payout-broken-0001"), amount="much")

    answer = visitor.get(path)

    assert (answer.status_code, words in texts(answer.text)) == (status, True)
    assert "/settlements/" not in answer.text


def test_more_cases_than_a_page_shows_are_announced(
    office: Office, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(payout_pages, "LINES_MAX", 1)
    for number in range(2):
        office.put(*IN_LIMBO, key=f"payout-limbo-00000{number}")

    assert "there are more" in texts(visitor.page("/payouts"))


def test_a_console_without_the_payouts_room_has_no_payouts_page(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rooms, "ROOMS", {})
    visitor = Visitor(office.desk).enter()

    assert "/payouts" not in visitor.page("/search")
    assert visitor.get("/payouts").status_code == 404
