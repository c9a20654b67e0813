import json
import os
import shutil
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from infra.assets import LAMBDAS, STATE_MACHINES
from tests.e2e.embedded import COMMAND_SECONDS_MAX, Embedded, embedded_aws, new_account, new_key
from tests.e2e.provider import control
from tests.world.templates import PROJECT

pytestmark = pytest.mark.long

CHANGED = (
    "lambdas/handlers/core/hold_funds.py",
    "lambdas/handlers/core/collect_fee.py",
    "statemachines/settlement.asl.json",
)
"""Files that share a field, which the upgrade renames."""

AT_ONCE, BETWEEN_SECONDS = 4, 0.3
DELAY_SECONDS = 1
"""The provider's delay, which keeps payments in flight during the upgrade of up to four seconds."""


def sources(folder: Path, *, upgraded: bool) -> Path:
    """Return a copy of the sources. If `upgraded`, it changes the contract between two functions."""
    for source in (LAMBDAS, STATE_MACHINES):
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in CHANGED if upgraded else ():
        file = folder / name
        before = file.read_text()
        after = before.replace('"claimed_at', '"claimed_on').replace("$.claimed_at", "$.claimed_on")
        assert after != before
        file.write_text(after)
    return folder


def deploy(embedded: Embedded, folder: Path, **settings: Any) -> None:
    running = embedded.running()
    environment = embedded.environment | {
        "AWS_ENDPOINT_URL": running.endpoint_url,
        "AWS_ACCESS_KEY_ID": os.environ["AWS_ACCESS_KEY_ID"],
        "AWS_SECRET_ACCESS_KEY": os.environ["AWS_SECRET_ACCESS_KEY"],
        "AWS_DEFAULT_REGION": "eu-west-1",
        "SOURCES": str(folder),
        "SETTINGS": json.dumps(settings),
        "PYTHONPATH": os.pathsep.join((str(PROJECT), str(PROJECT / "lambdas"))),
    }
    command = [
        str(PROJECT / "node_modules/.bin/cdk"),
        "deploy",
        "--require-approval",
        "never",
        "--no-notices",
    ]
    command += ["-c", "stage=local", "-c", f"kyc_url={running.kyc_url}", "-o", str(folder / "cdk.out")]
    command += ["--app", f"{sys.executable} -m tests.e2e.upgraded_app"]
    finished = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        cwd=PROJECT,
        timeout=COMMAND_SECONDS_MAX,
    )
    assert finished.returncode == 0, (finished.stdout + finished.stderr)[-2000:]


class Load:
    """Payments until stopped; each begins before the previous one ends."""

    def __init__(self, embedded: Embedded) -> None:
        self.embedded, self.over = embedded, threading.Event()
        self.payer = new_account(embedded, "gina", "100000.00")
        self.payee = new_account(embedded, "hugo")
        self.started: list[str] = []
        self._thread = threading.Thread(target=self._pay)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self._thread.join()
        self.embedded.wait_for(lambda: not self._under_way(self.started))

    def _pay(self) -> None:
        machine = self.embedded.stack.outputs["SettlementStandardArn"]
        under_way: list[str] = []
        while not self.over.wait(BETWEEN_SECONDS):
            under_way = self._under_way(under_way)
            if len(under_way) == AT_ONCE:
                continue
            request = {"key": new_key("pay"), "payer": self.payer, "payee": self.payee}
            text = json.dumps(request | {"amount": "1.00", "currency": "EUR"})
            begun = self.embedded.step_functions.start_execution(
                stateMachineArn=machine, name=request["key"], input=text
            )
            self.started.append(begun["executionArn"])
            under_way.append(begun["executionArn"])

    def _under_way(self, arns: list[str]) -> list[str]:
        return [arn for arn in arns if self._described(arn)["status"] == "RUNNING"]

    def ends(self) -> list[dict[str, Any]]:
        return [self._described(arn) for arn in self.started]

    def _described(self, arn: str) -> dict[str, Any]:
        found: dict[str, Any] = self.embedded.step_functions.describe_execution(executionArn=arn)
        return found


def of_new_code(embedded: Embedded, described: dict[str, Any]) -> bool:
    pages = embedded.step_functions.get_paginator("get_execution_history").paginate(
        executionArn=described["executionArn"]
    )
    return any("claimed_on" in json.dumps(page["events"], default=str) for page in pages)


def test_a_running_payment_never_runs_code_of_another_version(tmp_path: Path) -> None:
    with embedded_aws() as embedded:
        embedded.up()
        embedded.schedule(enabled=False)  # recovery would hide a payment that has stalled
        deploy(embedded, sources(tmp_path / "before", upgraded=False))
        control(embedded, delay_seconds=DELAY_SECONDS)
        with Load(embedded) as load:
            embedded.wait_for(lambda: len(load.started) >= AT_ONCE)
            deploy(embedded, sources(tmp_path / "after", upgraded=True))
            enough = len(load.started) + AT_ONCE
            embedded.wait_for(lambda: len(load.started) >= enough)
        found = load.ends()
        new = [one for one in found if of_new_code(embedded, one)]
        old = [one for one in found if one not in new]

        assert Counter(one["status"] for one in found) == {"SUCCEEDED": len(found)}
        assert {json.loads(one["output"])["status"] for one in found} == {"SETTLED"}
        assert max(one["stopDate"] for one in old) > min(one["startDate"] for one in new), (
            "none was in flight"
        )
        assert embedded.conserved()
