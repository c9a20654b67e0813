"""A queue of the stage, and its reader."""

from collections.abc import Sequence
from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.settings import CoreSettings


def new_queue(scope: Construct, construct_id: str, settings: CoreSettings, **more: Any) -> sqs.Queue:
    """Return a queue that is encrypted, and keeps a message for the longest time."""
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
    """Let a function do these things with a queue. CDK's own grants are wider."""
    function.add_to_role_policy(
        iam.PolicyStatement(actions=[f"sqs:{action}" for action in actions], resources=[queue.queue_arn])
    )


def let_send(function: lambda_.Function, variable: str, queue: sqs.Queue) -> None:
    """Let a function send to the queue that its variable names."""
    function.add_environment(variable, queue.queue_url)
    let(function, ["SendMessage"], queue)


RECEIVES = ("ReceiveMessage", "DeleteMessage", "GetQueueAttributes")
"""What Lambda does, with the function's permissions, to read a queue."""
