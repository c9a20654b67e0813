"""Update an older wheel's saga with unfinished payments to a newer wheel: a part of `make consume`.

The older code begins a case of LIMBO, a KYC review, and payments; more payments come during the update. After
it, each of them ends as it must, and no resource was replaced.
"""

import io
import json
import re
import subprocess
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3
import urllib3

from infra.preflight.guard import faults
from settle.local.record import reached_at
from tools.dist import build, unpack
from tools.stranger import PROJECT, Stranger, ensure

INTERFACE = "tests/released/0.1.0/interface.json"
STACK, SAGA = "Payments", "Payments/Saga"
STUCK, REVIEWED = "upgrade-stuck-01", "upgrade-review-1"
DELAY_SECONDS = 1
"""The KYC provider's delay: with it, a payment is always in flight."""

AT_ONCE = 4
"""The most payments under way at once."""

END_SECONDS_MAX = 600
IN_LIMBO, IN_FLIGHT = 5, 7
"""Exit codes of `settle`."""

MADE_ANEW = ("AWS::CDK::Metadata",)


def older(folder: Path) -> Path:
    """Build the newest earlier release or, before the first, the commit that promised its interface.

    Without either, as in a shallow clone, build today's distribution in `folder` under an older version.
    """
    tags = _git("tag", "--list", "v*", "--no-contains", "HEAD", "--sort=-v:refname").split()
    commits = tags or _git("log", "--diff-filter=A", "--format=%H", "--", INTERFACE).split()
    source, built = folder / "older-source", folder / "older"
    if commits and commits[0] != _git("rev-parse", "HEAD").strip():
        archive = io.BytesIO(_run("archive", commits[0]).stdout)
    else:
        print("         there is no earlier commit here: the older wheel has today's code", flush=True)
        archive = io.BytesIO(next(folder.glob("*.tar.gz")).read_bytes())
    with tarfile.open(fileobj=archive) as packed:
        unpack(packed, source)
    (project,) = (*source.glob("pyproject.toml"), *source.glob("settlement_saga-*/pyproject.toml"))
    if not tags:
        project.write_text(re.sub(r'^version = ".*"', 'version = "0.0.0"', project.read_text(), flags=re.M))
    built.mkdir()
    return build(built, project.parent)


