"""Runs scripted lives without chance, with each fault at each call, alone and in pairs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from settle.orders.proposing import approve
from settlement.core.ledger import forward
from settlement.core.model.orders import Decision
from settlement.core.model.request import parse_settlement
from settlement.core.store.dynamodb import Store
from tests.simulation.seeded.chance import Fault, Script
from tests.simulation.seeded.deployments import begin_to_need_persons
from tests.simulation.seeded.facts import HIGHEST_BALANCE
from tests.simulation.seeded.persons import OLGA, PETE
from tests.simulation.seeded.stage import Current
from tests.simulation.seeded.world import W, World
from tests.world.definitions import EXPRESS, STANDARD
from tests.world.environment import NOW
from tests.world.ledger import adds
from tests.world.rooms import is_gone

KEY = "order-2026-000101"
REQUEST = {"key": KEY, "payer": "alice", "payee": "bob", "amount": "48.20", "currency": "EUR", "fee": "0.48"}
SAME_PARTITION = "d"
"""Added to KEY, it makes a key whose entries are in the same partition."""

IN_A_HURRY: dict[str, Any] = {**REQUEST, "deadline_seconds": 600}
REJECTED, IN_REVIEW = 0.05, 0.2
"""The luck of a rejected payment, and of one in review."""

QUEUE, CANCEL = "StartSettlements", "CancelSettlement"
Faults = Mapping[int, Fault]
_BY = {"by": "olga", "reason": "before the payment"}


def settles(world: World) -> None:
    _starts(world, STANDARD)


def settles_by_express(world: World) -> None:
    _starts(world, EXPRESS)


def is_sent_by_message(world: World) -> None:
    world.people.spawn("a message", 0, world.people._send, REQUEST)


def names_its_deadline(world: World) -> None:
    """Start a payment with a requested deadline, which recovery expires if it comes late."""
    _starts(world, STANDARD, IN_A_HURRY)


def is_sent_by_message_and_names_its_deadline(world: World) -> None:
    world.people.spawn("a message", 0, world.people._send, IN_A_HURRY)


def is_cancelled_before_its_hold(world: World) -> None:
    """The queue's function dies after the claim; the starter cancels before recovery."""
    world.people.spawn("the queue", 0, _claim, world, REQUEST)
    world.people.spawn("a starter", 10_000, world.canceller.cancel, KEY, REQUEST)
    world.people.spawn("upstream", 20_000, world.people._start, STANDARD, f"{KEY}-mine", REQUEST)


def is_cancelled_in_review(world: World) -> None:
    _starts(world, STANDARD)
    world.people.spawn("a starter", 18, world.canceller.cancel, KEY, REQUEST)


def is_posted_twice(world: World) -> None:
    world.people.spawn("a starter", 0, world.acceptor.post, KEY, REQUEST)
    world.people.spawn("a starter", 20_000, world.acceptor.post, KEY, REQUEST)


def is_refused(world: World) -> None:
    _starts(world, STANDARD, {**REQUEST, "amount": "4000.00"})


def is_reversed_on_an_order(world: World, fee: str = "0.48") -> None:
    _starts(world, STANDARD, {**REQUEST, "fee": fee})
    world.people.spawn("a person", 20_000, world.people._reverse, KEY)


def is_reversed_in_part(world: World) -> None:
    _starts(world, STANDARD)
    for number, amount in ((1, "5.00"), (2, "1.50")):
        order = {"key": KEY, "part": number, "amount": amount, "reason": "one came back"}
        world.people.spawn("a person", 20_000 * number, world.people.give_back, order)


def is_reversed_by_three(world: World) -> None:
    """One person proposes and withdraws a reversal, another proposes again, two approve."""
    begin_to_need_persons(world, {"reverse": 3})
    _starts(world, STANDARD)
    world.people.spawn("three persons", 20_000, world.people.propose_twice, KEY)


