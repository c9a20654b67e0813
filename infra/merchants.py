from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from .core import DEAD_LETTERS, QUEUES, Added, Core, PassedOn, Room
from .functions import function_seconds
from .grants import LONG_MEMORY_MB, Handler
from .queues import RECEIVES, depth, let, let_send, new_queue, waiting
from .settings import CoreSettings
from .urgency import Urgency

SWEPT, MERCHANT_ENTRIES, MERCHANT = "SWEPT#*", "ENTRIES#merchant.*", "ACCOUNT#merchant.*"
RELEASES = {
    "eventName": ["INSERT"],
    "dynamodb": {
        "Keys": {"pk": {"S": [{"prefix": "ENTRIES#merchant."}]}},
        "NewImage": {"step": {"S": ["release"]}},
    },
}
"""Filter for releases to merchants. `core/ledger/keys.py` has their keys."""

SWEEP = Handler(
    rows={"GetItem": (SWEPT, MERCHANT), "Query": (MERCHANT_ENTRIES,), "Put": (SWEPT,), "Update": (MERCHANT,)},
    names=("available", "currency"),
    seconds=60,
    memory_mb=LONG_MEMORY_MB,
    failure=Urgency.MORNING,
)

RECEIVES_MAX = 10
"""Receives of a message. They cover about fifteen minutes of an outage."""

VISIBILITY_MARGIN_SECONDS = 30
"""Seconds added to the function's timeout. The sum is the delay before a retry."""

_BATCH_MAX = 100
"""Messages per call. A call sweeps a merchant once for all messages of one minute."""

_BEHIND_SECONDS = 150
"""Age of a message at which a person must look.

Three receives without success take at least three minutes. Afterwards, SQS omits the message from this age.
"""


class Merchants(Construct):
    """The queue of releases from PublishEvents, and its dead letters. A repeated message does no harm."""

    def __init__(self, core: Core, settings: CoreSettings) -> None:
        super().__init__(core.scope, "Merchants")
        function, pager = core.functions["SweepMerchants"], core.pager
        self.given_up = new_queue(self, "GivenUp", settings)
        seconds = function_seconds(SWEEP, settings) + VISIBILITY_MARGIN_SECONDS
        self.queue = new_queue(
            self,
            "Releases",
            settings,
            visibility_timeout=Duration.seconds(seconds),
            dead_letter_queue=sqs.DeadLetterQueue(queue=self.given_up, max_receive_count=RECEIVES_MAX),
        )
        let(function, RECEIVES, self.queue)
        let_send(function, "SWEEPS_PUT_ASIDE", self.given_up)
        lambda_.EventSourceMapping(
            self,
            "Messages",
            target=function,
            event_source_arn=self.queue.queue_arn,
            batch_size=_BATCH_MAX,
            max_batching_window=Duration.seconds(1),
            report_batch_item_failures=True,
            max_concurrency=2,  # several calls for one merchant would race on its balance
        )
        pager.alarm(
            "SweepsGivenUp",
            depth(self.given_up),
            "What a merchant has received is not available, and no sweep will come to it by itself.",
            urgency=Urgency.MORNING,
        )
        self.age = self.queue.metric_approximate_age_of_oldest_message(
            period=Duration.minutes(1), statistic="Maximum"
        )
        pager.alarm(
            "SweepBehind",
            self.age,
            "What merchants receive becomes available minutes late.",
            threshold=_BEHIND_SECONDS,
            urgency=Urgency.MORNING,
        )


def build(core: Core, settings: CoreSettings) -> Added:
    part = Merchants(core, settings)
    return Added(
        outputs={"SweepsGivenUpQueueUrl": part.given_up.queue_url},
        graphs={
            QUEUES: {DEAD_LETTERS: waiting(part.given_up, "sweeps given up")},
            "merchants": {
                "Sweeps of merchants": core.pager.metrics("MerchantSwept"),
                "Releases that wait for their sweep": waiting(part.queue, "waiting"),
                "Sweeps behind, in seconds": [part.age],
            },
        },
        passed_on=[PassedOn(records=RELEASES, variable="SWEEPS", queue=part.queue)],
    )


ROOM = Room(
    build=build,
    handlers={"SweepMerchants": SWEEP},
    widens={
        "ReclaimFunds": {"GetItem": (SWEPT, MERCHANT), "Query": (MERCHANT_ENTRIES,), "Put": (SWEPT,)},
        "TakeOrder": {"GetItem": (SWEPT,), "Query": (MERCHANT_ENTRIES, SWEPT), "Put": (SWEPT,)},
    },
    orders={"sweep": "operator"},
)
