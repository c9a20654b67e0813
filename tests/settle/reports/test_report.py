import base64
import hashlib
import os
import re
import tomllib
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from settle.exit_codes import CommandFailed, Exit
from settle.orders import partial_reversal
from settle.orders import proposing as proposal
from settle.reports import redaction, report
from settle.reports.page import file, render
from settle.settlements import settlement
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.timestamps import timestamp
from settlement.proof import journal
from tests.settle.conftest import Command, raising
from tests.settle.desk import ADA, GRACE, REASON, Desk
from tests.settle.ways import RETRY, WAYS, WRITE_OFF, Way, decided, in_review, settled, stuck
from tests.world.constants import KEY
from tests.world.environment import NOW
from tests.world.templates import PROJECT

AT = datetime(2026, 11, 23, 9, tzinfo=UTC)
BYTES_MAX = 64_000
"""Limit of a mailable report of a payment with two LIMBO cases."""

TEMPLATES = sorted((PROJECT / "settle/reports/page/templates").iterdir())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def page(desk: Desk, **how: bool) -> str:
    return render.settlement(report.describe(desk.stack, KEY, AT, **how))


def parsed(text: str) -> ElementTree.Element:
    """Return a page parsed as XML: elements closed, attributes quoted."""
    doctype, _, body = text.partition("\n")
    assert doctype == "<!DOCTYPE html>"
    return ElementTree.fromstring(body)


def local(one: ElementTree.Element) -> str:
    return one.tag.rpartition("}")[2]


def texts(text: str) -> str:
    return " ".join(" ".join(parsed(text).itertext()).split())


def misnamed(text: str) -> list[str]:
    """Return the cells whose label, shown in a narrow window, is not their column's head."""
    found = []
    for region in parsed(text).iter():
        if "rows" in (region.get("class") or "").split():
            _, (heads,), lines = region[0]
            names = ["".join(head.itertext()) for head in heads]
            found += [
                f"{name}: {cell.attrib}"
                for line in lines
                for name, cell in zip(names, line, strict=True)
                if cell.get("data-label") != name
            ]
    return found


each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


@each_way
def test_the_report_of_each_path_shows_its_entries(desk: Desk, way: Way) -> None:
    way(desk)
    told = settlement.describe(desk.stack, KEY)
    walks = report.describe(desk.stack, KEY, AT)["walks"]

    text = page(desk)

    assert len(text.encode()) < BYTES_MAX
    root = parsed(text)
    ids = [one.get("id") for one in root.iter() if one.get("id")]
    assert len(ids) == len(set(ids))
    references = {one.get("aria-labelledby") for one in root.iter() if one.get("aria-labelledby")}
    assert references <= set(ids)
    assert {*re.findall(r"<(\w+)[^<>]*/>", text)} <= {"meta", "path", "polygon"}
    assert misnamed(text) == []
    inside = {local(part) for one in root.iter() if local(one) == "p" for part in one.iter()}
    assert inside <= {"p", "code", "span", "em", "time"}, (
        "a browser ends a paragraph before any other element"
    )
    drawn = {one.get("id"): set((one.get("class") or "").split()) for one in root.iter()}
    on_the_path = {f"{walk.machine}.{visit.state}" for walk in walks for visit in walk.visits}
    marked = {"committed", "refused", "passed", "here"}
    assert {name for name, classes in drawn.items() if classes & marked and classes & {"node"}} == on_the_path
    shown = texts(text)
    for line in told["entries"]:
        if line["moved"]:
            assert f"{line['amount']} {line['escrow']}" in shown
    assert told["retry"]["new_key"] in shown
    assert all(line in shown for line in told["retry"]["evidence"])
    assert shown.startswith(f"{KEY}: {told['status']}")


def test_a_report_runs_no_script_and_loads_nothing(desk: Desk) -> None:
    stuck("release")(desk)

    text = page(desk)

    root = parsed(text)
    policy = next(one.get("content", "") for one in root.iter() if one.get("http-equiv"))
    (style,) = (one.text or "" for one in root.iter() if local(one) == "style")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    active = {"script", "link", "img", "iframe", "object", "form", "a"}
    assert not active & {local(one) for one in root.iter()}
    names = {name for one in root.iter() for name in one.attrib}
    assert not [name for name in names if name.startswith("on") or name in ("src", "href", "style")]
    assert re.findall(r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)", text) == []