def is_to_be_reversed_by_three(world: World) -> None:
    """Two of the three required persons order a reversal during the review."""
    begin_to_need_persons(world, {"reverse": 3})
    _starts(world, STANDARD)
    world.people.spawn("two persons", 12, world.people.propose, KEY, PETE, (OLGA, approve))


def cannot_be_reclaimed(decision: Decision, fee: str = "0.48") -> Callable[[World], None]:
    """The payee has spent the amount, so the reversal waits in LIMBO for a decision."""

    def scenario(world: World) -> None:
        world.people.decisions = (decision,)
        is_reversed_on_an_order(world, fee)
        spent = {**REQUEST, "key": f"{KEY}-on", "payer": "bob", "payee": "carol", "amount": "40.00"}
        world.people.spawn("upstream", 5_000, world.people._start, EXPRESS, f"{KEY}-on", spent)

    return scenario


def is_paid_by_a_blocked_payer(world: World) -> None:
    """An earlier payment blocks the payer while no execution runs this one."""
    world.people.decisions = (Decision.WRITE_OFF,)
    paid = {**REQUEST, "key": f"{KEY}-before"}
    spent = {**paid, "key": f"{KEY}-on", "payer": "bob", "payee": "carol", "amount": "40.00"}
    blocked = {**REQUEST, "payer": "bob", "payee": "carol", "amount": "1.00"}
    world.people.spawn("upstream", 0, world.people._start, EXPRESS, f"{KEY}-before-mine", paid)
    world.people.spawn("upstream", 5_000, world.people._start, EXPRESS, f"{KEY}-on", spent)
    world.people.spawn("the queue", 10_000, _claim, world, blocked)
    world.people.spawn("a person", 20_000, world.people._reverse, f"{KEY}-before")


def is_paid_to_a_merchant(world: World) -> None:
    """A merchant gets two payments within a second, in one partition."""
    paid = {**REQUEST, "payee": "merchant.shop"}
    _starts(world, STANDARD, paid)
    again = {**paid, "key": f"{KEY}-{SAME_PARTITION}", "amount": "10.00"}
    world.people.spawn("upstream", 300, world.people._start, EXPRESS, f"{KEY}-again", again)


def with_orders_before(*orders: tuple[str, str, str]) -> Callable[[World], None]:
    """Carry out orders (kind, account, amount) before a payment."""

    def scenario(world: World) -> None:
        world.people.spawn("upstream", 2_000, world.people._start, STANDARD, f"{KEY}-mine", REQUEST)
        for number, (kind, account, amount) in enumerate(orders):
            order = {"key": f"{kind}-before-{number:05}", "order": kind, "account": account}
            if amount:
                order |= {"amount": amount, "currency": "EUR", "reference": "before"}
            world.people.spawn("a person", 100 * number, world.bank.give, order | _BY)

    return scenario


@dataclass(frozen=True)
class Scenario:
    """A life: its course, luck with the provider, and opening balances.

    The flags add late orders, cancellations and posts. `calls` names a room's function that the life needs.
    """

    happens: Callable[[World], None]
    luck: float = 1.0
    opening: Mapping[str, int] = field(default_factory=dict)
    in_dollars: str = ""
    with_orders: bool = False
    with_cancels: bool = False
    with_posts: bool = False
    calls: str = ""


