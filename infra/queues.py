from collections.abc import Sequence
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from .settings import CoreSettings


def new_queue(scope: Construct, construct_id: str, settings: CoreSettings, **more: Any) -> sqs.Queue:
    """Create an encrypted queue with SQS's longest retention."""
    return sqs.Queue(
        scope,
        construct_id,
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=not settings.is_embedded,  # the embedded AWS speaks plain HTTP
        retention_period=Duration.days(14),
        removal_policy=settings.removal_policy,
        **more,
    )


def let(function: lambda_.Function, actions: Sequence[str], queue: sqs.Queue) -> None:
    """Allow actions on a queue. CDK's own grants are wider."""
    function.add_to_role_policy(
        iam.PolicyStatement(actions=[f"sqs:{action}" for action in actions], resources=[queue.queue_arn])
    )


def let_send(function: lambda_.Function, variable: str, queue: sqs.Queue) -> None:
    """Let `function` send to `queue`; the function's environment `variable` gets the URL."""
    function.add_environment(variable, queue.queue_url)
    let(function, ["SendMessage"], queue)


RECEIVES = ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes")
"""Lambda's actions to read a queue, with the function's permissions."""


def depth(queue: sqs.IQueue) -> cloudwatch.Metric:
    return queue.metric_approximate_number_of_messages_visible(
        period=Duration.minutes(1), statistic="Maximum"
    )


def waiting(queue: sqs.IQueue, label: str) -> list[cloudwatch.Metric]:
    return [queue.metric_approximate_number_of_messages_visible(label=label, statistic="Maximum")]
