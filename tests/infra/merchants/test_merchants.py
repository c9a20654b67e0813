import pytest

from infra.merchants import RECEIVES_MAX, RELEASES, VISIBILITY_MARGIN_SECONDS
from settlement.core.ledger import entries, keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import Transfer
from tests.infra.stack import FUNCTIONS, each_stage, of_function, properties, variables
from tests.unit.vectors import ESCROW, SETTLEMENT
from tests.world.environment import NOW

RELEASE = Transfer(debit=ESCROW, credit="merchant.shop", amount=4_772)
RECLAIM = Transfer(debit="merchant.shop", credit=ESCROW, amount=4_772)


def entry(step: str, moved: Transfer) -> Row:
    row: Row = entries.transfer(SETTLEMENT, step, moved, NOW).parameters["Item"]
    return row


def passes(event: str, row: Row) -> bool:
    """Return whether a record passes the sweep's filter, by Lambda's rules."""
    (prefix,) = RELEASES["dynamodb"]["Keys"]["pk"]["S"]  # type: ignore[index]
    steps = RELEASES["dynamodb"]["NewImage"]["step"]["S"]  # type: ignore[index]
    return bool(
        event in RELEASES["eventName"] and row["pk"].startswith(prefix["prefix"]) and row.get("step") in steps
    )


@each_stage
def test_a_release_queue_calls_the_sweep_and_isolates_bad_messages(stage: str) -> None:
    assert of_function(stage, "SweepMerchants", "Lambda::EventSourceMapping") == {
        "BatchSize": 100,
        "EventSourceArn": "${MerchantsReleases.Arn}",
        "FunctionName": "${SweepMerchants}",
        "MaximumBatchingWindowInSeconds": 1,
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "ScalingConfig": {"MaximumConcurrency": 2},
    }
    queue = properties(stage, "SQS::Queue")["MerchantsReleases"]
    assert queue["RedrivePolicy"] == {
        "deadLetterTargetArn": "${MerchantsGivenUp.Arn}",
        "maxReceiveCount": RECEIVES_MAX,
    }
    timeout: int = properties(stage, "Lambda::Function")["SweepMerchants"]["Timeout"]
    assert queue["VisibilityTimeout"] == timeout + VISIBILITY_MARGIN_SECONDS


@each_stage
def test_only_publish_events_feeds_the_sweep_queue(stage: str) -> None:
    fed = {name for name in FUNCTIONS if variables(stage, name).get("SWEEPS") == "${MerchantsReleases}"}

    assert fed == {"PublishEvents"}
    assert variables(stage, "SweepMerchants")["SWEEPS_PUT_ASIDE"] == "${MerchantsGivenUp}"


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
def test_only_releases_to_merchants_pass_the_filter(event: str, row: Row, wanted: bool) -> None:
    assert passes(event, row) is wanted
