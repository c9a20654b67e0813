from typing import Any

import pytest
from botocore.exceptions import ClientError

from settlement.core.ledger import keys
from settlement.core.model.errors import IdempotencyConflict, StepFenced, StoreUnavailable
from settlement.core.model.status import Status, Step
from settlement.core.model.stored import MalformedRow
from tests.store.failures.scripted import (
    ANSWERED,
    MALFORMED,
    NONE,
    POOR,
    Call,
    cancelled,
    check_failed,
    failed,
    wire,
)
from tests.world.saga import CLAIMED, ENTRIES


def test_a_conflicting_single_write_is_retried(
    scripted: Any, single: Call, pauses: list[int], counted: list[str]
) -> None:
    conflict = failed("TransactionConflictException")
    sender, client = scripted(conflict, conflict, ANSWERED | {"Attributes": wire(CLAIMED)})

    assert single(sender)
    assert (pauses, counted) == ([1, 2], ["TransactionConflict"] * 2)
    assert client.sent == [client.sent[0]] * 3


def test_a_single_write_in_lasting_conflict_is_sent_six_times(scripted: Any, single: Call) -> None:
    sender, client = scripted(*[failed("TransactionConflictException")] * 9)

    with pytest.raises(StoreUnavailable):
        single(sender)

    assert len(client.sent) == 6


def test_a_single_write_refused_by_its_condition_is_not_retried(
    scripted: Any, claim: Call, reject: Call, pauses: list[int]
) -> None:
    refused = failed("ConditionalCheckFailedException", Item=wire(CLAIMED | {"status": "LIMBO"}))
    sender, client = scripted(refused, refused)

    assert claim(sender).status is Status.LIMBO
    with pytest.raises(StepFenced, match="is LIMBO"):
        reject(sender)

    assert (len(client.sent), pauses) == (2, [])


def test_a_refused_put_is_a_replay_or_a_conflict(
    scripted: Any, put: Call, pauses: list[int], counted: list[str]
) -> None:
    first = ENTRIES[Step.VERIFY] | {"reason": "in other words"}
    other = first | {"request_hash": "another"}
    refused = [failed("ConditionalCheckFailedException", Item=wire(row)) for row in (first, other)]
    sender, client = scripted(*refused)

    assert put(sender) == first
    with pytest.raises(IdempotencyConflict):
        put(sender)

    assert (len(client.sent), pauses, counted) == (2, [], ["StepReplayed"])


@pytest.mark.parametrize(
    ("operation", "refused"),
    [
        ("hold", cancelled(check_failed(MALFORMED), NONE, POOR)),
        ("hold", cancelled(NONE, NONE, check_failed(keys.account("alice")))),
        ("claim_and_hold", cancelled(check_failed(MALFORMED), NONE, POOR)),
        ("order", cancelled(NONE, check_failed(MALFORMED))),
        ("claim", failed("ConditionalCheckFailedException", Item=wire(MALFORMED))),
        ("reject", failed("ConditionalCheckFailedException", Item=wire(MALFORMED))),
    ],
)
def test_a_malformed_existing_row_is_reported_without_a_retry(
    scripted: Any, request: Any, pauses: list[int], counted: list[str], operation: str, refused: ClientError
) -> None:
    sender, client = scripted(refused)

    told = r"^(SETTLEMENT#order-2026-000101: has no attribute 'owner'|ACCOUNT: has no attribute 'available')$"
    with pytest.raises(MalformedRow, match=told):
        request.getfixturevalue(operation)(sender)

    assert (len(client.sent), pauses, counted) == (1, [], [])
