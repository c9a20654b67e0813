"""The queue and the HTTP API that start settlements, and the HTTP API that cancels them."""

from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from .core import DEAD_LETTERS, QUEUES, REQUESTS, SETTLEMENTS, Added, Core, Room
from .functions import function_seconds
from .grants import LONG_MEMORY_MB, SETTLEMENT, WAITING_SECONDS, Handler, allow
from .http_api import START_CALLS, api_of
from .queues import RECEIVES, depth, let, let_send, new_queue, waiting
from .settings import CoreSettings
from .urgency import Urgency

_CONCURRENCY_MIN, _CONCURRENCY_MAX = 2, 1_000
"""Lambda's limits for readers of a queue."""


@dataclass(frozen=True, kw_only=True)
class DoorsSettings(CoreSettings):
    """Settings of the doors. `start_queue_calls`: concurrent calls that read the start queue."""

    start_queue_calls: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_whole("start_queue_calls", _CONCURRENCY_MIN, _CONCURRENCY_MAX)


START = Handler(
    rows={"GetItem": (SETTLEMENT,), "PutItem": (SETTLEMENT,)},
    names=("currency", "escrow"),
    seconds=50,
    memory_mb=LONG_MEMORY_MB,
    failure=Urgency.MORNING,
)

START_ROUTE, CANCEL_ROUTE = "POST /settlements", "POST /settlements/{key}/cancel"

RECEIVES_MAX = 30
"""Tries of a message, one per visibility timeout. They cover about 2.5 hours of an outage."""

BATCH_MAX = 4
"""Messages per call. A call has time for four slow starts. A message without a start loses a try."""

MESSAGE_BYTES_MAX = 16_384
"""Maximum size of a message: ten times a request. The dead-letter queue takes it with its reason."""

_EMBEDDED_MARGIN_SECONDS = 50
"""Seconds added to the function's timeout. The sum is five minutes, as on AWS."""


def visibility_seconds(settings: CoreSettings) -> int:
    """Return the seconds before a message is retried.

    AWS asks for six times the function's timeout, because of throttles. The embedded AWS never throttles.
    """
    timeout_seconds = function_seconds(START, settings)
    if settings.is_embedded:
        return timeout_seconds + _EMBEDDED_MARGIN_SECONDS
    return 6 * timeout_seconds


class StartQueue(Construct):
    def __init__(self, core: Core, settings: DoorsSettings) -> None:
        super().__init__(core.scope, "Start")
        function = core.let_start("StartSettlements")
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
            max_concurrency=settings.start_queue_calls,
        )


def build(core: Core, settings: DoorsSettings) -> Added:
    part = StartQueue(core, settings)
    core.pager.alarm(
        "StartDeadLetters",
        depth(part.dead_letters),
        "A message of the start queue will not start a settlement.",
        urgency=Urgency.MORNING,
    )
    core.pager.alarm(
        "StartQueueAge",
        part.queue.metric_approximate_age_of_oldest_message(period=Duration.minutes(1), statistic="Maximum"),
        "Messages of the start queue wait for ten minutes.",
        threshold=600,
    )
    accepting, cancelling = core.let_start("AcceptSettlements"), core.functions["CancelSettlement"]
    core.let_ask_recovery(cancelling)
    if settings.canary_percent:
        # While a canary shifts, the doors run the code before 0.1.0, which starts Standard.
        for name in ("StartSettlements", "AcceptSettlements"):
            core.standard.grant_start_execution(core.functions[name])
    api = api_of(core, settings)
    api.open("Start", accepting, {"Start": START_ROUTE}, START_CALLS[0])
    api.open("Cancel", cancelling, {"Cancel": CANCEL_ROUTE}, START_CALLS[1])
    starts = [api.arn(call) for call in START_CALLS]
    starter = api.policy("Starter", "What a service may do that starts settlements by HTTP: it pays", starts)
    return Added(
        part=api,
        outputs={
            "SettlementsApiUrl": api.url,
            "StarterPolicyArn": starter.ref,
            "StartQueueUrl": part.queue.queue_url,
            "StartDeadLetterQueueUrl": part.dead_letters.queue_url,
        },
        graphs={
            SETTLEMENTS: {REQUESTS: core.pager.metrics("StartRefused")},
            QUEUES: {
                "Start queue": waiting(part.queue, "waiting"),
                "Start queue, oldest in seconds": [
                    part.queue.metric_approximate_age_of_oldest_message(statistic="Maximum")
                ],
                DEAD_LETTERS: waiting(part.dead_letters, "not started"),
            },
        },
        tries=[
            allow("Doors", ["execute-api:Invoke"], starts),
            allow("Requests", ["sqs:SendMessage"], [part.queue.queue_arn]),
        ],
    )


ROOM = Room(
    build=build,
    handlers={
        "StartSettlements": START,
        "AcceptSettlements": Handler(
            rows={"GetItem": (SETTLEMENT,), "PutItem": (SETTLEMENT,)},
            names=("currency", "escrow"),
            seconds=WAITING_SECONDS,
            by_http=True,
            failure=Urgency.MORNING,
        ),
        "CancelSettlement": Handler(
            rows={"GetItem": (SETTLEMENT,), "UpdateItem": (SETTLEMENT,)},
            names=("hold_at",),
            by_http=True,
            failure=Urgency.MORNING,
        ),
    },
)
