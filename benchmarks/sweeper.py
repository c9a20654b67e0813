"""Prove on a model that a sweeper folds each credit exactly once.

A merchant's credit puts its entry and marks its settlement's row, and leaves the balance alone. An entry may
become visible long after its `posted_at`, so no sweeper can know that a bucket of `posted_at` is complete.
The balance row therefore keeps, for each open bucket, the sum that is folded. A sweep reads that sum, then
the bucket's entries, and adds the difference, if the folded sum is still the one that it has read. Closing a
bucket moves its sum to a row of its own, so that the bucket can be swept again for ever.
"""

from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

from benchmarks.layouts.writes import Refusal, Row, Table, Write, put

HISTORIES = 30_000
HISTORIES_WITH_A_BUG = 3_000
TICKS = 160
BUCKET_TICKS = 10
CREDITS = 12
AMOUNT = 10
BALANCE = ("ACCOUNT#merchant", "BALANCE")
BUGS = ("blind", "entries first", "watermark", "forgets", "sweeps once")
"""Planted: the update asks for no sum; the entries are read first; only entries after the last one that was
seen are folded; closing a bucket keeps its sum nowhere; a refund gives up when another sweeper is quicker."""

Call = Generator[Callable[[], Any], Any, Any]
"""A function's call: it yields its reads and writes, one by one, and may be late or die at each."""


class Broken(Exception):
    """A history has broken a rule."""


def bucket_of(posted_at: int) -> int:
    """Return the bucket of a time."""
    return posted_at // BUCKET_TICKS


def swept(bucket: int) -> str:
    """Return the balance row's attribute with the folded sum of an open bucket."""
    return f"swept_{bucket:03}"


def closed(bucket: int) -> tuple[str, str]:
    """Return the key of the row with the folded sum of a closed bucket."""
    return ("SWEPT#merchant", f"{bucket:03}")


