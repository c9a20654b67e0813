"""Invokes the embedded stack's functions, as their schedules do."""

import json

from settle.exit_codes import CommandFailed, Exit
from settle.stack import Stack


def name_of(stack: Stack, function: str) -> str:
    """Return a function's physical name. Its logical id is its name and CDK's hash."""
    pages = stack.client("cloudformation").get_paginator("list_stack_resources")
    return next(
        str(one["PhysicalResourceId"])
        for page in pages.paginate(StackName=stack.cloudformation)
        for one in page["StackResourceSummaries"]
        if one["ResourceType"] == "AWS::Lambda::Function" and one["LogicalResourceId"].startswith(function)
    )


def invoke(stack: Stack, function: str) -> None:
    """Invoke a function. Raises CommandFailed if it fails."""
    answer = stack.client("lambda").invoke(FunctionName=name_of(stack, function), Payload=b"{}")
    if "FunctionError" in answer:
        told = json.loads(answer["Payload"].read())
        raise CommandFailed(Exit.FAILED, f"{function}: {told.get('errorMessage')}")
