from collections.abc import Callable
from typing import Any

import pytest

from settlement.accounts import account_orders
from settlement.core.ledger import entries, forward, keys, kyc_review
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, Write
from settlement.core.model.errors import InsufficientFunds
from settlement.core.model.state import AccountState, SettlementState
from settlement.core.model.status import Status, Step
from settlement.core.model.stored import MalformedRow
from settlement.core.policy import recovery, steps
from tests.store.rows import DECIDED_AT, evidence, said
from tests.world.environment import NOW
from tests.world.ledger import Ledger
from tests.world.openings import deposit_order
from tests.world.saga import (
    ALICE,
    CLAIMED,
    DEADLINE,
    ENTRIES,
    FAILURE,
    HASH,
    KEY,
    POSTED_AT,
    STUCK,
    WRITE_OFF,
    Saga,
)

OF_REQUEST = {
    "deadline_seconds": 600,
    "payer_name": "Alice Muster",
    "payee_name": "Bob Muster",
    "reference": "invoice 2026/4711",
    "metadata": {"shop": "web", "cart": "c-77120"},
}

SLOTS = {
    "hold_at": "2026-11-20T12:00:01.100Z",
    "verify_at": "2026-11-20T12:00:01.200Z",
    "release_at": "2026-11-20T12:00:01.300Z",
    "fee_at": "2026-11-20T12:00:01.400Z",
    "fee_reversed_at": "2026-11-20T12:00:01.500Z",
    "release_reversed_at": "2026-11-20T12:00:01.600Z",
    "hold_reversed_at": "2026-11-20T12:00:01.700Z",
}
"""The slots of all steps and reversals, with distinct times."""

OPTIONAL = {
    "in_flight_since": "2026-11-20T12:00:01.000Z",
    "recover_at": "2026-11-20T12:00:02.000Z",
    "expired_at": "2026-11-20T12:00:03.000Z",
    "finished_at": "2026-11-20T12:00:04.000Z",
    "verdict": "APPROVED",
    "review": "ver_1",
    "failure": STUCK,
    "reversed_for": FAILURE,
    "stuck_step": "compensate:release",
    "resolutions": 2,
    "resolution": {"decision": "retry", "reason": "again", "by": "kim"},
}
"""All other attributes added by later writes. No settlement has all at once."""

REQUIRED = [
    *("payer", "payee", "amount", "currency", "fee", "request_hash"),
    *("status", "escrow", "owner", "owner_epoch", "claimed_at", "deadline_at"),
]


# Reads


def test_a_claimed_settlement_is_read_with_its_claims_content(saga: Saga) -> None:
    saga.claim()

    assert saga.ledger.store.settlement(KEY) == SettlementState(
        settlement=saga.settlement,
        request_hash=HASH,
        status=Status.PROCESSING,
        steps={},
        reversed={},
        escrow=0,
        owner="execution-1",
        owner_epoch=0,
        claimed_at=POSTED_AT,
        deadline_at="2026-11-20T12:15:00.123Z",
        listed_at="2026-11-20T12:00:30.123Z",
        in_flight_since=None,
        recover_at=None,
        expired_at=None,
        finished_at=None,
        verdict=None,
        review=None,
        failure=None,
        reversed_for=None,
        stuck_step=None,
        resolutions=0,
        resolution=None,
        sequence=1,
    )


def test_every_attribute_of_a_settlements_row_is_read(saga: Saga) -> None:
    saga.ledger.put(CLAIMED | OF_REQUEST | SLOTS | OPTIONAL | {"escrow": 48, "owner_epoch": 3})

    state = saga.ledger.store.settlement(KEY)

    assert state is not None
    assert state.settlement == saga.asking(**OF_REQUEST).settlement
    assert (state.escrow, state.owner_epoch) == (48, 3)
    assert {name: getattr(state, name) for name in OPTIONAL} == OPTIONAL
    assert {f"{step}_at": at for step, at in state.steps.items()} | {
        f"{step}_reversed_at": at for step, at in state.reversed.items()
    } == SLOTS
    assert (list(state.steps), list(state.reversed)) == (
        ["hold", "verify", "release", "fee"],
        ["hold", "release", "fee"],
    )


@pytest.mark.parametrize("limbo_cases", [None, 0, 2])
def test_an_account_is_read_with_the_settlements_that_block_it(
    ledger: Ledger, limbo_cases: int | None
) -> None:
    blocks: dict[str, Any] = {} if limbo_cases is None else {"limbo_cases": limbo_cases}
    ledger.open("alice", 10_000, **blocks)

    state = ledger.store.account("alice")

    assert state == AccountState(
        account="alice", available=10_000, currency="EUR", limbo_cases=limbo_cases or 0, opened_at=POSTED_AT
    )
    assert state.is_blocked == bool(limbo_cases)


def test_what_is_not_there_is_none(saga: Saga) -> None:
    saga.claim()
    saga.ledger.open("alice", 10_000)

    assert saga.ledger.store.settlement("order-2026-000102") is None
    assert [saga.ledger.store.account(account) for account in ("bob", "fees:EUR")] == [None, None]
    assert saga.ledger.store.evidence(KEY, Step.VERIFY) is None


