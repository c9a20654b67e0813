"""The queue for services that would rather send a message than start an execution."""

from typing import Any

from aws_cdk import Duration, RemovalPolicy
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_event_sources as event_sources
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.functions import function_seconds
from infra.settings import Settings

RECEIVES_MAX = 30
"""How often a message is tried while a service does not answer: for some hours, by the timeout below."""


class Starting(Construct):
    """The start queue, what is not fit to start, and the function between the queue and the machine."""

    def __init__(
        self, scope: Construct, construct_id: str, *, function: lambda_.Function, settings: Settings
    ) -> None:
        super().__init__(scope, construct_id)
        self.dead_letters = self._new_queue("DeadLetters", settings)
        self.queue = self._new_queue(
            "Queue",
            settings,
            visibility_timeout=Duration.seconds(6 * function_seconds("StartSettlements", settings)),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=RECEIVES_MAX),
        )
        self.dead_letters.grant_send_messages(function)
        function.add_environment("START_DEAD_LETTERS", self.dead_letters.queue_url)
        function.add_event_source(
            event_sources.SqsEventSource(
                self.queue, batch_size=10, report_batch_item_failures=True, max_concurrency=10
            )
        )

    def _new_queue(self, construct_id: str, settings: Settings, **more: Any) -> sqs.Queue:
        return sqs.Queue(
            self,
            construct_id,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=settings.interpreter is None,  # the embedded AWS speaks plain HTTP
            retention_period=Duration.days(14),
            removal_policy=RemovalPolicy.RETAIN if settings.keeps_data else RemovalPolicy.DESTROY,
            **more,
        )
