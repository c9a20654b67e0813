"""Random histories of a layout: executions, late calls, second tries, crashes, recovery and fences.

A call may be late: its execution has timed out and calls again with another clock, while the first call may
still write at any later time. An execution may crash before or after each write. At the end, recovery runs
each settlement in flight to its end, and the late calls come last of all.
"""

from collections.abc import Callable, Generator
from contextlib import suppress
from random import Random
from typing import Any

from benchmarks.layouts.invariants import Books, Broken
from benchmarks.layouts.payment import Call, Payment, Provider
from benchmarks.layouts.settlement_row import SettlementRow
from benchmarks.layouts.slots import Slots
from benchmarks.layouts.writes import Get, Refusal, Row, Table, put

Layout = SettlementRow | Slots
Function = Callable[[str], Call]
"""A function of the machine, given the clock of the call."""

Machine = Generator[Function, str, None]
"""An execution: it yields the functions that it calls, and gets their outcomes."""

TICKS_MAX = 400
RECOVERIES_MAX = 6
DEPOSITS = {"alice": 100, "bob": 30, "carol": 0}
REVERSALS = ("fee", "release", "hold")


def settle(layout: Layout, payment: Payment, owner: str, provider: Provider) -> Machine:
    """Run a payment forward; reverse it for a verdict against it."""
    claimed_at = ""
    if not layout.claims_in_hold:
        outcome = yield lambda now: layout.claim(payment, owner, now)
        if not outcome.startswith("ok:"):
            return
        claimed_at = outcome[3:]
    outcome = yield lambda now: layout.hold(payment, owner, now, claimed_at)
    if outcome == "funds":
        yield lambda now: layout.reject(payment, now)
    if not outcome.startswith("ok:"):
        return
    claimed_at = outcome[3:]
    outcome = yield lambda now: layout.verify(payment, now, claimed_at, provider)
    if outcome == "REJECTED":
        yield from compensate(layout, payment, by_order=False)
    if outcome != "APPROVED":
        return
    outcome = yield lambda now: layout.release(payment, now, claimed_at)
    if outcome == "ok":
        yield lambda now: layout.fee(payment, now, claimed_at)


def compensate(layout: Layout, payment: Payment, *, by_order: bool) -> Machine:
    """Fence off and reverse a settlement, until a payee lacks funds."""
    begun = yield lambda now: layout.begin(payment, now, by_order)
    if begun in ("rejected", "finished"):
        return
    for step in REVERSALS:

        def reverse(now: str, step: str = step) -> Call:
            return layout.reverse(payment, step, now, begun)

        if (yield reverse) == "funds":
            return


def recover(layout: Layout, payment: Payment, owner: str, provider: Provider) -> Machine:
    """Take a settlement over and run it on, forward or back."""
    todo = yield lambda now: layout.take_over(payment, owner)
    if todo == "settle":
        yield from settle(layout, payment, owner, provider)
    elif todo == "compensate":
        yield from compensate(layout, payment, by_order=True)


