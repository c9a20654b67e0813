"""Costs of cancellations: cases of `tests/store/test_cost.py`."""

from tests.store.doors.cancelling import cancel
from tests.store.rows import in_review
from tests.world.saga import LATER

CASES = {
    "cancel before the hold": (lambda saga: saga.reach(None), cancel, ["GetItem", "UpdateItem"], 2, 2),
    "cancel in review": (in_review, lambda saga: cancel(saga, now=LATER), ["GetItem", "UpdateItem"], 3, 3),
}
