"""The outcome events: a bus of their own, the stream's records that make them, and what cannot be told."""

from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.merchants import RELEASES
from infra.pager import Pager
from infra.queues import let_send, new_queue
from infra.settings import CoreSettings
from infra.stream_trigger import Batches, call_by_stream
from infra.table import SettlementTable

CHANGES = {"dynamodb": {"Keys": {"pk": {"S": [{"prefix": "SETTLEMENT#"}]}}}}
"""The records of settlements' rows, of which `policy/events.py` makes events."""

_AGE_HOURS_MAX = 12
"""The age at which a record is given up. The table still has each settlement, so that a replay tells it."""

_PARALLEL = 10
"""The calls for one stretch of the stream at once: the most that Lambda makes, each for rows of its own. A
stretch has some two hundred events a second, and one call publishes some sixty in order to the topic.
"""

_BEHIND_SECONDS, _LONG_BEHIND_SECONDS = 60, 6 * 3_600


@dataclass(frozen=True, kw_only=True)
class EventsSettings(CoreSettings):
    """The outcome events.

    `ordered_events` adds a FIFO topic with the outcome events of each settlement in their order: see
    docs/calling/events.md.
    """

    ordered_events: bool = False


class Outcomes(Construct):
    """The bus, the stream's batches for PublishEvents, and the queues of what no reader hears.

    The bus is not that of the pages: who may put an event there could tell a caller of a payment that was
    never made. No function but PublishEvents may put one here.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        function: lambda_.Function,
        ledger: SettlementTable,
        pager: Pager,
        settings: EventsSettings,
    ) -> None:
        super().__init__(scope, construct_id)
        self.bus = events.EventBus(self, "Bus", event_bus_name=f"{settings.stack_name}-outcomes")
        self.put_aside = new_queue(self, "PutAside", settings)
        batches = Batches(
            filters=[CHANGES, RELEASES],
            size=100,
            window=Duration.seconds(1),
            age_max=Duration.hours(_AGE_HOURS_MAX),
            parallel=_PARALLEL,
        )
        self.given_up = call_by_stream(self, batches, function=function, ledger=ledger, settings=settings)
        let_send(function, "EVENTS_PUT_ASIDE", self.put_aside)
        function.add_environment("OUTCOME_BUS", self.bus.event_bus_name)
        function.add_to_role_policy(
            iam.PolicyStatement(actions=["events:PutEvents"], resources=[self.bus.event_bus_arn])
        )
        self.topic = self._ordered(function, pager, settings) if settings.ordered_events else None
        self.age = function.metric("IteratorAge", period=Duration.minutes(5), statistic="Maximum")
        self._watch(pager)

    def _ordered(self, function: lambda_.Function, pager: Pager, settings: EventsSettings) -> sns.Topic:
        """Return the topic that keeps the events of each settlement in their order."""
        topic = sns.Topic(
            self,
            "Ordered",
            fifo=True,
            fifo_throughput_scope=sns.FifoThroughputScope.MESSAGE_GROUP,
            master_key=pager.key,
            enforce_ssl=not settings.is_embedded,  # the embedded AWS speaks plain HTTP
        )
        function.add_environment("ORDERED_TOPIC", topic.topic_arn)
        pager.let_publish(function, [topic])
        return topic

    def _watch(self, pager: Pager) -> None:
        for name, queue, description in (
            ("EventsPutAside", self.put_aside, "A settlement has changed as no event can tell."),
            ("EventsGivenUp", self.given_up, "Readers will not hear of settlements: replay them."),
        ):
            pager.alarm(
                name,
                queue.metric_approximate_number_of_messages_visible(
                    period=Duration.minutes(1), statistic="Maximum"
                ),
                description,
            )
        pager.alarm(
            "EventsBehind",
            self.age,
            "Readers hear of outcomes, and merchants' receipts become available, a minute late.",
            threshold=_BEHIND_SECONDS * 1_000,
        )
        pager.alarm(
            "EventsLongBehind",
            self.age,
            "Readers have not heard of outcomes for six hours, and nothing was swept for merchants.",
            threshold=_LONG_BEHIND_SECONDS * 1_000,
        )