class Execution:
    """A running execution: its machine, its current call, and what that sends."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._function: Function | None = next(machine)
        self.call: Call | None = None
        self.sends: Any = None

    def start_call(self, now: str) -> bool:
        """Call the function with this clock; return whether the call sends anything."""
        while self._function is not None:
            self.call = self._function(now)
            try:
                self.sends = next(self.call)
                return True
            except StopIteration as end:
                self._returned(end.value)
        return False

    def answered(self, answer: Row | Refusal | None) -> None:
        """Give the call its answer; a call that ends leaves the execution between two calls."""
        if self.call is None:
            raise ValueError("no call has asked")
        try:
            self.sends = self.call.send(answer)
        except StopIteration as end:
            self.call = None
            self._returned(end.value)

    def _returned(self, outcome: str) -> None:
        try:
            self._function = self._machine.send(outcome)
        except StopIteration:
            self._function = None

    @property
    def is_over(self) -> bool:
        """Whether the machine has ended."""
        return self._function is None


class History:
    """One random history, which depends on nothing but its seed. `run` raises Broken."""

    def __init__(self, layout: Layout, seed: int) -> None:
        self._layout = layout
        self._random = Random(seed)  # noqa: S311
        self._table = Table()
        self._clock = 100
        # The second payer has what the first pays, and competes with it for funds half of the time.
        payer, payee = self._random.choice([("bob", "carol"), ("alice", "carol")])
        self._payments = [Payment("k1", "alice", "bob", 60, 6), Payment("k2", payer, payee, 50, 0)]
        for account, amount in DEPOSITS.items():
            row = {"pk": f"ACCOUNT#{account}", "sk": "BALANCE", "available": amount, "currency": "EUR"}
            self._table.write([put(row), put(layout.deposit(account, amount, "0"))])
        self._books = Books(layout, self._table, self._payments, sum(DEPOSITS.values()))
        self._running: list[Execution] = []
        self._late: list[tuple[Call, Any]] = []
        self._names = 0

    def run(self) -> None:
        """Run the history; check every invariant after every write."""
        for payment in self._payments:
            if self._random.random() < 0.2:  # the queue claims first, with a plain put
                self._finish(self._layout.claim(payment, "queue", self._now()))
            self._start(settle(self._layout, payment, self._random.choice(["x", "queue"]), self._ask))
        recoveries = RECOVERIES_MAX
        for _ in range(TICKS_MAX):
            chance = self._random.random()
            payment = self._random.choice(self._payments)
            if chance < 0.03 and recoveries:
                recoveries -= 1
                self._start(recover(self._layout, payment, self._name(), self._ask))
            elif chance < 0.05 and recoveries:
                recoveries -= 1
                by_order = self._random.random() < 0.5
                self._start(compensate(self._layout, payment, by_order=by_order))
            elif chance < 0.15 and self._late:
                self._advance_late()
            elif self._running:
                self._tick(self._random.choice(self._running))
            elif chance < 0.5:
                break
        self._end()

    def _end(self) -> None:
        self._running.clear()
        self._recover()
        while self._late:
            self._advance_late()
        self._recover()  # from a late claim, or a late order

    def _recover(self) -> None:
        for payment in self._payments * 2:  # the second settlement may give the first's payee its funds back
            self._start(recover(self._layout, payment, self._name(), self._ask))
            while self._running:
                self._step(self._running[0])
        self._books.check_finished()

    def _start(self, machine: Machine) -> None:
        self._running.append(Execution(machine))

    def _tick(self, execution: Execution) -> None:
        chance = self._random.random()
        if chance < 0.03:  # it dies; the call that it has made may go on
            self._running.remove(execution)
            self._leave(execution, 0.5)
        elif chance < 0.13:  # it times out and calls again; the first call may go on
            self._leave(execution, 0.8)
            execution.call = None
        else:
            self._step(execution)

    def _leave(self, execution: Execution, probability: float) -> None:
        if execution.call is not None and self._random.random() < probability:
            self._late.append((execution.call, execution.sends))

    def _step(self, execution: Execution) -> None:
        if execution.call is None:
            execution.start_call(self._now())
        else:
            execution.answered(self._send(execution.sends))
        if execution.is_over and execution in self._running:
            self._running.remove(execution)

    def _advance_late(self) -> None:
        call, sends = self._late.pop(self._random.randrange(len(self._late)))
        with suppress(StopIteration):
            self._late.append((call, call.send(self._send(sends))))

    def _finish(self, call: Call) -> None:
        with suppress(StopIteration):
            sends = next(call)
            while True:
                sends = call.send(self._send(sends))

    def _send(self, sends: Any) -> Row | Refusal | None:
        if isinstance(sends, Get):
            return self._table.read(sends.key)
        answer = self._table.write(sends)
        if not isinstance(answer, Refusal):
            self._books.check()
        return answer

    def _now(self) -> str:
        """Return the time by a clock that may be some ticks wrong."""
        self._clock += 1
        return str(self._clock + self._random.randint(-4, 4))

    def _name(self) -> str:
        self._names += 1
        return f"recovery-{self._names}"

    def _ask(self) -> str:
        return "APPROVED" if self._random.random() < 0.85 else "REJECTED"


def broken_in(layout: Layout, histories: int, first_seed: int = 0) -> list[str]:
    """Run histories with successive seeds; return what each broken one broke."""
    found = []
    for seed in range(first_seed, first_seed + histories):
        try:
            History(layout, seed).run()
        except Broken as broken:
            found.append(str(broken))
    return found
