"""Shapes of cancelled settlements. `tests/proof/shapes.py` imports them last, because they import from it."""

from settlement.doors import cancellation
from tests.proof.shapes import HELD, compensated, plays
from tests.proof.town import Payment, Play


def cancel(payment: Payment) -> None:
    """Cancel as the starter does; a review is two hours old."""
    settlement, town = payment.settlement, payment.town
    if payment.state().is_in_review:
        town.store.update(cancellation.in_review(settlement, town.tick(7_200), None))
    else:
        town.store.update(cancellation.before_hold(settlement, town.tick(), None))


SHAPES: dict[str, Play] = {
    "cancelled before its hold": plays("claim", cancel),
    "to be given back, cancelled in review": plays(*HELD, "review", cancel),
    "given back, cancelled in review": compensated(*HELD, "review", by=cancel),
}
PLAYS: dict[str, Play] = {"cancel": cancel}
