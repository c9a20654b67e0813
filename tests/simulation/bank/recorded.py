"""Simulates a bank, people who book its lines, and readers of statements that die, repeat and overlap.

people ──▶ orders ─┐
                   ├──▶ runs of ReadStatements ──▶ rows, checked at each commit and at the end
bank ──▶ files ────┘
"""

import hashlib
import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import mock

from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError

from tests.world.environment import NOW  # isort: split

from handlers import _dependencies
from handlers.bank import _booking, read_statements
from settlement.accounts import administration
from settlement.accounts.order import AccountOrder, OrderKind
from settlement.bank import inbox
from settlement.bank.statement import Side
from settlement.core import telemetry
from settlement.core.model.errors import SettlementError
from settlement.core.store import batch
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import from_wire
from settlement.http.caller import Caller
from tests.simulation.seeded.hub import Hub, Process
from tests.world.bank_files import camt, line
from tests.world.books import assert_conserved
from tests.world.memory_dynamodb import Changes, MemoryDynamoDb, error
from tests.world.memory_s3 import MemoryS3
from tests.world.openings import opening

DAY_MS, HOUR_MS, RUN_MS = 86_400_000, 3_600_000, 900_000
RUNS_MS = 6 * HOUR_MS
DAYS = 4
"""Days of a history; each has a statement."""

REFERENCES = ("rent", "rent", "rent", "INV-1", "INV-2")
AMOUNTS = (100, 100, 4_820)
BUCKET = "bucket"


class Violated(AssertionError):
    pass


def demand(holds: object, rule: str, *about: object) -> None:
    if not holds:
        raise Violated(f"{rule}: {about}")


@dataclass(frozen=True)
class Movement:
    reference: str
    amount: int
    side: Side
    day: str
    own: str

    @property
    def written(self) -> dict[str, Any]:
        told = {"end_to_end": self.reference, "bank_reference": self.own}
        return line(f"{self.amount / 100:.2f}", self.side, booked=self.day, valued=self.day, **told)


class Faulty:
    """A client with slow calls, lost answers and killed processes."""

    def __init__(self, world: "Recording", client: Any, *, writes: tuple[str, ...]) -> None:
        self._world, self._client, self._writes = world, client, writes
        self._putting: set[str] = set()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        call = getattr(self._client, name)
        return call if name in ("get_paginator", "exceptions") else partial(self._send, name, call)

    def _send(self, name: str, call: Callable[..., Any], **parameters: Any) -> Any:
        if "IfNoneMatch" not in parameters:
            return self._sent(name, call, parameters)
        if parameters["Key"] in self._putting:
            raise error(name, "ConditionalRequestConflict", "another put is under way")
        self._putting.add(parameters["Key"])
        try:
            return self._sent(name, call, parameters)
        finally:
            self._putting.remove(parameters["Key"])

    def _sent(self, name: str, call: Callable[..., Any], parameters: Mapping[str, Any]) -> Any:
        world, hub, random = self._world, self._world.hub, self._world.random
        fault = random.choice(_FAULTS) if random.random() < world.rate else ""
        world.counted[fault] += 1
        if fault:
            world.disturbed.add(hub.process)
        hub.sleep(random.choice((0, 1, 5, 200)))
        if fault == "killed before":
            hub.kill(hub.process)
        if fault == "throttled" and name in self._writes:
            raise error(name, "ThrottlingException", "Rate exceeded")
        answer = call(**parameters)
        if fault == "killed after":
            hub.kill(hub.process)
        hub.sleep(random.choice((0, 1, 5, 200)))
        if fault == "lost":
            raise ReadTimeoutError(endpoint_url="https://service.invalid")
        if fault == "half" and name == "batch_get_item":
            return _half(answer, parameters)
        return answer


_FAULTS = ("killed before", "killed after", "lost", "throttled", "half")


