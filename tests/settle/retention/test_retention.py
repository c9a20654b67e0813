import json
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from handlers import _dependencies
from settle.accounts import statement
from settle.exit_codes import CommandFailed, Exit
from settle.journal import sealed
from settle.proof import books
from settle.settlements import settlement
from settlement.journal import lines
from settlement.proof import table_scan
from settlement.retention.expiry import EXPIRES
from tests.settle.conftest import Command, failing
from tests.settle.desk import Desk
from tests.world.constants import KEY
from tests.world.environment import NOW
from tests.world.ledger import adds
from tests.world.sealed import Sealed

DAYS = 400
LATER = NOW + timedelta(days=DAYS + 2)


class Clock:
    """Replaces `datetime` in the commands' modules: a clock, which also parses instants."""

    fromisoformat = staticmethod(datetime.fromisoformat)
    now = staticmethod(lambda zone: LATER)


@pytest.fixture
def journal() -> Sealed:
    return Sealed()


@pytest.fixture
def old(desk: Desk, journal: Sealed, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Alice has paid Bob and a merchant; all payment entries have expired."""
    monkeypatch.setattr(_dependencies.store, "_adds", adds(days=DAYS))
    for module in (books, sealed, settlement, statement, table_scan):
        monkeypatch.setattr(module, "datetime", Clock)
    desk.pay()
    desk.pay("order-2026-000102", amount="10.00", reference="invoice 7")
    journal.copy(row for row in desk.ledger.rows() if lines.is_sealed(row))
    journal.seal()
    for row in desk.ledger.rows():
        if EXPIRES in row:
            desk.ledger.delete({"pk": row["pk"], "sk": row["sk"]})
    config = json.loads(desk.stack.outputs["StageConfig"]) | {"shortest_retention_days": DAYS}
    outputs = desk.stack.outputs | {"StageConfig": json.dumps(config), "JournalBucket": "journal"}
    desk.stack = replace(desk.stack, outputs=outputs, clients=desk.stack.clients | {"s3": journal.s3})
    return desk


def kept(desk: Desk) -> Desk:
    """Return the desk with unlimited retention."""
    config = json.loads(desk.stack.outputs["StageConfig"]) | {"shortest_retention_days": None}
    outputs = desk.stack.outputs | {"StageConfig": json.dumps(config)}
    desk.stack = replace(desk.stack, outputs=outputs)
    return desk


def test_books_are_proven_only_with_the_stages_retention_known(old: Desk) -> None:
    proof = books.prove(old.stack)
    unlimited = books.prove(kept(old).stack)

    assert (proof["conserved"], proof["faults"], proof["unproven"]) == (True, [], [])
    assert proof["currencies"]["EUR"]["fees"] != "0.00"
    assert any("has no entry hold" in fault for fault in unlimited["faults"])


def test_the_journal_comparison_agrees_and_counts_expired_entries(old: Desk) -> None:
    found = sealed.compare(old.stack, "stack", None)

    assert [fault for fault in found["faults"] if "sealing has stopped" not in fault] == []
    assert found["expired"] == 6


@pytest.mark.parametrize("account", ["alice", "bob"])
def test_a_statement_names_its_start_and_the_balance_brought_forward(old: Desk, account: str) -> None:
    shown = statement.show(old.stack, account)

    assert shown["complete_since"] == "2026-11-23T12:00:00.000Z"
    assert (shown["entries"][-1]["sum"] if shown["entries"] else shown["brought_forward"]) == shown[
        "available"
    ]


@pytest.mark.parametrize(("account", "count"), [("alice", 3), ("bob", 2), ("fees:EUR", 2)])
def test_a_statement_with_the_archive_is_complete(old: Desk, account: str, count: int) -> None:
    shown = statement.show(old.stack, account, "stack")

    assert "complete_since" not in shown
    assert len(shown["entries"]) == count
    assert [one["reference"] for one in shown["entries"]].count("invoice 7") == 1
    assert shown["entries"][-1]["sum"] == shown["available"]
    assert [one["posted_at"] for one in shown["entries"]] == sorted(
        one["posted_at"] for one in shown["entries"]
    )


def test_an_internal_accounts_balance_is_unknown_without_the_archive(old: Desk) -> None:
    with pytest.raises(CommandFailed, match="there is no fees:EUR"):
        statement.show(old.stack, "fees:EUR")

    old.pay("order-2026-000103")

    assert statement.show(old.stack, "fees:EUR")["available"] is None


def test_an_entry_in_both_table_and_journal_is_listed_once(old: Desk, journal: Sealed) -> None:
    old.pay("order-2026-000103")
    journal.copy(row for row in old.ledger.rows() if lines.is_sealed(row))

    shown = statement.show(old.stack, "alice", "stack")

    assert len(shown["entries"]) == 4
    assert shown["entries"][-1]["sum"] == shown["available"]


def test_a_deleted_unexpired_entry_is_not_filled_from_the_archive(
    old: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement must not hide such tampering."""
    monkeypatch.setattr(Clock, "now", staticmethod(lambda zone: NOW + timedelta(days=1)))

    assert len(statement.show(old.stack, "alice", "stack")["entries"]) == 1


def test_an_invalid_or_changed_archive_is_refused(old: Desk, journal: Sealed, tmp_path: Path) -> None:
    with failing(Exit.USAGE, "archive: must be stack, s3://"):
        statement.show(old.stack, "alice", str(tmp_path / "none"))

    journal.rewrite(journal.names("journal/")[0], b"{}\n")

    with failing(Exit.FAILED, r"archive: journal/.*cannot be read: its content is not"):
        statement.show(old.stack, "alice", "stack")


def test_a_settlement_with_expired_entries_is_shown_from_its_row(old: Desk) -> None:
    shown = settlement.describe(old.stack, KEY)
    told = [(line["step"], line["amount"], line["escrow"]) for line in shown["entries"]]

    assert told == [
        ("hold", "48.20", "48.20"),
        ("verify", "", "48.20"),
        ("release", "47.72", "0.48"),
        ("fee", "0.48", "0.00"),
    ]
    assert "expired: the settlement's row tells it" in shown["entries"][0]["note"]


def test_the_commands_mention_expired_entries(
    old: Desk, settle: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("settle.stack.find", lambda name: old.stack)

    _, out, _ = settle("account", "show", "alice")
    assert "complete since 2026-11-23T12:00:00.000Z: brought forward" in out

    _, out, _ = settle("account", "show", "alice", "--archive", "stack")
    assert "complete since" not in out

    _, out, _ = settle("reconcile", "--against", "stack")
    assert "0 older than the journal, 6 expired" in out
