from typing import Any

import pytest
from botocore.exceptions import ClientError

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
from tests.world.saga import CLAIMED, outcome_of, state_of

BEHIND = [(NONE, NONE), (TAKEN, POOR), (CONFLICT, CONFLICT), (NONE, POOR)]
"""Cancellation reasons of a hold's entry and balance, which follow the settlement's reason."""


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
def test_the_first_reason_of_a_cancelled_transaction_decides_the_error(
    scripted: Any, hold: Call, pauses: list[int], reasons: list[Reason], error: type[SettlementError]
) -> None:
    sender, client = scripted(cancelled(*reasons))

    with pytest.raises(error):
        hold(sender)

    assert (len(client.sent), pauses) == (1, [])


EARLIER: dict[str, tuple[Reason, Any]] = {
    "hold": (REPLAYED, state_of(HELD)),
    "claim_and_hold": (check_failed(CLAIMED), state_of(CLAIMED)),
    "order": (check_failed(REVERSE), REVERSE),
}
"""The cancellation reason that shows an earlier commit, and the call's answer."""


@pytest.mark.parametrize("behind", [*BEHIND, (FENCED, NONE), (check_failed(MALFORMED), NONE)])
@pytest.mark.parametrize("operation", EARLIER)
def test_an_earlier_commit_outranks_every_other_cancellation_reason(
    scripted: Any, request: Any, counted: list[str], operation: str, behind: tuple[Reason, ...]
) -> None:
    gate, expected = EARLIER[operation]
    sender, client = scripted(cancelled(gate, *behind))

    answer = outcome_of(lambda: request.getfixturevalue(operation)(sender))

    assert getattr(answer, "found", answer) == expected
    assert (len(client.sent), counted) == (1, [] if operation == "claim_and_hold" else ["StepReplayed"])


@pytest.mark.parametrize(
    "reasons",
    [(CONFLICT, NONE, POOR), (CONFLICT, TAKEN, POOR), (NONE, CONFLICT, POOR), (CONFLICT,) * 3],
)
@pytest.mark.parametrize("operation", ["hold", "claim_and_hold"])
def test_a_retry_after_a_conflict_finds_its_own_commit(
    scripted: Any, request: Any, pauses: list[int], counted: list[str], operation: str, reasons: list[Reason]
) -> None:
    sender, client = scripted(cancelled(*reasons), cancelled(REPLAYED, NONE, POOR))

    answer = outcome_of(lambda: request.getfixturevalue(operation)(sender))

    assert getattr(answer, "found", answer) == state_of(HELD)
    assert pauses == [1]
    assert counted == ["TransactionConflict", *(["StepReplayed"] if operation == "hold" else [])]
    assert client.sent[0] == client.sent[1]


@pytest.mark.parametrize("code", ["TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"])
def test_a_step_with_only_transient_conflicts_is_sent_six_times(
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
def test_an_unknown_cancellation_reason_is_raised_unchanged(
    scripted: Any, hold: Call, code: str, behind: Reason
) -> None:
    original = cancelled(NONE, (code, None), behind)
    sender, client = scripted(original)

    with pytest.raises(ClientError) as raised:
        hold(sender)

    assert raised.value is original
    assert len(client.sent) == 1


def test_every_item_of_a_transaction_asks_for_the_conflicting_row(
    scripted: Any, settlement: Settlement, config: StageConfig
) -> None:
    sender, client = scripted(COMMITTED)

    sender.commit(steps.release(settlement, config, NOW))

    ((_, parameters),) = client.sent
    sent = [item for action in parameters["TransactItems"] for item in action.values()]
    assert len(sent) == 3
    assert {item["ReturnValuesOnConditionCheckFailure"] for item in sent} == {"ALL_OLD"}
    assert all(item["ConditionExpression"] for item in sent)