class Recording:
    def __init__(self, seed: int) -> None:
        self.random = Random(f"recording {seed}")
        self.hub = Hub(Random(f"order {seed}"))
        self.rate = self.random.choice((0.0, 0.02, 0.1, 0.3))
        self.is_calm = False
        self.counted: Counter[str] = Counter()
        self.disturbed: set[Process] = set()
        """Processes that have met a fault."""

        self.rows: dict[tuple[str, str], dict[str, Any]] = {}
        self.table = MemoryDynamoDb(
            self._committed, lambda: 0 if self.is_calm else self.random.choice((0, 0, 3))
        )
        self.s3 = MemoryS3(page=self.random.choice((1, 2, 100)))
        self.proposals: dict[str, str] = {}
        """Digests of proposals, by the proposal's key."""

        self.files: dict[str, list[Movement]] = {}
        """Each statement's lines, by the digest of its file."""

        self.lines: list[Movement] = []
        self.store = Store(Faulty(self, self.table, writes=_WRITES), "simulated", pause=self._pause)
        Store(self.table, "simulated").transact(opening("alice", 10_000_000, "EUR", NOW))

    def run(self) -> None:
        with self._in_place():
            for _ in range(self.random.choice((1, 4, 12))):
                at = self.random.randrange(DAYS * DAY_MS)
                if self.random.random() < 0.5:  # just before a run, whose index may lack it
                    at += -at % RUNS_MS - self.random.choice((1, 100, 2_000))
                self.hub.spawn(self._books, "a person", at)
            for _ in range(self.random.choice((0, 1, 3))):
                at = self.random.randrange(DAY_MS, (DAYS + 1) * DAY_MS)
                self.hub.spawn(self._proposes, "an operator", at)
            for day in range(DAYS):
                self.hub.spawn(partial(self._tells, day), "the bank", (day + 1) * DAY_MS - 9 * HOUR_MS)
            for at in range(0, (DAYS + 2) * DAY_MS, RUNS_MS):
                for _ in range(self.random.choice((1, 1, 2, 3))):
                    match: dict[str, Any] = {"match": True} if at % DAY_MS == 0 else {}
                    late = at + self.random.choice((0, 0, 50))
                    self.hub.spawn(partial(self._reads, match), "a run", late)
            try:
                self.hub.run((DAYS + 2) * DAY_MS, lambda: False)
                self.rate, self.is_calm = 0.0, True
                for _ in range(2):
                    self.hub.spawn(partial(self._reads, {"match": True}), "a run", HOUR_MS)
                    for key, digest in self.proposals.items():
                        self.hub.spawn(partial(self._books_lines, key, digest), "an approver", 2 * HOUR_MS)
                    self.hub.run(self.hub.now + DAY_MS, lambda: False)
                self._at_the_end()
            finally:
                self.hub.close()

    # Those who act.

    def _books(self) -> None:
        """Add up to two lines at the bank and, mostly, place the order that they belong to."""
        random = self.random
        kind = random.choice((OrderKind.DEPOSIT, OrderKind.WITHDRAW))
        reference, amount = random.choice(REFERENCES), random.choice(AMOUNTS)
        at = self.hub.now // DAY_MS
        for _ in range(random.choice((0, 1, 1, 1, 2))):
            day = min(DAYS - 1, max(0, at + random.choice((0, 0, 0, 1, -1))))
            side = Side.IN if (kind is OrderKind.DEPOSIT) != (random.random() < 0.05) else Side.OUT
            told = random.choice((amount, amount, amount, amount + 1))
            own = f"B-{len(self.lines)}" if random.random() < 0.8 else "B"
            self.lines.append(Movement(reference.upper(), told, side, self.day(day), own))
        if random.random() < 0.9:
            self._order(kind, reference, amount, random.choice((0, 0, 2 * HOUR_MS, DAY_MS)))

    def _order(self, kind: OrderKind, reference: str, amount: int, late: int) -> None:
        self.hub.sleep(late)
        order = AccountOrder(
            key=f"order-{self.random.getrandbits(64):016x}",
            order=kind,
            account="alice",
            currency="EUR",
            amount=amount,
            reference=reference,
            by="olga",
            reason="as agreed",
        )
        Store(self.table, "simulated").record(
            administration.carry_out(order, self._now(), _dependencies.config)
        )

    def _proposes(self) -> None:
        """Propose to book lines that have no order, and let others approve."""
        random, matched = self.random, {pk for pk, sk in self.rows if sk == "MATCH"}
        alone = [pk for pk, sk in self.rows if sk == "LINE" and pk not in matched]
        some = random.sample(sorted(alone), min(len(alone), random.choice((1, 2, 5))))
        lines = {pk.partition("#")[2]: random.choice(("alice", "alice", "nobody")) for pk in some}
        if not lines:
            return
        body = {"key": f"lines-{random.getrandbits(64):016x}", "lines": lines, "reason": "top-ups"}
        self.hub.sleep(random.choice((0, HOUR_MS, DAY_MS)))
        with suppress(ClientError, BotoCoreError, SettlementError):
            told = _booking.propose(body, _person("olga"))
            self.proposals[told["key"]] = told["digest"]
            for _ in range(random.choice((1, 2, 3))):
                act = partial(self._books_lines, told["key"], told["digest"])
                self.hub.spawn(act, "an approver", random.choice((0, 10, HOUR_MS)))

    def _books_lines(self, key: str, digest: str) -> None:
        by = self.random.choice(("pete", "pete", "ada", "olga"))
        with suppress(ClientError, BotoCoreError, SettlementError):
            _booking.book({"key": key, "digest": digest}, _person(by))
            demand(by != "olga", "who proposes lines does not book them", key)

    def _tells(self, day: int) -> None:
        """Upload a day's statement, perhaps twice, perhaps after a truncated copy."""
        told = self.day(day)
        own = [one for one in self.lines if one.day == told]
        before = sum(_signed(one) for one in self.lines if one.day < told)
        content = camt(
            [one.written for one in own], day=told, opening=f"{before / 100:.2f}", number=day + 1, name=told
        )
        self.lines = [one for one in self.lines if one not in own]  # a day is over
        self.lines += own
        self.files[hashlib.sha256(content).hexdigest()] = own
        own_name = self.random.choice((f"{told}.xml", "statement.xml"))
        names = [own_name, *self.random.choice(((), (f"again-{told}.xml",), (own_name,)))]
        if self.random.random() < 0.2:
            self.s3.put_object(Bucket=BUCKET, Key=f"incoming/{told}.xml", Body=content[:-30])
        for name in names:
            self.s3.put_object(Bucket=BUCKET, Key=f"incoming/{name}", Body=content)

    def _reads(self, event: dict[str, Any]) -> None:
        until = self.hub.now + (RUN_MS if self.is_calm else self.random.choice((RUN_MS, RUN_MS, 31_000)))
        context = SimpleNamespace(get_remaining_time_in_millis=lambda: until - self.hub.now)
        try:
            inspect.unwrap(read_statements.handler)(event, context)
        except (ClientError, BotoCoreError, SettlementError) as failed:
            demand(self.hub.process in self.disturbed, "a run without a fault does not fail", failed)

    # Rules.

    def _committed(self, changes: Changes) -> None:
        new = [(old, from_wire(row)) for old, row in changes if row and row["pk"]["S"].startswith("BANK")]
        orders = [from_wire(row) for _, row in changes if row and row["sk"]["S"] == "ORDER"]
        for old, row in new:
            demand(old is None, "what the bank has said is put once", row)
            self.rows[row["pk"], row["sk"]] = row
        gone = [old for old, row in changes if old and not row and old["pk"]["S"].startswith("BANK")]
        demand(not gone, "no row of the bank goes", gone)
        matches = [row for _, row in new if row["sk"] in ("MATCH", "BANKED")]
        if matches:
            demand(len(matches) == 2 == len(new), "both rows of a match come together", matches)
            one, other = ({**row, "pk": "", "sk": ""} for row in matches)
            demand(one == other, "both rows of a match say the same", matches)
            self._belong_together(matches[0], orders)
        for _, row in new:
            if row["sk"] == "FILE":
                self._is_whole(row)

    def _belong_together(self, match: dict[str, Any], orders: Sequence[Mapping[str, Any]]) -> None:
        told = self.rows.get((f"BANK_LINE#{match['line']}", "LINE"))
        known = self.table.items.get((f"ORDER#{match['order']}", "ORDER"))
        order = next(iter(orders), None) or (from_wire(known) if known else None)
        demand(told and order, "a match is of a line and an order on record", match)
        assert told
        assert order
        kinds = {"deposit": "in", "withdraw": "out"}
        demand(order["reference"].upper() == told["reference"], "a match is by the reference", match)
        demand(order["amount"] == told["amount"] == match["amount"], "a match agrees to the cent", match)
        side = kinds[order["order"]]
        demand(side == told["side"] == match["side"], "a match agrees in the direction", match)
        if not orders:  # two persons may book a line much later
            near = _apart(order["posted_at"][:10], told["valued"]) <= 3
            demand(near, "a match is of days near by", match)

    def _is_whole(self, row: dict[str, Any]) -> None:
        digest = row["pk"].partition("#")[2]
        kept = self.s3.objects.get(f"statements/{digest}", b"")
        demand(hashlib.sha256(kept).hexdigest() == digest, "a file on record is kept", digest)
        demand((row["pk"], "STATEMENT#000000") in self.rows, "a file on record has its statement", digest)
        own = Counter(map(_told_by, self.files[digest]))
        known = Counter(_on_record(one) for one in self.rows.values() if one["sk"] == "LINE")
        demand(not own - known, "a file on record has all its lines", own - known)

    def _at_the_end(self) -> None:
        waiting = [name for name in self.s3.objects if name.startswith("incoming/")]
        cut_off = [content for name, content in self.s3.objects.items() if name in waiting]
        demand(not any(one.rstrip().endswith(b"Document>") for one in cut_off), "each file is read", waiting)
        files = {pk.partition("#")[2] for pk, sk in self.rows if sk == "FILE"}
        demand(files == self.files.keys(), "each file is on record", files ^ self.files.keys())
        told = Counter(_told_by(one) for own in self.files.values() for one in own)
        known = Counter(_on_record(row) for row in self.rows.values() if row["sk"] == "LINE")
        demand(told == known, "the record has each line once", told - known, known - told)
        self._are_all_matched()
        for pk, sk in self.table.items:
            if sk == "ORDER" and pk.startswith("ORDER#bank-"):
                match = self.rows.get((pk.replace("ORDER#", "BANKED#"), "BANKED"))
                own = match and match["line"].startswith(pk.removeprefix("ORDER#bank-"))
                demand(own, "what two persons have booked belongs to its line", pk)
        assert_conserved([from_wire(row) for row in self.table.items.values()])

    def _are_all_matched(self) -> None:
        matched = {pk.partition("#")[2] for pk, sk in self.rows if sk == "MATCH"}
        banked = {pk.partition("#")[2] for pk, sk in self.rows if sk == "BANKED"}
        lines = [
            row
            for row in self.rows.values()
            if row["sk"] == "LINE" and row["pk"].partition("#")[2] not in matched
        ]
        orders = [from_wire(one) for (_, sk), one in self.table.items.items() if sk == "ORDER"]
        for order in orders:
            if order["pk"].partition("#")[2] in banked or order["order"] not in ("deposit", "withdraw"):
                continue
            side = "in" if order["order"] == "deposit" else "out"
            place = (order["reference"].upper(), order["amount"], side)
            fitting = [row for row in lines if (row["reference"], row["amount"], row["side"]) == place]
            near = [row for row in fitting if _apart(order["posted_at"][:10], row["valued"]) <= 3]
            demand(not near, "no line and order that fit are left alone", order["pk"], near)

    # The stage.

    def day(self, number: int) -> str:
        return (NOW + timedelta(days=number)).date().isoformat()

    def _now(self) -> Any:
        return NOW + timedelta(milliseconds=self.hub.now)

    def _behind(self) -> int:
        return 0 if self.is_calm else self.random.choice((0, 0, 3))

    def _pause(self, failed_tries: int) -> None:
        self.hub.sleep(50 << failed_tries)

    @contextmanager
    def _in_place(self) -> Iterator[None]:
        s3 = Faulty(self, self.s3, writes=())
        with ExitStack() as stack:
            for place, name, value in (
                (_dependencies, "store", self.store),
                (_dependencies, "now", self._now),
                (inbox, "_client", s3),
                (batch, "pause", self._pause),
                (read_statements, "gauge", lambda name, value: None),
                (telemetry, "count", lambda metric: None),
                (read_statements, "logger", SimpleNamespace(error=lambda *_, **__: None)),
            ):
                stack.enter_context(mock.patch.object(place, name, value))
            buckets = dict.fromkeys(("STATEMENTS_BUCKET", "JOURNAL_BUCKET"), BUCKET)
            stack.enter_context(mock.patch.dict("os.environ", buckets))
            yield


