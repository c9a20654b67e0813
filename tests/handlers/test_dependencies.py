import json
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import snapshot_restore_py  # type: ignore[import-untyped]
from botocore.config import Config

from handlers import _dependencies
from settlement.aws import clients
from settlement.core.model.stage_config import StageConfig
from settlement.core.policy.pager import PagerConfig
from tests.world.functions import FILES

CLIENTS = {
    name: ["secretsmanager"]
    for name in (
        *("handlers.kyc.verify_kyc", "handlers.kyc.kyc_decided", "handlers.checks.check_decided"),
        *("handlers.payouts.bank_events", "handlers.payouts.follow_payouts"),
    )
}
"""Clients besides DynamoDB's that a function makes at start, because each of its calls needs them."""

START = """
import gc, importlib, json, sys
from botocore.session import Session
made, make = [], Session.create_client
Session.create_client = lambda self, service, *a, **b: made.append(service) or make(self, service, *a, **b)
importlib.import_module(sys.argv[1])
print(json.dumps([made, gc.isenabled(), gc.get_freeze_count() > 10_000]))
"""


def test_the_clock_is_in_utc() -> None:
    assert _dependencies.now().tzinfo is UTC
    assert _dependencies.now().utcoffset() == timedelta(0)


def test_a_function_loads_the_deployed_config(config: StageConfig) -> None:
    assert _dependencies.config == config


def test_the_functions_pager_config_equals_the_deployed_one() -> None:
    assert _dependencies.pager == PagerConfig(
        runbook="docs/runbooks/limbo.md",
        stack=None,
        again_after_seconds=1800,
    )
    assert json.loads(os.environ["PAGER"]) == vars(_dependencies.pager)


@pytest.mark.parametrize("module", [f"handlers.{file.parent.name}.{file.stem}" for file in FILES])
def test_a_function_starts_with_its_clients_and_freezes_its_imports(module: str) -> None:
    """Runs in a new process, to see all clients since the first import."""
    ended = subprocess.run([sys.executable, "-c", START, module], capture_output=True, text=True, check=True)

    made, collects, is_frozen = json.loads(ended.stdout)
    assert made == ["dynamodb", *CLIENTS.get(module, [])]
    assert collects
    assert is_frozen


def test_a_lazy_client_used_by_many_threads_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = list[tuple[str, Config]]()

    def make(service: str, config: Config) -> Any:
        made.append((service, config))
        return SimpleNamespace(send=lambda text: text.upper(), exceptions="errors")

    monkeypatch.setattr(clients.session, "client", make)
    config = Config(read_timeout=1)
    client = clients.LazyClient("sqs", config)
    assert made == []

    with ThreadPoolExecutor(8) as threads:
        sent = list(threads.map(lambda _: client.send("a"), range(100)))

    assert sent == ["A"] * 100
    assert client.exceptions == "errors"
    assert made == [("sqs", config)]


def test_a_restored_snapshot_gets_new_randomness_and_new_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """SnapStart restores many environments from one snapshot: they would all draw the same waits."""
    closed = list[str]()
    monkeypatch.setattr(_dependencies.dynamodb, "close", lambda: closed.append("dynamodb"))
    hooks = [hook for hook, _, _ in snapshot_restore_py.get_after_restore()]
    snapshot = random.getstate()
    chances = set()

    assert hooks == [_dependencies.restored]
    for _ in range(2):
        random.setstate(snapshot)
        hooks[0]()
        chances.add(random.random())

    assert len(chances) == 2
    assert closed == ["dynamodb"] * 2


def test_a_function_starts_without_the_snapshot_module() -> None:
    """Lambda's Python has the module, but not every Python that runs the functions."""
    code = "import sys; sys.modules['snapshot_restore_py'] = None; import handlers.core.hold_funds"

    subprocess.run([sys.executable, "-c", code], check=True)
