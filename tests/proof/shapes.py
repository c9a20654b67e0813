"""Builds each legal shape of a settlement, as a town with two of them."""

from typing import Any

from settlement.core.model.orders import Decision
from settlement.core.model.settlement import Settlement
from settlement.core.model.status import Step
from settlement.core.model.verdict import KycDecision
from settlement.signing.signature import RowKeys
from tests.proof.town import Payment, Play, Town
from tests.world.rooms import brought

HELD = ("claim_and_hold",)
VERIFIED = (*HELD, "verify")
RELEASED = (*VERIFIED, "release")
SETTLED = (*RELEASED, "fee")
REVIEWED = (*HELD, "review", "webhook")


def plays(*names: str | Play) -> Play:
    return lambda payment: payment.forward(*names)


def compensated(*names: str | Play, until: int = 3, by: str | Play = "begin") -> Play:
    def play(payment: Payment) -> None:
        payment.forward(*names, by)
        payment.reverse(*payment.state().unreversed[:until])

    return play


def rejected(*names: str) -> Play:
    """Return a play that rejects a held payment, by answer or webhook, and voids the hold."""

    def play(payment: Payment) -> None:
        payment.forward(*names)
        (payment.webhook if "review" in names else payment.verify)(KycDecision.REJECTED)
        payment.begin()
        payment.reverse(Step.HOLD)

    return play


def limbo(*names: str, stuck: Step, decisions: tuple[Decision, ...] = (), then: str = "") -> Play:
    """Return a play: a reversal is stuck before each decision; `then` says how it goes on after the last."""

    def play(payment: Payment) -> None:
        payment.forward(*names, "order" if "fee" in names else "begin")
        payment.reverse(
            *(step for step in payment.state().unreversed if step is not stuck and step is Step.FEE)
        )
        if stuck is Step.HOLD:
            payment.reverse(*(step for step in payment.state().unreversed if step is not Step.HOLD))
        payment.limbo(stuck)
        for number, decision in enumerate(decisions):
            payment.resolve(decision)
            if number + 1 < len(decisions) or then == "limbo":
                payment.limbo(stuck)
        if then == "reverse":
            payment.reverse(*payment.state().unreversed)

    return play


def together(payment: Payment) -> None:
    limbo(*SETTLED, stuck=Step.RELEASE)(payment)
    payment.propose(RETRY)
    payment.withdraw()
    payment.propose(WRITE_OFF)
    payment.approve()


def proposed(payment: Payment) -> None:
    limbo(*SETTLED, stuck=Step.RELEASE)(payment)
    payment.propose(WRITE_OFF)


def expired(*names: str, then: str = "") -> Play:
    def play(payment: Payment) -> None:
        payment.forward(*names)
        while not payment.state().is_expired:
            payment.take_over_when_due()
        if then:
            payment.begin()
            payment.reverse(*payment.state().unreversed)

    return play


def extended(payment: Payment) -> None:
    """Let recovery's first look come just before the deadline."""
    payment.forward(*HELD)
    payment.take_over(890)


def in_parts(*names: str | Play, amounts: tuple[int, ...], layout: int = 1) -> Play:
    def play(payment: Payment) -> None:
        payment.forward(*names)
        for amount in amounts:
            payment.part(amount + payment.settlement.fee, layout)

    return play


def erased(*names: str) -> Play:
    def play(payment: Payment) -> None:
        payment.forward(*names)
        if payment.settlement.payer_name:
            payment.erase_names()

    return play


def taken_over(payment: Payment) -> None:
    payment.forward(*HELD)
    payment.take_over(40)
    payment.forward("verify", "release", "fee")


def alerted_again(payment: Payment) -> None:
    limbo(*SETTLED, stuck=Step.RELEASE)(payment)
    payment.take_over(2_000)


