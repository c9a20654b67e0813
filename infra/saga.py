import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from aws_cdk import Aws, CfnOutput, CfnRule, CfnRuleAssertion, Fn, Stack, Tags
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from .alarms import watch
from .assets import CDK_JSON
from .checks import Check
from .checks import room as checks_room
from .config import Settings, embedded
from .core import Room, build_core, outputs_of
from .dashboard import Dashboard
from .http_api import START_CALLS
from .rooms import ROOMS, handlers_of, orders_of

EMBEDDED = "settlement-saga:embedded"
"""The context by which `settle local deploy` puts any app on the embedded AWS."""

_ALONE = "Default"
"""The id of a saga whose logical ids have no prefix."""


_ID = re.compile(r"[A-Za-z][A-Za-z0-9]{0,23}")
"""The construct's id. Names of machines begin with it; X-Ray's rules take 64 characters of them."""

_EMBEDDED_ACCOUNT = "000000000000"
_FLAGS = {
    name: value
    for name, value in json.loads(CDK_JSON.read_text("utf-8"))["context"].items()
    if name.startswith("@aws-cdk/")
}
"""CDK's feature flags of the tested templates. Another app may have others."""


def _embedded(settings: Settings, given: Any) -> Settings:
    try:
        return embedded(settings, **json.loads(given))
    except (TypeError, json.JSONDecodeError):
        raise ValueError(f"{EMBEDDED}: only `settle local deploy` gives this context") from None


class SettlementSaga(Construct):
    """Settles payments in a stack, with its own table, machines, alarms and APIs.

    `settings` come from `dev(...)` or `prod(...)`. All physical names have their `stage`, so each saga of an
    account and region needs its own. `settle --stack STACK/ID` selects the saga. For the id `Default`, use
    `--stack STACK`.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: Settings,
        rooms: Sequence[Room] = ROOMS,
        checks: Sequence[Check] = (),
    ) -> None:
        """Raise ValueError for a faulty check, or if another saga of the app has the same `stage`."""
        super().__init__(scope, construct_id)
        if checks:
            rooms = (*rooms, checks_room(checks))
        if not isinstance(settings, Settings):
            raise ValueError(f"{self.node.path}: settings: must come from dev(...) or prod(...)")
        stack = Stack.of(self)
        if self.node.scope is not stack or not _ID.fullmatch(construct_id):
            raise ValueError(f"{self.node.path}: must be a stack's child, of up to 24 letters and digits")
        for flag, value in _FLAGS.items():
            self.node.set_context(flag, value)
        if given := self.node.try_get_context(EMBEDDED):
            settings = _embedded(settings, given)
        if settings.is_embedded:
            self._refuse_aws()
        elif settings.keeps_data:
            stack.termination_protection = True
        self.name = settings.stage
        self._check_name(settings.stage)
        is_alone = construct_id == _ALONE
        if not settings.is_embedded:  # the embedded AWS has no bill
            for name, value in settings.tags.items():
                Tags.of(stack if is_alone else self).add(name, value)
        prefix = "" if is_alone else construct_id
        settings = replace(settings, told="/".join(filter(None, (stack.stack_name, prefix))))
        self._core = build_core(self, settings, handlers_of(rooms), orders_of(rooms))
        for room in rooms:
            self._core.added.append(room.build(self._core, settings))
        watch(self._core, settings=settings)
        Dashboard(self, "Dashboard", self._core)
        for name, value in outputs_of(self._core, settings).items():
            CfnOutput(self, name, value=value).override_logical_id(f"{prefix}{name}")

    @property
    def outcome_bus(self) -> events.IEventBus:
        """The bus of outcome events, for your own rules."""
        bus: events.IEventBus = self._part("Outcomes").bus
        return bus

    @property
    def topics(self) -> dict[str, sns.ITopic]:
        """The topics of pages and notices. The keys are the urgencies "now", "morning" and "information"."""
        return {urgency.name.lower(): topic for urgency, topic in self._core.pager.topics.items()}

    @property
    def start_queue(self) -> sqs.IQueue:
        queue: sqs.IQueue = self._part("Start").queue
        return queue

    @property
    def settlements_api_url(self) -> str:
        """The address of the services' HTTP API."""
        return str(self._part("Settlements").url)

    def grant_start(self, grantee: iam.IGrantable) -> None:
        """Let a service start settlements in every way, and cancel them by HTTP."""
        for machine in (self._core.express, self._core.standard):
            machine.grant_start_execution(grantee)
        self._core.express.grant_start_sync_execution(grantee)
        self.start_queue.grant_send_messages(grantee)
        self._grant_calls(grantee, START_CALLS)

    def grant_read(self, grantee: iam.IGrantable) -> None:
        """Let a service read settlements and accounts by HTTP, and payouts if the stage has some."""
        self._grant_calls(grantee, self._part("Settlements").read_calls)

    def grant_order(self, role: iam.IRole, kind: str) -> None:
        """Allow a role to read, and to give the orders of `kind`.

        `kind` is viewer, operator, approver or break-glass. Raises ValueError for others.
        """
        policies = self._part("People").policies
        if kind not in policies:
            raise ValueError(f"kind: must be one of {', '.join(policies)}")
        name = f"{role.node.addr}{kind}"
        role.add_managed_policy(iam.ManagedPolicy.from_managed_policy_arn(self, name, policies[kind].ref))

    def _grant_calls(self, grantee: iam.IGrantable, calls: Sequence[str]) -> None:
        iam.Grant.add_to_principal(
            grantee=grantee,
            actions=["execute-api:Invoke"],
            resource_arns=[self._part("Settlements").arn(call) for call in calls],
        )

    def _part(self, name: str) -> Any:
        found = self.node.try_find_child(name)
        if found is None:
            raise ValueError(f"rooms: {name} is left out of this saga")
        return found

    def _refuse_aws(self) -> None:
        """Refuse real accounts: the embedded settings would delete a stage's data."""
        is_embedded = Fn.condition_equals(Aws.ACCOUNT_ID, _EMBEDDED_ACCOUNT)
        told = "The embedded AWS's settings are for no other account: leave out its context, or stage=local."
        CfnRule(
            self,
            "OnlyOnTheEmbeddedAws",
            assertions=[CfnRuleAssertion(assert_=is_embedded, assert_description=told)],
        )

    def _check_name(self, name: str) -> None:
        """Raise ValueError for a second saga with this name in an account and region.

        The second saga's deployment would fail half-way.
        """
        others = (one for one in self.node.root.node.find_all() if isinstance(one, SettlementSaga))
        place = Stack.of(self).environment
        for other in others:
            if other is not self and other.name == name and Stack.of(other).environment == place:
                raise ValueError(f"stage: {other.node.path} has {name} already; give each saga its own")
