"""The sweep of merchants: the table's stream calls SweepMerchants, and a queue keeps what it gives up."""

from typing import cast

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.config import Settings
from infra.pager import Pager
from infra.table import SettlementTable

RELEASES = {
    "eventName": ["INSERT"],
    "dynamodb": {
        "Keys": {"pk": {"S": [{"prefix": "ENTRIES#merchant."}]}},
        "NewImage": {"step": {"S": ["release"]}},
    },
}
"""The records that call the function: of releases to merchants, as `ledger/keys.py` has their rows."""

_BEHIND_SECONDS = 300
"""The age of a release that no sweep has reached, at which a person looks."""


class Merchants(Construct):
    """The stream's records of releases to merchants, their function, and the queue of what it gives up.

    A batch is tried again, halved, for a quarter of an hour: the records behind it wait. Then its shard and
    sequence numbers go to the queue, for a person who sweeps by hand. A record that comes again does no harm.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        function: lambda_.Function,
        ledger: SettlementTable,
        pager: Pager,
        settings: Settings,
    ) -> None:
        super().__init__(scope, construct_id)
        stream_arn = ledger.stream_arn
        self.given_up = sqs.Queue(
            self,
            "GivenUp",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=not settings.is_embedded,  # the embedded AWS speaks plain HTTP
            retention_period=Duration.days(14),
            removal_policy=RemovalPolicy.RETAIN if settings.keeps_data else RemovalPolicy.DESTROY,
        )
        function.add_to_role_policy(
            iam.PolicyStatement(
                actions=[
                    "dynamodb:DescribeStream",
                    "dynamodb:GetRecords",
                    "dynamodb:GetShardIterator",
                    "dynamodb:ListStreams",
                ],
                resources=[stream_arn],
            )
        )
        function.add_to_role_policy(
            iam.PolicyStatement(actions=["sqs:SendMessage"], resources=[self.given_up.queue_arn])
        )
        mapping = lambda_.EventSourceMapping(
            self,
            "Stream",
            target=function,
            event_source_arn=stream_arn,
            starting_position=lambda_.StartingPosition.TRIM_HORIZON,  # a sweep too many changes nothing
            filters=[lambda_.FilterCriteria.filter(RELEASES)],
            batch_size=1_000,
            max_batching_window=Duration.seconds(1),
            parallelization_factor=1,  # two calls for one stretch of the stream would race on its rows
            bisect_batch_on_error=True,
            max_record_age=Duration.minutes(15),
        )
        # Not by CDK's SqsDlq, which would also let the function look at the queue.
        on_failure = {"OnFailure": {"Destination": self.given_up.queue_arn}}
        resource = cast("lambda_.CfnEventSourceMapping", mapping.node.default_child)
        resource.add_property_override("DestinationConfig", on_failure)
        pager.alarm(
            "SweepsGivenUp",
            self.given_up.metric_approximate_number_of_messages_visible(
                period=Duration.minutes(1), statistic="Maximum"
            ),
            "What a merchant has received is not available, and no sweep will come to it by itself.",
        )
        self.age = function.metric("IteratorAge", period=Duration.minutes(5), statistic="Maximum")
        pager.alarm(
            "SweepBehind",
            self.age,
            "What merchants receive becomes available minutes late.",
            threshold=_BEHIND_SECONDS * 1_000,
        )
