from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws_cdk import Duration, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from constructs import Construct

from .core import DEAD_LETTERS, QUEUES, Added, Core, Room
from .grants import LONG_MEMORY_MB, SETTLEMENT, Handler, allow
from .pager import Pager
from .queues import depth, let_send, new_queue, waiting
from .settings import CoreSettings
from .stream_trigger import Batches, call_by_stream, filter_stream
from .urgency import Urgency

CHANGES = {"dynamodb": {"Keys": {"pk": {"S": [{"prefix": "SETTLEMENT#"}]}}}}
"""Stream records that `events/changes.py` turns into events."""

_AGE_HOURS_MAX = 12
"""Age at which a record is given up. A replay can still publish its settlement from the table."""

_PARALLEL = 10
"""Lambda's maximum of calls per shard. All records of a row go to one call.

A shard has about 200 events a second. A call publishes about 60 to the FIFO topic.
"""

_RULES = ("DeleteRule", "PutRule", "PutTargets", "RemoveTargets")
_BEHIND_SECONDS, _LONG_BEHIND_SECONDS = 60, 6 * 3_600


@dataclass(frozen=True, kw_only=True)
class EventsSettings(CoreSettings):
    """See docs/calling/events.md."""

    ordered_events: bool = False


class Outcomes(Construct):
    """The outcome bus, the stream's batches and the dead letters.

    Only PublishEvents writes to this bus: another writer could report a payment that was never made. Pages
    have their own bus.
    """

    def __init__(self, core: Core, settings: EventsSettings) -> None:
        super().__init__(core.scope, "Outcomes")
        function, pager = core.functions["PublishEvents"], core.pager
        passed_on = [one for added in core.added for one in added.passed_on]
        self.bus = events.EventBus(self, "Bus", event_bus_name=f"{settings.stack_name}-outcomes")
        self.put_aside = new_queue(self, "PutAside", settings)
        self._filters = [CHANGES, *(one.records for one in passed_on)]
        batches = Batches(
            filters=self._filters,
            size=100,
            window=Duration.seconds(1),
            age_max=Duration.hours(_AGE_HOURS_MAX),
            parallel=_PARALLEL,
        )
        self.given_up = call_by_stream(self, core, function, batches, settings)
        let_send(function, "EVENTS_PUT_ASIDE", self.put_aside)
        function.add_environment("OUTCOME_BUS", self.bus.event_bus_name)
        function.add_to_role_policy(
            iam.PolicyStatement(actions=["events:PutEvents"], resources=[self.bus.event_bus_arn])
        )
        self.topic = self._ordered(function, pager, settings) if settings.ordered_events else None
        for one in passed_on:
            let_send(function, one.variable, one.queue)
        self.age = function.metric("IteratorAge", period=Duration.minutes(5), statistic="Maximum")
        self._watch(pager)

    def tell(self, changes: Mapping[str, Any]) -> None:
        """Let PublishEvents get the changes of a room that is built later."""
        self._filters.append(changes)
        filter_stream(self, self._filters)

    def _ordered(self, function: lambda_.Function, pager: Pager, settings: EventsSettings) -> sns.Topic:
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
                depth(queue),
                description,
                urgency=Urgency.MORNING,
            )
        pager.alarm(
            "EventsBehind",
            self.age,
            "Readers hear of outcomes, and merchants' receipts become available, a minute late.",
            threshold=_BEHIND_SECONDS * 1_000,
            urgency=Urgency.MORNING,
        )
        pager.alarm(
            "EventsLongBehind",
            self.age,
            "Readers have not heard of outcomes for six hours, and nothing was swept for merchants.",
            threshold=_LONG_BEHIND_SECONDS * 1_000,
        )


def build(core: Core, settings: EventsSettings) -> Added:
    """Build the room. The acceptance adds its own rules to the bus."""
    part = Outcomes(core, settings)
    rules = Stack.of(part).format_arn(
        service="events",
        resource="rule",
        resource_name=f"{part.bus.event_bus_name}/{core.name}-tail-*",
    )
    dead_letters = [
        *waiting(part.put_aside, "events that cannot be told"),
        *waiting(part.given_up, "events given up"),
    ]
    return Added(
        part=part,
        outputs={
            "OutcomeBusName": part.bus.event_bus_name,
            "EventsPutAsideQueueUrl": part.put_aside.queue_url,
            "EventsGivenUpQueueUrl": part.given_up.queue_url,
            **({"OrderedTopicArn": part.topic.topic_arn} if part.topic else {}),
        },
        graphs={
            QUEUES: {DEAD_LETTERS: dead_letters},
            "events": {
                "Outcome events": core.pager.metrics("EventsPublished"),
                "Outcome events behind, in ms": [part.age],
            },
        },
        tries=[allow("Rules", [f"events:{one}" for one in _RULES], [rules])],
    )


ROOM = Room(
    build=build,
    handlers={
        "PublishEvents": Handler(
            rows={"GetItem": (SETTLEMENT,)}, seconds=60, memory_mb=LONG_MEMORY_MB, failure=Urgency.MORNING
        ),
    },
    orders={"replay": "operator"},
)