def test_a_report_is_accessible_to_screen_readers(desk: Desk) -> None:
    decided("release", RETRY, WRITE_OFF)(desk)

    root = parsed(page(desk))

    levels = [int(local(one)[1]) for one in root.iter() if re.fullmatch("h[1-6]", local(one))]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    tables = [one for one in root.iter() if local(one) == "table"]
    assert tables
    assert all(local(table[0]) == "caption" for table in tables)
    regions = [one for one in root.iter() if one.get("role") == "region"]
    assert len(regions) == len(tables)
    assert all(one.get("tabindex") == "0" and one.get("aria-label") for one in regions), (
        "scrolled by keyboard"
    )
    assert all(one.get("scope") in ("col", "row") for one in root.iter() if local(one) == "th")
    drawings = [one for one in root.iter() if local(one) == "svg"]
    assert [one.get("role") for one in drawings] == ["img", "img"]
    assert all(one.get("aria-labelledby") for one in drawings)
    assert root.get("lang") == "en"


def test_a_report_says_who_decided_who_approved_and_when(desk: Desk) -> None:
    decided("release", RETRY, WRITE_OFF)(desk)
    desk.alter(keys.evidence(KEY, "resolve:2"), approved_by=GRACE, break_glass="yes")

    shown = texts(page(desk))

    assert f"resolve:2 (break-glass) write-off {ADA} {GRACE} {REASON} 2" in shown
    assert "waits for a person's decision" in shown


def test_a_report_has_the_timeline_with_its_gaps(desk: Desk) -> None:
    in_review(desk)

    moments = report.describe(desk.stack, KEY, AT)["timeline"]

    assert [moment.kind for moment in moments] == ["claimed", "hold", "this report"]
    assert moments[-1].gap == "waits for the provider's reviewer"
    assert moments[-1].after == "2d 20h"
    assert [moment.at for moment in moments] == sorted(moment.at for moment in moments)


def test_a_saved_report_shows_ages_relative_to_its_making(desk: Desk) -> None:
    """It is read later: "ago" would be wrong by then."""
    settled(desk)

    text = page(desk)

    assert f"Made at {timestamp(AT)} . “Before” and “after” count from then." in texts(text)
    assert not re.search(r"\d (s|min|h|d) ago|\bin \d+ (s|min|h|d)\b", texts(text))
    times = [one for one in parsed(text).iter() if local(one) == "time"]
    for instant in (desk.entry("hold")["posted_at"], desk.row()["claimed_at"]):
        assert instant in [one.text for one in times]
        assert f"{instant} 2 d 20 h before" in texts(text)
    hovered = [one for one in times if one.get("title")]
    assert [one.text for one in hovered] == ["2 d 20 h before"] * 2, "claimed and finished"
    assert all(one.get("title") == one.get("datetime") for one in hovered)


@pytest.mark.parametrize(
    ("instant", "live", "shown"),
    [
        ("2026-11-23T08:55:00Z", True, "5 min ago"),
        ("2026-11-23T08:55:00Z", False, "5 min before"),
        ("2026-11-23T09:05:00Z", True, "in 5 min"),
        ("2026-11-23T09:05:00Z", False, "5 min after"),
        ("2026-11-23T08:55:00", True, ""),
        ("soon", False, ""),
        (None, True, ""),
        (7, True, ""),
    ],
)
def test_a_time_is_shown_relative_to_the_pages_time(instant: object, live: bool, shown: str) -> None:
    assert render._distance(instant, "2026-11-23T09:00:00.000Z", live) == shown


def test_a_partial_reversal_is_on_the_timeline_and_among_entries(desk: Desk) -> None:
    settled(desk)
    partial_reversal.reverse_part(desk.stack, KEY, "5.00", REASON, 1)

    told = report.describe(desk.stack, KEY, AT)

    assert "reverse-part:1" in [moment.kind for moment in told["timeline"]]
    assert [line["step"] for line in told["entries"]][-2:] == ["reverse-part:1", "refund-part:1"]
    assert "5.00 EUR" in texts(page(desk))


def test_the_digest_depends_on_each_row_and_nothing_else(desk: Desk) -> None:
    settled(desk)
    first = report.describe(desk.stack, KEY, AT)["digest"]

    assert report.describe(desk.stack, KEY, NOW, redact=True)["digest"] == first
    desk.ledger.put(desk.entry("release") | {"amount": 4773})
    assert report.describe(desk.stack, KEY, AT)["digest"] != first


