"""Runs all lives of a pay run of 90 lines, with one deviation at a call of the table or at a start."""

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, NamedTuple

from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError

from handlers import _dependencies
from handlers.core import _claim
from handlers.payruns import _orders, pay_lines
from settlement.aws import step_functions
from settlement.core.ledger import forward, keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import InvalidRequest, PayRunRefused, StartUnavailable, StoreUnavailable
from settlement.core.model.request import parse_request
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from settlement.core.store.wire import from_wire, to_wire
from settlement.http.caller import Caller, person_of
from settlement.payouts.payout import Payout
from settlement.payouts.payout import Status as PayoutStatus
from settlement.payruns import paying
from settlement.payruns.file import Header, Kind, Line, RunFile, digest_of, run_of
from settlement.payruns.orders import Rules
from settlement.payruns.run import ENDED, Run, Status
from tests.unit.payouts.rows import STATES, destination_rows
from tests.world.environment import NOW
from tests.world.ledger import ROW_KEYS
from tests.world.memory_dynamodb import Changes, MemoryDynamoDb

COUNT, AMOUNT = 90, 10_00
SPOILT, TAKEN = 17, 55
"""Places of a line that every stage refuses, and of a line whose key a stranger has claimed."""

MINUTE, CALL, FROZEN = timedelta(minutes=1), timedelta(milliseconds=10), timedelta(hours=2)
HORIZON = timedelta(hours=3)
CALLS_END_WITHIN = timedelta(minutes=4)
IN_LIMBO = timedelta(minutes=8)
FUNDS, DEPOSIT, DEPOSIT_AT = 60 * AMOUNT, 1_000 * AMOUNT, timedelta(hours=1)
CALLS_MAX = 800

ENDINGS = ("SETTLED", "SETTLED", "REJECTED", "SETTLED", "COMPENSATED", "SETTLED", "LIMBO")
PAID = (PayoutStatus.PAID, PayoutStatus.CONFIRMED, PayoutStatus.REFUSED, PayoutStatus.RETURNED)

Lost = Literal["lost", "refused", "killed before", "killed after"]
Kind_ = (
    Lost
    | Literal["second worker", "frozen", "time is up", "money"]
    | Literal["approve", "propose", "pause", "cancel", "cancel later"]
)
KINDS: dict[str, tuple[Kind_, ...]] = {
    "table": (
        *("lost", "refused", "killed before", "killed after", "second worker", "frozen", "time is up"),
        *("approve", "propose", "pause", "cancel", "cancel later", "money"),
    ),
    "start": ("lost", "refused", "killed before", "killed after", "second worker", "frozen"),
    "read": ("refused", "killed before", "second worker", "frozen"),
}

Order = tuple[int, str, str]
"""The minute of an order, its route, and the person who gives it."""

APPROVED: tuple[Order, ...] = (
    *((0, "propose", "ada"), (1, "approve", "ada"), (1, "approve", "bea"), (1, "approve", "role/BEA")),
    *((2, "run", "ada"), (3, "approve", "carl"), (4, "run", "ada")),
)


@dataclass(frozen=True, kw_only=True)
class Script:
    name: str
    kind: Kind = Kind.PAYMENTS
    orders: tuple[Order, ...] = APPROVED
    batches: int = 9
    is_spoilt: bool = False
    """The stage's settings refuse a line."""

    is_forged: bool = False
    """An adversary writes an unsigned approval."""


SCRIPTS = (
    Script(name="pays"),
    Script(name="one batch a minute", batches=1, orders=(*APPROVED, (4, "pause", "bea"), (9, "run", "carl"))),
    Script(name="cancelled", batches=1, orders=(*APPROVED, (4, "cancel", "bea"))),
    Script(
        name="settings refuse a line", batches=1, orders=(*APPROVED, (9, "cancel", "bea")), is_spoilt=True
    ),
    Script(
        name="paused, then cancelled",
        batches=1,
        orders=(*APPROVED, (4, "pause", "bea"), (6, "cancel", "ada"), (7, "run", "ada")),
    ),
    Script(name="payouts", kind=Kind.PAYOUTS),
    Script(name="one person", orders=APPROVED[:5]),
)
FORGED = Script(name="forged", orders=APPROVED[:5], is_forged=True)


