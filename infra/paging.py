from dataclasses import dataclass
from typing import cast

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs

from .core import DEAD_LETTERS, QUEUES, Added, Core, Room
from .grants import Handler
from .pager import subscribe
from .queues import depth, let, waiting
from .settings import CoreSettings
from .urgency import Urgency

_EVENTS = ("LimboEntered", "LimboResolved", "GlassBroken")
"""Events for SendPage: `paging/page.py` decides which of them page."""

_AGE_MAX = Duration.minutes(15)
"""Age at which an event sets off an alarm instead, because a later page helps no one."""


@dataclass(frozen=True, kw_only=True)
class PagingSettings(CoreSettings):
    """Addresses of people: see docs/decisions/2026-11-22-pages.md."""

    page_address: str | None = None
    notice_address: str | None = None
    must_reach_people: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_address("page_address", "notice_address")

    def ensure_reaches_people(self) -> None:
        """Raise ValueError, with the setting, if pages reach no person or lack a runbook."""
        if not self.must_reach_people:
            return
        if self.page_address is None:
            raise ValueError(
                "page_address: name the address that is paged; pass it as -c page_address=oncall@<host>"
            )
        if not self.runbooks.startswith("https://"):
            raise ValueError(
                "runbooks: name the HTTPS address of your runbooks; pass it as -c runbooks=https://<host>"
            )


def build(core: Core, settings: PagingSettings) -> Added:
    """Let SendPage report the bus's events, and subscribe the addresses.

    An event goes to the queue if it fails three times or cannot reach SendPage.
    """
    pager, function = core.pager, core.functions["SendPage"]
    for urgency, topic in pager.topics.items():
        address = settings.page_address if urgency is Urgency.NOW else settings.notice_address
        if address is not None:
            subscribe(topic, address)
    undelivered = sqs.Queue(
        pager,
        "Undelivered",
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        retention_period=Duration.days(14),
        removal_policy=settings.removal_policy,
    )
    pager.alarm(
        "AlertUndelivered",
        depth(undelivered),
        "A page could not be sent to people. Its event is in the dead-letter queue.",
    )
    events.Rule(
        pager,
        "Rule",
        event_bus=pager.bus,
        event_pattern=events.EventPattern(source=["settlement"], detail_type=list(_EVENTS)),
        targets=[targets.LambdaFunction(function, dead_letter_queue=undelivered, max_event_age=_AGE_MAX)],
    )
    function.configure_async_invoke(
        retry_attempts=2,
        max_event_age=_AGE_MAX,
    )
    # CDK's SqsDestination would also let the function look at the queue.
    config = cast(
        "lambda_.CfnEventInvokeConfig", function.node.find_child("EventInvokeConfig").node.default_child
    )
    of_config = lambda_.CfnEventInvokeConfig
    config.destination_config = of_config.DestinationConfigProperty(
        on_failure=of_config.OnFailureProperty(destination=undelivered.queue_arn)
    )
    for variable, urgency in (("PAGE_TOPIC", Urgency.NOW), ("INFORMATION_TOPIC", Urgency.INFORMATION)):
        function.add_environment(variable, pager.topics[urgency].topic_arn)
    pager.let_publish(function, [pager.topics[Urgency.NOW], pager.topics[Urgency.INFORMATION]])
    let(function, ["SendMessage"], undelivered)
    return Added(graphs={QUEUES: {DEAD_LETTERS: waiting(undelivered, "alerts not delivered")}})


ROOM = Room(
    build=build,
    handlers={
        "SendPage": Handler(reaches_table=False, failure=Urgency.NOW),
    },
)
