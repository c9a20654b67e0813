import gzip
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from settle.books import project, schema
from settle.exit_codes import CommandFailed, Exit
from settlement.books.page import Projected
from settlement.journal import lines, seals
from settlement.journal.objects import Found
from settlement.proof import table_scan
from tests.books.objects import an_object
from tests.proof import sealed_town as towns
from tests.proof.town import CONFIG, Town
from tests.world.environment import NOW
from tests.world.sealed import inserted

Connect = Callable[[], psycopg.Connection]


@pytest.fixture(scope="module")
def entry(town: Town) -> dict[str, Any]:
    return towns.entries(town)[0]


class SealedCopy:
    def __init__(self, objects: dict[str, bytes]) -> None:
        self._objects = objects

    def objects(self, folder: str, after: str = "") -> Iterator[Found]:
        assert folder == "journal/"
        yield from map(Found, self._objects)

    def read(self, found: Found) -> bytes:
        return self._objects[found.name]


def take(connection: psycopg.Connection, *told: Any) -> Projected:
    return project.project(connection, *an_object(*told))


def booked(connection: psycopg.Connection) -> set[tuple[Any, ...]]:
    found = connection.execute("SELECT key, step, debit, credit, amount, currency FROM ledger.entry")
    return set(found.fetchall())


def in_table(town: Town) -> set[tuple[Any, ...]]:
    return {
        (
            row["sk"].removeprefix(f"{row['posted_at']}#").removesuffix(f":{row['step']}"),
            *(row[name] for name in ("step", "debit", "credit", "amount", "currency")),
        )
        for row in towns.entries(town)
    }


def take_all(connection: psycopg.Connection, town: Town, seed: int = 0) -> None:
    for name, content in towns.objects(town, seed).items():
        project.project(connection, name, content)


def aside(connection: psycopg.Connection) -> list[str]:
    return [str(one["reason"]) for one in project.aside(connection)]


def test_the_trial_balance_equals_the_sums_of_the_proof(connection: psycopg.Connection, town: Town) -> None:
    take_all(connection, town)
    found = connection.execute("SELECT account, currency, balance FROM ledger.trial_balance()").fetchall()

    proof = table_scan.check(town.store, currencies=CONFIG.currencies)
    totals: dict[tuple[str, str], Decimal] = {}
    for account, currency, balance in found:
        kind = account.partition(":")[0] if ":" in account else "customers"
        totals[currency, kind] = totals.get((currency, kind), Decimal(0)) + balance
    proven = {
        (currency, kind): Decimal(amount) / 10 ** CONFIG.currencies[currency]
        for currency, kinds in proof.totals.items()
        for kind, amount in kinds.items()
    }
    assert {name: one for name, one in totals.items() if one} == {n: one for n, one in proven.items() if one}
    assert {currency: sum(b for _, c, b in found if c == currency) for currency in ("EUR", "JPY")} == {
        "EUR": 0,
        "JPY": 0,
    }


def test_concurrent_projectors_book_each_entry_once(connect: Connect, town: Town) -> None:
    told = [*towns.objects(town).items()]

    def run(seed: int) -> int:
        mine, connection = told.copy(), connect()
        random.Random(seed).shuffle(mine)
        return sum(project.project(connection, name, content).entries for name, content in mine)

    with ThreadPoolExecutor(4) as threads:
        new = sum(threads.map(run, range(4)))

    assert new == len(towns.entries(town))
    assert booked(connect()) == in_table(town)


def test_a_second_entry_of_a_step_is_put_aside(connection: psycopg.Connection, entry: dict[str, Any]) -> None:
    other = entry | {"amount": entry["amount"] + 1}
    first = take(connection, inserted(entry))
    second = take(connection, inserted(other), inserted(entry))
    both = take(connection, inserted(entry), inserted(other))

    assert [first, second, both] == [Projected(1, 1, 0), Projected(1, 0, 1), Projected(1, 0, 1)]
    assert connection.execute("SELECT amount FROM ledger.entry").fetchall() == [(entry["amount"],)]
    assert aside(connection) == ["another entry of this key and step is in the books"] * 2


