"""Damage by a thief with one function's role, while all functions run unchanged.

Each attack writes all that its role allows. Then everything runs. Money was made if the customers' balances
grew. `docs/reference/roles.py` prints the attacks' docstrings.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from functools import cache
from io import StringIO
from typing import Any
from unittest import mock

from handlers import _dependencies
from handlers.core import _workers
from handlers.kyc import _provider as _kyc
from settlement.accounts import account_orders
from settlement.aws import functions as _functions
from settlement.aws import step_functions as _step_functions
from settlement.core import telemetry
from settlement.core.ledger import forward, keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import Transfer
from settlement.core.model.settlement import Settlement
from settlement.core.model.timestamps import timestamp
from settlement.core.store.wire import to_wire
from settlement.kyc import shared_secrets as _secrets
from tests.infra.evaluator import allows, policy, requests
from tests.world.constants import KEY
from tests.world.ledger import ROW_KEYS, in_memory, signing
from tests.world.openings import deposit_order
from tests.world.provider import APPROVED, IN_REVIEW, REJECTED
from tests.world.services import SECRET
from tests.world.world import World

TABLE = "${LedgerTable.Arn}"
LOOT = Settlement(
    key="order-2026-000900", payer="mallory", payee="eve", amount=900_000, currency="EUR", fee=0
)
"""A payment refused because its payer has nothing."""

REFUNDED = "order-2026-000500"
FORGED = replace(LOOT, key="order-2026-000901")

FAILED = {"step": "verify", "error": "KycRejected", "cause": "x"}
OF_A_REFUND = {"status": "COMPENSATING", "resolutions": 0, "failure": FAILED, "reversed_for": FAILED}

Policy = Sequence[Mapping[str, Any]]


class Denied(Exception):
    """The role denies the call, alone or in a transaction."""


class End(StrEnum):
    DENIED = "denied"
    IN_VAIN = "in vain"
    NAMED = "named by `settle reconcile`"
    UNSIGNED = "named by `settle reconcile` for its signature alone"
    COMPARED = "found in the comparison with the bank's own file alone"
    UNSEEN = "UNSEEN"


@dataclass
class Thief:
    """A caller with a function's policy, on a world's table."""

    world: Any
    client: Any
    table_name: str
    own: Policy
    rehearses: bool = False
    """Only check the policy, without writing."""

    def put(self, row: Row) -> None:
        self._send("Put", {"Item": to_wire(row)})

    def change(self, key: Row, *, remove: Sequence[str] = (), **to: Any) -> None:
        sets = ", ".join(f"#{name} = :{name}" for name in to)
        expression = f"SET {sets}" + (f" REMOVE {', '.join(f'#{name}' for name in remove)}" if remove else "")
        self._send(
            "Update",
            {
                "Key": to_wire(key),
                "UpdateExpression": expression,
                "ExpressionAttributeNames": {f"#{name}": name for name in (*to, *remove)},
                "ExpressionAttributeValues": to_wire({f":{name}": value for name, value in to.items()}),
            },
        )

    def _send(self, kind: str, write: dict[str, Any]) -> None:
        calls = [
            (f"{kind}Item", write),
            ("TransactWriteItems", {"TransactItems": [{kind: write}]}),
        ]
        for operation, parameters in calls:
            if all(allows(self.own, one) for one in requests(TABLE, operation, parameters)):
                if not self.rehearses:
                    send = self.client.put_item if kind == "Put" else self.client.update_item
                    send(TableName=self.table_name, **write)
                return
        raise Denied


@contextmanager
def staged() -> Iterator[World]:
    world = World(signing(in_memory()))
    replaced = {
        (_kyc, "ask"): world.provider.ask,
        (_dependencies, "store"): world.ledger.store,
        (_dependencies, "now"): lambda: world.now,
        (_workers, "pause"): lambda seconds: None,
        (_step_functions, "_client"): world.step_functions,
        (_functions, "_client"): world.functions,
        (_secrets, "read"): lambda secret_id, **_: {"current": SECRET},
    }
    with ExitStack() as stack:
        for (place, name), value in replaced.items():
            stack.enter_context(mock.patch.object(place, name, value))
        stack.enter_context(redirect_stdout(StringIO()))
        stack.enter_context(mock.patch.object(telemetry.logger, "setLevel"))
        telemetry.metrics.clear_metrics()
        world.open_both()
        world.open("mallory", 0)
        world.open("eve", 0)
        world.settle()
        world.settle(data=LOOT.to_wire(_dependencies.config), name="refused")
        world.provider.answer = REJECTED
        refunded = {"payer": "alice", "payee": "eve", "amount": "30.00", "currency": "EUR", "fee": "0.00"}
        world.settle(data={"key": REFUNDED, **refunded}, name="refunded")
        assert [world.row(key)["status"] for key in (KEY, LOOT.key, REFUNDED)] == [
            *("SETTLED", "REJECTED", "COMPENSATED")
        ]
        world.provider.answer = APPROVED
        yield world


def money(world: World) -> int:
    rows = [row for row in world.ledger.rows() if "available" in row]
    return sum(int(row["available"]) for row in rows if row.get("currency", "EUR") == "EUR")


def played(own: Policy, attack: "Attack") -> End:
    """Attack with a policy; return the result, a day later."""
    with staged() as world:
        before = money(world)
        try:
            attack(_thief(world, own))
        except Denied:
            return End.DENIED
        for hours in (0, 1, 24):
            world.now += timedelta(hours=hours, minutes=2)
            with suppress(Exception):
                world.recover()
            for execution in world.machines.executions:
                with suppress(Exception):  # a forged row may stop the functions: that pays nothing
                    if not execution.busy:
                        execution.run()
        if money(world) <= before:
            return End.IN_VAIN
        if not world.findings().conserved:
            return End.NAMED
        return End.UNSEEN if world.findings(ROW_KEYS).conserved else End.UNSIGNED


def _thief(world: World, own: Policy, *, rehearses: bool = False) -> Thief:
    return Thief(world, world.ledger.client, world.ledger.table_name, own, rehearses)


def _row(world: World, settlement: Settlement, **changes: Any) -> Row:
    """Return a payment's row, due for recovery now, with changes."""
    claimed = forward.claim(settlement, "x", world.now, _dependencies.config).parameters["Item"]
    due = keys.in_flight_index(settlement.key, timestamp(world.now))
    later = timestamp(world.now + timedelta(hours=12))
    return {**claimed, **due, "deadline_at": later, **changes}


