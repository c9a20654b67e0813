import json
from typing import Any

import pytest
from moto.events.models import EventPattern

from infra.config import STAGES
from infra.events import CHANGES
from settlement.core.ledger import keys
from tests.infra.stack import FUNCTIONS, PAYING, RUNNING, each_stage, of_function, properties, variables
from tests.unit import states
from tests.world.constants import KEY
from tests.world.expressions import Item
from tests.world.rooms import brought
from tests.world.stream import record

ROW: Item = {name: {"S": str(value)} for name, value in states.row().items()}


@each_stage
def test_publish_events_is_called_soon_and_retried_half_a_day(stage: str) -> None:
    """Ten concurrent calls a shard keep each row's order; the table keeps abandoned records."""
    found = of_function(stage, "PublishEvents", "Lambda::EventSourceMapping")
    filters: list[Any] = [json.loads(one["Pattern"]) for one in found.pop("FilterCriteria")["Filters"]]

    prefixes = [*["PAYOUT#"] * (stage in PAYING), *["PAYRUN#"] * (stage in RUNNING)]
    optional = [{"dynamodb": {"Keys": {"pk": {"S": [{"prefix": one}]}}}} for one in prefixes]
    passed_on = [room.RECORDS for room in brought("infra", "records")]
    assert filters == [CHANGES, *passed_on, *optional]
    assert found == {
        "BatchSize": 100,
        "BisectBatchOnFunctionError": True,
        "DestinationConfig": {"OnFailure": {"Destination": "${OutcomesGivenUp.Arn}"}},
        "EventSourceArn": "${LedgerTable.StreamArn}",
        "FunctionName": "${PublishEvents}",
        "MaximumBatchingWindowInSeconds": 1,
        "MaximumRecordAgeInSeconds": 12 * 3_600,
        "ParallelizationFactor": 10,
        "StartingPosition": "TRIM_HORIZON",
    }


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        (None, ROW, True),
        (ROW, ROW, True),
        (ROW, None, True),
        (None, {name: {"S": text} for name, text in keys.account(KEY).items()}, False),
        (None, {"pk": {"S": f"EVIDENCE#{KEY}"}, "sk": {"S": KEY}}, False),
    ],
)
def test_the_stream_filter_only_passes_changes_of_settlements(
    old: Item | None, new: Item | None, wanted: bool
) -> None:
    passing = EventPattern(None, CHANGES).matches_event(record(old, new, at=0))  # type: ignore[arg-type]

    assert passing is wanted


@each_stage
def test_only_one_function_puts_events_on_the_outcome_bus(stage: str) -> None:
    """A forged event could announce a payment that was never made."""
    buses = properties(stage, "Events::EventBus")
    putting = {
        statement["Resource"]: policy["Roles"]
        for policy in properties(stage, "IAM::Policy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Action"] == "events:PutEvents"
        if statement["Resource"] == "${OutcomesBus.Arn}"
    }

    assert buses.keys() == {"PagerBus", "OutcomesBus"}
    assert buses["OutcomesBus"]["Name"] == f"{buses['PagerBus']['Name']}-outcomes"
    assert putting == {"${OutcomesBus.Arn}": ["${PublishEventsRole}"]}
    assert {name for name in FUNCTIONS if "OUTCOME_BUS" in variables(stage, name)} == {"PublishEvents"}


@each_stage
def test_only_a_stage_with_ordered_events_has_a_fifo_topic(stage: str) -> None:
    topics = properties(stage, "SNS::Topic")
    ordered = {name: topic for name, topic in topics.items() if topic.get("FifoTopic")}
    publishing = {name for name in FUNCTIONS if "ORDERED_TOPIC" in variables(stage, name)}

    assert STAGES[stage].ordered_events is (stage == "local")
    assert ordered.keys() == ({"OutcomesOrdered"} if stage == "local" else set())
    assert publishing == ({"PublishEvents"} if stage == "local" else set())
    for topic in ordered.values():
        assert topic["FifoThroughputScope"] == "MessageGroup"
        assert topic["KmsMasterKeyId"] == "${PagerKey.Arn}"
