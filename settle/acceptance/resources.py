"""The resources of a deployed stack, by their constructs."""

from settle.stack import Stack


def physical(stack: Stack, kind: str) -> dict[str, str]:
    """Return the physical names of a kind: a logical id is the construct's name and eight digits."""
    pages = stack.client("cloudformation").get_paginator("list_stack_resources")
    return {
        resource["LogicalResourceId"][:-8]: resource["PhysicalResourceId"]
        for page in pages.paginate(StackName=stack.name)
        for resource in page["StackResourceSummaries"]
        if resource["ResourceType"] == kind
    }
