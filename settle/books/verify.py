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
"""Age up to which entries may be on their way: the journal gathers for two minutes, and may retry."""

DIFFERENCES_MAX = 100
"""Maximum differences that are named; others are counted."""

_CHUNKS = ((0, 15), (15, 30))
"""Slices of a row's SHA-256 (hexadecimal digits) to sum up, because sums ignore the rows' order."""

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
WHERE posted_at >= %(day)s::timestamp AT TIME ZONE 'UTC'
    AND posted_at < (%(day)s::timestamp + interval '1 day') AT TIME ZONE 'UTC'
    AND posted_at >= %(begin)s AND posted_at < %(end)s AND currency = %(currency)s
"""

_SECOND = len("2026-11-20T12:00:00")
_YOUNG = """
SELECT to_char(posted_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS'), count(*)
FROM ledger.entry WHERE posted_at >= %(end)s GROUP BY 1
"""
"""Counts entries younger than LAG by second, because a busy stage has a million."""

_SUSPENSE = "ledger.entry WHERE booked_at <> posted_at"
"""The view `ledger.suspense`, written out, because a user may be allowed to read only the entries."""

Day = tuple[str, str]
Read = Callable[[], Iterable[Row]]


@dataclass
class Sum:
    """Sums of a day's entries in a currency: equal entries give equal sums."""

    count: int = 0
    amount: int = 0
    digest: list[int] = field(default_factory=lambda: [0, 0])

    def add(self, row: Row) -> None:
        hashed = hashlib.sha256(line(row).encode()).hexdigest()
        self.count += 1
        self.amount += row["amount"]
        self.digest = [
            total + int(hashed[start:end], 16)
            for total, (start, end) in zip(self.digest, _CHUNKS, strict=True)
        ]


@dataclass
class Verdict:
    """Whether the books match the table up to `until`.

    - `behind_seconds`: the age of the oldest entry that the books lack; 0 without one. The entry may be
      posted after `until`.
    - `suspense`: counts entries that came after their month was closed. They are not differences.
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
        return not self.differences and not self.put_aside


def verify(connection: psycopg.Connection, read: Read, now: datetime, kept_from: str = "") -> Verdict:
    """Compare the books with the table's entries. Each `read()` yields the entries anew.

    Entries younger than LAG are only counted. Table entries before `kept_from` may have expired.
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
        verdict.behind_seconds = max(0, int(age.total_seconds()))  # the clocks differ
    return verdict


def digest(days: Mapping[Day, Sum]) -> str:
    hashed = hashlib.sha256()
    for (day, currency), one in sorted(days.items()):
        hashed.update(f"{day} {currency} {one.count} {one.amount} {one.digest}\n".encode())
    return hashed.hexdigest()


def digest_of_all(connection: psycopg.Connection) -> str:
    return digest(_days(connection, "-infinity", "infinity"))


def line(row: Row) -> str:
    key = str(row["sk"]).removeprefix(f"{row['posted_at']}#").removesuffix(f":{row['step']}")
    names = ("posted_at", "debit", "credit", "amount", "currency")
    return "|".join((key, row["step"], *(str(row[name]) for name in names)))


def _missing(connection: psycopg.Connection, young: Counter[str], end: str) -> list[str]:
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