class Unfinished:
    """Payments that the older code has begun."""

    def __init__(self, stranger: Stranger, addresses: Mapping[str, str]) -> None:
        self._stranger, self._addresses = stranger, addresses
        described = self._client("cloudformation").describe_stacks(StackName=STACK)["Stacks"][0]["Outputs"]
        self._outputs = {one["OutputKey"]: one["OutputValue"] for one in described}
        self._kyc_url = stranger.told("local", "status")["kyc_url"]
        self._before, self._resources = self._template(), self._physical()
        self._started: list[str] = []
        for name, deposit in {"alice": "1000.00", "bob": "", "carol": "", "kyc-review": ""}.items():
            money = ("--deposit", deposit) if deposit else ()
            stranger.run("settle", "account", "open", name, "--currency", "EUR", *money, "--stack", SAGA)
        ensure(stranger.pay(SAGA, key=STUCK)["status"], "SETTLED")
        ensure(
            stranger.pay(SAGA, key="upgrade-spent-01", payer="bob", payee="carol", amount="39.00")["status"],
            "SETTLED",
        )
        self._reverse(exits=IN_LIMBO)
        stranger.pay(SAGA, IN_FLIGHT, key=REVIEWED, payee="kyc-review", amount="5.00")

    @contextmanager
    def paying(self) -> Iterator[None]:
        """During the block, start payments on the Standard machine, as a service does: one a second.

        At most AT_ONCE are under way, else a busy machine answers too late, and reverses them.
        """
        self._control(delay_seconds=DELAY_SECONDS)
        over, machines = threading.Event(), self._client("stepfunctions")
        thread = threading.Thread(target=self._pay, args=(machines, over))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def end(self) -> int:
        """Decide the review and the case; check the end of all payments. Return their number."""
        stranger = self._stranger
        ensure(self._resources.items() - self._physical().items(), set())
        ensure(list(faults(self._before, self._template())), [])
        ensure([one["key"] for one in stranger.told("limbo", "list", "--stack", SAGA)], [STUCK])
        self._decide()
        ensure(stranger.pay(SAGA, key="upgrade-earned-1")["status"], "SETTLED")
        resolve = ("limbo", "resolve", STUCK, "retry", "--reason", "earned again", "--stack", SAGA)
        ensure(stranger.told(*resolve)["status"], "COMPENSATED")
        count = len(self._started) + 4
        ended = self._ended(count)
        ensure((ended.pop(STUCK), Counter(ended.values())), ("COMPENSATED", {"SETTLED": count - 1}))
        ensure(ended[REVIEWED], "SETTLED")
        ensure(bool(self._started), True)
        print(f"         {len(self._started)} payments came during the update, and are settled", flush=True)
        proof = stranger.told("reconcile", "--stack", SAGA)
        ensure((proof["conserved"], proof["settlements"], proof["in_flight"]), (True, count, 0))
        return count

    def _pay(self, machines: Any, over: threading.Event) -> None:
        under_way: list[str] = []
        while not over.wait(1):
            under_way = [
                one
                for one in under_way
                if machines.describe_execution(executionArn=one)["status"] == "RUNNING"
            ]
            if len(under_way) == AT_ONCE:
                continue
            key = f"upgrade-during-{len(self._started):04}"
            request = {"key": key, "payer": "alice", "payee": "carol", "amount": "1.00", "currency": "EUR"}
            begun = machines.start_execution(
                stateMachineArn=self._outputs["SagaSettlementStandardArn"],
                name=key,
                input=json.dumps(request),
            )
            self._started.append(key)
            under_way.append(begun["executionArn"])

    def _ended(self, count: int) -> dict[str, str]:
        give_up_at = time.monotonic() + END_SECONDS_MAX
        while True:
            listed = ("list", "--since", "1h", "--limit", "1000", "--stack", SAGA)
            found = {one["key"]: one["status"] for one in self._stranger.told(*listed)}
            if len(found) == count and not {"PROCESSING", "COMPENSATING"} & {*found.values()}:
                return found
            if time.monotonic() > give_up_at:
                raise SystemExit(f"in flight for too long: {found}")

    def _reverse(self, exits: int) -> None:
        words = ("reverse", STUCK, "--reason", "goods came back", "--stack", SAGA)
        self._stranger.run("settle", *words, exits=exits)

    def _decide(self) -> None:
        arn = self._outputs["SagaKycSigningArn"]
        secret = self._client("secretsmanager").get_secret_value(SecretId=arn)["SecretString"]
        webhook = reached_at(self._outputs["SagaKycWebhookUrl"], self._addresses["AWS_ENDPOINT_URL"])
        self._control(delay_seconds=0, webhook_url=webhook, signing_secret=json.loads(secret)["current"])
        order = {"idempotency_key": f"{REVIEWED}:verify", "decision": "APPROVED"}
        answer = urllib3.request("POST", f"{self._kyc_url}/control/decide", json=order, timeout=90)
        ensure(answer.json()["http_status"], 200)

    def _control(self, **settings: Any) -> None:
        ensure(urllib3.request("PUT", f"{self._kyc_url}/control", json=settings).status, 200)

    def _template(self) -> Any:
        return self._client("cloudformation").get_template(StackName=STACK)["TemplateBody"]

    def _physical(self) -> dict[str, str]:
        pages = self._client("cloudformation").get_paginator("list_stack_resources").paginate(StackName=STACK)
        return {
            one["LogicalResourceId"]: one["PhysicalResourceId"]
            for page in pages
            for one in page["StackResourceSummaries"]
            if one["ResourceType"] not in MADE_ANEW
        }

    def _client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self._addresses["AWS_ENDPOINT_URL"],
            region_name=self._addresses["AWS_DEFAULT_REGION"],
            aws_access_key_id=self._addresses["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self._addresses["AWS_SECRET_ACCESS_KEY"],
        )


def _git(*words: str) -> str:
    return _run(*words).stdout.decode()


def _run(*words: str) -> subprocess.CompletedProcess[bytes]:
    trusted = ("-c", f"safe.directory={PROJECT}")  # CI runs as another user than the clone's
    return subprocess.run(["git", *trusted, *words], cwd=PROJECT, check=False, capture_output=True)  # noqa: S607