WEEKS, OFFSET = "2026-W47-5T12:00:00.000Z", "2026-11-20T10:00:00.000+23:59:59"
BROKEN: dict[str, tuple[Any, str]] = {
    "no object": ([], "no entry: AttributeError"),
    "no row": ({"event": "INSERT"}, "no entry: KeyError"),
    "half a surrogate": ({"credit": "bob\ud800"}, "no entry: credit: must be printable text"),
    "a zero byte": ({"credit": "bob\0"}, "no entry: credit: must be printable text"),
    "an amount below zero": ({"amount": -1}, "no entry: amount: must be a whole number, at least 0"),
    "a text for an amount": ({"amount": "12"}, "no entry: amount: must be a whole number"),
    "a huge amount": ({"amount": 2**63}, "no entry: amount: must be a whole number"),
    "one account": ({"debit": "alice", "credit": "alice"}, "no entry: debit: must be another account"),
    "no step": ({"step": ""}, "no entry: step: must be printable text"),
    "a time without a zone": ({"posted_at": "2026-11-20T12:00:00"}, "no entry: "),
    **{
        f"the time {time}, which PostgreSQL cannot read": (
            {"posted_at": time, "sk": f"{time}#order-2026-000001:hold", "step": "hold"},
            "no entry: posted_at: must be an instant",
        )
        for time in (WEEKS, OFFSET)
    },
    "an account that no index takes": ({"credit": "b" * 3_000}, "no entry: credit: must be at most 600"),
    "another key": ({"sk": "x"}, "no entry: "),
    "an unknown currency": ({"currency": "XAU"}, "currency: is not one of the books"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_poisoned_line_is_put_aside_and_the_others_booked(
    connection: psycopg.Connection, entry: dict[str, Any], town: Town, case: str
) -> None:
    change, reason = BROKEN[case]
    another = next(row for row in towns.entries(town) if row["sk"] != entry["sk"])
    told = inserted(another | change) if isinstance(change, dict) and "event" not in change else change

    done = take(connection, inserted(entry), told)

    assert done == Projected(1, 1, 1)
    (found,) = aside(connection)
    assert found.startswith(reason)


@pytest.mark.parametrize("event", ["MODIFY", "REMOVE"])
def test_a_change_of_an_entry_is_put_aside(
    connection: psycopg.Connection, entry: dict[str, Any], event: str
) -> None:
    told = {"event": event, "at": 1, "old": lines.image(entry)}

    assert take(connection, told) == Projected(1, 0, 1)
    assert aside(connection) == [f"{event} of an entry, which never changes"]


DEEP = b"[" * 100_000 + b"]" * 100_000
BAD_OBJECTS = {
    "no gzip": ("journal/0/bad.jsonl.gz", b"no gzip"),
    "another's": ("journal/0/bad.jsonl.gz", gzip.compress(b"{}", mtime=0)),
    "cut off": ("journal/0/bad.jsonl.gz", gzip.compress(b"{", mtime=0)[:-9]),
    "nested too deep": (seals.object_name(DEEP, NOW), gzip.compress(DEEP)),
}


@pytest.mark.parametrize("bad", BAD_OBJECTS)
def test_an_unreadable_object_delays_no_other_and_awaits_a_person(
    connection: psycopg.Connection, entry: dict[str, Any], bad: str
) -> None:
    name, _ = BAD_OBJECTS[bad]
    copy = SealedCopy(dict([BAD_OBJECTS[bad], an_object(inserted(entry))]))

    done = project.project_all(connection, copy)

    assert (done.objects, done.entries) == (1, 1)
    assert [one.partition(": ")[0] for one in done.unreadable] == [name]
    assert project.project_all(connection, copy).unreadable == done.unreadable, "it is in no inbox"


@pytest.mark.parametrize("statement", ["UPDATE {} SET {}", "DELETE FROM {}", "TRUNCATE {} CASCADE"])
@pytest.mark.parametrize("role", ["test", "ledger_projector", "ledger_finance"])
def test_no_role_can_change_booked_entries(
    connection: psycopg.Connection, town: Town, statement: str, role: str
) -> None:
    take_all(connection, town)
    connection.execute(f"SET ROLE {role}")

    for table, change in (("entry", "amount = 0"), ("object", "lines = 0"), ("put_aside", "reason = ''")):
        error = "is append-only" if role == "test" else "permission denied"
        with pytest.raises(psycopg.Error, match=error):
            connection.execute(statement.format(f"ledger.{table}", change))


def test_each_database_role_has_only_the_permissions_it_needs(
    connection: psycopg.Connection, town: Town
) -> None:
    connection.execute("SET ROLE ledger_projector")
    take_all(connection, town)
    connection.execute("SET ROLE ledger_finance")

    for view in ("statement", "settlement", "suspense", "movement", "trial_balance()"):
        connection.execute(f"SELECT * FROM ledger.{view}")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("SELECT * FROM ledger.entry")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("INSERT INTO ledger.closed_month (month) VALUES ('2026-01-01')")


def test_statements_and_settlements_in_sql_equal_the_commands_output(
    connection: psycopg.Connection, town: Town
) -> None:
    take_all(connection, town)

    of_bob = connection.execute(
        "SELECT step, change, balance FROM ledger.statement WHERE account = 'bob'"
        " ORDER BY booked_at, key, step"
    ).fetchall()
    settled = connection.execute(
        "SELECT steps, escrow FROM ledger.settlement WHERE key = 'order-2026-000001'"
    ).fetchone()
    assert of_bob[0] == ("deposit", Decimal("1000.00"), Decimal("1000.00"))
    assert of_bob[-1][2] == sum(change for _, change, _ in of_bob)
    assert settled == (["hold", "release", "fee"], Decimal("0.00"))


def test_migrating_again_works_unless_a_currencys_decimals_differ(url: str) -> None:
    schema.migrate(url, {"EUR": 2, "KWD": 3})

    with pytest.raises(CommandFailed, match=r"^ledger: KWD has 3 decimals in the books, and 2 here$") as told:
        schema.migrate(url, {"KWD": 2})
    assert told.value.code is Exit.CONFLICT
