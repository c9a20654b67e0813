"""Cost of each call and path: writes, units reported by the engine, and a bound.

Dynoxide follows AWS's rule; DynamoDB Local counts transaction rows that share a partition key as one. Neither
reports AWS's charge for a refused write: `Sent.at_most` counts it.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.kyc_review import WebhookEvent
from settlement.core.model.orders import Resolution
from settlement.core.model.request import (
    DEADLINE_SECONDS_MAX,
    METADATA_BYTES_MAX,
    NAME_LENGTH_MAX,
    REFERENCE_LENGTH_MAX,
)
from settlement.core.model.settlement import NAMES
from settlement.core.model.status import REVERSIBLE, Step
from settlement.core.model.verdict import REASON_LENGTH_MAX, KycDecision, Verdict
from settlement.core.policy import compensation, recovery
from tests.store.rows import HELD, begin_review, held, in_review, own, take_over, webhook
from tests.world import engines
from tests.world.ledger import Ledger, adds
from tests.world.provider import REJECTED
from tests.world.rooms import brought
from tests.world.saga import (
    COMPLETE,
    DEADLINE,
    FAILURE,
    KEY,
    LATER,
    RETRY,
    STALLED,
    WRITE_OFF,
    Saga,
    outcome_of,
    so_far,
    state_of,
    up_to,
)

pytestmark = pytest.mark.parametrize("engine", ["server"])

UNIT_BYTES = 1024
"""Row size per write unit; a transaction costs twice the units."""

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

LABELS = {"reference": "invoice 2026/4711", "metadata": {"shop": "web", "cart": "c-77120"}}
LONGEST_LABELS = {
    "reference": "r" * REFERENCE_LENGTH_MAX,
    "metadata": {f"{number}" * (31 if number == 7 else 32): "v" * 26 for number in range(8)},
}

LONGEST = Verdict(
    decision=KycDecision.APPROVED,
    reference="r" * 100,
    reason="w" * REASON_LENGTH_MAX,
    provider="verifications",
)
HOLDING = state_of(HELD)
CASE = compensation.case_of(
    state_of(HELD | so_far(Step.RELEASE) | {"status": "COMPENSATING", "escrow": 48}), Step.RELEASE
)
PUT, UPDATE, TRANSACT, GET = "PutItem", "UpdateItem", "TransactWriteItems", "GetItem"
TOKEN = "t" * 1_000
"""Step Functions task tokens have up to 1,024 characters."""


@dataclass(frozen=True)
class Sent:
    """A DynamoDB call with its write units, reported and bounded.

    AWS charges a refused write, and may charge each item of a cancelled transaction as if committed.
    """

    operation: str
    reported: float
    at_most: float


@contextmanager
def watched(ledger: Ledger) -> Iterator[list[Sent]]:
    """Collect the calls that reach DynamoDB, without the test's own scans."""
    calls: list[Sent] = []
    items: list[int] = []

    def asked(params: dict[str, Any], **_: Any) -> None:
        items.append(len(params.get("TransactItems", ())))

    def answered(parsed: dict[str, Any], model: Any, **_: Any) -> None:
        consumed = parsed.get("ConsumedCapacity", [])
        tables = consumed if isinstance(consumed, list) else [consumed]
        reported = 0 if model.name == GET else sum(table["CapacityUnits"] for table in tables)
        refused = 2 * items[-1] or 1
        if model.name != "Scan":
            calls.append(Sent(model.name, reported, refused if "Error" in parsed else reported))

    events = ledger.client.meta.events
    events.register("before-parameter-build.dynamodb", asked)
    events.register("after-call.dynamodb", answered)
    yield calls
    events.unregister("before-parameter-build.dynamodb", asked)
    events.unregister("after-call.dynamodb", answered)


def operations(calls: list[Sent]) -> list[str]:
    return [call.operation for call in calls]


def reported(calls: list[Sent]) -> float:
    return sum(call.reported for call in calls)


def at_most(calls: list[Sent]) -> float:
    return sum(call.at_most for call in calls)


Call = Callable[[Saga], Any]


def reach(last: Step | None) -> Call:
    return lambda saga: saga.reach(last)


def send(step: Step) -> Call:
    return lambda saga: saga.send(step)


def begun(last: Step | None) -> Call:
    return lambda saga: saga.begun(last)


