"""Derives the permissions that machines and schedules need from definitions and targets."""

from collections.abc import Iterator
from typing import Any

from tests.infra.stack import definition, executions, functions, machines, properties

Needed = set[tuple[str, str]]
"""(action, resource) pairs."""

LOGS = {
    *("logs:CreateLogDelivery", "logs:DeleteLogDelivery", "logs:DescribeLogGroups"),
    *("logs:DescribeResourcePolicies", "logs:GetLogDelivery", "logs:ListLogDeliveries"),
    *("logs:PutResourcePolicy", "logs:UpdateLogDelivery"),
}
"""Log delivery actions of a machine, which IAM cannot scope to one resource.

https://docs.aws.amazon.com/step-functions/latest/dg/cw-logs.html
"""

TRACES = {
    *("xray:GetSamplingRules", "xray:GetSamplingTargets"),
    *("xray:PutTelemetryRecords", "xray:PutTraceSegments"),
}
"""X-Ray actions of a machine.

https://docs.aws.amazon.com/step-functions/latest/dg/concepts-xray-tracing.html
"""

SYNC_RULE = (
    "arn:${AWS::Partition}:events:${AWS::Region}:${AWS::AccountId}:rule/"
    "StepFunctionsGetEventsForStepFunctionsExecutionRule"
)
"""AWS's own rule that reports the end of an awaited execution to a machine."""

ANY_VERSION = "CDK grants a function with all of its versions. None is published, so that it allows no more."
BY_CDK = {
    ("lambda:InvokeFunction", "${RecoverStalled.Arn}:*"): ANY_VERSION,
    ("lambda:InvokeFunction", "${SealJournal.Arn}:*"): ANY_VERSION,
    ("lambda:InvokeFunction", "${ReconcileBooks.Arn}:*"): ANY_VERSION,
    ("lambda:InvokeFunction", "${ReadStatements.Arn}:*"): ANY_VERSION,
    ("lambda:InvokeFunction", "${FollowPayouts.Arn}:*"): ANY_VERSION,
    ("lambda:InvokeFunction", "${PayLines.Arn}:*"): ANY_VERSION,
    ("lambda:InvokeFunction", "${VerifyKyc.Arn}:*"): "As for those. It has versions: each has the same role.",
}
"""Needless permissions that CDK's grants add to a schedule's role, with reasons."""


def roles(stage: str) -> dict[str, Needed]:
    """Return the permissions that each role needs, except functions' roles; an unused role needs none."""
    others = {role: Needed() for role in properties(stage, "IAM::Role")}
    for function in functions(stage):
        del others[f"{function}Role"]
    for machine, own in properties(stage, "StepFunctions::StateMachine").items():
        others[_role(own["RoleArn"])] |= of_machine(stage, machine)
    for own in properties(stage, "Scheduler::Schedule").values():
        others[_role(own["Target"]["RoleArn"])] |= of_target(stage, own["Target"])
    return others


def users(stage: str, role: str) -> str:
    """Return the user of a role: a machine, or a function's schedules."""
    if role.removesuffix("Role") in machines(stage):
        return f"the machine `{role.removesuffix('Role')}`"
    (target,) = {
        own["Target"]["Arn"].strip("${}").removesuffix(".Arn")
        for own in properties(stage, "Scheduler::Schedule").values()
        if _role(own["Target"]["RoleArn"]) == role
    }
    return f"the schedules of `{target}`"


def of_machine(stage: str, machine: str) -> Needed:
    own = properties(stage, "StepFunctions::StateMachine")[machine]
    texts = own["DefinitionSubstitutions"]
    needed = {need for task in _tasks(definition(stage, machine)) for need in _of_task(task, texts)}
    if own["LoggingConfiguration"]["Level"] != "OFF":
        needed |= {(action, "*") for action in LOGS}
    if own["TracingConfiguration"]["Enabled"]:
        needed |= {(action, "*") for action in TRACES}
    return needed


def of_target(stage: str, target: dict[str, Any]) -> Needed:
    """Return a schedule's needs for its target and dead-letter queue."""
    function = target["Arn"].strip("${}").removesuffix(".Arn")
    if function not in properties(stage, "Lambda::Function"):
        raise ValueError(f"no schedule has a target such as {target['Arn']} so far: say what it needs")
    needed = {("lambda:InvokeFunction", target["Arn"])}
    if "DeadLetterConfig" in target:
        needed.add(("sqs:SendMessage", target["DeadLetterConfig"]["Arn"]))
    return needed


def _any_version(function: str) -> str:
    """Return the ARN pattern of all versions, because an execution in flight may call an earlier one."""
    return function.replace("CurrentVersion}", ".Arn}:*")


def _role(arn: str) -> str:
    return arn.strip("${}").removesuffix(".Arn")


def _tasks(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict) and part.get("Type") == "Task":
        yield part
    members = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    for member in members:
        yield from _tasks(member)


def _of_task(task: dict[str, Any], texts: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the permissions that a task needs.

    https://docs.aws.amazon.com/step-functions/latest/dg/service-integration-iam-templates.html
    """

    def named(value: str) -> str:
        return texts[value.strip("${}")] if value.startswith("${") else value

    given, resource = task["Parameters"], named(task["Resource"])
    match resource.removeprefix("arn:aws:states:::"):
        case "lambda:invoke" | "lambda:invoke.waitForTaskToken":
            yield "lambda:InvokeFunction", _any_version(named(given["FunctionName"]))
        case "events:putEvents":
            for entry in given["Entries"]:
                yield "events:PutEvents", f"{named(entry['EventBusName'])[:-1]}.Arn}}"
        case "states:startExecution":
            yield "states:StartExecution", named(given["StateMachineArn"])
        case "states:startExecution.sync:2":  # if it is stopped, it stops the other one
            other = named(given["StateMachineArn"])
            yield "states:StartExecution", other
            for action in ("states:DescribeExecution", "states:StopExecution"):
                yield action, executions(other.strip("${}"))
            for action in ("events:PutTargets", "events:PutRule", "events:DescribeRule"):
                yield action, SYNC_RULE
        case _:
            raise ValueError(f"no machine has a task such as {resource} so far: say what it needs")
