import io
import json
from itertools import chain, repeat
from typing import Any

import pytest

from handlers import _dependencies
from settlement.core.ledger import keys
from settlement.core.model.errors import StoreUnavailable
from tests.handlers.conftest import Calls
from tests.handlers.stalled import (
    AT_THE_HEAD,
    OTHER_KEYS,
    all_overdue,
    claim,
    not_recovered,
    recover_later,
    recovered,
)
from tests.world.constants import CLAIMED_AT, KEY, NONCE
from tests.world.functions import run
from tests.world.services import throttled, unanswered

DEFERRED = {"gsi1sk": "2026-11-20T12:30:00.123Z"}
UNAVAILABLE = StoreUnavailable("DynamoDB: ThrottlingException")


@pytest.mark.parametrize(
    ("poison", "error"),
    [
        ({"currency": "XXX"}, "MalformedRow"),
        ({"owner_epoch": "many"}, "MalformedRow"),
        ({"deadline_at": 7}, "MalformedRow"),
        ({"status": "DONE"}, "MalformedRow"),
        ({"hold_at": None}, "MalformedRow"),
    ],
)
def test_a_malformed_row_is_deferred_and_others_are_recovered(
    calls: Calls, log: io.StringIO, poison: dict[str, Any], error: str
) -> None:
    calls.after("HoldFunds")
    calls.alter(gsi1sk=AT_THE_HEAD, **poison)
    before = calls.row()
    all_overdue(calls, calls.later)
    calls.counted()

    calls.recover()

    number = len(OTHER_KEYS)
    assert recovered(calls.step_functions)
    metrics = run(RecoveredByCompensation=number, Recoveries=number, NotRecovered=1)
    assert calls.counted() == metrics | {"OldestInFlightSeconds": 900, "RecoveryBehindSeconds": 4500}
    assert calls.row() == before | DEFERRED
    assert not_recovered(log) == [(KEY, error)]


def test_a_settlement_with_a_malformed_claim_time_is_recovered_too(calls: Calls) -> None:
    calls.after("HoldFunds")
    calls.alter(gsi1sk=AT_THE_HEAD, claimed_at="yesterday")
    all_overdue(calls, calls.later)
    calls.counted()

    calls.recover()

    metrics = calls.counted()
    assert recovered(calls.step_functions)
    assert f"{KEY}-r1-{NONCE}" in calls.step_functions.names
    assert (metrics["Recoveries"], metrics["NotRecovered"]) == (len(OTHER_KEYS) + 1, 1)
    assert (metrics["OldestInFlightSeconds"], calls.row()["gsi1sk"]) == (900, "2026-11-20T12:16:00.123Z")


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(keys.settlement(KEY), id="a settlement without attributes"),
        pytest.param(keys.account("alice"), id="an account"),
        pytest.param({"pk": "no-kind", "sk": "SETTLEMENT"}, id="a key without a kind"),
        pytest.param(keys.entry("alice", CLAIMED_AT, KEY, "hold"), id="a journal entry"),
    ],
)
def test_a_row_other_than_a_valid_settlement_is_deferred(calls: Calls, key: keys.Row) -> None:
    listed = {**key, "gsi1pk": keys.in_flight_partition(0), "gsi1sk": AT_THE_HEAD}
    calls.ledger.put(listed)

    counted = recover_later(calls, minutes=15)

    assert (calls.step_functions.called, counted) == ([], run(NotRecovered=1, RecoveryBehindSeconds=4500))
    assert calls.ledger.row(key) == listed | DEFERRED


def test_a_row_with_a_non_integer_number_is_deferred(calls: Calls) -> None:
    calls.after("HoldFunds")
    client, name = calls.ledger.client, calls.ledger.table_name
    key = {attribute: {"S": text} for attribute, text in keys.settlement(KEY).items()}
    broken = {":broken": {"N": "0.5"}}
    client.update_item(
        TableName=name, Key=key, UpdateExpression="SET fee = :broken", ExpressionAttributeValues=broken
    )

    counted = recover_later(calls, minutes=15)

    assert (calls.step_functions.called, counted) == ([], run(NotRecovered=1, RecoveryBehindSeconds=870))
    item = client.get_item(TableName=name, Key=key, ConsistentRead=True)["Item"]
    assert item["gsi1sk"] == {"S": DEFERRED["gsi1sk"]}


