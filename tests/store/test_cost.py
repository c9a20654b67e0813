"""The cost of each call: one write and no read, and the capacity units that the engine reports.

AWS's rule: a row of up to 1 KB costs one unit, in a transaction two, and the index one for each change.
Dynoxide follows it; DynamoDB Local counts the rows of a transaction that share a partition key as one.
Neither reports the unit that AWS charges for a refused write.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from settlement.ledger import reversal
from settlement.ledger.kyc_review import WebhookEvent
from settlement.model.errors import InsufficientFunds
from settlement.model.orders import Resolution
from settlement.model.request import DEADLINE_SECONDS_MAX, NAME_LENGTH_MAX
from settlement.model.settlement import NAMES
from settlement.model.status import REVERSIBLE, Step
from settlement.model.verdict import REASON_LENGTH_MAX, KycDecision, Verdict
from settlement.policy import compensation, recovery
from tests.store.rows import HELD, begin_review, held, in_review, own, take_over, webhook
from tests.world import engines
from tests.world.environment import NOW
from tests.world.ledger import Ledger
from tests.world.provider import REJECTED
from tests.world.saga import (
    COMPLETE,
    DEADLINE,
    FAILURE,
    LATER,
    RETRY,
    STALLED,
    WRITE_OFF,
    Saga,
    outcome_of,
    state_of,
    up_to,
)

pytestmark = pytest.mark.parametrize("engine", ["server"])

UNIT_BYTES = 1024
"""Up to this size, a row costs one write unit; twice that in a transaction."""

LONGEST_REQUEST = {
    "key": "k" * 64,
    "payer": "p" * 64,
    "payee": "q" * 64,
    "amount": 999_999_999_999_999,
    "fee": 999_999_999_000_000,
    "deadline_seconds": DEADLINE_SECONDS_MAX,
    "payer_name": "N" * NAME_LENGTH_MAX,
    "payee_name": "O" * NAME_LENGTH_MAX,
}
"""The longest content of a request whose names are in ASCII."""

LONGEST = Verdict(
    decision=KycDecision.APPROVED,
    reference="r" * 100,
    reason="w" * REASON_LENGTH_MAX,
    provider="verifications",
)
HOLDING = state_of(HELD)
CASE = compensation.case_of(
    state_of(HELD | {"status": "COMPENSATING", "steps": set(up_to(Step.RELEASE)), "escrow": 48}), Step.RELEASE
)
PUT, UPDATE, TRANSACT = "PutItem", "UpdateItem", "TransactWriteItems"


@contextmanager
def watched(ledger: Ledger) -> Iterator[list[tuple[str, float]]]:
    """Collect each call that reaches DynamoDB, with the capacity units that its answer reports."""
    calls: list[tuple[str, float]] = []

    def answered(parsed: dict[str, Any], model: Any, **_: Any) -> None:
        consumed = parsed.get("ConsumedCapacity", [])
        tables = consumed if isinstance(consumed, list) else [consumed]
        calls.append((model.name, sum(table["CapacityUnits"] for table in tables)))

    ledger.client.meta.events.register("after-call.dynamodb", answered)
    yield calls
    ledger.client.meta.events.unregister("after-call.dynamodb", answered)


Call = Callable[[Saga], Any]


def reach(last: Step | None) -> Call:
    return lambda saga: saga.reach(last)


def commit(step: Step) -> Call:
    return lambda saga: saga.commit(step)


def begun(last: Step | None) -> Call:
    return lambda saga: saga.begun(last)


def resolve(resolution: Resolution) -> Call:
    return lambda saga: saga.resolve(resolution, case=CASE)


def stuck(saga: Saga) -> None:
    saga.stuck(Step.RELEASE, Step.RELEASE)


def fence(saga: Saga) -> None:
    """Begin as the first state does: a put that finds the key claimed, and the update."""
    saga.ledger.store.claim(reversal.tombstone(saga.settlement, "compensation-1", FAILURE, NOW))
    saga.begin()


def reversed_at(step: Step) -> Call:
    """Return the call of a reversal whose caller knows the steps that have committed, and reads no row."""
    return lambda saga: saga.reverse(step, LATER, up_to(Step.FEE))


def skipped(step: Step) -> Call:
    return lambda saga: saga.reverse(step, LATER, ())


def before(step: Step) -> Call:
    def reach(saga: Saga) -> None:
        saga.begun(Step.FEE)
        for earlier in REVERSIBLE[: REVERSIBLE.index(step)]:
            saga.reverse(earlier)

    return reach


def settle(saga: Saga) -> None:
    saga.claim()
    for step in Step:
        saga.commit(step)


def compensate(last: Step | None) -> Call:
    def call(saga: Saga) -> None:
        fence(saga)
        for step in REVERSIBLE:
            saga.reverse(step, LATER, up_to(last))

    return call


COMPENSATE = [PUT, UPDATE, *[TRANSACT] * 3]
CASES: dict[str, tuple[Call, Call, list[str], float, float]] = {
    "a happy settlement": (Saga.fund, settle, [PUT, *[TRANSACT] * 4], 26, 20),
    "a reversal of nothing": (reach(None), compensate(None), COMPENSATE, 14, 11),
    "a reversal after verify": (reach(Step.VERIFY), compensate(Step.VERIFY), COMPENSATE, 17, 11),
    "a reversal after release": (reach(Step.RELEASE), compensate(Step.RELEASE), COMPENSATE, 20, 15),
    "claim": (Saga.fund, Saga.claim, [PUT], 2, 2),
    "hold": (reach(None), commit(Step.HOLD), [TRANSACT], 7, 6),
    "verify": (reach(Step.HOLD), commit(Step.VERIFY), [TRANSACT], 4, 2),
    "release": (reach(Step.VERIFY), commit(Step.RELEASE), [TRANSACT], 7, 6),
    "fee": (reach(Step.RELEASE), commit(Step.FEE), [TRANSACT], 6, 4),
    "reject": (reach(None), lambda saga: saga.reject(FAILURE), [UPDATE], 2, 2),
    "begin": (held, fence, [PUT, UPDATE], 1, 1),
    "assign owner": (begun(Step.HOLD), Saga.assign_owner, [UPDATE], 1, 1),
    "order on a settled one": (reach(Step.FEE), Saga.order, [TRANSACT], 5, 6),
    "order on a stalled one": (held, lambda saga: saga.order(STALLED, LATER), [TRANSACT], 6, 8),
    "refund the fee": (before(Step.FEE), reversed_at(Step.FEE), [TRANSACT], 5, 6),
    "reclaim": (before(Step.RELEASE), reversed_at(Step.RELEASE), [TRANSACT], 7, 6),
    "void": (before(Step.HOLD), reversed_at(Step.HOLD), [TRANSACT], 8, 6),
    "skip the fee": (begun(None), skipped(Step.FEE), [TRANSACT], 4, 2),
    "skip the hold": (begun(None), skipped(Step.HOLD), [TRANSACT], 5, 6),
    "enter LIMBO": (begun(Step.RELEASE), lambda saga: saga.enter(CASE), [TRANSACT], 8, 8),
    "wait": (stuck, Saga.wait, [UPDATE], 1, 1),
    "retry": (stuck, resolve(RETRY), [TRANSACT], 8, 8),
    "write off": (stuck, resolve(WRITE_OFF), [TRANSACT], 9, 12),
    "complete": (stuck, resolve(COMPLETE), [TRANSACT], 8, 6),
    "own verdict": (held, own, [TRANSACT], 4, 2),
    "own rejection": (held, lambda saga: own(saga, REJECTED), [TRANSACT], 4, 2),
    "review": (held, begin_review, [UPDATE], 3, 3),
    "webhook": (in_review, webhook, [TRANSACT], 8, 8),
    "webhook before our answer": (held, lambda saga: webhook(saga, now=LATER), [TRANSACT], 8, 8),
    "take over": (held, lambda saga: take_over(saga, HOLDING, LATER), [UPDATE], 3, 3),
    "expire": (held, lambda saga: take_over(saga, HOLDING, DEADLINE), [UPDATE], 3, 3),
    "postpone": (
        begun(Step.HOLD),
        lambda saga: saga.ledger.store.update(recovery.postpone(HOLDING, LATER, saga.config)),
        [UPDATE],
        *(3, 3),
    ),
}
"""The state before a call, the call, its operations, and its units by AWS's rule and by DynamoDB Local's."""


@pytest.fixture
def is_dynamodb_local(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--server") == "dynamodb-local" or engines.missing("dynoxide"))


@pytest.mark.parametrize("name", CASES)
def test_a_call_is_one_write_of_these_units_and_no_read_and_one_write_again(
    saga: Saga, name: str, is_dynamodb_local: bool
) -> None:
    start, call, operations, aws, local = CASES[name]
    start(saga)

    with watched(saga.ledger) as calls:
        call(saga)
    with watched(saga.ledger) as again:
        outcome_of(lambda: call(saga))

    assert [operation for operation, _ in calls] == operations
    assert sum(units for _, units in calls) == (local if is_dynamodb_local else aws)
    assert [operation for operation, _ in again] == operations


def test_a_refused_step_is_one_call(saga: Saga) -> None:
    saga.start(payer=0)

    with watched(saga.ledger) as calls, pytest.raises(InsufficientFunds):
        saga.commit(Step.HOLD)

    assert [operation for operation, _ in calls] == [TRANSACT]


def test_no_row_outgrows_one_unit_however_long_the_names_are(saga: Saga) -> None:
    longest = saga.asking(**LONGEST_REQUEST)
    longest.ledger.open("p" * 64, 999_999_999_999_999)
    longest.ledger.open("q" * 64, 0)
    longest.claim(owner="e" * 80)
    sizes = {"claimed": size(longest.row())}
    for step in Step:
        longest.commit(step)
        sizes[step] = size(longest.row())

    sizes |= {row["sk"][-10:]: size(row) for row in longest.ledger.rows()}

    assert len(sizes) == 5 + 6
    assert max(sizes.values()) <= UNIT_BYTES, sizes


def test_no_row_outgrows_one_unit_however_much_the_provider_says_in_ascii(saga: Saga) -> None:
    longest = saga.asking(**{name: each for name, each in LONGEST_REQUEST.items() if name not in NAMES})
    longest.ledger.open("p" * 64, 999_999_999_999_999)
    longest.ledger.open("q" * 64, 0)
    longest.claim(owner="e" * 80)
    longest.commit(Step.HOLD)
    begin_review(longest, LONGEST)
    of_review = size(longest.row())
    assert size(longest.row() | {name: LONGEST_REQUEST[name] for name in NAMES}) <= 2 * UNIT_BYTES
    webhook(longest, LONGEST, WebhookEvent("e" * 200, "d" * 64))

    sizes = {row["sk"][-10:]: size(row) for row in longest.ledger.rows()} | {"in review": of_review}

    assert len(sizes) == 6
    assert max(sizes.values()) <= UNIT_BYTES, sizes


def size(value: Any) -> int:
    """Return the bytes of a row by DynamoDB's rule, at least: names and texts in UTF-8, numbers at most."""
    if isinstance(value, dict):
        return 3 + sum(len(name.encode()) + 1 + size(member) for name, member in value.items())
    if isinstance(value, set):
        return 3 + sum(1 + size(member) for member in value)
    return 21 if isinstance(value, int) else len(value.encode())
