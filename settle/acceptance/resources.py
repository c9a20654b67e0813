from settle.stack import Stack


def physical(stack: Stack, kind: str) -> dict[str, str]:
    """Return the ids of one type's resources by construct, which is the logical id without its hash."""
    pages = stack.client("cloudformation").get_paginator("list_stack_resources")
    return {
        resource["LogicalResourceId"][:-8].removeprefix(stack.saga): resource["PhysicalResourceId"]
        for page in pages.paginate(StackName=stack.cloudformation)
        for resource in page["StackResourceSummaries"]
        if resource["ResourceType"] == kind and resource["LogicalResourceId"].startswith(stack.saga)
    }
