"""Any input is answered, or refused with a known error. Only a sound payout changes rows."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from settlement.core.model.errors import SettlementError
from settlement.core.model.stored import MalformedRow
from tests.fuzz.mutation import Bytes, mutated
from tests.handlers.payouts.conftest import KEY, REFERENCE, WIRE, Desk, numbered
from tests.world.functions import Context

INPUTS = 1_200
REFUSED = frozenset({400, 401, 404, 409, 422, 503})

Calling = Callable[[Any], Any]


def inputs(valid: Any) -> Iterator[Any]:
    for seed in range(INPUTS):
        yield mutated(valid, Bytes(random.Random(seed).randbytes(48)))


def reserve(desk: Desk) -> tuple[Any, Calling]:
    return {"payout": WIRE}, lambda event: desk.calls.handlers["ReservePayout"](event, Context())


def follow(desk: Desk) -> tuple[Any, Calling]:
    return {"key": numbered(7)}, lambda event: desk.calls.handlers["FollowPayouts"](event, Context())


def post(desk: Desk) -> tuple[Any, Calling]:
    return WIRE, lambda body: desk.post(json.dumps(body))


def get(desk: Desk) -> tuple[Any, Calling]:
    return KEY, desk.get


def hear(desk: Desk) -> tuple[Any, Calling]:
    return {"reference": REFERENCE, "status": "paid"}, lambda body: desk.hear(json.dumps(body))


@pytest.mark.parametrize("function", [reserve, follow, post, get, hear], ids=lambda one: one.__name__)
def test_hostile_input_raises_only_known_errors_and_moves_nothing(
    desk: Desk, function: Callable[[Desk], tuple[Any, Calling]]
) -> None:
    desk.reserve()
    valid, call = function(desk)
    ends = Counter[Any]()
    before, is_sound = desk.calls.ledger.rows(), {json.dumps(valid), json.dumps({"payout": WIRE})}
    for event in inputs(valid):
        if not isinstance(event, dict) and function in (reserve, follow):
            continue  # a machine and a schedule send objects
        try:
            answer = call(event)
        except (SettlementError, MalformedRow) as refusal:
            ends[type(refusal).__name__] += 1
        else:
            ends[answer[0] if isinstance(answer, tuple) else "answered"] += 1
        told = ""
        with suppress(ValueError, RecursionError, TypeError):
            told = json.dumps(event)
        if told not in is_sound and len(desk.calls.ledger.rows()) != len(before):
            (new,) = [row for row in desk.calls.ledger.rows() if row not in before and row["sk"] == "PAYOUT"]
            assert new["account"] == "alice", event  # another sound payout, such as of another amount
            before = desk.calls.ledger.rows()
    assert len(ends) > 1
    assert {end for end in ends if isinstance(end, int)} <= REFUSED | {200, 202}
