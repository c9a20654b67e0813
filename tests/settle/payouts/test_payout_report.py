import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from settle.exit_codes import Exit
from settle.payouts import case, payout_report
from settle.payouts.payout_report import SHOWN
from settle.reports.page import render
from settle.reports.redaction import PERSONS
from settlement.core.ledger import keys
from settlement.core.model.timestamps import timestamp
from settlement.payouts.moves import Move
from settlement.payouts.payout import State
from settlement.payouts.port import Unknown
from tests.settle.conftest import Command
from tests.settle.desk import ADA, GRACE
from tests.settle.payouts.office import HOLDER, IBAN, IN_LIMBO, KEY, STUCK, WIRE, Office, office
from tests.settle.payouts.test_payout_status import PAID, entry
from tests.settle.reports.test_report import AT, HOSTILE, local, misnamed, parsed, texts
from tests.settle.reports.test_report_queue import cells
from tests.world.environment import NOW
from tests.world.templates import PROJECT

__all__ = ["office"]

LETTER = "as Nora writes"


def page(office: Office, **how: bool) -> str:
    template, values = payout_report.describe(office.desk.stack, KEY, AT, **how)
    return render.page(template, None, values["report"]["at"], **values)


def report(office: Office, **how: bool) -> dict[str, Any]:
    told: dict[str, Any] = payout_report.describe(office.desk.stack, KEY, AT, **how)[1]["report"]
    return told


def folded(office: Office, **how: bool) -> list[str]:
    return [name for name, _ in report(office, **how)["rows"]]


def decide(office: Office, command: Command) -> str:
    office.add_payee()
    assert office.services.call("POST", "/payouts", WIRE).status == 202
    reserved_at = office.row()["reserved_at"]
    office.put(*IN_LIMBO)
    office.alter(keys.payout(KEY), detail="the account of Nora is closed", reserved_at=reserved_at)
    digest = State.from_row(office.row()).digest
    office.bank.found = Unknown("500")
    command("payout", "propose", KEY, "not-paid", "--reason", LETTER)
    office.desk.door.by = GRACE
    shown = ("--case", "1", "--digest", digest)
    code, _, err = command("payout", "approve", KEY, "not-paid", *shown, "--reason", LETTER)
    assert (code, err) == (Exit.LIMBO, "")
    return digest


@pytest.mark.parametrize(
    ("path", "noted"),
    [
        ((), {}),
        ((Move.SEND,), {}),
        ((Move.SEND, Move.DOUBT), {}),
        ((Move.SEND, Move.ACCEPT), {}),
        (PAID, {}),
        (PAID, {"trouble": STUCK}),
        ((*PAID, Move.CONFIRM), {"debit_line": "6d" * 32}),
        ((Move.SEND, Move.REFUSE), {}),
        ((*PAID, Move.RETURN), {}),
        ((*PAID, Move.RETURN), {"trouble": STUCK, "in_suspense": 1}),
        (IN_LIMBO, {}),
    ],
    ids="-".join,
)
def test_the_report_of_each_status_is_sound(
    office: Office, path: tuple[Move, ...], noted: dict[str, Any]
) -> None:
    if Move.CONFIRM in path:
        office.put(*path[:-1], **noted)
        office.alter(keys.payout(KEY), status="CONFIRMED", ended_at=timestamp(NOW))
    else:
        office.put(*path, **noted)

    for redact in (False, True):
        text = page(office, redact=redact)

        shown = texts(text)
        assert shown.startswith(f"{KEY}: {office.row()['status']}")
        assert f"Made at {timestamp(AT)} ." in shown
        assert f"digest of the rows sha256:{report(office)['digest']}" in shown
        assert f"PAYOUT#{KEY} / PAYOUT" in shown
        assert ("This report is redacted" in shown) is redact
        assert misnamed(text) == []
        assert not {"a", "form", "script", "img"} & {local(one) for one in parsed(text).iter()}


def test_the_report_of_a_decided_payout_ends_with_its_rows(office: Office, command: Command) -> None:
    digest = decide(office, command)

    names = folded(office)

    assert [name.partition("#")[0] for name in names] == ["PAYOUT", "ENTRIES", "PAYOUT_CASE", "PAYOUT_CASE"]
    assert names[2:] == [
        f"PAYOUT_CASE#{KEY} / 000001#{digest[:16]}#{kind}" for kind in ("APPROVED", "PROPOSED#not-paid")
    ]
    assert texts(page(office)).index("Entries") < texts(page(office)).index(names[0])


def test_the_digest_covers_whole_rows_even_if_redacted(office: Office) -> None:
    office.put(*IN_LIMBO)
    first = report(office)["digest"]

    assert report(office, redact=True)["digest"] == first
    office.alter(keys.payout(KEY), detail="another")
    assert report(office)["digest"] != first