@dataclass(frozen=True)
class Functions:
    """The functions that work on a merchant's account."""

    table: Table
    bug: str | None

    def credit(self, key: str, now: int) -> Call:
        """Release a payment; its slot is the only idempotency check."""
        slot = Write((f"SETTLEMENT#{key}", "SETTLEMENT"), _absent("release_at"), assign={"release_at": now})
        entry = {
            "pk": "ENTRIES#merchant",
            "sk": f"{now:04}#{key}:release",
            "amount": AMOUNT,
            "posted_at": now,
        }
        yield lambda: self.table.write([slot, put(entry)])

    def sweep(self, bucket: int) -> Call:
        """Fold a bucket's new credits; return whether no other sweeper was quicker."""
        early = (yield lambda: self._entries(bucket, "first page")) if self.bug == "entries first" else []
        row = yield lambda: dict(self.table.rows[BALANCE])
        is_open = bucket >= row["open_from"]
        old = row.get(swept(bucket), 0)
        if not is_open:
            kept = yield lambda: self.table.read(closed(bucket))
            old = kept["sum"] if kept else 0
        entries = early or (yield lambda: self._entries(bucket, "first page"))
        last = entries[-1]["sk"] if entries else ""
        entries = entries + (yield lambda: self._entries(bucket, "rest", last))
        new = sum(entry["amount"] for entry in entries)
        if self.bug == "watermark":
            seen = row.get("seen", "")
            new = old + sum(entry["amount"] for entry in entries if entry["sk"] > seen)
        if new == old:
            return True
        same = () if self.bug == "blind" else (swept(bucket) if is_open else "sum", old)
        fold = Write(BALANCE, (), add={"available": new - old}, assign=self._seen(row, entries))
        if is_open:
            conditions = (*_unchanged(*same), ("open_from", "=", row["open_from"]))
            changes = {**fold.assign, swept(bucket): new}
            writes = [Write(BALANCE, conditions, assign=changes, add=fold.add)]
        else:
            writes = [Write(closed(bucket), _unchanged(*same), assign={"sum": new}), fold]
        answer = yield lambda: self.table.write(writes)
        return not isinstance(answer, Refusal)

    def _seen(self, row: Row, entries: list[Row]) -> Row:
        """Return the last entry that was seen, which only the planted watermark keeps."""
        if self.bug != "watermark":
            return {}
        return {"seen": max([row.get("seen", ""), *(entry["sk"] for entry in entries)])}

    def close(self) -> Call:
        """Move the folded sum of the oldest open bucket to a row of its own."""
        row = yield lambda: dict(self.table.rows[BALANCE])
        bucket = row["open_from"]
        name, old = swept(bucket), row.get(swept(bucket))
        conditions = (("open_from", "=", bucket), *_unchanged(name, old or 0))
        shut = Write(BALANCE, conditions, assign={"open_from": bucket + 1}, remove=(name,))
        kept = put({"pk": closed(bucket)[0], "sk": closed(bucket)[1], "sum": old})
        keeps = old is not None and self.bug != "forgets"
        yield lambda: self.table.write([shut, kept] if keeps else [shut])

    def refund(self, key: str, now: int) -> Call:
        """Take a released payment back, after a sweep if the balance lacks it."""
        settlement = yield lambda: dict(self.table.rows.get((f"SETTLEMENT#{key}", "SETTLEMENT"), {}))
        if "release_at" not in settlement:
            return
        slot = Write(
            (f"SETTLEMENT#{key}", "SETTLEMENT"),
            (("release_at", "present", None), ("release_reversed_at", "absent", None)),
            assign={"release_reversed_at": now},
        )
        name, bucket = f"{now:04}#{key}:compensate:release", bucket_of(settlement["release_at"])
        known = yield lambda: sum(row["amount"] for row in self._entries(bucket, "all"))
        answer = yield lambda: self._debit(slot, name)
        if not (isinstance(answer, Refusal) and answer.write.key == BALANCE):
            return
        while not (yield from self.sweep(bucket)) and self.bug != "sweeps once":
            pass
        answer = yield lambda: self._debit(slot, name)
        if isinstance(answer, Refusal) and answer.write.key == BALANCE and self.folded(bucket) < known:
            raise Broken("a refund lacks only funds that are folded and spent")

    def folded(self, bucket: int) -> int:
        """Return the folded sum of a bucket, open or closed."""
        kept = self.table.rows.get(closed(bucket), {})
        total: int = kept.get("sum", 0) + self.table.rows[BALANCE].get(swept(bucket), 0)
        return total

    def payout(self, name: str, now: int) -> Call:
        """Pay the merchant out, as far as the folded balance goes."""
        slot = put({"pk": f"SETTLEMENT#{name}", "sk": "SETTLEMENT"})
        yield lambda: self._debit(slot, f"{now:04}#{name}:hold")

    def _debit(self, slot: Write, name: str) -> Row | Refusal | None:
        entry = put({"pk": "ENTRIES#merchant", "sk": name, "amount": -AMOUNT})
        debit = Write(BALANCE, (("available", ">=", AMOUNT),), add={"available": -AMOUNT})
        return self.table.write([slot, entry, debit])

    def _entries(self, bucket: int, page: str, after: str = "") -> list[Row]:
        """Return a bucket's credits: the first three, or all after one. Pages are no snapshot."""
        found = sorted(
            (row for row in self.table.rows.values() if "posted_at" in row and row["sk"] > after),
            key=lambda row: str(row["sk"]),
        )
        found = [row for row in found if bucket_of(row["posted_at"]) == bucket]
        return found[:3] if page == "first page" else found


def _absent(name: str) -> tuple[tuple[str, str, Any], ...]:
    return ((name, "absent", None),)


def _unchanged(name: str = "", total: int = 0) -> tuple[tuple[str, str, Any], ...]:
    """Return the condition that a folded sum is unchanged; none without a name."""
    if not name:
        return ()
    return ((name, "=", total),) if total else _absent(name)


