"""The table's stream as the trigger of a function, and the queue of what the function gives up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.core import Core
from infra.queues import let, new_queue
from infra.settings import CoreSettings


@dataclass(frozen=True, kw_only=True)
class Batches:
    """The records of the stream that call a function, and how many of them, how soon, and for how long."""

    filters: Sequence[Mapping[str, Any]]
    size: int
    window: Duration
    age_max: Duration
    parallel: int = 1
    """The calls for one stretch of the stream at once. More than one would race, except on each row's own."""


def call_by_stream(
    scope: Construct, core: Core, function: lambda_.Function, batches: Batches, settings: CoreSettings
) -> sqs.Queue:
    """Let batches of the stream call a function; return the queue of those that are given up.

    A failed batch is tried again, halved, until it has the greatest age: the records behind it wait. Then its
    shard and sequence numbers go to the queue, for a person.
    """
    given_up = new_queue(scope, "GivenUp", settings)
    reads = ["DescribeStream", "GetRecords", "GetShardIterator", "ListStreams"]
    function.add_to_role_policy(
        iam.PolicyStatement(
            actions=[f"dynamodb:{read}" for read in reads], resources=[core.ledger.stream_arn]
        )
    )
    let(function, ["SendMessage"], given_up)
    mapping = lambda_.EventSourceMapping(
        scope,
        "Stream",
        target=function,
        event_source_arn=core.ledger.stream_arn,
        starting_position=lambda_.StartingPosition.TRIM_HORIZON,  # a record too many changes nothing
        filters=[lambda_.FilterCriteria.filter(dict(one)) for one in batches.filters],
        batch_size=batches.size,
        max_batching_window=batches.window,
        parallelization_factor=batches.parallel,
        bisect_batch_on_error=True,
        max_record_age=batches.age_max,
    )
    # Not by CDK's SqsDlq, which would also let the function look at the queue.
    on_failure = {"OnFailure": {"Destination": given_up.queue_arn}}
    cfn_mapping = cast("lambda_.CfnEventSourceMapping", mapping.node.default_child)
    cfn_mapping.add_property_override("DestinationConfig", on_failure)
    return given_up
