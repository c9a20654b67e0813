"""All ways that a payment can take, run by a desk's machines, with their rows."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from settle.migrations.rows import PARTS, Direction
from settle.orders import partial_reversal, resolution, reversal
from settle.settlements import recovery
from settlement.core.ledger.kyc_review import WebhookEvent
from settlement.core.model.errors import AccountClosed, IdempotencyConflict, KycUnavailable
from settlement.core.model.orders import Decision
from settlement.core.model.state import SettlementState
from settlement.core.policy import steps
from tests.settle.desk import REASON, STANDARD, Desk
from tests.world.constants import KEY, WIRE
from tests.world.environment import NOW
from tests.world.interpreter import Execution
from tests.world.provider import APPROVED, IN_REVIEW, REJECTED

Way = Callable[[Desk], object]
BROKEN = {"fee": "RefundFee", "release": "ReclaimFunds", "hold": "VoidHold"}


def start(desk: Desk, name: str = f"{KEY}-1", until: str | None = None, **request: str) -> Execution:
    """Run a request on the Standard machine to its end, or to just before a state."""
    desk.machines.runs = until is None
    desk.machines.start_execution(stateMachineArn=STANDARD, name=name, input=json.dumps(WIRE | request))
    desk.machines.runs = True
    (execution,) = (one for one in desk.executions if one.name == name)
    return execution.run(until=until) if until else execution


def settled(desk: Desk) -> None:
    start(desk)


def lacks_funds(desk: Desk) -> None:
    start(desk, amount="900.00", fee="9.00")


def begun(desk: Desk) -> None:
    start(desk, until="VerifyKyc")


def released(desk: Desk) -> None:
    start(desk, until="CollectFee")


def claimed(desk: Desk) -> None:
    desk.pay(until="claim")


def rejected(desk: Desk) -> None:
    desk.provider.answer = REJECTED
    start(desk)


def unavailable(desk: Desk) -> None:
    desk.broken["VerifyKyc"] = KycUnavailable("kyc: no answer")
    start(desk)


def closed(desk: Desk) -> None:
    desk.broken["ReleaseFunds"] = AccountClosed("payee: is closed")
    start(desk)


def in_review(desk: Desk) -> None:
    desk.provider.answer = IN_REVIEW
    start(desk)


def _decided(desk: Desk, verdict: str) -> None:
    in_review(desk)
    answer = replace(APPROVED if verdict == "APPROVED" else REJECTED, provider="webhook")
    settlement, later = SettlementState.from_row(desk.row()).settlement, NOW + timedelta(hours=1)
    event, owner = WebhookEvent("evt_1", "d" * 64), f"{KEY}-decided"
    desk.ledger.store.transact(
        steps.record_webhook_verdict(settlement, answer, event, owner, later, desk.stack.config)
    )
    start(desk, owner)


def approved_in_review(desk: Desk) -> None:
    _decided(desk, "APPROVED")


def rejected_in_review(desk: Desk) -> None:
    _decided(desk, "REJECTED")


def reversed_on_order(desk: Desk) -> None:
    settled(desk)
    reversal.reverse(desk.stack, KEY, "sent back")


def reversed_before_the_hold(desk: Desk) -> None:
    claimed(desk)
    desk.reverse("a test", expected_status="PROCESSING")


def reversed_in_flight(desk: Desk) -> None:
    start(desk, until="CollectFee").abort()
    desk.reverse("a test", expected_status="PROCESSING")


def reversed_in_part(desk: Desk) -> None:
    settled(desk)
    partial_reversal.reverse_part(desk.stack, KEY, "5.00", "one came back", 1)


def reversed_in_part_and_migrated(desk: Desk) -> None:
    reversed_in_part(desk)
    migrated = PARTS.write(desk.row(), Direction.FORWARD)
    assert migrated
    assert desk.ledger.store.apply(migrated) == 1


def half_reversed(desk: Desk) -> None:
    settled(desk)
    desk.machines.runs = False
    desk.reverse("first")
    desk.machines.runs = True
    desk.executions[-1].run(until="VoidHold")


def stuck(step: str) -> Way:
    """Return a way on which a settled payment gets stuck at this step's reversal."""

    def way(desk: Desk) -> None:
        settled(desk)
        desk.broken[BROKEN[step]] = IdempotencyConflict("locked")
        desk.reverse("sent back")

    way.__name__ = f"stuck_at_{step}"
    return way


def stuck_before_the_hold(desk: Desk) -> None:
    claimed(desk)
    desk.broken["VoidHold"] = IdempotencyConflict("locked")
    desk.reverse("a test", expected_status="PROCESSING")


def decided(step: str, *decisions: Decision) -> Way:
    """Return a way into LIMBO, and out of it by these decisions. A last retry succeeds."""

    def way(desk: Desk) -> None:
        stuck(step)(desk)
        for number, decision in enumerate(decisions, start=1):
            if decision is not Decision.RETRY or number == len(decisions):
                desk.broken.clear()
            resolution.resolve(desk.stack, KEY, decision, f"{REASON} {number}", case=number)

    way.__name__ = "_then_".join([f"stuck_at_{step}", *(one.replace("-", "_") for one in decisions)])
    return way


def expired(desk: Desk) -> None:
    start(desk, until="ReleaseFunds").abort()
    desk.alter(deadline_at="2026-11-20T12:00:01.000Z", gsi1sk="2026-11-20T12:00:01.000Z")
    recovery.recover(desk.stack, KEY)


RETRY, WRITE_OFF, COMPLETE = Decision.RETRY, Decision.WRITE_OFF, Decision.COMPLETE
WAYS: list[Way] = [
    *(settled, lacks_funds, claimed, begun, released, rejected, unavailable, closed),
    *(in_review, approved_in_review, rejected_in_review),
    *(reversed_on_order, reversed_before_the_hold, reversed_in_flight, half_reversed, expired),
    *(stuck("fee"), stuck("release"), stuck("hold"), stuck_before_the_hold),
    *(decided("fee", RETRY), decided("fee", WRITE_OFF), decided("fee", COMPLETE)),
    *(decided("release", RETRY), decided("release", WRITE_OFF), decided("release", COMPLETE)),
    *(decided("hold", RETRY), decided("release", RETRY, RETRY), decided("release", RETRY, WRITE_OFF)),
]