def _entry(world: World, account: str, key: str, step: str, debit: str, credit: str) -> Row:
    at = timestamp(world.now)
    return {
        **keys.entry(account, at, key, step),
        "step": step,
        "posted_at": at,
        "debit": debit,
        "credit": credit,
        "side": "debit" if debit == account else "credit",
        "amount": FORGED.amount,
        "currency": "EUR",
        "request_hash": FORGED.request_hash,
    }


def _due(world: World, key: str) -> dict[str, str]:
    later = timestamp(world.now + timedelta(hours=12))
    return {**keys.in_flight_index(key, timestamp(world.now)), "deadline_at": later}


def _deposit(world: World) -> Row:
    deposit = _entry(world, "eve", "open-eve-again-0001", "deposit", "external:EUR", "eve")
    return {name: value for name, value in deposit.items() if name != "request_hash"}


def raises_a_balance(thief: Thief) -> None:
    """Raises a balance."""
    thief.change(keys.account("eve"), available=900_000)


def opens_an_account(thief: Thief) -> None:
    """Puts an account with a balance."""
    thief.put({**keys.account("eve"), "available": 900_000, "currency": "EUR"})


def raises_a_balance_with_an_entry(thief: Thief) -> None:
    """Raises a balance, with the entry of a nonexistent payment."""
    thief.put(_entry(thief.world, "eve", FORGED.key, "release", f"escrow:{FORGED.key}", "eve"))
    thief.change(keys.account("eve"), available=900_000)


def forges_a_hold(thief: Thief) -> None:
    """Puts a payment whose money was never held. Recovery verifies and releases it."""
    thief.put(_row(thief.world, FORGED, escrow=FORGED.amount, hold_at=timestamp(thief.world.now)))


def forges_a_hold_and_its_entry(thief: Thief) -> None:
    """Puts a payment whose money was never held, with an entry of its hold."""
    thief.put(_entry(thief.world, "mallory", FORGED.key, "hold", "mallory", f"escrow:{FORGED.key}"))
    forges_a_hold(thief)


