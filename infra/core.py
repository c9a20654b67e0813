from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from .functions import HandlerFunction
from .grants import LONG_MEMORY_MB, SETTLEMENT, STATES, WAITING, Handler, Rows, grant_rows
from .pager import Pager
from .recovery import Recovery
from .settings import CoreSettings
from .state_machines import CompensationMachine, Machine, SettlementMachine
from .table import SettlementTable

HANDLERS: Mapping[str, Handler] = {
    **STATES,
    "RecoverStalled": Handler(
        rows={"GetItem": (SETTLEMENT, WAITING), "UpdateItem": (SETTLEMENT,)},
        names=("release_at",),
        lists=True,
        seconds=75,  # a run begins no settlement in its last 20 s: the next run is a minute away
        memory_mb=LONG_MEMORY_MB,
    ),
}

Graphs = Mapping[str, Mapping[str, Sequence[cloudwatch.IMetric]]]
"""Metrics by row name and graph title."""

QUEUES, DEAD_LETTERS = "queues", "Dead letters"
SETTLEMENTS, REQUESTS = "settlements", "Requests"
FAILED, IN_LIMBO = "Functions failed", "In LIMBO, and reviews that end within the hour"
"""Dashboard rows and graphs to which rooms add metrics."""

Part = TypeVar("Part")


@dataclass(frozen=True, kw_only=True)
class PassedOn:
    """Stream records that PublishEvents also sends to a queue."""

    records: Mapping[str, Any]
    variable: str
    queue: sqs.Queue


@dataclass(frozen=True, kw_only=True)
class Added:
    """A room's additions.

    - `part`: serves later rooms.
    - `reads`: policy statements for all people.
    - `tries`: statements for the acceptance.
    - `lets`: statements by kind of people.
    """

    part: Any = None
    outputs: Mapping[str, str] = field(default_factory=dict)
    graphs: Graphs = field(default_factory=dict)
    reads: Sequence[dict[str, Any]] = ()
    tries: Sequence[dict[str, Any]] = ()
    lets: Mapping[str, Sequence[dict[str, Any]]] = field(default_factory=dict)
    passed_on: Sequence[PassedOn] = ()


@dataclass(frozen=True, kw_only=True)
class Core:
    """The core of a stage, and the rooms built so far.

    `name` is the prefix of physical names.
    """

    name: str
    scope: Construct
    ledger: SettlementTable
    pager: Pager
    environment: Mapping[str, str]
    handlers: Mapping[str, Handler]
    functions: Mapping[str, HandlerFunction]
    orders: Mapping[str, str]
    express: SettlementMachine
    standard: SettlementMachine
    compensation: Machine
    added: list[Added] = field(default_factory=list)

    def part(self, kind: type[Part]) -> Part | None:
        return next((one.part for one in self.added if isinstance(one.part, kind)), None)

    def needed(self, kind: type[Part]) -> Part:
        """Return the part of class `kind`. Raises ValueError if missing."""
        found = self.part(kind)
        if found is None:
            raise ValueError(f"rooms: {kind.__name__} is missing, which a later room needs")
        return found

    def let_call(self, caller: lambda_.Function, variable: str, name: str) -> None:
        """Let `caller` call the function `name`; the caller's environment `variable` gets the ARN."""
        let_call(caller, variable, self.functions[name])

    def let_ask_recovery(self, caller: lambda_.Function) -> None:
        self.let_call(caller, "RECOVER_STALLED", "RecoverStalled")

    def let_start(self, name: str) -> HandlerFunction:
        """Let the function `name` start Express executions. Recovery resumes settlements that do not end."""
        self.express.startable_by(self.functions[name], "EXPRESS_MACHINE")
        return self.functions[name]


@dataclass(frozen=True, kw_only=True)
class Room:
    """A capability beside the core.

    - `build`: gets the core with the room's functions.
    - `widens`: rows that other rooms' functions touch for this room.
    - `orders`: this room's orders, with the people who may give them.
    """

    build: Callable[[Core, Any], Added]
    handlers: Mapping[str, Handler] = field(default_factory=dict)
    widens: Mapping[str, Mapping[str, Rows]] = field(default_factory=dict)
    orders: Mapping[str, str] = field(default_factory=dict)


def let_call(caller: lambda_.Function, variable: str, called: lambda_.Function) -> None:
    """Let `caller` call a function that not every stage has: see `Core.let_call`."""
    arn = called.function_arn
    caller.add_environment(variable, arn)
    caller.add_to_role_policy(iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[arn]))


def build_core(
    scope: Construct, settings: CoreSettings, handlers: Mapping[str, Handler], orders: Mapping[str, str]
) -> Core:
    ledger = SettlementTable(scope, "Ledger", settings=settings)
    pager = Pager(scope, "Pager", settings=settings)
    environment = {
        "TABLE_NAME": ledger.table.table_name,
        "STAGE_CONFIG": settings.stage_config,
        "PAGER": settings.pager,
        "POWERTOOLS_LOG_LEVEL": "INFO",
        "POWERTOOLS_SERVICE_NAME": settings.stack_name,
    }
    functions = {
        name: HandlerFunction(scope, name, handler, settings=settings, environment=environment)
        for name, handler in handlers.items()
    }
    grant_rows(ledger, functions, handlers)
    compensation = CompensationMachine(
        scope, "Compensation", bus=pager.bus, functions=functions, settings=settings
    )
    pager.watch(compensation)
    express, standard = (
        SettlementMachine(
            scope,
            construct_id,
            machine_type=machine_type,
            compensation=compensation,
            functions=functions,
            settings=settings,
        )
        for construct_id, machine_type in (
            ("SettlementExpress", sfn.StateMachineType.EXPRESS),
            ("SettlementStandard", sfn.StateMachineType.STANDARD),
        )
    )
    core = Core(
        name=settings.stack_name,
        scope=scope,
        ledger=ledger,
        pager=pager,
        environment=environment,
        handlers=handlers,
        functions=functions,
        orders=orders,
        express=express,
        standard=standard,
        compensation=compensation,
    )
    # Recovery overflows to Express: after an outage, settlements exceed the account's quota of Standard
    # starts. See docs/decisions/2026-11-22-recovery-at-scale.md.
    recovery = core.let_start("RecoverStalled")
    standard.startable_by(recovery, "SETTLEMENT_MACHINE")
    compensation.startable_by(recovery, "COMPENSATION_MACHINE")
    compensation.describable_by(recovery)
    Recovery(scope, "Recovery", function=recovery, pager=pager, settings=settings)
    return core


def outputs_of(core: Core, settings: CoreSettings) -> dict[str, str]:
    found = {
        "TableName": core.ledger.table.table_name,
        "SettlementExpressArn": core.express.state_machine_arn,
        "SettlementStandardArn": core.standard.state_machine_arn,
        "CompensationArn": core.compensation.state_machine_arn,
        "EventBusName": core.pager.bus.event_bus_name,
        "StageConfig": settings.stage_config,
    }
    for topic in core.pager.topics.values():
        found[f"{topic.node.id if topic.node.id != 'Topic' else 'PagerTopic'}Arn"] = topic.topic_arn
    for one in core.added:
        found |= one.outputs
    return found