def resolve(resolution: Resolution) -> Call:
    return lambda saga: saga.resolve(resolution, case=CASE)


def stuck(saga: Saga) -> None:
    saga.stuck(Step.RELEASE, Step.RELEASE)


def fence(saga: Saga) -> None:
    """Begin a compensation like its first state: the tombstone's put finds the key claimed, so it updates."""
    saga.tombstone(FAILURE)
    saga.begin(owner="execution-1")


def reversed_at(step: Step) -> Call:
    return lambda saga: saga.send_reversal(step)


def before(step: Step) -> Call:
    def reach(saga: Saga) -> None:
        saga.begun(Step.FEE)
        for earlier in REVERSIBLE[: REVERSIBLE.index(step)]:
            saga.reverse(earlier)

    return reach


def settle(saga: Saga) -> None:
    """Settle like the machine: VerifyKyc reads the row before it asks the provider."""
    saga.claim_and_hold()
    saga.ledger.store.settlement(KEY)
    for step in (Step.VERIFY, Step.RELEASE, Step.FEE):
        saga.send(step)


def settle_from_the_queue(saga: Saga) -> None:
    """Settle a key claimed by the queue: the first transaction finds the claim, a second one holds."""
    saga.claim()
    saga.claim_and_hold()
    saga.ledger.store.settlement(KEY)
    for step in Step:
        saga.send(step)


def refuse(saga: Saga) -> None:
    outcome_of(saga.claim_and_hold)
    saga.tombstone(FAILURE, owner="execution-1")


def compensate(last: Step) -> Call:
    def call(saga: Saga) -> None:
        fence(saga)
        for step in REVERSIBLE:
            if step in up_to(last):
                saga.send_reversal(step)

    return call


def reject_by_kyc(saga: Saga) -> None:
    saga.claim_and_hold()
    saga.ledger.store.settlement(KEY)
    saga.verify(REJECTED)
    fence(saga)
    saga.send_reversal(Step.HOLD)


def reverse_on_order(saga: Saga) -> None:
    saga.order()
    saga.assign_owner()
    for step in REVERSIBLE:
        saga.send_reversal(step)


def await_decision(saga: Saga) -> None:
    saga.ledger.store.settlement(KEY)
    saga.wait(TOKEN)


def evidence_alone(saga: Saga) -> None:
    held(saga)
    saga.put_evidence()