def test_evidence_is_read_by_step_name_or_case_number(saga: Saga) -> None:
    saga.stuck(Step.RELEASE)
    saga.resolve(WRITE_OFF)

    assert saga.ledger.store.evidence(KEY, Step.VERIFY) == ENTRIES[Step.VERIFY]
    assert saga.ledger.store.evidence(KEY, "limbo:1") == evidence(
        "limbo:1", account="bob", error=STUCK["error"], cause=STUCK["cause"]
    )
    assert saga.ledger.store.evidence(KEY, "resolve:1") == evidence(
        "resolve:1", DECIDED_AT, account="bob", **said(WRITE_OFF)
    )
    assert saga.ledger.store.evidence(KEY, "resolve:2") is None
    assert saga.ledger.store.evidence(KEY, Step.HOLD) is None
    assert saga.ledger.store.evidence(KEY, kyc_review.REVIEW) is None


# Writes


# Rows that an earlier call has left


def test_a_row_in_the_way_is_found_parsed_or_raw(saga: Saga) -> None:
    saga.after(Step.RELEASE)
    order = account_orders.record(deposit_order("alice", 10_000), NOW).parameters["Item"]
    saga.ledger.put(order)
    blocked = {"available": 5180, "limbo_cases": 1}
    saga.ledger.put(ALICE | blocked)
    found: list[tuple[Write, Any]] = [
        (forward.claim(saga.settlement, "execution-2", NOW, saga.config), saga.state()),
        (steps.release(saga.settlement, saga.config, NOW).settlement, saga.state()),
        (entries.evidence(saga.settlement, "verify", {"reason": "another"}, NOW), ENTRIES[Step.VERIFY]),
        (account_orders.record(deposit_order("alice", 10_000), NOW), order),
    ]

    for write, expected in found:
        with saga.writes_nothing(), pytest.raises(AlreadyApplied) as applied:
            saga.ledger.store.transact([write])
        assert applied.value.found == expected


# Rows of a later release

UNKNOWN: Row = {
    "a_number": 5,
    "a_text": "text",
    "a_truth": True,
    "a_null": None,
    "a_set": {"one", "two"},
    "a_list": ["text", 5, {"a": "map"}],
    "a_map": {"a": {"b": 5}},
    "bytes": b"bytes",
}


def test_attributes_of_a_later_release_are_ignored(saga: Saga) -> None:
    saga.claim()
    saga.ledger.open("alice", 10_000)
    before = saga.state(), saga.ledger.store.account("alice")

    saga.alter(**UNKNOWN)
    saga.ledger.put(ALICE | UNKNOWN)

    assert (saga.state(), saga.ledger.store.account("alice")) == before


def test_unknown_attributes_in_a_row_in_the_way_are_ignored(saga: Saga) -> None:
    saga.start(payer=0)
    saga.alter(**UNKNOWN)
    saga.ledger.put(ALICE | UNKNOWN | {"available": 0})

    with saga.writes_nothing():
        assert saga.claim(owner="execution-2") == saga.state()
        with pytest.raises(InsufficientFunds):
            saga.commit(Step.HOLD)


# Malformed rows

CALLS: dict[str, Callable[[Saga], Any]] = {
    "claim": lambda saga: saga.claim(owner="execution-2"),
    "claim and hold": lambda saga: saga.claim_and_hold(owner="execution-2"),
    "commit": lambda saga: saga.commit(Step.RELEASE, DEADLINE),
    "verdict": lambda saga: saga.put_verdict(),
    "update": lambda saga: saga.reject(FAILURE),
}
"""One call of each kind, refused by a settlement that is only verified."""


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_malformed_settlement_is_not_read_refused_or_replayed(
    saga: Saga, call: Callable[[Saga], Any], counted: list[str]
) -> None:
    saga.before(Step.RELEASE)
    whole = saga.row()

    for name in REQUIRED:
        saga.ledger.put({attribute: value for attribute, value in whole.items() if attribute != name})
        with pytest.raises(MalformedRow, match=rf"^SETTLEMENT#{KEY}: has no attribute '{name}'$"):
            saga.ledger.store.settlement(KEY)
        with saga.writes_nothing(), pytest.raises(MalformedRow, match=f"has no attribute '{name}'$"):
            call(saga)
    saga.ledger.put(whole | {"status": "unheard of"})
    with saga.writes_nothing(), pytest.raises(MalformedRow, match="unheard of"):
        call(saga)

    assert counted == []


@pytest.mark.parametrize("name", ["available", "currency"])
def test_a_malformed_account_in_the_way_is_no_refusal(saga: Saga, name: str) -> None:
    saga.before(Step.HOLD)
    saga.ledger.put({attribute: value for attribute, value in ALICE.items() if attribute != name})

    with (
        saga.writes_nothing(),
        pytest.raises(MalformedRow, match=f"^ACCOUNT: has no attribute '{name}'$"),
    ):
        saga.commit(Step.HOLD)
    with pytest.raises(MalformedRow, match=f"^ACCOUNT: has no attribute '{name}'$"):
        saga.ledger.store.account("alice")


@pytest.mark.parametrize(
    ("change", "told"), [({"owner": None}, "has no attribute 'owner'"), ({"status": "new"}, "new")]
)
def test_a_malformed_settlement_is_still_deferred_and_its_row_read(
    saga: Saga, change: Row, told: str
) -> None:
    """Recovery must be able to defer it: the write commits before the state is made."""
    saga.claim()
    before = {name: value for name, value in (saga.row() | change).items() if value is not None}
    saga.ledger.put(before)

    with pytest.raises(MalformedRow, match=told):
        saga.ledger.store.update(recovery.defer_unprocessable(before, DEADLINE, seconds=60))

    after: Row | None = saga.ledger.store.read(keys.settlement(KEY))
    assert after == before | {"gsi1sk": "2026-11-20T12:16:00.123Z"}
