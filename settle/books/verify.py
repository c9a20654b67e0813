"""The comparison of the books with the table: by day and currency first, and row by row where they differ."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import psycopg

from settlement.core.ledger.keys import Row
from settlement.core.model.timestamps import timestamp

LAG = timedelta(minutes=15)
"""An entry that is younger may be on its way: the journal gathers for two minutes, and may try again."""

DIFFERENCES_MAX = 100
"""Most differences that are named; the others are counted."""

_CHUNKS = ((0, 15), (15, 30))
"""The two parts of a row's SHA-256, in hexadecimal digits, whose sums are the digest: free of order."""

_LINE = """
concat_ws('|', key, step, to_char(posted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    debit, credit, amount, currency)
"""
_SUMS = ", ".join(
    f"sum(('x' || substr(hash, {start + 1}, {end - start}))::bit(60)::bigint)" for start, end in _CHUNKS
)
_DAYS = f"""
SELECT day, currency, count(*), sum(amount), {_SUMS}
FROM (SELECT to_char(posted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD') AS day, currency, amount,
             encode(sha256(convert_to({_LINE}, 'UTF8')), 'hex') AS hash
      FROM ledger.entry WHERE posted_at >= %(begin)s AND posted_at < %(end)s) AS hashed
GROUP BY day, currency
"""
_ROWS = f"""
SELECT key, step, {_LINE} FROM ledger.entry
WHERE posted_at >= %(day)s::date AT TIME ZONE 'UTC' AND posted_at < (%(day)s::date + 1) AT TIME ZONE 'UTC'
    AND posted_at >= %(begin)s AND posted_at < %(end)s AND currency = %(currency)s
"""

_SECOND = len("2026-11-20T12:00:00")
_YOUNG = """
SELECT to_char(posted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS'), count(*)
FROM ledger.entry WHERE posted_at >= %(end)s GROUP BY 1
"""
"""The entries that are on their way, or have come, by the second: a busy stage has a million of them."""

_SUSPENSE = "ledger.entry WHERE booked_at <> posted_at"
"""The view `ledger.suspense`, for a user who may read the entries and not finance's views."""

Day = tuple[str, str]
Read = Callable[[], Iterable[Row]]


@dataclass
class Sum:
    """What all entries of a day in a currency come to; two sums of equal entries are equal."""

    count: int = 0
    amount: int = 0
    digest: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, row: Row) -> None:
        """Add an entry of the table."""
        hashed = hashlib.sha256(line(row).encode()).hexdigest()
        self.count += 1
        self.amount += row["amount"]
        self.digest = [
            total + int(hashed[start:end], 16)
            for total, (start, end) in zip(self.digest, _CHUNKS, strict=True)
        ]


@dataclass
class Verdict:
    """Whether the books have what the table has, up to `until`.

    `behind_seconds` is the age of the oldest entry that is in the table and not in the books, also of one
    after `until`; 0 without one. `suspense` counts the entries that came after their month was closed, which
    is no difference: they are in the books and in the table.
    """

    until: str
    behind_seconds: int = 0
    entries: int = 0
    on_their_way: int = 0
    put_aside: int = 0
    suspense: int = 0
    differences: list[str] = field(default_factory=list)
    more: int = 0
    digest: str = ""

    @property
    def agrees(self) -> bool:
        """Whether nothing differs, and nothing was put aside."""
        return not self.differences and not self.put_aside


