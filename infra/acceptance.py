from collections.abc import Sequence
from typing import Any

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from .core import Added, Core, Room
from .grants import allow
from .paging import PagingSettings
from .people import by_sid
from .state_machines import Machine

_OF_NO_RESOURCE = (
    *("cloudwatch:DescribeAlarms", "cloudwatch:GetMetricStatistics", "events:ListRules"),
    *("sns:Unsubscribe", "states:TestState", "states:ValidateStateMachineDefinition"),
)
"""Actions that IAM cannot scope to a resource."""

_QUEUES = (
    "CreateQueue",
    "DeleteMessage",
    "DeleteQueue",
    "GetQueueUrl",
    "ReceiveMessage",
    "SetQueueAttributes",
)


class Acceptance(Construct):
    """Policy for `settle acceptance`, which pays, pages, proposes and approves.

    It allows no writes of rows and no changes of functions. Reads are in the viewers' policy, because one
    policy for both would exceed IAM's size limit.
    """

    def __init__(self, scope: Construct, construct_id: str, *, core: Core) -> None:
        super().__init__(scope, construct_id)
        settling = (core.express, core.standard)
        statements = [
            allow(
                "Starts",
                ["states:StartExecution", "states:StartSyncExecution"],
                [one.state_machine_arn for one in settling],
            ),
            *_looks((*settling, core.compensation)),
            *(one for added in core.added for one in added.tries),
            *self._of_the_stack(core.name),
            allow("Everywhere", _OF_NO_RESOURCE, ["*"]),
        ]
        self.policy = iam.CfnManagedPolicy(
            self,
            "Policy",
            description="What settle acceptance may do with the settlement stack",
            policy_document={"Version": "2012-10-17", "Statement": by_sid(statements)},
        )

    def _of_the_stack(self, saga: str) -> list[dict[str, Any]]:
        stack = Stack.of(self)

        def arn(service: str, resource: str, region: str = stack.region) -> str:
            return f"arn:{stack.partition}:{service}:{region}:{stack.account}:{resource}"

        name = stack.stack_name
        logs = (f"{name}-*", f"/aws/cloudformation/{name}/*")  # names on AWS, and on the embedded AWS
        own = [f"{saga}-{use}-*" for use in ("tail", "pager")]  # the names that settle uses
        return [
            allow("Parts", ["cloudformation:ListStackResources"], [arn("cloudformation", f"stack/{name}/*")]),
            allow("Queues", [f"sqs:{one}" for one in _QUEUES], [arn("sqs", one) for one in own]),
            allow("Topics", ["sns:Subscribe"], [arn("sns", f"{name}-*")]),
            allow("Depths", ["sqs:GetQueueAttributes"], [arn("sqs", f"{name}-*")]),
            allow("Functions", ["lambda:GetFunctionConfiguration"], [arn("lambda", f"function:{name}-*")]),
            allow("Triggers", ["lambda:GetEventSourceMapping"], [arn("lambda", "event-source-mapping:*")]),
            allow("Logs", ["logs:FilterLogEvents"], [arn("logs", f"log-group:{one}") for one in logs]),
            allow("Roles", ["iam:SimulatePrincipalPolicy"], [arn("iam", f"role/{name}-*", "")]),
            allow(
                "Alarms",
                ["cloudwatch:DescribeAlarmHistory", "cloudwatch:SetAlarmState"],
                [arn("cloudwatch", f"alarm:{name}-*")],
            ),
        ]


def _looks(machines: Sequence[Machine]) -> list[dict[str, Any]]:
    arns = [one.state_machine_arn for one in machines]
    looks = ["states:DescribeStateMachine", "states:DescribeStateMachineAlias"]
    return [
        allow("Definitions", looks, [one for arn in arns for one in (arn, f"{arn}:*")]),
        allow(
            "Histories",
            ["states:GetExecutionHistory", "states:StopExecution"],
            [one.executions for one in machines],
        ),
    ]


def build(core: Core, settings: PagingSettings) -> Added:
    if settings.must_reach_people:
        return Added()
    return Added(outputs={"AcceptancePolicyArn": Acceptance(core.scope, "Acceptance", core=core).policy.ref})


ROOM = Room(build=build)