def test_a_payout_changing_during_the_read_is_read_again(
    office: Office, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    office.put()
    read, changes = case.decisions, [{"detail": "meanwhile"}]

    def changing(*given: Any) -> Any:
        if changes:
            office.alter(keys.payout(KEY), **changes.pop())
        return read(*given)

    monkeypatch.setattr(case, "decisions", changing)
    assert "detail meanwhile" in texts(page(office))

    changes += [{"detail": f"{number}"} for number in range(9)]
    code, out, err = command("payout", "report", KEY, "-o", str(tmp_path / "a.html"))
    assert (code, out, [*tmp_path.iterdir()]) == (Exit.CONFLICT, "", [])
    assert err == f"settle: {KEY}: changes while it is read; try again\n"


# Redaction

LEFT_OUT = {
    "bank account": ("iban", "holder", "paid_to"),
    "persons": ("by", "approved_by", "user_id", "request_id", "source_ip"),
    "reasons": ("reason", "approved_reason", "trouble", "detail"),
    "hashes": ("request_hash", "sent_sha256", "signature", "digest", "debit_line", "return_line"),
}


def test_each_attribute_is_either_shown_or_deliberately_left_out() -> None:
    meanings = tomllib.loads((PROJECT / "docs/reference/meanings.toml").read_text())
    every = {name for kind in ("payout", "entry", "payout_case") for name in meanings[kind]}

    assert every - SHOWN == {name for names in LEFT_OUT.values() for name in names}
    assert not PERSONS & SHOWN


def test_a_redacted_report_names_no_person_account_or_reason(office: Office, command: Command) -> None:
    digest = decide(office, command)
    decided = {"verdict": "ask", "case": "1", "by": ADA, "approved_by": GRACE, "reason": LETTER}
    changed = {"decided": decided | {"digest": digest, "approved_at": timestamp(NOW)}, "unheard_of": "Nora"}
    office.alter(keys.payout(KEY), **changed)
    digests = [digest, State.from_row(office.row()).digest]
    office.alter(keys.payout_proposed(KEY, 1, digest, "not-paid"), reason=7)
    command("payout", "propose", KEY, "paid", "--reason", LETTER)

    whole, redacted = page(office), page(office, redact=True)

    entry = office.desk.ledger.row(keys.entry("alice", office.row()["reserved_at"], KEY, "payout-reserve"))
    assert entry
    hashes = [office.row()["sent_sha256"], office.row()["request_hash"], entry["paid_to"]]
    secret = [HOLDER, IBAN, LETTER, "Nora", "/ada", "/grace", STUCK, *hashes, *(one[:16] for one in digests)]
    assert [one for one in secret if one not in whole] == []
    assert [one for one in [*secret, IBAN[-4:], "settle payout"] if one in redacted] == []
    for kept in (
        "not-paid",
        "48.20 EUR",
        "arn:aws:",
        f"PAYOUT_CASE#{KEY}: [left out]",
        office.row()["reference"],
    ):
        assert kept in redacted


# Malformed and hostile rows


def test_a_malformed_row_is_named_beside_the_good_ones(office: Office, command: Command) -> None:
    digest = decide(office, command)
    office.desk.ledger.put(
        entry("reserve", office.row()["reserved_at"], "alice", "transit:EUR") | {"amount": "x"}
    )
    earlier = keys.payout_proposed(KEY, 1, "0" * 64, "paid")
    for place, reason in ((keys.payout_approved(KEY, 1, digest), 7), (earlier, b"\xff")):
        office.desk.ledger.put((office.desk.ledger.row(place) or place) | {"reason": reason})

    shown = texts(page(office))

    assert "Rows that cannot be read" in shown
    approval = keys.payout_approved(KEY, 1, digest)
    for told in ("ENTRIES: amount is no int", f"({earlier['sk']})", f"({approval['sk']})"):
        assert told in shown
    assert [row[0] for row in cells(page(office), "Two persons decide")] == ["paid", "not-paid", "ask"]


def test_a_malformed_payout_is_named_in_one_line(office: Office, command: Command, tmp_path: Path) -> None:
    office.put()
    office.alter(keys.payout(KEY), amount="much")

    code, out, err = command("payout", "report", KEY, "-o", str(tmp_path / "a.html"))

    assert (code, out, len(err.splitlines()), [*tmp_path.iterdir()]) == (Exit.FAILED, "", 1, [])
    assert f"PAYOUT#{KEY}" in err


def test_hostile_texts_of_a_payout_add_no_element(office: Office, command: Command) -> None:
    decide(office, command)
    tame = [(one.tag, one.attrib) for one in parsed(page(office)).iter()]
    holder = "</pre><img src=x onerror=alert(1)>{{ 7*7 }}"
    office.alter(keys.payout(KEY), holder=holder, trouble=HOSTILE, detail=HOSTILE, **{"<script>": HOSTILE})
    for row in office.desk.ledger.rows():
        if row["pk"].startswith("PAYOUT_CASE"):
            office.desk.ledger.put(row | {"reason": HOSTILE, "by": HOSTILE, "verdict": HOSTILE})

    text = page(office)

    assert [one for one in ("img", "script") if one in {local(one) for one in parsed(text).iter()}] == []
    assert len(parsed(text).findall(".//{*}details")) == len(
        [tag for tag, _ in tame if tag.endswith("details")]
    )
    assert holder in "".join(parsed(text).itertext())
    assert not [one for one in "\x1b\u202e\x00\x7f" if one in text]


# The file


def test_the_report_file_is_private_and_replaced_only_with_force(
    office: Office, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    opened: list[str] = []
    monkeypatch.setattr("typer.launch", opened.append)
    office.put()

    assert command("payout", "report", KEY, "--open") == (Exit.FINE, f"{KEY}.html\n", "")

    made = tmp_path / f"{KEY}.html"
    assert (opened, made.stat().st_mode & 0o777) == ([os.fspath(made)], 0o600)
    assert made.read_text().startswith("<!DOCTYPE html>")
    made.write_text("mine")
    code, out, err = command("payout", "report", KEY)
    assert (code, out, made.read_text()) == (Exit.CONFLICT, "", "mine")
    assert err == f"settle: output: {KEY}.html exists; name another file, or add --force\n"
    assert command("payout", "report", KEY, "--force", "--redact")[0] == Exit.FINE
    assert HOLDER not in made.read_text()


def test_an_unknown_payout_has_no_report(office: Office, command: Command, tmp_path: Path) -> None:
    code, out, err = command("payout", "report", KEY, "-o", str(tmp_path / "a.html"))

    assert (code, out, [*tmp_path.iterdir()]) == (Exit.NOT_FOUND, "", [])
    assert err == f"settle: key: {KEY} has no payout in under-test\n"
