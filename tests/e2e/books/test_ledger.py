import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from settle.books import reach, verify
from settle.exit_codes import Exit
from settle.local import processes
from settle.orders import reversal
from settle.settlements.machines import Machine
from settle.settlements.start import start
from tests.e2e.embedded import Embedded, at_work, embedded_aws, new_account, new_request
from tests.e2e.journal.test_sealed_journal import sealed_rows
from tests.world import postgresql

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def embedded() -> Iterator[Embedded]:
    """A separate embedded AWS, because books put aside the entries that other tests tamper with."""
    with embedded_aws() as own:
        own.home.chmod(0o711)  # as root, PostgreSQL runs as nobody
        own.told("local", "up", "--ledger")
        yield own


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with postgresql.server() as server:
        yield f"{server}/postgres"


def ledger(embedded: Embedded, url: str, *arguments: str, code: int = 0) -> dict[str, Any]:
    finished = embedded.settle("ledger", *arguments, "--url", url, "--json")
    assert finished.returncode == code, finished.stderr
    found: dict[str, Any] = json.loads(finished.stdout)
    return found


def trial_balance(connection: psycopg.Connection) -> dict[str, dict[str, Decimal]]:
    """Return the trial balance by currency and kind of account, without zeros."""
    totals: dict[str, dict[str, Decimal]] = {}
    found = connection.execute("SELECT account, currency, balance FROM ledger.trial_balance()")
    for account, currency, balance in found.fetchall():
        kind = account.partition(":")[0] if ":" in account else "customers"
        of_currency = totals.setdefault(currency, {})
        of_currency[kind] = of_currency.get(kind, Decimal(0)) + balance
    return {currency: not_zero(kinds) for currency, kinds in totals.items()}


def not_zero(kinds: Mapping[str, Decimal | str]) -> dict[str, Decimal]:
    return {kind: Decimal(amount) for kind, amount in kinds.items() if Decimal(amount)}


def test_the_trial_balance_equals_the_proof_and_deletions_are_found(
    embedded: Embedded, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = new_request(embedded)
    key = request["key"]
    start(embedded.stack, Machine.STANDARD, json.dumps(request))
    reversal.reverse(embedded.stack, key, "the goods came back")
    embedded.wait_for(lambda: embedded.settlement(key)["status"] == "COMPENSATED")
    entries = {
        f"INSERT {row['pk']} {row['sk']}" for row in embedded.rows() if row["pk"].startswith("ENTRIES#")
    }
    embedded.wait_for(lambda: entries <= sealed_rows(embedded))

    assert embedded.settle("ledger", "migrate", "--url", url).returncode == 0
    done, again = ledger(embedded, url, "project"), ledger(embedded, url, "project")
    assert (done["entries"], done["put_aside"]) == (len(entries), 0)
    assert (again["objects"], again["entries"]) == (0, 0)
    monkeypatch.setattr(verify, "LAG", timedelta())
    assert reach.verify(url, embedded.stack, datetime.now(UTC))["agrees"]
    proven = embedded.told("reconcile")["currencies"]
    with psycopg.connect(url, autocommit=True) as connection:
        assert trial_balance(connection) == {currency: not_zero(kinds) for currency, kinds in proven.items()}
        with connection.transaction():
            connection.execute("ALTER TABLE ledger.entry DISABLE TRIGGER USER")
            connection.execute("DELETE FROM ledger.entry WHERE key = %s AND step = 'hold'", (key,))

    verdict = reach.verify(url, embedded.stack, datetime.now(UTC))
    assert [one.partition(" of ")[0] for one in verdict["differences"]] == [f"{key}:hold"]
    assert ledger(embedded, url, "verify")["agrees"], "what is younger than the lag may be on its way"


def test_a_rebuild_into_books_that_are_not_empty_is_refused(embedded: Embedded, url: str) -> None:
    finished = embedded.settle("ledger", "rebuild", "--url", url)

    assert finished.returncode == Exit.CONFLICT
    assert "rebuild into an empty database" in finished.stderr


def test_the_embedded_aws_keeps_its_books_after_its_follower_died(
    embedded: Embedded,
) -> None:
    def kept() -> dict[str, dict[str, Decimal]]:
        with psycopg.connect(embedded.running().ledger_url) as connection:
            return trial_balance(connection)

    def proven() -> dict[str, dict[str, Decimal]]:
        found = embedded.told("reconcile")["currencies"]
        return {currency: not_zero(kinds) for currency, kinds in found.items()}

    new_account(embedded, "ann", "100.00")
    embedded.wait_for(lambda: kept() == proven())
    assert f"LEDGER_URL={embedded.running().ledger_url}" in embedded.settle("local", "env").stdout
    (follower,) = (one for one in embedded.processes() if processes.FOLLOWER in one.cmdline())
    follower.kill()
    embedded.wait_for(lambda: not at_work([follower]))

    new_account(embedded, "ben", "7.00")
    embedded.told("local", "up", "--ledger")
    embedded.wait_for(lambda: kept() == proven())

    assert (embedded.home / "local.json").stat().st_mode & 0o077 == 0, "it has the password"