def forges_a_hold_in_two_writes(thief: Thief) -> None:
    """Puts a payment with money in escrow, and then changes it into one that is held."""
    thief.put(_row(thief.world, FORGED, escrow=FORGED.amount))
    thief.change(keys.settlement(FORGED.key), hold_at=timestamp(thief.world.now))


def forges_an_escrow(thief: Thief) -> None:
    """Puts a payment with money in escrow that is not held yet."""
    own = replace(FORGED, payer="alice", amount=1)
    thief.put(_row(thief.world, own, escrow=FORGED.amount))


def forges_a_refund(thief: Thief) -> None:
    """Puts a payment in reversal whose money was never held. Recovery refunds it."""
    own = replace(FORGED, payer="eve", payee="mallory")
    held = {"escrow": own.amount, "hold_at": timestamp(thief.world.now)}
    thief.put(_row(thief.world, own, **OF_A_REFUND, **held))


def forges_a_refund_in_two_writes(thief: Thief) -> None:
    """Puts a payment without a hold, and then changes it to have one."""
    own = replace(FORGED, payer="eve", payee="mallory")
    thief.put(_row(thief.world, own, escrow=own.amount, **OF_A_REFUND))
    thief.change(keys.settlement(FORGED.key), hold_at=timestamp(thief.world.now))


def revives_a_refused_payment(thief: Thief) -> None:
    """Changes a refused payment into one that is held and approved."""
    _revives(thief, escrow=LOOT.amount)


def revives_a_refused_payment_without_escrow(thief: Thief) -> None:
    """Changes a refused payment to held and approved, without naming its escrow."""
    _revives(thief)


def _revives(thief: Thief, **escrow: int) -> None:
    at = timestamp(thief.world.now)
    slots = {"hold_at": at, "verify_at": at, "verdict": "APPROVED"}
    _again(thief, LOOT.key, "PROCESSING", "failure", **slots, **escrow)


def refunds_twice(thief: Thief) -> None:
    """Changes a refunded payment to be refunded again."""
    _again(thief, REFUNDED, "COMPENSATING", "hold_reversed_at", escrow=3_000)


def refunds_twice_without_escrow(thief: Thief) -> None:
    """Changes a refunded payment to be refunded again, without naming its escrow."""
    _again(thief, REFUNDED, "COMPENSATING", "hold_reversed_at")


def releases_twice(thief: Thief) -> None:
    """Changes a settled payment to be released again."""
    _again(thief, KEY, "PROCESSING", "release_at", "fee_at", escrow=4_820)


def releases_twice_without_escrow(thief: Thief) -> None:
    """Changes a settled payment so, without naming its escrow."""
    _again(thief, KEY, "PROCESSING", "release_at", "fee_at")


def _again(thief: Thief, key: str, status: str, *undone: str, **changes: Any) -> None:
    """Put an ended payment back in flight, without the attributes `undone`."""
    due = _due(thief.world, key)
    thief.change(keys.settlement(key), status=status, **changes, **due, remove=["finished_at", *undone])


def skips_the_refund_of_the_fee(thief: Thief) -> None:
    """Changes a settled payment into one whose fee is refunded already."""
    _reopens(thief, escrow=48, fee_reversed_at=timestamp(thief.world.now))


def skips_the_reclaim(thief: Thief) -> None:
    """Changes a settled payment into one that is reclaimed already."""
    _reopens(thief, escrow=4_772, release_reversed_at=timestamp(thief.world.now))


def skips_the_reclaim_without_escrow(thief: Thief) -> None:
    """Changes a settled payment so, without naming its escrow."""
    _reopens(thief, release_reversed_at=timestamp(thief.world.now))


def _reopens(thief: Thief, **changes: Any) -> None:
    again = {**OF_A_REFUND, **_due(thief.world, KEY), **changes}
    thief.change(keys.settlement(KEY), **again, remove=["finished_at"])


def raises_an_amount(thief: Thief) -> None:
    """Changes the amount of a refunded payment, and has it refunded again."""
    amount = {"amount": FORGED.amount, "escrow": FORGED.amount}
    more = replace(_refunded(thief.world), amount=FORGED.amount)
    again = {"status": "COMPENSATING", "request_hash": more.request_hash, **_due(thief.world, REFUNDED)}
    gone = ["finished_at", "hold_reversed_at"]
    thief.change(keys.settlement(REFUNDED), **again, **amount, remove=gone)