RETRY, WRITE_OFF, COMPLETE = Decision
SHAPES: dict[str, Play] = {
    "claimed": plays("claim"),
    "claimed and held later": plays("claim", "hold"),
    "held": plays(*HELD),
    "verified": plays(*VERIFIED),
    "released": plays(*RELEASED),
    "settled": plays(*SETTLED),
    "settled, names erased": erased(*SETTLED),
    "taken over and settled": taken_over,
    "in review": plays(*HELD, "review"),
    "approved by a reviewer": plays(*REVIEWED),
    "settled after a review": plays(*REVIEWED, "release", "fee"),
    "refused unclaimed": plays("tombstone"),
    "refused": plays("claim", "reject"),
    "rejected": rejected(*HELD),
    "rejected by a reviewer": rejected(*HELD, "review"),
    "to be reversed unheld": plays("claim", "order"),
    "reversed unheld": plays("claim", "order", "finish_unheld"),
    "to be voided": plays(*HELD, "begin"),
    "voided": compensated(*HELD),
    "voided after its approval": compensated(*VERIFIED),
    "to be reclaimed": plays(*RELEASED, "begin"),
    "reclaimed": compensated(*RELEASED, until=1),
    "reclaimed and voided": compensated(*RELEASED),
    "to be reversed on order": plays(*SETTLED, "order"),
    "fee refunded": compensated(*SETTLED, until=1, by="order"),
    "fee refunded and reclaimed": compensated(*SETTLED, until=2, by="order"),
    "reversed on order": compensated(*SETTLED, by="order"),
    "reversed on order in review": compensated(*HELD, "review", by="order"),
    "reversed on order after a review": compensated(*REVIEWED, "release", "fee", by="order"),
    "in LIMBO for the release": limbo(*SETTLED, stuck=Step.RELEASE),
    "in LIMBO for the release without a fee": limbo(*RELEASED, stuck=Step.RELEASE),
    "in LIMBO for the hold": limbo(*RELEASED, stuck=Step.HOLD),
    "in LIMBO for the fee": limbo(*SETTLED, stuck=Step.FEE),
    "in LIMBO, alerted again": alerted_again,
    "retried": limbo(*SETTLED, stuck=Step.RELEASE, decisions=(RETRY,)),
    "retried and reversed": limbo(*SETTLED, stuck=Step.RELEASE, decisions=(RETRY,), then="reverse"),
    "in LIMBO again": limbo(*RELEASED, stuck=Step.RELEASE, decisions=(RETRY,), then="limbo"),
    "written off": limbo(*SETTLED, stuck=Step.RELEASE, decisions=(WRITE_OFF,)),
    "written off and reversed": limbo(*SETTLED, stuck=Step.RELEASE, decisions=(WRITE_OFF,), then="reverse"),
    "fee written off": limbo(*SETTLED, stuck=Step.FEE, decisions=(WRITE_OFF,), then="reverse"),
    "completed": limbo(*SETTLED, stuck=Step.RELEASE, decisions=(COMPLETE,)),
    "completed without a fee": limbo(*RELEASED, stuck=Step.RELEASE, decisions=(RETRY, COMPLETE)),
    "completed with its fee": limbo(*SETTLED, stuck=Step.FEE, decisions=(COMPLETE,)),
    "expired": expired(*HELD),
    "expired and reversed": expired(*VERIFIED, then="reverse"),
    "expired in review": expired(*HELD, "review"),
    "expired in review and reversed": expired(*HELD, "review", then="reverse"),
    "extended": extended,
    "released to a merchant": plays(*SETTLED),
    "decided by two persons": together,
    "proposed": proposed,
    "reversed in part": in_parts(*SETTLED, amounts=(1_000, 3, 250)),
    "reversed in part once": in_parts(*SETTLED, amounts=(1,)),
    "reversed in part by name": in_parts(*SETTLED, amounts=(1_000, 3), layout=2),
    "reversed in part after a review": in_parts(*REVIEWED, "release", "fee", amounts=(7, 19)),
}
PLAYS: dict[str, Play] = {}
"""The rooms' plays, by name."""

for _room in brought("proof", "shapes"):
    SHAPES |= _room.SHAPES
    PLAYS |= _room.PLAYS


def town(name: str, row_keys: RowKeys | None = None, retention_days: int | None = None) -> Town:
    """Return a shape's town; its two settlements differ in all content."""
    town = Town(row_keys=row_keys, retention_days=retention_days)
    is_merchant = "merchant" in name or "swept" in name
    parties = (
        ("alice", "merchant.shop" if is_merchant else "bob"),
        ("carol", "merchant.cafe" if is_merchant else "dave"),
    )
    for number, (payer, payee) in enumerate(parties, 1):
        town.open(payer, 10_000 * number)
        town.open(payee, 700 * number)
        more: dict[str, Any] = {"deadline_seconds": 800 + number} if number == 2 and name in _NAMED else {}
        if number == 1 and name in _NAMED:
            more = {"payer_name": "Alice Archer", "payee_name": "Bob Baker"}
        if name in _LABELLED:
            more |= {"reference": "invoice 7", "metadata": {"shop": "web", "cart": "c-7"}}
        key = f"order-{list(SHAPES).index(name):08}-{number:04}"
        amount = 4_820 + 1_111 * number
        settlement = Settlement(
            key=key, payer=payer, payee=payee, amount=amount, currency="EUR", fee=48 * number, **more
        )
        SHAPES[name](Payment(town, settlement))
    town.open("frank", 0)
    town.circuit()
    return town


_NAMED = (
    *("held", "settled", "claimed", "refused", "refused unclaimed", "voided", "reversed on order"),
    *("settled, names erased", "cancelled before its hold"),
)
"""Shapes in which one settlement has names, the other its own deadline."""

_LABELLED = ("settled", "settled, names erased", "refused", "voided")
