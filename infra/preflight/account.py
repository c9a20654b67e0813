from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from ..concurrency import UNRESERVED_MIN
from ..functions import ARCHITECTURE, RUNTIME, layer_parameter
from .finding import Account, Finding, Verdict, absent

BOOTSTRAP_PARAMETER = "/cdk-bootstrap/hnb659fds/version"
BOOTSTRAP_MIN = 30
"""First bootstrap version whose deployment role has DescribeEvents, which shows a validation's failures."""


def bootstrap(account: Account) -> Iterator[Finding]:
    found = _parameter(account, BOOTSTRAP_PARAMETER)
    region = account.session.region_name
    if found is None:
        yield Finding(
            "bootstrap", Verdict.LACKING, f"CDK is not bootstrapped in {region}", "run `cdk bootstrap`"
        )
    elif int(found) < BOOTSTRAP_MIN:
        yield Finding(
            "bootstrap",
            Verdict.LACKING,
            f"CDK's bootstrap stack has version {found}, and needs {BOOTSTRAP_MIN}",
            "run `cdk bootstrap` again",
        )
    else:
        yield Finding("bootstrap", Verdict.FINE, f"CDK's bootstrap stack has version {found}")


def layer(account: Account) -> Iterator[Finding]:
    """Check the configured layer, or AWS's layer in the tests' version."""
    name = layer_parameter()
    found, given = _parameter(account, name), account.plan.powertools_layer
    if given is not None:
        yield _configured_layer(account, given, found)
    elif found:
        yield Finding("layer", Verdict.FINE, found)
    else:
        yield Finding(
            "layer",
            Verdict.LACKING,
            f"{account.session.region_name} has no parameter {name}",
            "name a layer's ARN by powertools_layer, in this region, of the same version",
        )


def _configured_layer(account: Account, given: str, found: str | None) -> Finding:
    do = f"name a layer of the version in {layer_parameter()}, or leave out powertools_layer"
    if found not in (None, given):
        return Finding("layer", Verdict.LACKING, f"{given} is not {found}, the tests' version", do)
    try:
        answer = account.client("lambda").get_layer_version_by_arn(Arn=given)
    except ClientError as error:
        if not absent(error, "ResourceNotFoundException"):
            raise
        return Finding("layer", Verdict.LACKING, f"there is no layer {given}", do)
    fits = RUNTIME.name in answer.get("CompatibleRuntimes", ()) and ARCHITECTURE.name in answer.get(
        "CompatibleArchitectures", ()
    )
    if not fits:
        told = f"{given} is not for {RUNTIME.name} on {ARCHITECTURE.name}"
        return Finding("layer", Verdict.LACKING, told, do)
    return Finding("layer", Verdict.FINE, f"{given}, as configured")


def concurrency(account: Account) -> Iterator[Finding]:
    wanted = account.plan.reserved
    functions = account.client("lambda")
    limit = functions.get_account_settings()["AccountLimit"]
    quota, free = limit["ConcurrentExecutions"], limit["UnreservedConcurrentExecutions"]
    free += sum(_reserved(account, functions))
    if quota < wanted + UNRESERVED_MIN:
        yield Finding(
            "concurrency",
            Verdict.LACKING,
            f"the stage, with {wanted} reserved, needs a quota of {wanted + UNRESERVED_MIN}"
            f" concurrent executions, and the account has {quota}",
            "ask AWS for the quota (Lambda, Concurrent executions), or reserve less by `concurrency`",
        )
    elif not wanted:
        yield Finding("concurrency", Verdict.FINE, f"the stage reserves none of the quota of {quota}")
    elif free - wanted < UNRESERVED_MIN:
        yield Finding(
            "concurrency",
            Verdict.LACKING,
            f"the stage reserves {wanted}, and of the quota of {quota} other functions leave {free},"
            f" of which Lambda keeps {UNRESERVED_MIN}",
            "ask AWS for a larger quota, or take reservations from other functions",
        )
    else:
        yield Finding("concurrency", Verdict.FINE, f"the quota of {quota} bears the {wanted}")


def _reserved(account: Account, functions: Any) -> Iterator[int]:
    """Yield the saga's own reservations, which count as free."""
    pages = account.client("cloudformation").get_paginator("list_stack_resources")
    try:
        listed = [
            one["PhysicalResourceId"]
            for page in pages.paginate(StackName=account.plan.stack)
            for one in page["StackResourceSummaries"]
            if one["ResourceType"] == "AWS::Lambda::Function"
            and "PhysicalResourceId" in one
            and one["LogicalResourceId"].startswith(account.plan.saga)
        ]
    except ClientError as error:
        if not absent(error, "ValidationError"):
            raise
        return
    for name in listed:
        try:
            answer = functions.get_function_concurrency(FunctionName=name)
        except ClientError as error:
            if not absent(error, "ResourceNotFoundException"):
                raise
            continue
        yield answer.get("ReservedConcurrentExecutions", 0)


def _parameter(account: Account, name: str) -> str | None:
    try:
        found = account.client("ssm").get_parameter(Name=name)
    except ClientError as error:
        if not absent(error, "ParameterNotFound"):
            raise
        return None
    return str(found["Parameter"]["Value"])