def replaces_a_payment(thief: Thief) -> None:
    """Replaces a refunded payment by one to be refunded, with another amount."""
    more = replace(_refunded(thief.world), amount=FORGED.amount)
    held = {"escrow": FORGED.amount, "hold_at": timestamp(thief.world.now)}
    thief.put(_row(thief.world, more, **OF_A_REFUND, **held))


def _refunded(world: World) -> Settlement:
    state = world.ledger.store.settlement(REFUNDED)
    assert state
    return state.settlement


def forges_a_sweep(thief: Thief) -> None:
    """Puts a sweep of nonexistent releases, and raises a merchant's balance."""
    partition = "ENTRIES#merchant.shop#3"
    thief.put({"pk": f"SWEPT#{partition}", "sk": "2026-11-20T12:00", "version": 1, "folded": {"00": 900_000}})
    thief.change(keys.account("merchant.shop"), available=900_000)


def forges_a_deposit(thief: Thief) -> None:
    """Puts a deposit, and raises the balance by it."""
    thief.put(_deposit(thief.world))
    thief.change(keys.account("eve"), available=900_000)


def forges_a_deposit_with_its_order(thief: Thief) -> None:
    """Puts a deposit with its order, and raises the balance by it."""
    order, now = deposit_order("eve", 900_000), thief.world.now
    moved = Transfer(debit="external:EUR", credit="eve", amount=900_000)
    for write in (account_orders.record(order, now), account_orders.external(order, moved, now)):
        thief.put(write.parameters["Item"])
    thief.change(keys.account("eve"), available=900_000)


def renames_a_currency(thief: Thief) -> None:
    """Changes an account's points into euros."""
    thief.world.open("mallory.points", 900_000, "POINTS")
    thief.change(keys.account("mallory.points"), currency="EUR")


def renames_a_held_currency(thief: Thief) -> None:
    """Changes the points that a payment in review holds into euros; recovery has it approved and released.

    The payee changes too: a hold in points requires a payee with points.
    """
    world = thief.world
    points = replace(LOOT, key="order-2026-000950", payer="mallory.p", payee="mallory.q", currency="POINTS")
    if not world.ledger.row(keys.account(points.payer)):
        world.open(points.payer, points.amount, "POINTS")
        world.open(points.payee, 0, "POINTS")
        world.provider.answer = IN_REVIEW
        world.settle(data=points.to_wire(_dependencies.config), name="points")
        world.provider.answer = APPROVED
    changed = replace(points, payee=LOOT.payee, currency="EUR")
    thief.change(
        keys.settlement(points.key),
        remove=["review"],
        payee=changed.payee,
        currency=changed.currency,
        request_hash=changed.request_hash,
        **_due(world, points.key),
    )


Attack = Callable[[Thief], None]
ATTACKS: tuple[Attack, ...] = (
    raises_a_balance,
    opens_an_account,
    raises_a_balance_with_an_entry,
    forges_a_hold,
    forges_a_hold_and_its_entry,
    forges_a_hold_in_two_writes,
    forges_an_escrow,
    forges_a_refund,
    forges_a_refund_in_two_writes,
    revives_a_refused_payment,
    revives_a_refused_payment_without_escrow,
    refunds_twice,
    refunds_twice_without_escrow,
    releases_twice,
    releases_twice_without_escrow,
    skips_the_refund_of_the_fee,
    skips_the_reclaim,
    skips_the_reclaim_without_escrow,
    raises_an_amount,
    replaces_a_payment,
    forges_a_sweep,
    forges_a_deposit,
    forges_a_deposit_with_its_order,
    renames_a_currency,
    renames_a_held_currency,
)


@cache
def ends(stage: str, function: str) -> Mapping[Attack, End]:
    own, attacks = policy(stage, function), ATTACKS
    with staged() as world:  # one world serves for all that is denied
        denied = {attack for attack in attacks if is_denied(_thief(world, own, rehearses=True), attack)}
    return {attack: End.DENIED if attack in denied else played(own, attack) for attack in attacks}


def is_denied(thief: Thief, attack: Attack) -> bool:
    try:
        attack(thief)
    except Denied:
        return True
    return False