@pytest.mark.parametrize(("failure", "deferred"), [(UNAVAILABLE, {}), (ValueError("no"), DEFERRED)])
def test_a_row_is_not_deferred_because_the_table_is_unavailable(
    calls: Calls, log: io.StringIO, failure: Exception, deferred: dict[str, str]
) -> None:
    calls.after("HoldFunds")
    before = calls.row()

    with calls.fails("read", failure):
        counted = recover_later(calls, minutes=15)

    assert calls.row() == before | deferred
    assert counted == run(NotRecovered=1, RecoveryBehindSeconds=870)
    assert not_recovered(log) == [(KEY, type(failure).__name__)]


def test_a_row_that_cannot_be_deferred_does_not_delay_others(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.after("HoldFunds")
    calls.alter(currency="XXX", gsi1sk=AT_THE_HEAD)
    all_overdue(calls, calls.later)
    update = _dependencies.store.update

    def refuses(write: Any) -> Any:
        if write.parameters["Key"] == keys.settlement(KEY):
            raise throttled("UpdateItem")
        return update(write)

    monkeypatch.setattr(_dependencies.store, "update", refuses)
    calls.counted()

    calls.recover()

    assert (recovered(calls.step_functions), calls.counted()["NotRecovered"]) == (True, 1)


def test_one_refused_start_does_not_stop_other_settlements(calls: Calls) -> None:
    all_overdue(calls, calls.later)
    failing = chain([True], repeat(False))

    def refuses(operation: str) -> None:
        if next(failing):
            raise unanswered()

    calls.step_functions.before = refuses
    calls.counted()

    calls.recover()

    number = len(OTHER_KEYS) - 1
    assert len(calls.step_functions.names) == number
    expected = run(NotRecovered=1, RecoveredByCompensation=number, Recoveries=number)
    assert calls.counted() == expected | {"OldestInFlightSeconds": 900}


@pytest.mark.parametrize("poison", [{"owner_epoch": None}, {"gsi1sk": "0"}, {"owner": None}])
def test_a_malformed_limbo_case_does_not_delay_the_others(calls: Calls, poison: dict[str, Any]) -> None:
    calls.fall()
    calls.ledger.put(calls.row() | keys.settlement(OTHER_KEYS[0]))
    calls.alter(**poison)

    counted = recover_later(calls, hours=1)

    assert f"{OTHER_KEYS[0]}-c1-{NONCE}" in calls.step_functions.names
    assert counted["LimboOpen"] == 2


def test_each_kind_of_recovery_has_its_own_metric(calls: Calls, log: io.StringIO) -> None:
    calls.fall()
    for key, changes in ((OTHER_KEYS[0], {"status": "COMPENSATING"}), (OTHER_KEYS[1], {})):
        calls.ledger.put(claim(calls, key) | changes)

    counted = recover_later(calls, seconds=330)

    names = [f"{KEY}-c1-{NONCE}", f"{OTHER_KEYS[0]}-c1-{NONCE}", f"{OTHER_KEYS[1]}-r1-{NONCE}"]
    assert sorted(calls.step_functions.names) == names
    actions = {"RecoveredBySettlement": 1, "RecoveredByCompensation": 1, "RecoveredByAlert": 1}
    ages = {"OldestInFlightSeconds": 330, "OldestLimboSeconds": 330, "RecoveryBehindSeconds": 300}
    assert counted == run(Recoveries=3, LimboOpen=1, **actions, **ages)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    told = [
        (line["settlement"], line["execution_started"]) for line in lines if line["message"] == "recovered"
    ]
    assert sorted(told) == list(zip([KEY, *OTHER_KEYS[:2]], names, strict=True))
