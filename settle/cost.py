"""What executions cost in DynamoDB, as the functions' own logs tell it."""

import json
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from settle.stack import Stack


@dataclass
class Cost:
    """DynamoDB calls, and the capacity units that the answers reported."""

    calls: int = 0
    units: float = 0


def by_execution(stack: Stack, since_ms: int) -> dict[str, Cost]:
    """The cost of each execution since an instant (Unix time, milliseconds)."""
    costs: dict[str, Cost] = defaultdict(Cost)
    logs = stack.client("logs").get_paginator("filter_log_events")
    for log_group in _function_logs(stack):
        for page in logs.paginate(logGroupName=log_group, startTime=since_ms, filterPattern='"dynamodb"'):
            for event in page["events"]:
                line = _parse(event["message"])
                if line.get("message") == "dynamodb":
                    cost = costs[line["execution"]]
                    cost.calls += 1
                    cost.units += line["capacity_units"]
    return costs


def _function_logs(stack: Stack) -> list[str]:
    pages = stack.client("cloudformation").get_paginator("list_stack_resources")
    resources = [r for page in pages.paginate(StackName=stack.name) for r in page["StackResourceSummaries"]]
    functions = [r for r in resources if r["ResourceType"] == "AWS::Lambda::Function"]
    lambda_ = stack.client("lambda")
    return [
        lambda_.get_function_configuration(FunctionName=function["PhysicalResourceId"])["LoggingConfig"][
            "LogGroup"
        ]
        for function in functions
    ]


def _parse(message: str) -> dict[str, Any]:
    try:
        line = json.loads(message)
    except ValueError:
        return {}
    return line if isinstance(line, dict) else {}
