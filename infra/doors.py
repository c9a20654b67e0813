"""The start queue, for services that send a message instead of starting an execution."""

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.functions import function_seconds
from infra.queues import RECEIVES, let, let_send, new_queue
from infra.settings import CoreSettings

RECEIVES_MAX = 30
"""The attempts at a message: at one per visibility timeout, about 2.5 hours of an outage."""

BATCH_MAX = 4
"""Most messages of a call: so many have the time for a try each, though every one of them is slow. A message
that is received and not begun would lose one of its attempts.
"""

MESSAGE_BYTES_MAX = 16_384
"""The largest message: ten times a request. SQS refuses a larger one to its sender; one that is refused later
fits the dead-letter queue together with its reason.
"""

_EMBEDDED_MARGIN_SECONDS = 50
"""The visibility timeout beyond the function's on the embedded AWS: together five minutes, as on AWS."""


def visibility_seconds(settings: CoreSettings) -> int:
    """Return how long a received message is hidden, and so how soon a failed one is tried again.

    AWS asks for at least six times the function's timeout: it retries a throttled batch within that time.
    The embedded AWS throttles nothing. Its timeout is already multiplied by the stage's factor, and six
    times that would be 25 minutes.
    """
    timeout_seconds = function_seconds("StartSettlements", settings)
    if settings.is_embedded:
        return timeout_seconds + _EMBEDDED_MARGIN_SECONDS
    return 6 * timeout_seconds


class StartQueue(Construct):
    """The start queue, its dead-letter queue, and the event source of the function that reads it."""

    def __init__(
        self, scope: Construct, construct_id: str, *, function: lambda_.Function, settings: CoreSettings
    ) -> None:
        super().__init__(scope, construct_id)
        self.dead_letters = new_queue(self, "DeadLetters", settings)
        self.queue = new_queue(
            self,
            "Queue",
            settings,
            max_message_size_bytes=MESSAGE_BYTES_MAX,
            visibility_timeout=Duration.seconds(visibility_seconds(settings)),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.dead_letters, max_receive_count=RECEIVES_MAX),
        )
        let(function, RECEIVES, self.queue)
        let_send(function, "START_DEAD_LETTERS", self.dead_letters)
        lambda_.EventSourceMapping(
            self,
            "Messages",
            target=function,
            event_source_arn=self.queue.queue_arn,
            batch_size=BATCH_MAX,
            report_batch_item_failures=True,
            max_concurrency=10,
        )
