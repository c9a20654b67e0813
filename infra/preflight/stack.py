import json
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError

from ..http_api import ACCESS_LOGS
from ..state_machines import MACHINE_LOGS
from .finding import Account, Finding, Verdict, absent
from .guard import faults

_GONE = "DELETE_COMPLETE"
_REVIEWED = "REVIEW_IN_PROGRESS"
_NEVER_CREATED = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", "CREATE_FAILED", _REVIEWED)


def state(account: Account) -> Iterator[Finding]:
    name = account.plan.stack
    found = _described(account)
    if found is None:
        yield Finding("stack", Verdict.FINE, f"{name} is not deployed yet")
        return
    status = found["StackStatus"]
    if status == _REVIEWED:
        yield Finding(
            "stack",
            Verdict.LACKING,
            f"{name} is {status}: a change set, such as that of an interrupted validation, and no resource",
            f"if no person reviews it, run `aws cloudformation delete-stack --stack-name {name}`",
        )
    elif status in _NEVER_CREATED:
        yield Finding(
            "stack",
            Verdict.LACKING,
            f"{name} is {status}: its creation has failed",
            f"run `aws cloudformation update-termination-protection --no-enable-termination-protection"
            f" --stack-name {name}`, then `aws cloudformation delete-stack --stack-name {name}`",
        )
    elif status.endswith("_IN_PROGRESS") or status.endswith("_FAILED"):
        yield Finding(
            "stack",
            Verdict.LACKING,
            f"{name} is {status}",
            "wait for its end"
            if status.endswith("_IN_PROGRESS")
            else f"run `aws cloudformation continue-update-rollback --stack-name {name}`",
        )
    else:
        yield Finding("stack", Verdict.FINE, f"{name} is {status}")


def names(account: Account) -> Iterator[Finding]:
    if _described(account) is not None:
        return
    name = account.plan.name
    taken = [*_buses(account, name), *_log_groups(account, name)]
    if taken:
        yield Finding(
            "names",
            Verdict.LACKING,
            f"there is {', '.join(taken)} already, and no stack",
            "look whose it is, and delete it or name another stage",
        )
    else:
        yield Finding("names", Verdict.FINE, "those that a new stack takes are free")


def exponents(account: Account) -> Iterator[Finding]:
    """Compare the currencies with the deployed stack's.

    Another exponent changes existing amounts. Without its currency, a row is unreadable.
    """
    outputs = _outputs(account)
    if outputs is None:
        return
    if "StageConfig" not in outputs:
        yield Finding(
            "currencies",
            Verdict.UNKNOWN,
            "the stack has no output StageConfig, so its exponents are unknown",
            "compare the settings with the deployed functions' STAGE_CONFIG",
        )
        return
    deployed: dict[str, int] = json.loads(outputs["StageConfig"])["currencies"]
    found = list(changed(deployed, account.plan.exponents))
    for each in found:
        yield Finding("currencies", Verdict.LACKING, each, "put it back into the settings as it was")
    if not found:
        yield Finding("currencies", Verdict.FINE, "every currency and asset keeps its exponent")


def changed(deployed: Mapping[str, int], planned: Mapping[str, int]) -> Iterator[str]:
    for code, exponent in sorted(deployed.items()):
        if code not in planned:
            yield f"{code} is deployed with the exponent {exponent}, and must stay"
        elif planned[code] != exponent:
            yield f"{code} is deployed with the exponent {exponent}, and must not get {planned[code]}"


def data(account: Account) -> Iterator[Finding]:
    """Compare an app's template with the deployed one. For a stage, the guard is a separate step."""
    if account.plan.template is None or _outputs(account) is None:
        return
    answer = account.client("cloudformation").get_template(StackName=account.plan.stack)
    found = list(faults(answer["TemplateBody"], account.plan.template))
    if found:
        do = "deploy it as it was: no data moves to another resource"
        yield Finding("data", Verdict.LACKING, "; ".join(found), do)
    else:
        yield Finding("data", Verdict.FINE, "the table, the keys and the journal stay as they are")


def secrets(account: Account) -> Iterator[Finding]:
    """Check that the provider's API key was stored. A new stack has a random key."""
    outputs = _outputs(account)
    if outputs is None or "KycCredentialsArn" not in outputs:
        return
    secret = account.client("secretsmanager").describe_secret(SecretId=outputs["KycCredentialsArn"])
    if len(secret.get("VersionIdsToStages", ())) > 1:
        yield Finding("secrets", Verdict.FINE, "the provider's API key was stored")
    else:
        yield Finding(
            "secrets",
            Verdict.LACKING,
            "the provider's API key is the random one that the stack was created with",
            f"run `aws secretsmanager put-secret-value --secret-id {outputs['KycCredentialsArn']}"
            """ --secret-string '{"api_key": "…"}'`""",
        )


def pages(account: Account) -> Iterator[Finding]:
    yield from _reached(account, "pages", "PagerTopicArn", "page_address")


def finance(account: Account) -> Iterator[Finding]:
    yield from _reached(account, "finance", "FinanceTopicArn", "finance_address")


def _reached(account: Account, check: str, output: str, setting: str) -> Iterator[Finding]:
    outputs = _outputs(account)
    if outputs is None or output not in outputs:
        return
    listed = account.client("sns").get_paginator("list_subscriptions_by_topic")
    found = [one for page in listed.paginate(TopicArn=outputs[output]) for one in page["Subscriptions"]]
    waiting = [one["Endpoint"] for one in found if one["SubscriptionArn"] == "PendingConfirmation"]
    if waiting:
        yield Finding(
            check,
            Verdict.LACKING,
            f"{', '.join(sorted(waiting))} has not confirmed the subscription to {output}",
            "open the mail of AWS Notifications, and confirm",
        )
    elif found:
        yield Finding(check, Verdict.FINE, f"{len(found)} confirmed subscription(s) to {output}")
    else:
        yield Finding(
            check, Verdict.LACKING, f"{output} reaches no one", f"name one by {setting}, and deploy"
        )


def _described(account: Account) -> dict[str, Any] | None:
    try:
        answer = account.client("cloudformation").describe_stacks(StackName=account.plan.stack)
    except ClientError as error:
        if "does not exist" in error.response["Error"].get("Message", ""):
            return None
        raise
    found: dict[str, Any] = answer["Stacks"][0]
    return None if found["StackStatus"] == _GONE else found


def _outputs(account: Account) -> dict[str, str] | None:
    found = _described(account)
    if found is None or found["StackStatus"] in _NEVER_CREATED:
        return None
    saga = account.plan.saga
    return {
        output["OutputKey"].removeprefix(saga): output["OutputValue"]
        for output in found.get("Outputs", ())
        if output["OutputKey"].startswith(saga)
    }


def _buses(account: Account, stack: str) -> Iterator[str]:
    events = account.client("events")
    for name in (stack, f"{stack}-outcomes"):
        try:
            events.describe_event_bus(Name=name)
        except ClientError as error:
            if not absent(error, "ResourceNotFoundException"):
                raise
            continue
        yield f"an event bus {name}"


def _log_groups(account: Account, stack: str) -> Iterator[str]:
    client = account.client("logs")
    for folder in (MACHINE_LOGS, ACCESS_LOGS):
        for group in client.describe_log_groups(logGroupNamePrefix=f"{folder}{stack}-")["logGroups"]:
            yield f"a log group {group['logGroupName']}"