VERIFY = [PUT, UPDATE]
CASES: dict[str, tuple[Call, Call, list[str], float, float]] = {
    "a happy settlement": (Saga.fund, settle, [TRANSACT, GET, *VERIFY, TRANSACT, TRANSACT], 20, 16),
    "a settlement from the queue": (
        Saga.fund,
        settle_from_the_queue,
        [PUT, TRANSACT, GET, TRANSACT, *VERIFY, TRANSACT, TRANSACT],
        *(21, 14),
    ),
    "a payment that the provider is against": (
        Saga.fund,
        reject_by_kyc,
        [TRANSACT, GET, *VERIFY, PUT, UPDATE, TRANSACT],
        *(17, 15),
    ),
    "a reversal after verify": (
        reach(Step.VERIFY),
        compensate(Step.VERIFY),
        [PUT, UPDATE, TRANSACT],
        *(8, 7),
    ),
    "a reversal of a settled payment": (
        reach(Step.FEE),
        reverse_on_order,
        [TRANSACT, UPDATE, *[TRANSACT] * 3],
        *(24, 15),
    ),
    "claim": (Saga.fund, Saga.claim, [PUT], 2, 2),
    "claim and hold": (Saga.fund, Saga.claim_and_hold, [TRANSACT], 7, 6),
    "hold of a claimed key": (reach(None), send(Step.HOLD), [TRANSACT], 6, 2),
    "verify": (reach(Step.HOLD), send(Step.VERIFY), VERIFY, 2, 2),
    "release": (reach(Step.VERIFY), send(Step.RELEASE), [TRANSACT], 6, 2),
    "fee": (reach(Step.RELEASE), send(Step.FEE), [TRANSACT], 5, 6),
    "tombstone": (Saga.fund, lambda saga: saga.tombstone(FAILURE), [PUT], 1, 1),
    "reject": (reach(None), lambda saga: saga.reject(FAILURE), [UPDATE], 2, 2),
    "begin": (held, fence, [PUT, UPDATE], 1, 1),
    "assign owner": (begun(Step.HOLD), Saga.assign_owner, [UPDATE], 1, 1),
    "order on a settled one": (reach(Step.FEE), Saga.order, [TRANSACT], 6, 4),
    "order on a stalled one": (held, lambda saga: saga.order(STALLED, LATER), [TRANSACT], 7, 10),
    "refund the fee": (before(Step.FEE), reversed_at(Step.FEE), [TRANSACT], 4, 2),
    "reclaim": (before(Step.RELEASE), reversed_at(Step.RELEASE), [TRANSACT], 6, 2),
    "void": (before(Step.HOLD), reversed_at(Step.HOLD), [TRANSACT], 7, 6),
    "finish an unheld one": (begun(None), Saga.finish_unheld, [UPDATE], 2, 2),
    "enter LIMBO": (begun(Step.RELEASE), lambda saga: saga.enter(CASE), [TRANSACT], 8, 8),
    "wait": (stuck, await_decision, [GET, PUT], 2, 2),
    "retry": (stuck, resolve(RETRY), [TRANSACT], 9, 12),
    "write off": (stuck, resolve(WRITE_OFF), [TRANSACT], 11, 12),
    "complete": (stuck, resolve(COMPLETE), [TRANSACT], 10, 6),
    "own rejection": (held, lambda saga: own(saga, REJECTED), VERIFY, 2, 2),
    "review": (held, begin_review, [UPDATE], 3, 3),
    "webhook": (in_review, webhook, [TRANSACT], 8, 8),
    "webhook before our answer": (held, lambda saga: webhook(saga, now=LATER), [TRANSACT], 8, 8),
    "webhook after a dead call": (evidence_alone, lambda saga: webhook(saga, now=LATER), [TRANSACT], 8, 8),
    "an unfunded payment": (lambda saga: saga.fund(payer=0), refuse, [TRANSACT, PUT], 1, 1),
    "take over": (held, lambda saga: take_over(saga, HOLDING, LATER), [UPDATE], 3, 3),
    "expire": (held, lambda saga: take_over(saga, HOLDING, DEADLINE), [UPDATE], 3, 3),
    "postpone": (
        begun(Step.HOLD),
        lambda saga: saga.ledger.store.update(recovery.postpone(HOLDING, LATER, saga.config)),
        [UPDATE],
        *(3, 3),
    ),
    **{name: case for room in brought("store", "costs") for name, case in room.CASES.items()},
}
"""State before a call, the call, its operations, and units by AWS's rule and by DynamoDB Local's.

Units exclude refused writes, such as the put of the fence.
"""