def verify(connection: psycopg.Connection, read: Read, now: datetime, kept_from: str = "") -> Verdict:
    """Compare the books with the entries that `read` yields, each time that it is called.

    Younger ones than the lag are counted and not compared. `kept_from` is the time before which the table's
    entries may have expired.
    """
    begin, end = kept_from or timestamp(datetime.min.replace(tzinfo=now.tzinfo)), timestamp(now - LAG)
    verdict = Verdict(
        end, put_aside=_count(connection, "ledger.put_aside"), suspense=_count(connection, _SUSPENSE)
    )
    table: dict[Day, Sum] = defaultdict(Sum)
    young = Counter[str]()
    for row in read():
        if begin <= row["posted_at"] < end:
            table[_day(row)].add(row)
        elif row["posted_at"] >= end:
            young[row["posted_at"][:_SECOND]] += 1
    verdict.on_their_way = young.total()
    missing_from = _missing(connection, young, end)
    books = _days(connection, begin, end)
    verdict.entries = sum(one.count for one in table.values())
    verdict.digest = digest(books)
    different = {day for day in table.keys() | books.keys() if table.get(day) != books.get(day)}
    if different:
        for told, posted_at in _differences(connection, read, different, begin, end):
            missing_from += [posted_at] if posted_at else []
            if len(verdict.differences) < DIFFERENCES_MAX:
                verdict.differences.append(told)
            else:
                verdict.more += 1
    if missing_from:
        age = now - min(datetime.fromisoformat(one).replace(tzinfo=now.tzinfo) for one in missing_from)
        verdict.behind_seconds = max(0, int(age.total_seconds()))  # clocks differ
    return verdict


def digest(days: Mapping[Day, Sum]) -> str:
    """Return one digest of all days: two books of equal entries have the same."""
    hashed = hashlib.sha256()
    for (day, currency), one in sorted(days.items()):
        hashed.update(f"{day} {currency} {one.count} {one.amount} {one.digest}\n".encode())
    return hashed.hexdigest()


def digest_of_all(connection: psycopg.Connection) -> str:
    """Return the digest of all entries of the books."""
    return digest(_days(connection, "-infinity", "infinity"))


def line(row: Row) -> str:
    """Return an entry of the table as the line that its digest covers."""
    key = str(row["sk"]).removeprefix(f"{row['posted_at']}#").removesuffix(f":{row['step']}")
    names = ("posted_at", "debit", "credit", "amount", "currency")
    return "|".join((key, row["step"], *(str(row[name]) for name in names)))


def _missing(connection: psycopg.Connection, young: Counter[str], end: str) -> list[str]:
    """Return the seconds of which the table has more entries than the books."""
    books = dict[str, int](connection.execute(_YOUNG, {"end": end}).fetchall())
    return [second for second, count in young.items() if count > books.get(second, 0)]


def _days(connection: psycopg.Connection, begin: str, end: str) -> dict[Day, Sum]:
    found = connection.execute(_DAYS, {"begin": begin, "end": end})
    return {
        (day, currency): Sum(count, int(amount), [int(first), int(second)])
        for day, currency, count, amount, first, second in found
    }


def _differences(
    connection: psycopg.Connection, read: Read, days: set[Day], begin: str, end: str
) -> Iterator[tuple[str, str]]:
    """Yield a line for each difference, with the entry's time if it is not in the books."""
    table: dict[Day, dict[str, str]] = defaultdict(dict)
    for row in read():
        if begin <= row["posted_at"] < end and (day := _day(row)) in days:
            told = line(row)
            table[day]["|".join(told.split("|")[:2])] = told
    for day in sorted(days):
        named = {"day": day[0], "currency": day[1], "begin": begin, "end": end}
        books = {f"{key}|{step}": told for key, step, told in connection.execute(_ROWS, named)}
        for name in sorted(table[day].keys() | books.keys()):
            key, _, step = name.partition("|")
            if name not in books:
                yield f"{key}:{step} of {day[0]}: is not in the books", table[day][name].split("|")[2]
            elif name not in table[day]:
                yield f"{key}:{step} of {day[0]}: is in the books, and not in the table", ""
            elif books[name] != table[day][name]:
                here, there = books[name], table[day][name]
                yield f"{key}:{step} of {day[0]}: is {here} in the books, {there} in the table", ""


def _day(row: Row) -> Day:
    return row["posted_at"][:10], row["currency"]


def _count(connection: psycopg.Connection, rows: str) -> int:
    found: Any = connection.execute(f"SELECT count(*) FROM {rows}").fetchone()
    return int(found[0])
