from typing import Any

import pytest
from botocore.exceptions import ClientError

from settlement.core.ledger.transaction import AlreadyApplied
from settlement.core.model.errors import (
    IdempotencyConflict,
    InsufficientFunds,
    SettlementError,
    StepFenced,
    StoreUnavailable,
)
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.policy import steps
from tests.store.failures.scripted import (
    COMMITTED,
    CONFLICT,
    FENCED,
    MALFORMED,
    NONE,
    POOR,
    REPLAYED,
    TAKEN,
    Call,
    Reason,
    cancelled,
    check_failed,
)
from tests.store.rows import HELD, REVERSE
from tests.world.environment import NOW
from tests.world.saga import CLAIMED, state_of

BEHIND = [(NONE, NONE), (TAKEN, POOR), (CONFLICT, CONFLICT), (NONE, POOR)]
"""Reasons of entry and balance, which follow the settlement's."""


@pytest.mark.parametrize(
    ("reasons", "error"),
    [
        *(((FENCED, *behind), StepFenced) for behind in BEHIND),
        ((NONE, TAKEN, NONE), IdempotencyConflict),
        ((NONE, TAKEN, POOR), IdempotencyConflict),
        ((NONE, TAKEN, CONFLICT), IdempotencyConflict),
        ((NONE, NONE, POOR), InsufficientFunds),
    ],
)
def test_the_first_reason_decides_what_a_cancelled_step_means(
    scripted: Any, hold: Call, pauses: list[int], reasons: list[Reason], error: type[SettlementError]
) -> None:
    sender, client = scripted(cancelled(*reasons))

    with pytest.raises(error):
        hold(sender)

    assert (len(client.sent), pauses) == (1, [])


@pytest.mark.parametrize("behind", BEHIND)
def test_a_taken_slot_is_the_answer_beside_any_other_failure(
    scripted: Any, hold: Call, counted: list[str], behind: tuple[Reason, ...]
) -> None:
    sender, client = scripted(cancelled(REPLAYED, *behind))

    assert hold(sender) == state_of(HELD)
    assert (len(client.sent), counted) == (1, ["StepReplayed"])


@pytest.mark.parametrize("behind", BEHIND)
def test_an_existing_claim_is_the_answer_beside_any_other_failure(
    scripted: Any, claim_and_hold: Call, behind: tuple[Reason, ...]
) -> None:
    sender, client = scripted(cancelled(check_failed(CLAIMED), *behind))

    with pytest.raises(AlreadyApplied) as applied:
        claim_and_hold(sender)

    assert applied.value.found == state_of(CLAIMED)
    assert len(client.sent) == 1


@pytest.mark.parametrize(
    "behind",
    [NONE, FENCED, CONFLICT, check_failed(MALFORMED)],
    ids=["nothing", "a refusal", "a conflict", "a malformed row"],
)
def test_existing_evidence_is_the_answer_beside_any_other_failure(
    scripted: Any, order: Call, counted: list[str], behind: Reason
) -> None:
    sender, client = scripted(cancelled(check_failed(REVERSE), behind))

    assert order(sender) == REVERSE
    assert (len(client.sent), counted) == (1, ["StepReplayed"])


@pytest.mark.parametrize(
    "reasons",
    [(CONFLICT, NONE, POOR), (CONFLICT, TAKEN, POOR), (NONE, CONFLICT, POOR), (CONFLICT,) * 3],
)
def test_a_retried_conflict_before_a_failed_balance_finds_the_replay(
    scripted: Any, hold: Call, pauses: list[int], counted: list[str], reasons: list[Reason]
) -> None:
    sender, client = scripted(cancelled(*reasons), cancelled(REPLAYED, NONE, POOR))

    assert hold(sender) == state_of(HELD)

    assert pauses == [1]
    assert counted == ["TransactionConflict", "StepReplayed"]
    assert client.sent[0] == client.sent[1]


def test_a_retried_conflict_of_a_claim_finds_its_own_commit(
    scripted: Any, claim_and_hold: Call, pauses: list[int]
) -> None:
    sender, client = scripted(cancelled(CONFLICT, NONE, POOR), cancelled(REPLAYED, NONE, POOR))

    with pytest.raises(AlreadyApplied) as applied:
        claim_and_hold(sender)

    assert (applied.value.found, pauses) == (state_of(HELD), [1])
    assert client.sent[0] == client.sent[1]


@pytest.mark.parametrize("code", ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"])
def test_a_step_meeting_only_transient_reasons_is_sent_six_times(
    scripted: Any, hold: Call, pauses: list[int], counted: list[str], code: str
) -> None:
    sender, client = scripted(*[cancelled(NONE, (code, None), NONE)] * 9)

    with pytest.raises(StoreUnavailable, match=f"{code} in each of 6 tries"):
        hold(sender)

    assert (len(client.sent), pauses, counted) == (6, [1, 2, 3, 4, 5], [code] * 6)


def test_a_step_commits_on_its_sixth_try(scripted: Any, hold: Call) -> None:
    sender, client = scripted(*[cancelled(CONFLICT, NONE, NONE)] * 5, COMMITTED)

    assert hold(sender) is None
    assert len(client.sent) == 6


def test_a_refusal_after_a_conflict_is_final(scripted: Any, hold: Call, pauses: list[int]) -> None:
    sender, client = scripted(cancelled(NONE, NONE, CONFLICT), cancelled(NONE, NONE, POOR))

    with pytest.raises(InsufficientFunds):
        hold(sender)

    assert (len(client.sent), pauses) == (2, [1])


@pytest.mark.parametrize("code", ["ValidationError", "ItemCollectionSizeLimitExceeded", "SomethingNew"])
@pytest.mark.parametrize("behind", [NONE, CONFLICT, POOR])
def test_an_unknown_reason_surfaces_as_it_is(scripted: Any, hold: Call, code: str, behind: Reason) -> None:
    original = cancelled(NONE, (code, None), behind)
    sender, client = scripted(original)

    with pytest.raises(ClientError) as raised:
        hold(sender)

    assert raised.value is original
    assert len(client.sent) == 1


def test_every_transaction_item_asks_for_the_row_in_its_way(
    scripted: Any, settlement: Settlement, config: StageConfig
) -> None:
    sender, client = scripted(COMMITTED)

    sender.commit(steps.release(settlement, config, NOW))

    ((_, parameters),) = client.sent
    sent = [item for action in parameters["TransactItems"] for item in action.values()]
    assert len(sent) == 3
    assert {item["ReturnValuesOnConditionCheckFailure"] for item in sent} == {"ALL_OLD"}
    assert all(item["ConditionExpression"] for item in sent)
