"""The sweep of merchants: the stream's records of releases to merchants, and no others, call its function."""

import json
from typing import Any

import pytest

from infra.merchants import RELEASES
from settlement.ledger import entries, keys
from settlement.ledger.keys import Row
from settlement.ledger.transaction import Transfer
from tests.infra.stack import each_stage, properties
from tests.unit.vectors import ESCROW, SETTLEMENT
from tests.world.environment import NOW

RELEASE = Transfer(debit=ESCROW, credit="merchant.shop", amount=4_772)
RECLAIM = Transfer(debit="merchant.shop", credit=ESCROW, amount=4_772)


def entry(step: str, moved: Transfer) -> Row:
    row: Row = entries.transfer(SETTLEMENT, step, moved, NOW).parameters["Item"]
    return row


def passes(event: str, row: Row) -> bool:
    """Return whether a record passes the filter, by the rules of Lambda that the filter uses."""
    (prefix,) = RELEASES["dynamodb"]["Keys"]["pk"]["S"]  # type: ignore[index]
    steps = RELEASES["dynamodb"]["NewImage"]["step"]["S"]  # type: ignore[index]
    return bool(
        event in RELEASES["eventName"] and row["pk"].startswith(prefix["prefix"]) and row.get("step") in steps
    )


@each_stage
def test_the_stream_calls_the_sweep_in_large_batches_and_a_bad_record_is_put_aside(stage: str) -> None:
    """From the beginning of the stream: a sweep too many changes nothing, a record too few would."""
    mappings = properties(stage, "Lambda::EventSourceMapping").values()
    (found,) = (one for one in mappings if one["FunctionName"] == "${SweepMerchants}")
    filters: list[Any] = [json.loads(one["Pattern"]) for one in found.pop("FilterCriteria")["Filters"]]

    assert filters == [RELEASES]
    assert found == {
        "BatchSize": 1_000,
        "BisectBatchOnFunctionError": True,
        "DestinationConfig": {"OnFailure": {"Destination": "${MerchantsGivenUp.Arn}"}},
        "EventSourceArn": "${LedgerTable.StreamArn}",
        "FunctionName": "${SweepMerchants}",
        "MaximumBatchingWindowInSeconds": 1,
        "MaximumRecordAgeInSeconds": 900,
        "ParallelizationFactor": 1,
        "StartingPosition": "TRIM_HORIZON",
    }


@pytest.mark.parametrize(
    ("event", "row", "wanted"),
    [
        ("INSERT", entry("release", RELEASE), True),
        ("MODIFY", entry("release", RELEASE), False),
        ("INSERT", entry("compensate:release", RECLAIM), False),
        ("INSERT", entry("release", Transfer(debit=ESCROW, credit="bob", amount=1)), False),
        ("INSERT", keys.account("merchant.shop"), False),
        ("INSERT", keys.swept("ENTRIES#merchant.shop#3", "2026-11-22T06:04"), False),
    ],
)
def test_the_filter_lets_releases_to_merchants_pass_alone(event: str, row: Row, wanted: bool) -> None:
    assert passes(event, row) is wanted
