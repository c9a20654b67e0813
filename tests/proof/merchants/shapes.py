"""Shapes of swept releases. `tests/proof/shapes.py` imports them last, because they import from it."""

from settlement.merchants import sweeper, sweeps
from settlement.merchants.sweep import Span
from tests.proof.shapes import RELEASED, compensated, in_parts, plays
from tests.proof.town import Payment, Play


def sweep(payment: Payment) -> None:
    span = sweeps.before_refund(payment.state())
    assert isinstance(span, Span)
    assert sweeper.fold(payment.town.store, span)


SHAPES: dict[str, Play] = {
    "swept": plays(*RELEASED, sweep, "fee"),
    "reversed in parts by a merchant": in_parts(*RELEASED, sweep, "fee", amounts=(2_000, 11)),
    "given back by a merchant": compensated(*RELEASED, sweep, "fee", by="order"),
}
PLAYS: dict[str, Play] = {"sweep": sweep}
