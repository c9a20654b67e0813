"""Shapes of payouts; `tests/proof/shapes.py` imports them last."""

from settlement.payouts.payout import Payout
from tests.proof.payouts.life import IBANS, lived
from tests.proof.town import Payment, Play

ACCEPTED = ("hear accepted",)
PAID = (*ACCEPTED, "hear paid")
LIMBO = ("hear unknown", "wait 4")
SUSPENDED = (*PAID, "freeze", "back")

PATHS: dict[str, tuple[str, ...]] = {
    "payout reserved": (),
    "payout unknown": ("hear unknown",),
    "payout accepted": ACCEPTED,
    "payout paid": PAID,
    "payout confirmed": (*PAID, "debit"),
    "payout refused": ("hear refused",),
    "payout returned": (*PAID, "debit", "back"),
    "payout returned unbooked": (*ACCEPTED, "hear returned", "hear returned"),
    "payout lacking its return": (*PAID, "hear returned", "debit"),
    "payout in LIMBO": LIMBO,
    "payout decided paid": (*LIMBO, "decide paid"),
    "payout decided not paid": (*LIMBO, "decide not-paid against"),
    "payout whose bank is waited for": (*LIMBO, "approve not-paid"),
    "payout asked for again": (*LIMBO, "decide ask"),
    "payout closed": (*PAID, "wait 11", "decide close"),
    "payout proposed": (*LIMBO, "propose paid"),
    "payout in suspense": SUSPENDED,
    "payout given back": (*SUSPENDED, "unfreeze", "decide give-back"),
    "payout given back to another account": (*SUSPENDED, "decide give-back other"),
    "payout whose debit is half booked": (*ACCEPTED, "half out"),
    "payout whose return is half booked": (*ACCEPTED, "half in"),
    "payout to a frozen destination": (*ACCEPTED, "frozen"),
}


def pays(*acts: str) -> Play:
    """Return a play: a payout from the payer's account, then these acts."""

    def play(payment: Payment) -> None:
        of = payment.settlement
        payout = Payout(
            key=of.key, account=of.payer, amount=of.amount, currency="EUR", destination=f"home-of-{of.payer}"
        )
        lived(payment.town, payout, *acts, iban=IBANS[of.payer == "carol"], other=of.payee)

    return play


SHAPES: dict[str, Play] = {name: pays(*acts) for name, acts in PATHS.items()}
PLAYS: dict[str, Play] = {}