class History:
    """One random history, which depends on nothing but its seed. `run` raises Broken."""

    def __init__(self, bug: str | None, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311
        self._table = Table()
        self._functions = Functions(self._table, bug)
        row = {"pk": BALANCE[0], "sk": BALANCE[1], "available": 0, "open_from": 0}
        self._table.write([put(row)])
        self._calls: list[tuple[Call, Callable[[], Any]]] = []
        self._folded: dict[int, int] = {}
        self._released: list[str] = []

    def run(self) -> None:
        """Run the history, and check the rules after each write and in the end."""
        for now in range(TICKS):
            self._perhaps_start(now)
            if self._calls:
                self._advance(self._random.randrange(len(self._calls)))
        while self._calls:  # the late ones
            self._advance(len(self._calls) - 1, dies=0.0)
        for bucket in range(bucket_of(TICKS) + 1):
            self._start(self._functions.sweep(bucket))
            while self._calls:
                self._advance(0, dies=0.0)
        statement = sum(row["amount"] for row in self._table.rows.values() if "amount" in row)
        if statement != self._table.rows[BALANCE]["available"]:
            raise Broken("each entry is folded exactly once")

    def _perhaps_start(self, now: int) -> None:
        chance, random = self._random.random(), self._random
        clock = max(0, now + random.randint(-3, 3))
        if chance < 0.20 and len(self._released) < CREDITS:
            key = f"k{len(self._released)}"
            self._released.append(key)
            for attempt in range(random.choice((1, 1, 2))):  # a second try has another clock
                self._start(self._functions.credit(key, clock + attempt))
        elif chance < 0.45:
            recent = bucket_of(now) - random.choice((0, 0, 0, 1, 1, 2, 4))
            for _ in range(random.choice((1, 1, 2))):  # two sweepers at once
                self._start(self._functions.sweep(max(0, recent)))
        elif chance < 0.55 and bucket_of(now) > self._table.rows[BALANCE]["open_from"]:
            self._start(self._functions.close())
        elif chance < 0.60 and self._released:
            self._start(self._functions.refund(random.choice(self._released), clock))
        elif chance < 0.63:
            self._start(self._functions.payout(f"payout-{now}", clock))

    def _start(self, call: Call) -> None:
        self._calls.append((call, next(call)))

    def _advance(self, position: int, dies: float = 0.08) -> None:
        call, do = self._calls.pop(position)
        if self._random.random() < dies:
            return
        answer = do()
        self._check()
        with suppress(StopIteration):
            self._calls.append((call, call.send(answer)))

    def _check(self) -> None:
        """Check the balance against the folded sums, which never shrink nor exceed what there is."""
        balance = self._table.rows[BALANCE]
        folded = {int(name[6:]): value for name, value in balance.items() if name.startswith("swept_")}
        true_sums: dict[int, int] = {}
        debits = 0
        for row in self._table.rows.values():
            if row["pk"] == "SWEPT#merchant":
                folded[int(row["sk"])] = row["sum"]
            elif "posted_at" in row:
                bucket = bucket_of(row["posted_at"])
                true_sums[bucket] = true_sums.get(bucket, 0) + row["amount"]
            elif "amount" in row:
                debits += row["amount"]
        if any(total > true_sums.get(bucket, 0) for bucket, total in folded.items()):
            raise Broken("no more is folded than there is")
        if any(folded.get(bucket, 0) < total for bucket, total in self._folded.items()):
            raise Broken("a folded sum never shrinks")
        if not 0 <= balance["available"] == sum(folded.values()) + debits:
            raise Broken("the balance is what is folded, less the debits")
        self._folded = folded


def broken_in(bug: str | None, histories: int) -> list[str]:
    """Run histories; return what each broken one broke."""
    found = []
    for seed in range(histories):
        try:
            History(bug, seed).run()
        except Broken as broken:
            found.append(str(broken))
    return found


def main() -> None:
    """Print how many histories break, without a bug and with each of the planted ones."""
    print("| bug | histories | broken |\n|---|--:|--:|")
    for bug in (None, *BUGS):
        histories = HISTORIES_WITH_A_BUG if bug else HISTORIES
        found = broken_in(bug, histories)
        print(f"| {bug or 'none'} | {histories:,} | {len(found):,} | {', '.join(sorted(set(found)))} |")


if __name__ == "__main__":
    main()
