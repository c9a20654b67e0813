"""The table's stream as the trigger of a function, and the queue of what the function gives up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.config import Settings
from infra.table import SettlementTable


@dataclass(frozen=True, kw_only=True)
class Batches:
    """The records of the stream that call a function, and how many of them, how soon, and for how long."""

    filters: Sequence[Mapping[str, Any]]
    size: int
    window: Duration
    age_max: Duration


def call_by_stream(
    scope: Construct,
    batches: Batches,
    *,
    function: lambda_.Function,
    ledger: SettlementTable,
    settings: Settings,
) -> sqs.Queue:
    """Let batches of the stream call a function; return the queue of those that are given up.

    A failed batch is tried again, halved, until it has the greatest age: the records behind it wait. Then its
    shard and sequence numbers go to the queue, for a person.
    """
    given_up = sqs.Queue(
        scope,
        "GivenUp",
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=not settings.is_embedded,  # the embedded AWS speaks plain HTTP
        retention_period=Duration.days(14),
        removal_policy=RemovalPolicy.RETAIN if settings.keeps_data else RemovalPolicy.DESTROY,
    )
    reads = ["DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"]
    for actions, resource in (
        ([f"dynamodb:{read}" for read in reads], ledger.stream_arn),
        (["sqs:SendMessage"], given_up.queue_arn),
    ):
        function.add_to_role_policy(iam.PolicyStatement(actions=actions, resources=[resource]))
    mapping = lambda_.EventSourceMapping(
        scope,
        "Stream",
        target=function,
        event_source_arn=ledger.stream_arn,
        starting_position=lambda_.StartingPosition.TRIM_HORIZON,  # a record too many changes nothing
        filters=[lambda_.FilterCriteria.filter(dict(one)) for one in batches.filters],
        batch_size=batches.size,
        max_batching_window=batches.window,
        parallelization_factor=1,  # two calls for one stretch of the stream would race on its rows
        bisect_batch_on_error=True,
        max_record_age=batches.age_max,
    )
    # Not by CDK's SqsDlq, which would also let the function look at the queue.
    on_failure = {"OnFailure": {"Destination": given_up.queue_arn}}
    cfn_mapping = cast("lambda_.CfnEventSourceMapping", mapping.node.default_child)
    cfn_mapping.add_property_override("DestinationConfig", on_failure)
    return given_up
