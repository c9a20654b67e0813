import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from .core import Core
from .queues import let, new_queue
from .settings import CoreSettings


@dataclass(frozen=True, kw_only=True)
class Batches:
    """Stream records for a function. They are given up at `age_max`."""

    filters: Sequence[Mapping[str, Any]]
    size: int
    window: Duration
    age_max: Duration
    parallel: int = 1
    """Concurrent calls per shard. They may reorder records of different rows."""


def call_by_stream(
    scope: Construct, core: Core, function: lambda_.Function, batches: Batches, settings: CoreSettings
) -> sqs.Queue:
    """Let stream batches call a function. Return the queue for given-up batches.

    A failed batch is halved and retried until `age_max`. Then its shard and sequence numbers go to the queue.
    """
    given_up = new_queue(scope, "GivenUp", settings)
    reads = [f"dynamodb:{read}" for read in ("DescribeStream", "GetRecords", "GetShardIterator")]
    function.add_to_role_policy(iam.PolicyStatement(actions=reads, resources=[core.ledger.stream_arn]))
    # IAM scopes this one to no stream.
    function.add_to_role_policy(iam.PolicyStatement(actions=["dynamodb:ListStreams"], resources=["*"]))
    let(function, ["SendMessage"], given_up)
    mapping = lambda_.EventSourceMapping(
        scope,
        "Stream",
        target=function,
        event_source_arn=core.ledger.stream_arn,
        starting_position=lambda_.StartingPosition.TRIM_HORIZON,  # a repeated record changes nothing
        filters=[lambda_.FilterCriteria.filter(dict(one)) for one in batches.filters],
        batch_size=batches.size,
        max_batching_window=batches.window,
        parallelization_factor=batches.parallel,
        bisect_batch_on_error=True,
        max_record_age=batches.age_max,
    )
    # CDK's SqsDlq would also let the function look at the queue.
    on_failure = {"OnFailure": {"Destination": given_up.queue_arn}}
    cfn_mapping = cast("lambda_.CfnEventSourceMapping", mapping.node.default_child)
    cfn_mapping.add_property_override("DestinationConfig", on_failure)
    return given_up


def filter_stream(scope: Construct, filters: Sequence[Mapping[str, Any]]) -> None:
    """Replace the stream's filters, for a room that is built later."""
    mapping = cast("lambda_.CfnEventSourceMapping", scope.node.find_child("Stream").node.default_child)
    mapping.filter_criteria = lambda_.CfnEventSourceMapping.FilterCriteriaProperty(
        filters=[
            lambda_.CfnEventSourceMapping.FilterProperty(pattern=json.dumps(one, separators=(",", ":")))
            for one in filters
        ]
    )