class Deviation(NamedTuple):
    at: int
    kind: Kind_


class Killed(BaseException):
    """Raised to end a caller, as if its process had died."""


@lru_cache
def file_of(kind: Kind, *, is_spoilt: bool = False) -> RunFile:
    payer, payee = ("alice", "landlord") if kind is Kind.PAYOUTS else ("market", "seller")
    amount = f"{AMOUNT // 100}.00"
    lines = [Line(number=2 * at, payee=payee, amount=amount, currency="EUR") for at in range(1, COUNT + 1)]
    if is_spoilt:
        lines[SPOILT - 1] = replace(lines[SPOILT - 1], payee="a:b")
    return RunFile(Header(name="a-life", kind=kind, payer=payer), lines)


@dataclass
class Actor:
    life: "Life"
    calls: int = 0
    is_late: bool = False

    def __post_init__(self) -> None:
        self.store = Store(_Table(self), "lives", pause=lambda tries: None, adds=(ROW_KEYS.signed,))


@dataclass
class Life:
    script: Script
    deviations: tuple[Deviation, ...] = ()
    clock: datetime = NOW
    broken: list[str] = field(default_factory=list)
    statuses: set[str] = field(default_factory=set)
    places: list[tuple[str, str]] = field(default_factory=list)
    """Each call's kind and effect."""

    def __post_init__(self) -> None:
        self.table = MemoryDynamoDb(committed=self._committed)
        self.file = file_of(self.script.kind, is_spoilt=self.script.is_spoilt)
        self.content = self.file.content
        self.digest = digest_of(self.content)
        self.run = run_of(self.digest)
        self.state: Run | None = None
        self.orders = [*self.script.orders]
        self._started = NOW
        self._endings: list[tuple[datetime, str, str]] = []
        self._refused: set[int] = set()
        self._persons: set[str] = set()
        self._ordered: list[int] = []
        self._givers: list[str] = []
        self._deposited = self._proposer = ""
        self._deviations = dict(self.deviations)
        for row in self._rows():
            self.table.put_item(TableName="lives", Item=to_wire(row))

    @property
    def is_of_payouts(self) -> bool:
        return self.script.kind is Kind.PAYOUTS

    def _rows(self) -> Iterator[Row]:
        if self.is_of_payouts:
            yield {**keys.account("alice"), "available": FUNDS, "currency": "EUR", "limbo_cases": 0}
            yield from destination_rows()
            return
        strange = {"payer": "eve", "payee": "mallory", "amount": "1", "currency": "EUR"}
        request = parse_request(strange | {"key": self.key_of(TAKEN)}, _dependencies.config)
        write = forward.claim(request.settlement(0), "strange", NOW, _dependencies.config)
        self._strange = dict(write.parameters["Item"])
        yield self._strange

    def key_of(self, place: int) -> str:
        return f"payrun-{self.run}-{2 * place:06}"

    def place_of(self, key: str) -> int:
        """Return a line's place in the file, from 1; 0 for a key without a line."""
        number = int(key[-6:]) if key[:-6] == f"payrun-{self.run}-" else 0
        return number // 2 if number % 2 == 0 and number <= 2 * COUNT else 0

    def now(self) -> datetime:
        return self.clock

    # The calls, and what goes wrong with them

    def call(self, kind: str, what: str, actor: Actor, act: Callable[[], Any]) -> Any:
        self.clock += CALL
        actor.calls += 1
        state = self.state
        self.places.append((kind, f"{what} {state and (state.status, state.begun, state.started)}"))
        match self._deviations.get(len(self.places)):
            case "killed before":
                raise Killed
            case "killed after":
                act()
                raise Killed
            case "second worker":
                self.work()
            case "money":
                self._deposit()
                self.work()
            case "frozen":
                self.live_until(self.clock + FROZEN)
            case "time is up":
                actor.is_late = True
            case "approve" | "propose" | "pause" | "cancel" | "cancel later" as name:
                self._give(name)
            case "lost":
                act()
                raise StartUnavailable("lost") if kind == "start" else ReadTimeoutError(endpoint_url="table")
            case "refused":
                if kind == "start":
                    raise StartUnavailable("refused")
                raise ConnectTimeoutError(endpoint_url="table")
            case _:
                pass
        return act()

    def _give(self, name: str) -> None:
        route, *is_later = name.split()
        self.order(route, "bea")
        self.order(route, "bea")
        if route == "pause":
            self.orders.append((self._minute() + 5, "run", "carl"))
        if is_later:
            self.work()

    @contextmanager
    def _acting(self, actor: Actor) -> Iterator[None]:
        def start(machine: str, name: str, data: dict[str, Any], trace: Any = None) -> None:
            self.call("start", "start", actor, lambda: self._of_a_start(data["key"]))

        rules = Rules(over={}, lines_over=COUNT - 1)
        patched = (
            (_dependencies, "store", actor.store),
            (_dependencies, "now", self.now),
            (step_functions, "start", start),
            (_orders, "rules", lambda: rules),
            (_claim, "count", lambda name: None),
        )
        was = [getattr(place, name) for place, name, _ in patched]
        for place, name, value in patched:
            setattr(place, name, value)
        try:
            yield
        finally:
            for (place, name, _), value in zip(patched, was, strict=True):
                setattr(place, name, value)

    def work(self) -> None:
        if self.state is None:
            return
        actor = Actor(self)
        batches, first = iter(range(self.script.batches + 1)), iter((True,))

        def in_time() -> bool:
            is_batch = self.state is not None and self.state.started == self.state.begun < self.state.last
            is_batch = is_batch or next(first, False)
            return not actor.is_late and actor.calls < CALLS_MAX and (not is_batch or next(batches, -1) >= 0)

        def start(request: dict[str, Any], header: Header, line: Line, run: str) -> None:
            if self.is_of_payouts:
                pay_lines._reserve(request, line, run)
            else:
                pay_lines._start(request, run)

        payer = paying.Payer(
            actor.store,
            _dependencies.config,
            self.now,
            read_file=lambda digest: self.content,
            start=start,
            each=_each,
            is_proven=ROW_KEYS.is_proven,
            in_time=in_time,
        )
        with self._acting(actor):
            try:
                payer.work(self.run)
            except (StoreUnavailable, StartUnavailable, InvalidRequest, paying.NotProven, Killed):
                return

    def order(self, route: str, person: str) -> bool:
        """Give an order. Return whether its answer is final, so the person need not repeat it."""
        arn = f"arn:aws:sts::1:assumed-role/{person}" if "/" in person else f"arn:aws:iam::1:user/{person}"
        caller = Caller(by=arn, user_id=person, request_id="1", source_ip="::1")
        body: dict[str, Any] = {"run": self.run, "digest": self.digest}
        if route == "propose":
            header = self.file.header
            told = {"name": header.name, "kind": header.kind, "payer": header.payer, "lines": COUNT}
            sums = {"EUR": f"{COUNT * AMOUNT // 100}.00"}
            body = {"digest": self.digest, **told, "sums": sums, "reason": "a life"}
        take: Any = _orders.ORDERS[f"{route}-payrun"][0]
        self._givers.append(arn)
        with self._acting(Actor(self)):
            try:
                take(body, caller)
            except (StoreUnavailable, Killed):
                return False
            except (PayRunRefused, InvalidRequest) as refused:
                return not any(
                    told in str(refused) for told in ("look at it again", "nobody has", *waits(route))
                )
            finally:
                self._givers.pop()
        return True

    # The world

    def live(self) -> "Life":
        self.live_until(NOW + HORIZON)
        self.broken += [*self._of_the_end()]
        return self

    def _minute(self) -> int:
        return int((self.clock - NOW) / MINUTE)

    def live_until(self, until: datetime) -> None:
        while self.clock < until and not self._is_done():
            for one in [one for one in self.orders if one[0] <= self._minute()]:
                if one in self.orders:
                    self.orders.remove(one)
                    if not self.order(*one[1:]):
                        self.orders.append((self._minute() + 1, *one[1:]))
            if self.script.is_forged and self.state and self.state.approvals and not self._deposited:
                self._forge()
            if self.is_of_payouts and self.clock >= NOW + DEPOSIT_AT and not self._deposited:
                self._deposit()
            if self.state and self.state.to_row()["gsi1pk"] == keys.PAYRUNS_RUNNING:
                self.work()
            self.clock += MINUTE
            self._end_payments()
        self.clock = max(self.clock, until)

    def _is_done(self) -> bool:
        left = self.orders or self._endings or (self.is_of_payouts and not self._deposited)
        return not left and (self.state is None or self.state.status in (*ENDED, Status.PROPOSED))

    def _deposit(self) -> None:
        if self._deposited:
            return
        self._deposited = "yes"
        row = from_wire(self.table.items["ACCOUNT#alice", "BALANCE"])
        self.table.items["ACCOUNT#alice", "BALANCE"] = to_wire(
            row | {"available": row["available"] + DEPOSIT}
        )

    def _forge(self) -> None:
        self._deposited = "yes"
        assert self.state
        by = {"by": "arn:aws:iam::1:user/mallory", "digest": self.digest}
        forged = {**keys.payrun_approved(self.run, "mallory"), **by}
        state = replace(self.state, status=Status.RUNNING, approvals=2)
        self.state = state
        for row in (forged, state.to_row()):
            self.table.items[row["pk"], row["sk"]] = to_wire(row)

    def _end_payments(self) -> None:
        due = [one for one in self._endings if one[0] <= self.clock]
        for one in due:
            self._endings.remove(one)
            _, key, status = one
            if status == "LIMBO":
                self._endings.append((self.clock + IN_LIMBO, key, "SETTLED"))
            at = keys.settlement(key)
            place = at["pk"], at["sk"]
            if self.is_of_payouts:
                payout = Payout(
                    key=key, account="alice", amount=AMOUNT, currency="EUR", destination="landlord"
                )
                row = replace(STATES[PayoutStatus(status)], payout=payout).to_row()
                place = row["pk"], row["sk"]
            else:
                row = from_wire(self.table.items[place]) | {"status": status}
                row |= {"finished_at": timestamp(self.clock)} if status != "LIMBO" else {}
            self.table.items[place] = to_wire(row)

    # The rules

    def _committed(self, changes: Changes) -> None:
        for before, after in changes:
            kind = after["pk"]["S"].partition("#")[0] if after else ""
            row, was = from_wire(after or {}), from_wire(before) if before else None
            if kind == "PAYRUN":
                self.broken += [*self._of_the_row(row)]
            elif kind == "PAYRUN_DECISION":
                self._of_a_person(row, was)
            elif kind in ("SETTLEMENT", "PAYOUT"):
                self._of_a_payment(row, was)
            elif kind == "PAYRUN_LINE" and "refused" in row:
                self.broken += [*self._of_a_refusal(row)]
                self._refused.add(int(row["sk"]) // 2)

    def _of_a_refusal(self, row: Row) -> Iterator[str]:
        if self.outcome(int(row["sk"]) // 2) not in (None, "REFUSED"):
            yield "a paid line is refused"
        state = self.state
        ended = timestamp(self.clock - CALLS_END_WITHIN)
        is_outlived = state and state.cut is not None and str(state.changed_at) <= ended
        if row["refused"] == "InvalidRequest" and not (self.is_of_payouts or is_outlived):
            yield "settings refuse a line that a call with the old ones may still claim"

    def _of_a_person(self, row: Row, was: Row | None) -> None:
        if was is not None:
            self.broken.append("a person's row is overwritten")
        if row["by"] != self._givers[-1]:
            self.broken.append("an order is on record of another person")
        if row["sk"] == "PROPOSED":
            self._proposer = person_of(row["by"])
        elif row["sk"].startswith("APPROVED#") and row.get("digest") == self.digest:
            self._persons.add(person_of(row["by"]))

    @property
    def _approvals(self) -> int:
        return len(self._persons - {self._proposer})

    def _may_pay(self, place: int) -> Iterator[str]:
        if not place:
            yield "a key of no line is paid"
        if self._approvals < 2:
            yield "it pays before two other persons have approved it"
        if self.state is None or place > self.state.begun:
            yield "a line is paid that has not begun"
        if self.state and self.state.cut is not None and place > self.state.cut:
            yield "a line beyond the cut is paid"

    def _of_a_start(self, key: str) -> None:
        self.broken += [*self._may_pay(self.place_of(key))]

    def _of_a_payment(self, row: Row, was: Row | None) -> None:
        key = row["pk"].partition("#")[2]
        place = self.place_of(key)
        if not self.is_of_payouts and row == self._strange:
            return
        self.broken += [*self._may_pay(place)]
        if was is not None:
            self.broken.append("a line is paid twice")
        if place in self._refused:
            self.broken.append("a refused line is paid")
        told = (row.get("payee"), row.get("payer"), row["amount"], row["currency"])
        if self.is_of_payouts:
            told = (row["destination"], row["account"], row["amount"], row["currency"])
        payee, payer = ("landlord", "alice") if self.is_of_payouts else ("seller", "market")
        if told != (payee, payer, AMOUNT, "EUR"):
            self.broken.append(f"a line is paid as {told}")
        ending = PAID[place % len(PAID)] if self.is_of_payouts else ENDINGS[place % len(ENDINGS)]
        self._endings.append((self.clock + timedelta(seconds=40 * (place % 4)), key, str(ending)))

    def _of_the_row(self, row: Row) -> Iterator[str]:
        before = self.state
        try:
            state = self.state = Run.from_row(row)
        except ValueError as wrong:
            yield str(wrong)
            return
        self.statuses.add(state.status)
        if before is None:
            yield from [] if state.status is Status.PROPOSED else [f"it begins as {state.status}"]
            return
        if (before.status, state.status) not in MOVES:
            yield f"it is {state.status} after {before.status}"
        moved = (before.status, before.cut, before.approvals) != (state.status, state.cut, state.approvals)
        if state.status in (Status.RUNNING, Status.PAUSED) and before.status is not state.status:
            self._ordered.append(state.sequence)
        if state.cut is not None and before.cut is None:
            self._ordered.append(state.sequence)
        if state.sequence != before.sequence + moved:
            yield f"its sequence is {state.sequence} after {before.sequence}"
        for name in ("begun", "started", "ended"):
            if getattr(state, name) < getattr(before, name):
                yield f"{name} shrinks from {getattr(before, name)} to {getattr(state, name)}"
        if state.begun > before.begun and (before.status is not Status.RUNNING or before.cut is not None):
            yield "lines begin while it is paused or cancelled"
        if before.cut is not None and state.cut != before.cut:
            yield "its cut moves"
        if state.status is Status.APPROVED and self._approvals < 2:
            yield "it is approved by fewer than two others"
        if state.approvals > self._approvals:
            yield "an approval is counted that nobody gave"
        yield from self._of_the_counts(before, state)

    def _of_the_counts(self, before: Run, state: Run) -> Iterator[str]:
        for place in range(before.started + 1, state.started + 1):
            if self.outcome(place) is None:
                yield f"line {place} counts as started, without a payment or a refusal"
        is_counted = (state.ended, state.outcomes) != (before.ended, before.outcomes)
        if is_counted and state.outcomes != Counter(map(self.outcome, range(1, state.ended + 1))):
            yield f"{state.ended} lines are counted as {state.outcomes}"
        if state.status in ENDED and (
            state.ended != state.last or bool(state.cut is None) == (state.status is Status.CANCELLED)
        ):
            yield f"it is {state.status} with {state.ended} of {state.last} ended lines"

    def outcome(self, place: int) -> str | None:
        key = self.key_of(place)
        at = keys.payout(key) if self.is_of_payouts else keys.settlement(key)
        item = self.table.items.get((at["pk"], at["sk"]))
        if item and (self.is_of_payouts or item["payer"]["S"] == "market"):
            return str(item["status"]["S"])
        return "REFUSED" if place in self._refused else None

    def _of_the_end(self) -> Iterator[str]:
        state = self.state
        for sequence in self._ordered:
            order = keys.payrun_ordered(self.run, sequence)
            if (order["pk"], order["sk"]) not in self.table.items:
                yield "nobody is on record for an order"
        if state is None or state.status not in ENDED:
            if not self.script.is_forged and not (
                state and state.status is Status.PROPOSED and self._approvals < 2
            ):
                yield f"it never ends: {state}"
            return
        sums = Counter[str]()
        for place in range(1, state.last + 1):
            outcome = self.outcome(place)
            sums[f"{outcome} EUR"] += AMOUNT
            known = self.is_of_payouts or place == TAKEN or (place == SPOILT and self.script.is_spoilt)
            if outcome == "REFUSED" and not known:
                yield f"line {place} is refused for nothing"
        if state.sums != {**sums} or sum(state.sums.values()) != state.last * AMOUNT:
            yield f"its sums are {state.sums}, those of the rows {sums}"
        if any(
            self.outcome(place) for place in range(state.last + 1, COUNT + 1) if place not in (SPOILT, TAKEN)
        ):
            yield "a line beyond the last is paid"
        if self.is_of_payouts:
            paid = sum(pk.startswith("PAYOUT#") for pk, _ in self.table.items)
            left = from_wire(self.table.items["ACCOUNT#alice", "BALANCE"])["available"]
            if left != FUNDS + DEPOSIT - paid * AMOUNT:
                yield f"{paid} payouts leave {left}"


MOVES = {
    *((status, status) for status in (Status.PROPOSED, Status.RUNNING, Status.PAUSED)),
    (Status.PROPOSED, Status.APPROVED),
    (Status.APPROVED, Status.RUNNING),
    (Status.RUNNING, Status.PAUSED),
    (Status.PAUSED, Status.RUNNING),
    (Status.RUNNING, Status.FINISHED),
    *((status, Status.CANCELLED) for status in Status if status not in ENDED),
}


def waits(route: str) -> tuple[str, ...]:
    return ("it is PROPOSED", "it is APPROVED") if route in ("run", "pause") else ()


def _each(act: Callable[[Line], Exception | None], lines: Iterable[Line]) -> list[Exception | None]:
    return [act(line) for line in lines]


class _Table:
    """One caller's DynamoDB client."""

    def __init__(self, actor: Actor) -> None:
        self._actor, self._table = actor, actor.life.table
        self.exceptions = self._table.exceptions

    def __getattr__(self, name: str) -> Callable[..., Any]:
        real = getattr(self._table, name)
        kind = "table" if name in ("put_item", "transact_write_items") else "read"
        return lambda **asked: self._actor.life.call(
            kind, f"{name} {_what(asked)}", self._actor, lambda: real(**asked)
        )


def _what(asked: dict[str, Any]) -> str:
    if "TransactItems" in asked:
        (first,) = asked["TransactItems"][0].values()
        return str(first.get("UpdateExpression", first.get("Item", {}).get("sk", {}).get("S", ""))[:20])
    return ""


ALIKE_MAX = 2
"""Maximum calls disturbed per place (kind and effect), besides the place's last call."""


def singles(script: Script, every: int = 1, first: int = 0, kinds: Collection[str] = ()) -> Iterator[Life]:
    """Yield the undisturbed life, and a life for each deviation, or for one in `every`."""
    plain = Life(script).live()
    yield plain
    before, after = Counter[tuple[str, str]](), Counter(plain.places)
    chosen = list[Deviation]()
    for at, place in enumerate(plain.places, 1):
        before[place] += 1
        after[place] -= 1
        if before[place] <= ALIKE_MAX or not after[place]:
            chosen += [Deviation(at, kind) for kind in KINDS[place[0]] if kind in (kinds or (kind,))]
    random.Random(script.name).shuffle(chosen)
    for one in chosen[first::every]:
        if one.kind != "money" or plain.is_of_payouts:
            yield Life(script, (one,)).live()
