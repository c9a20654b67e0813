"""The cost of executions in DynamoDB, from the functions' logs."""

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from settle.stack import Stack

READS = frozenset({"get_item", "query"})
"""Operations that read; all others write."""


LOOK_SECONDS, LOOKS_MAX = 1, 15


@dataclass
class Cost:
    calls: int = 0
    write_units: float = 0
    read_units: float = 0

    def add(self, operation: str, *, calls: int, units: float) -> None:
        self.calls += calls
        if operation in READS:
            self.read_units += units
        else:
            self.write_units += units


def since(stack: Stack, instant: float) -> dict[str, Cost]:
    costs: dict[str, Cost] = defaultdict(Cost)
    for line in lines(stack, instant):
        for operation, used in line["dynamodb"].items():
            costs[line["execution"]].add(operation, **used)
    return costs


def lines(stack: Stack, instant: float) -> list[dict[str, Any]]:
    """Return log lines since `instant`, read until two reads agree, or LOOKS_MAX times."""
    log_groups, earlier = _function_logs(stack), None
    for _ in range(LOOKS_MAX):
        time.sleep(LOOK_SECONDS)
        found = list(_look(stack, log_groups, instant))
        if found == earlier:
            break
        earlier = found
    return found


def _look(stack: Stack, log_groups: list[str], instant: float) -> Iterator[dict[str, Any]]:
    logs = stack.client("logs").get_paginator("filter_log_events")
    for log_group in log_groups:
        pages = logs.paginate(
            logGroupName=log_group, startTime=int(instant * 1000), filterPattern='"dynamodb"'
        )
        for page in pages:
            for event in page["events"]:
                line = _parse(event["message"])
                if "dynamodb" in line:
                    yield line


def _function_logs(stack: Stack) -> list[str]:
    pages = stack.client("cloudformation").get_paginator("list_stack_resources")
    listed = pages.paginate(StackName=stack.cloudformation)
    resources = [resource for page in listed for resource in page["StackResourceSummaries"]]
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