_SCENARIOS = {
    "settles": Scenario(settles),
    "settles by Express": Scenario(settles_by_express),
    "is sent by message": Scenario(is_sent_by_message, calls=QUEUE),
    "is posted twice": Scenario(is_posted_twice, with_posts=True, calls="AcceptSettlements"),
    "names its deadline": Scenario(names_its_deadline),
    "names its deadline in a message": Scenario(is_sent_by_message_and_names_its_deadline, calls=QUEUE),
    "is reviewed and names its deadline": Scenario(names_its_deadline, IN_REVIEW),
    "is refused": Scenario(is_refused),
    "is rejected by the provider": Scenario(settles, REJECTED),
    "is reviewed": Scenario(settles, IN_REVIEW, with_cancels=True),
    "is cancelled before its hold": Scenario(is_cancelled_before_its_hold, with_cancels=True, calls=CANCEL),
    "is cancelled in review": Scenario(is_cancelled_in_review, IN_REVIEW, with_cancels=True, calls=CANCEL),
    "is reversed on an order": Scenario(is_reversed_on_an_order),
    "is reversed in part": Scenario(is_reversed_in_part),
    "is reversed by three persons": Scenario(is_reversed_by_three),
    "is to be reversed by three persons": Scenario(is_to_be_reversed_by_three, IN_REVIEW),
    "is written off": Scenario(cannot_be_reclaimed(Decision.WRITE_OFF)),
    "is written off without a fee": Scenario(cannot_be_reclaimed(Decision.WRITE_OFF, fee="0.00")),
    "is completed": Scenario(cannot_be_reclaimed(Decision.COMPLETE)),
    "exceeds the payee's cap": Scenario(settles, opening={"bob": HIGHEST_BALANCE - 100}),
    "is paid in another currency": Scenario(settles, in_dollars="alice"),
    "is received in another currency": Scenario(settles, in_dollars="bob"),
    "is paid by a blocked payer": Scenario(is_paid_by_a_blocked_payer),
    "is settled among orders": Scenario(settles, with_orders=True),
    "is paid to an empty account among orders": Scenario(settles, opening={"bob": 0}, with_orders=True),
    "is written off among orders": Scenario(cannot_be_reclaimed(Decision.WRITE_OFF), with_orders=True),
    "is paid by a frozen payer": Scenario(
        with_orders_before(("freeze", "alice", ""), ("freeze", "carol", "")), with_orders=True
    ),
    "is paid by a closed payer": Scenario(
        with_orders_before(("withdraw", "alice", "100.00"), ("close", "alice", "")), with_orders=True
    ),
    "is paid to a closed payee": Scenario(
        with_orders_before(("withdraw", "bob", "5.00"), ("close", "bob", ""))
    ),
    "is paid to a merchant": Scenario(
        is_paid_to_a_merchant, opening={"merchant.shop": 0}, calls="SweepMerchants"
    ),
}
SCENARIOS = {name: scenario for name, scenario in _SCENARIOS.items() if not is_gone(scenario.calls)}


def live(current: Current, name: str, faults: Faults, kind: type[W] = World, *, is_told: bool = False) -> W:  # type: ignore[assignment]
    scenario = SCENARIOS[name]
    world = current.world = kind(Script(faults, scenario.luck), is_told)
    world.open_accounts({"alice": 10_000, "bob": 500, "carol": 0, **scenario.opening}, scenario.in_dollars)
    scenario.happens(world)
    world.hub.spawn(world.people.recover, "the schedule")
    world.run()
    return world


def singles(current: Current, name: str) -> Iterator[Faults]:
    yield from _further(live(current, name, {}), {}, 0)


def pairs(current: Current, name: str, single: Faults) -> Iterator[Faults]:
    """Yield a fault together with each fault at each later call, even at calls that the first causes."""
    (number,) = single
    yield from _further(live(current, name, single), single, number + 1)


def _further(world: World, faults: Faults, first: int) -> Iterator[Faults]:
    assert isinstance(world.chance, Script)
    for number, kinds in enumerate(world.chance.possible[first:], first):
        for kind in dict.fromkeys(kinds):
            yield {**faults, number: kind}


def _claim(world: World, request: dict[str, str]) -> None:
    settlement = parse_settlement(request, world.config)
    Store(world.table, "simulated", adds=adds()).claim(forward.claim(settlement, "gone", NOW, world.config))


def _starts(world: World, machine: str, request: dict[str, Any] = REQUEST) -> None:
    world.people.spawn("upstream", 0, world.people._start, machine, f"{KEY}-mine", request)