def test_a_settlement_changing_during_the_read_is_read_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page must not show a step without its entry."""
    desk.pay(until="hold")
    read, looks = journal.read, []

    def changing(store: Any, row: Row) -> Any:
        found = read(store, row)
        looks.append(row)
        if len(looks) == 1:
            desk.pay()
        return found

    monkeypatch.setattr(journal, "read", changing)

    told = report.describe(desk.stack, KEY, AT)

    assert (told["outcome"]["status"], len(told["entries"]), len(looks)) == ("SETTLED", 3, 2)


def test_a_settlement_that_keeps_changing_is_reported_in_one_line(
    desk: Desk, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settled(desk)
    read, numbers = journal.read, iter(range(1, 100))

    def changing(store: Any, row: Row) -> Any:
        desk.alter(owner_epoch=next(numbers))
        return read(store, row)

    monkeypatch.setattr(journal, "read", changing)

    code, out, err = command("report", KEY, "-o", str(tmp_path / "a.html"))

    assert (code, out, list(tmp_path.glob("*.html"))) == (Exit.CONFLICT, "", [])
    assert (
        err
        == f"settle: {KEY}: changes while it is read; `settle wait {KEY} --stack under-test`, or try again\n"
    )


# Redaction


PEOPLE = {
    "names": ("payer_name", "payee_name"),
    "reasons": ("reason", "cause"),
    "references": ("reference", "review", "metadata"),
    "persons": ("by", "user_id", "request_id", "source_ip", "proposer", "persons", "approved_in"),
    "answers of checks": ("evidence",),
    "hashes": ("request_hash", "signature", "digest", "seen", "paid_to"),
}
"""Attributes left out of a redacted report; an ARN in `by` keeps account and role."""


def test_each_attribute_is_either_shown_or_deliberately_left_out() -> None:
    meanings = tomllib.loads((PROJECT / "docs/reference/meanings.toml").read_text())
    every = {name for kind in ("settlement", "entry", "evidence", "proposal") for name in meanings[kind]}
    left_out = {name for names in PEOPLE.values() for name in names}

    assert every - redaction.SHOWN - redaction.PERSONS == left_out - {"by"}


@each_way
def test_a_redacted_report_names_no_person_reason_or_reference(desk: Desk, way: Way) -> None:
    way(desk)
    secret = {name: f"secret-{name}" for names in PEOPLE.values() for name in names}
    told: set[str] = set()
    for row in desk.ledger.rows():
        if KEY in row["pk"] and not keys.is_account(row):
            planted: dict[str, Any] = {
                name: value for name, value in secret.items() if name in row and name not in ("by", "seen")
            }
            if keys.is_settlement(row):
                planted |= {"payer_name": secret["payer_name"], "reference": secret["reference"]}
                planted["metadata"] = {"secret-member": secret["metadata"]}
            for inner in ("failure", "reversed_for", "resolution"):
                if inner in row:
                    planted[inner] = row[inner] | {
                        name: secret[name] for name in ("cause", "reason") if name in row[inner]
                    }
            told |= set(planted)
            desk.ledger.put(row | planted)
    persons = ("ada", "grace", "olga")

    redacted, whole = page(desk, redact=True), page(desk)

    assert "secret-" in whole
    assert "secret-" not in redacted
    assert [name for name in persons if f"/{name}" in redacted] == []
    assert "redacted" in texts(redacted)
    assert parsed(redacted) is not None
    if way is not in_review:
        assert "payer_name" in told


@pytest.mark.parametrize(
    ("by", "shown"),
    [
        (ADA, "arn:aws:iam::123456789012:user/[left out]"),
        (
            "arn:aws:sts::123456789012:assumed-role/Operator/ada@example.com",
            "arn:aws:sts::123456789012:assumed-role/Operator/[left out]",
        ),
        ("arn:aws:iam::123456789012:root", "[left out]"),
        ("ada", "[left out]"),
        ("ada/eve", "[left out]"),
        (f"{ADA} ada", "arn:aws:iam::123456789012:user/[left out] [left out]"),
        ("", ""),
    ],
)
def test_redacting_an_arn_leaves_the_person_out(by: str, shown: str) -> None:
    assert redaction.redacted({"by": by, "approved_by": by}) == {"by": shown, "approved_by": shown}


@pytest.mark.usefixtures("two_persons")
def test_an_open_proposal_shows_its_command_unless_redacted(desk: Desk) -> None:
    desk.stuck()
    made = proposal.propose(desk.stack, KEY, WRITE_OFF, "as agreed with Nora")

    whole, redacted = texts(page(desk)), page(desk, redact=True)

    assert made["command"] in whole
    assert "as agreed with Nora" in whole
    assert f"propose:1 write-off {ADA}" in whole
    assert [told for told in ("Nora", "approve ", "/ada") if told in redacted] == []


# Hostile values


HOSTILE = (
    "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{ 7*7 }}{% raw %}&amp;&#60;]]>"
    "\x1b[2J\u202e\x00\x7f\u2028</pre></style>"
)


def attacked(told: Any, text: str) -> Any:
    """Return a report with this text in each field that a stranger fills."""
    if isinstance(told, dict):
        free = {"reason", "cause", "by", "approved_by", "reference", "payer_name", "payer", "debit"}
        free |= {"error", "step"}
        return {
            name: text
            if name in free and isinstance(value, str) and not value.startswith(("limbo:", "resolve:"))
            else attacked(value, text)
            for name, value in told.items()
        }
    if isinstance(told, list):
        return [attacked(one, text) for one in told]
    return told


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(min_size=1) | st.just(HOSTILE))
def test_hostile_text_in_any_field_adds_no_element(hostile_report: dict[str, Any], text: str) -> None:
    """The page keeps the elements and attributes that it has without the text."""
    tame = parsed(render.settlement(attacked(hostile_report, "tame")))

    shown = parsed(render.settlement(attacked(hostile_report, text)))

    assert [(one.tag, one.attrib) for one in shown.iter()] == [(one.tag, one.attrib) for one in tame.iter()]
    hidden = "".join(shown.itertext())
    assert "\x1b" not in hidden
    assert "\u202e" not in hidden


@pytest.fixture
def hostile_report(desk: Desk) -> dict[str, Any]:
    decided("release", RETRY, WRITE_OFF)(desk)
    return report.describe(desk.stack, KEY, AT)


def test_only_the_style_and_the_drawing_are_not_escaped() -> None:
    trusted = [found for one in TEMPLATES for found in re.findall(r"{{ (.*?)\|\s*safe }}", one.read_text())]

    assert sorted(trusted) == ["graph.drawing", "style"]
    assert not [one.name for one in TEMPLATES if "autoescape" in one.read_text()]


# The file


def test_a_report_file_is_private_and_opened_by_its_path(
    desk: Desk, command: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled(desk)
    opened: list[str] = []
    monkeypatch.setattr("typer.launch", opened.append)

    assert command("report", KEY, "--open") == (Exit.FINE, f"{KEY}.html\n", "")

    (made,) = folder.glob("*.html")
    assert opened == [os.fspath(made)]
    assert made.stat().st_mode & 0o777 == 0o600
    assert made.read_text().startswith("<!DOCTYPE html>")
    assert texts(made.read_text()).startswith(f"{KEY}: SETTLED")


def test_an_existing_file_is_replaced_only_with_force(desk: Desk, command: Command, tmp_path: Path) -> None:
    settled(desk)
    there = tmp_path / "a.html"
    there.write_text("mine")

    code, out, err = command("report", KEY, "-o", str(there))

    assert (code, out, there.read_text()) == (Exit.CONFLICT, "", "mine")
    assert err == f"settle: output: {there} exists; name another file, or add --force\n"
    assert command("report", KEY, "-o", str(there), "--force")[0] == Exit.FINE
    assert there.read_text().startswith("<!DOCTYPE html>")


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    there = tmp_path / "a.html"
    file.ensure_can_write(there, overwrite=False)
    there.write_text("another's")

    with pytest.raises(CommandFailed, match="exists"):
        file.write(there, "<!DOCTYPE html>", overwrite=False)

    assert there.read_text() == "another's"
    assert [one.name for one in tmp_path.iterdir()] == ["a.html"]


def test_a_failed_write_leaves_only_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there = tmp_path / "a.html"
    there.write_text("the old one")

    monkeypatch.setattr(os, "fdopen", raising(OSError(28, "No space left on device")))
    with pytest.raises(CommandFailed, match="No space left on device"):
        file.write(there, "<!DOCTYPE html>", overwrite=True)

    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("a.html", "the old one")]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ((KEY, "-o", "{folder}"), Exit.USAGE, "is a directory; name a file in it"),
        ((KEY, "-o", "/dev/full", "--force"), Exit.USAGE, "is a device or a pipe; name a file"),
        ((KEY, "-o", "{folder}/missing/a.html"), Exit.USAGE, "is no directory; make it first"),
        ((KEY, "-o", "-"), Exit.USAGE, "name a file"),
        (("order-nobody-0001", "-o", "{folder}/a.html"), Exit.NOT_FOUND, "no request has claimed"),
        (("too-short",), Exit.USAGE, "key: must match"),
        (("too-short", "-o", "{folder}/a.html"), Exit.USAGE, "key: must match"),
        ((), Exit.USAGE, "report: give a KEY, --queue or --day"),
        ((KEY, "--queue"), Exit.USAGE, "report: give a KEY, --queue or --day"),
        (("--queue", "--redact"), Exit.USAGE, "--redact is for a settlement"),
        (("--day", "2026-11-20", "--queue"), Exit.USAGE, "report: give a KEY, --queue or --day"),
        (("--day", "2026-11-20", "--redact"), Exit.USAGE, "report: --redact is for a settlement"),
        (("--day", "yesterday"), Exit.USAGE, "day: must be a day such as 2026-11-22"),
        (("--day", "2026-02-30"), Exit.USAGE, "day: must be a day such as 2026-11-22"),
        (("--day", "2999-01-01"), Exit.USAGE, "day: 2999-01-01 is in the future"),
    ],
)
def test_invalid_arguments_print_one_line_and_write_no_file(
    desk: Desk, command: Command, folder: Path, arguments: tuple[str, ...], code: Exit, told: str
) -> None:
    settled(desk)

    ended = command("report", *(one.format(folder=folder) for one in arguments))

    assert (ended[0], ended[1], len(ended[2].splitlines())) == (code, "", 1)
    assert ended[2].startswith("settle: ")
    assert told in ended[2]
    assert list(folder.glob("*.html")) == []


@pytest.mark.parametrize("arguments", [(KEY,), ("--queue",)])
def test_without_a_stack_one_line_says_how_to_start_one(
    settle: Command, home: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(home)

    code, out, err = settle("report", *arguments)

    assert (code, out, len(err.splitlines())) == (Exit.NOT_FOUND, "", 1)
    assert "`settle local up`" in err
    assert list(home.glob("*.html")) == []


@pytest.mark.parametrize("name", ["step", "posted_at"])
def test_malformed_evidence_is_named_in_one_line(
    desk: Desk, command: Command, tmp_path: Path, name: str
) -> None:
    settled(desk)
    desk.alter(keys.evidence(KEY, "verify"), **{name: 7})

    ended = command("report", KEY, "-o", str(tmp_path / "a.html"))

    assert (ended[0], ended[1], len(ended[2].splitlines())) == (Exit.FAILED, "", 1)
    assert f"EVIDENCE#{KEY} / {KEY}:verify: has no sound {name}" in ended[2]


def test_a_row_lacking_optional_attributes_is_still_reported(desk: Desk) -> None:
    stuck("release")(desk)
    for step in ("verify", "limbo:1"):
        address = keys.evidence(KEY, step)
        row = desk.ledger.row(address)
        assert row
        kept = {"step", "posted_at", "provider", "decision", "request_hash", "pk", "sk"}
        desk.ledger.put({name: value for name, value in row.items() if name in kept})
    desk.alter(failure={}, reversed_for={"step": "reverse"})

    assert parsed(page(desk)) is not None


@pytest.mark.parametrize("at", ["yesterday", "2026-11-20T12:00:00", ""])
def test_an_invalid_time_is_shown_unchanged(desk: Desk, at: str) -> None:
    """A row changed by hand needs a report most."""
    settled(desk)
    desk.alter(claimed_at=at)

    moments = report.describe(desk.stack, KEY, AT)["timeline"]

    assert at in [moment.at for moment in moments]
    assert "not known" in [moment.after for moment in moments]
    assert parsed(page(desk)) is not None