@pytest.fixture
def is_dynamodb_local(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--server") == "dynamodb-local" or engines.missing("dynoxide"))


@pytest.mark.parametrize("name", CASES)
def test_each_call_costs_its_listed_units(saga: Saga, name: str, is_dynamodb_local: bool) -> None:
    start, call, expected, aws, local = CASES[name]
    start(saga)

    with watched(saga.ledger) as calls:
        call(saga)
    with watched(saga.ledger) as again:
        outcome_of(lambda: call(saga))

    assert operations(calls) == expected
    assert reported(calls) == (local if is_dynamodb_local else aws)
    assert operations(again) == expected


@pytest.mark.parametrize(
    ("content", "units", "local"),
    [
        pytest.param(LABELS, [7, 2, 6, 5], [6, 2, 2, 6], id="some"),
        pytest.param(LONGEST_LABELS, [7, 3, 8, 7], [6, 3, 6, 8], id="the longest"),
        pytest.param(LONGEST_REQUEST | LONGEST_LABELS, [9, 3, 8, 7], [8, 3, 6, 8], id="and all else"),
    ],
)
def test_labels_add_write_units_only_above_a_kilobyte(
    saga: Saga, content: dict[str, Any], units: list[int], local: list[int], is_dynamodb_local: bool
) -> None:
    """Above a kilobyte, each write of the row costs a unit more, two in a transaction."""
    asking = saga.asking(**content)
    asking.ledger.open(asking.settlement.payer, 999_999_999_999_999)
    asking.ledger.open(asking.settlement.payee, 0)

    with watched(asking.ledger) as calls:
        asking.claim_and_hold(owner="e" * 80)
        for step in (Step.VERIFY, Step.RELEASE, Step.FEE):
            asking.send(step)

    metadata = json.dumps(LONGEST_LABELS["metadata"], separators=(",", ":"))
    assert len(metadata) == METADATA_BYTES_MAX
    hold, evidence, verdict, release, fee = calls
    found = [hold.reported, evidence.reported + verdict.reported, release.reported, fee.reported]
    assert found == (local if is_dynamodb_local else units)
    assert size(asking.row()) <= 2 * UNIT_BYTES


@pytest.mark.parametrize(
    ("payer", "call", "status", "bound"),
    [
        pytest.param(0, refuse, "REJECTED", 7, id="unfunded"),
        pytest.param(10_000, settle, "SETTLED", 20, id="happy"),
        pytest.param(10_000, settle_from_the_queue, "SETTLED", 20 + 8, id="from the queue"),
        pytest.param(10_000, reject_by_kyc, "COMPENSATED", 24, id="rejected by KYC"),
    ],
)
def test_a_settlement_costs_at_most_its_bound_with_refused_writes(
    saga: Saga, payer: int, call: Call, status: str, bound: int
) -> None:
    """From the queue, the claim is a separate write, and the hold's first transaction is refused."""
    saga.fund(payer=payer)

    with watched(saga.ledger) as calls:
        call(saga)

    assert saga.row()["status"] == status
    assert at_most(calls) <= bound


@pytest.mark.parametrize("owner", ["execution-1", "execution-2"])
def test_a_replay_is_one_refused_transaction_within_six_units(saga: Saga, owner: str) -> None:
    saga.fund()
    settle(saga)

    with watched(saga.ledger) as calls:
        assert saga.claim_and_hold(LATER, owner) is not None

    assert operations(calls) == [TRANSACT]
    assert (reported(calls), at_most(calls)) == (0, 6)


@pytest.mark.parametrize(
    ("names", "units"),
    [({}, 8), (dict.fromkeys(NAMES, "N" * NAME_LENGTH_MAX), 10)],
    ids=["without names", "with the longest names"],
)
def test_every_limbo_case_of_a_settlement_costs_the_same(
    saga: Saga, names: dict[str, str], units: int, is_dynamodb_local: bool
) -> None:
    """A real-sized task token has its own row: on the settlement's row each write would pay for it.

    The decision's place in the index costs one unit (four in DynamoDB Local). With the longest names, failure
    and decision lift the row over one unit.
    """
    named = saga.asking(**names)
    named.begun(Step.RELEASE)
    costs = []

    for number in range(1, 7):
        with watched(named.ledger) as calls:
            named.enter()
            named.wait(TOKEN, case=number)
            named.resolve(RETRY)
        costs.append([call.reported for call in calls if call.operation != GET])

    decided = units + (4 if is_dynamodb_local else 1)
    assert costs[0] == [8, 2, decided]
    assert costs[1:] == [[units, 2, decided]] * 5


@pytest.mark.parametrize("others", [0, 1, 1_500, 10_000])
def test_a_cases_cost_does_not_depend_on_other_cases(
    saga: Saga, others: int, is_dynamodb_local: bool
) -> None:
    """The account's row counts its cases: a list of their keys would fill it."""
    saga.begun(Step.RELEASE)
    bob = saga.ledger.row(keys.account("bob"))
    assert bob is not None
    saga.ledger.put(bob | {"limbo_cases": others})

    with watched(saga.ledger) as calls:
        saga.enter(CASE)
        saga.resolve(RETRY)

    assert [call.reported for call in calls if call.operation != GET] == [8, 12 if is_dynamodb_local else 9]
    assert (saga.ledger.row(keys.account("bob")) or {})["limbo_cases"] == others


def test_rows_with_the_longest_names_fit_one_write_unit(saga: Saga, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entries include an expiry."""
    monkeypatch.setattr(saga.ledger.store, "_adds", adds(None, 36_500))
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


def test_rows_with_the_longest_provider_texts_fit_one_unit(saga: Saga) -> None:
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
    """Return a lower bound of a row's bytes by DynamoDB's rule: a byte for two digits, text in UTF-8."""
    if isinstance(value, dict):
        return 3 + sum(len(name.encode()) + 1 + size(member) for name, member in value.items())
    if isinstance(value, set):
        return 3 + sum(1 + size(member) for member in value)
    return len(str(value)) // 2 + 2 if isinstance(value, int) else len(value.encode())
