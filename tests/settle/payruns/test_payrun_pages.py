"""The console's pages of runs."""

import pytest

from settle.payruns import payrun_pages
from settlement.core.ledger import keys
from settlement.payruns.file import Line, key_of
from tests.settle.payruns.conftest import LINES, NAME, Runs
from tests.settle.reports.test_report import HOSTILE, local, misnamed, parsed, texts
from tests.settle.reports.test_report_queue import cells
from tests.settle.visitor import Visitor

OTHER = "bob,2.00,EUR,another"


@pytest.fixture
def visitor(runs: Runs) -> Visitor:
    return Visitor(runs.desk).enter()


def test_a_console_without_runs_says_so(visitor: Visitor) -> None:
    assert "There is no pay run." in texts(visitor.page("/payruns"))


def test_runs_are_listed_latest_first_and_linked(runs: Runs, visitor: Visitor) -> None:
    first, second = runs.paid(), runs.propose(OTHER, name="later")["run"]

    text = visitor.page("/payruns")

    found = [[row[at] for at in (1, 2, 3, 4, 5, 6, 7, 8)] for row in cells(text, "All runs")]
    assert found == [
        ["later", "PROPOSED", "alice", "payments", "1", "2.00 EUR", "0", "0"],
        [NAME, "FINISHED", "alice", "payments", "3", "59.25 EUR", "3", "3"],
    ]
    links = [one.get("href") for one in parsed(text).iter() if local(one) == "a"]
    assert [one for one in links if "/payruns/" in str(one)] == [f"/payruns/{one}" for one in (second, first)]
    assert misnamed(text) == []


def test_a_runs_page_has_its_lines_and_commands(runs: Runs, visitor: Visitor) -> None:
    told = runs.propose()

    text = visitor.page(f"/payruns/{told['run']}")

    assert f"settle payrun approve {told['run']} --digest {told['digest']} --stack under-test" in texts(text)
    assert [row[3] for row in cells(text, "Each line")] == ["NOT BEGUN"] * 3
    assert misnamed(text) == []


def test_a_runs_page_names_lines_that_are_repeated_on_purpose(runs: Runs, visitor: Visitor) -> None:
    plain = runs.propose()
    runs.order("cancel", plain)
    repeating = runs.propose(*LINES, LINES[0], repeats=(5,))

    shown = [texts(visitor.page(f"/payruns/{told['run']}")) for told in (plain, repeating)]

    assert ["repeated on purpose" in text for text in shown] == [False, True]
    assert "lines 5" in shown[1]


def test_the_page_of_a_large_run_begins_with_undecided_lines(
    runs: Runs, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runs.paid()
    runs.desk.alter(keys.settlement(key_of(run, 4)), status="LIMBO")
    monkeypatch.setattr(payrun_pages, "LINES_MAX", 1)

    text = visitor.page(f"/payruns/{run}")

    assert [row[3] for row in cells(text, "Each line")] == ["LIMBO"]
    assert f"2 more lines are in the report, settle payrun report {run} --stack under-test" in texts(text)


def test_a_line_links_its_payment_once_it_has_one(runs: Runs, visitor: Visitor) -> None:
    told, paid = runs.propose(), runs.paid(OTHER)

    for run, links in ((told["run"], []), (paid, [f"/settlements/{key_of(paid, 2)}"])):
        found = [
            one.get("href") for one in parsed(visitor.page(f"/payruns/{run}")).iter() if local(one) == "a"
        ]
        assert [one for one in found if "/settlements/" in str(one)] == links
        assert all(visitor.get(one).status_code == 200 for one in links)


def test_payrun_pages_accept_no_order(runs: Runs, visitor: Visitor) -> None:
    told = runs.propose()

    for path in ("/payruns", f"/payruns/{told['run']}"):
        with runs.desk.writes_nothing():
            text = visitor.page(path)
        assert [one.get("action") for one in parsed(text).iter() if local(one) == "form"] == ["/end"]
        assert visitor.send(path).status_code == 405


def test_hostile_texts_add_no_element_and_no_link(runs: Runs, visitor: Visitor) -> None:
    told = runs.smuggle(Line(number=2, payee=HOSTILE, amount="1", currency="EUR", reference=HOSTILE))
    runs.desk.alter(keys.payrun_proposed(told["run"]), reason=HOSTILE, by=HOSTILE)
    runs.desk.alter(keys.payrun(told["run"]), outcomes={HOSTILE: 0})

    for path in ("/payruns", f"/payruns/{told['run']}"):
        text = visitor.page(path)
        assert not {"script", "img"} & {local(one) for one in parsed(text).iter()}
        assert not [one for one in "\x1b\u202e\x00\x7f" if one in text]
    assert "<script>alert(1)" in texts(text)


def test_a_malformed_run_is_named_beside_the_good_ones(runs: Runs, visitor: Visitor) -> None:
    bad, good = runs.propose()["run"], runs.propose(OTHER, name="good")["run"]
    runs.desk.alter(keys.payrun(bad), sums={"SETTLED XXX": 0})

    text = visitor.page("/payruns")

    assert [row[1] for row in cells(text, "All runs")] == ["good"]
    assert ("Rows that cannot be read" in texts(text), f"PAYRUN#{bad}: " in texts(text)) == (True, True)
    assert visitor.get(f"/payruns/{good}").status_code == 200


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("unknown", 404, "run: none is named unknown"),
        ("ab" * 16, 404, "has none with the id"),
        ("%3Cscript%3E", 404, "run: none is named <script>"),
        ("bad", 502, "cannot be read"),
        ("exchanged", 409, "do not approve it"),
    ],
)
def test_a_missing_or_broken_run_shows_a_failure(
    runs: Runs, visitor: Visitor, path: str, status: int, words: str
) -> None:
    if path in ("bad", "exchanged"):
        told = runs.propose(name=path)
        path = told["run"]
        if status == 502:
            runs.desk.alter(keys.payrun(path), status="LOST")
        else:
            runs.s3.versions[f"runs/{told['digest']}.jsonl"].append(b"other")

    answer = visitor.get(f"/payruns/{path}")

    assert (answer.status_code, words in texts(answer.text)) == (status, True), texts(answer.text)