_WRITES = ("put_item", "transact_write_items")


def _person(name: str) -> Caller:
    return Caller(by=f"arn:aws:iam::1:user/{name}", user_id=name, request_id="r", source_ip="192.0.2.7")


def _half(answer: Any, parameters: Any) -> Any:
    ((name, asked),) = parameters["RequestItems"].items()
    rows = answer["Responses"].get(name, [])
    left = rows[len(rows) // 2 :]
    keys = [{key: row[key] for key in ("pk", "sk")} for row in left]
    unread = {"UnprocessedKeys": {name: {**asked, "Keys": keys}}} if keys else {}
    return {**answer, "Responses": {name: rows[: len(rows) // 2]}, **unread}


def _signed(one: Movement) -> int:
    return one.amount if one.side is Side.IN else -one.amount


def _told_by(one: Movement) -> tuple[Any, ...]:
    return one.reference, one.amount, one.side.value, one.day, one.own


def _on_record(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["reference"], row["amount"], row["side"], row["booked"], row["bank_reference"]


def _apart(one: str, other: str) -> int:
    return abs((date.fromisoformat(one) - date.fromisoformat(other)).days)


def fault_of(seed: int) -> str | None:
    try:
        Recording(seed).run()
    except Violated as broken:
        return f"seed {seed}: {broken}"
    return None
