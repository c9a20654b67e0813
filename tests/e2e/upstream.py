"""A service that starts settlements with the example and policies of `docs/calling/starting.md`."""

import json
import re
import runpy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ReadTimeoutError

from settlement.core.ledger import keys
from tests.e2e.embedded import Embedded, check_outcomes, new_key
from tests.world.templates import PROJECT

PAGE = (PROJECT / "docs" / "calling" / "starting.md").read_text()
WAYS = {"Express": "express", "Standard": "standard", "The queue": "message"}
"""The page's sections about ways of starting, with their examples."""


@dataclass(frozen=True)
class Upstream:
    """A service running a page example with the page policy's permissions."""

    example: dict[str, Any]
    session: boto3.Session
    endpoint_url: str

    def __getattr__(self, name: str) -> Any:
        return self.example[name]

    def client(self, service: str) -> Any:
        config = Config(inject_host_prefix=False, retries={"total_max_attempts": 1})
        return self.session.client(service, endpoint_url=self.endpoint_url, config=config)

    @contextmanager
    def losing_the_answer(self, client: str, operation: str) -> Iterator[None]:
        """Lose an operation's answers; its requests still take effect."""

        def lose(**_: Any) -> None:
            raise ReadTimeoutError(endpoint_url=self.endpoint_url)

        events = self.example[client].meta.events
        events.register(f"after-call.*.{operation}", lose)
        try:
            yield
        finally:
            events.unregister(f"after-call.*.{operation}", lose)


def policy(embedded: Embedded, way: str) -> str:
    """Return the page's policy for a way of starting, with the stack's names."""
    section = re.split(r"\n## ", PAGE.split(f"\n## {way}\n")[1])[0]
    (text,) = re.findall(r"```json\n(.*?)```", section, re.DOTALL)
    outputs = embedded.stack.outputs
    *_, region, account, _, express = outputs["SettlementExpressArn"].split(":")
    names = {
        "EXPRESS_NAME": express,
        "STANDARD_NAME": outputs["SettlementStandardArn"].rpartition(":")[2],
        "QUEUE_NAME": outputs["StartQueueUrl"].rpartition("/")[2],
        "REGION": region,
        "ACCOUNT": account,
    }
    for placeholder, name in names.items():
        text = text.replace(placeholder, name)
    return str(text)


@contextmanager
def service(embedded: Embedded, way: str) -> Iterator[Upstream]:
    """Yield the page's example, with the credentials of a role that has exactly the page's policy."""
    iam, sts, name = embedded.stack.client("iam"), embedded.stack.client("sts"), new_key("upstream")
    trust = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "sts:AssumeRole"}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    role = iam.create_role(RoleName=name, AssumeRolePolicyDocument=document)["Role"]["Arn"]
    iam.put_role_policy(RoleName=name, PolicyName="starting", PolicyDocument=policy(embedded, way))
    given = sts.assume_role(RoleArn=role, RoleSessionName="upstream")["Credentials"]
    endpoint_url = str(embedded.stack.endpoint_url)
    environment = embedded.running().variables() | {
        "AWS_ACCESS_KEY_ID": given["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": given["SecretAccessKey"],
        "AWS_SESSION_TOKEN": given["SessionToken"],
    }
    with pytest.MonkeyPatch.context() as patched:
        for variable, value in environment.items():
            patched.setenv(variable, value)
        patched.setattr(boto3, "DEFAULT_SESSION", None)
        example = runpy.run_path(str(PROJECT / "examples" / "starting" / f"{WAYS[way]}.py"))
        if "step_functions" in example:
            check_outcomes(example["step_functions"].meta.events)
        yield Upstream(example, boto3.Session(), endpoint_url)


def settled(embedded: Embedded, request: dict[str, Any]) -> Callable[[], bool]:
    key = keys.settlement(request["key"])
    return lambda: (embedded.stack.store.read(key) or {}).get("status") == "SETTLED"
