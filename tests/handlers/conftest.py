import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from handlers import _dependencies
from handlers.core import _payee, _workers
from handlers.kyc import _provider as _kyc
from settlement.aws import functions as _functions
from settlement.aws import queues as _queues
from settlement.aws import step_functions as _step_functions
from settlement.core import telemetry
from settlement.core.ledger import keys
from settlement.core.model.errors import InReview
from settlement.events import outcome_bus as _outcome_bus
from settlement.journal import bucket as _journal
from settlement.kyc import shared_secrets as _secrets
from settlement.paging import topics as _topics
from tests.world.constants import KEY
from tests.world.environment import NOW
from tests.world.functions import Calls
from tests.world.ledger import Ledger
from tests.world.memory_s3 import MemoryS3
from tests.world.provider import IN_REVIEW, Provider
from tests.world.services import Bus, Functions, Queues, Secrets, Topics
from tests.world.step_functions import StepFunctions

Counted = Callable[[], dict[str, float]]
Later = Callable[..., None]
Meanwhile = Callable[..., None]


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Provider:
    provider = Provider()
    monkeypatch.setattr(_kyc, "ask", provider.ask)
    return provider


@pytest.fixture
def calls(
    ledger: Ledger, provider: Provider, step_functions: StepFunctions, monkeypatch: pytest.MonkeyPatch
) -> Calls:
    """The real handlers on the test's table, at `NOW`."""
    monkeypatch.setattr(_functions, "_client", Functions())
    monkeypatch.setattr(_topics, "_client", Topics())
    monkeypatch.setattr(_dependencies, "store", ledger.store)
    monkeypatch.setattr(_dependencies, "now", lambda: NOW)
    monkeypatch.setattr(_payee, "_remembered", {})
    monkeypatch.setattr(_workers, "pause", lambda seconds: None)
    telemetry.metrics.clear_metrics()
    return Calls(ledger)


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Secrets:
    """Secrets Manager behind the real cache, empty and with test-controlled time."""
    secrets = Secrets()
    monkeypatch.setattr(_secrets._provider, "client", secrets)
    monkeypatch.setattr(_secrets._provider, "store", {})
    return secrets


@pytest.fixture
def step_functions(monkeypatch: pytest.MonkeyPatch) -> StepFunctions:
    """Step Functions whose executions never enter their first state."""
    client = StepFunctions()
    monkeypatch.setattr(_step_functions, "_client", client)
    return client


@pytest.fixture
def functions(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Functions:
    functions = Functions()
    monkeypatch.setattr(_functions, "_client", functions)
    return functions


@pytest.fixture
def topics(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Topics:
    topics = Topics()
    monkeypatch.setattr(_topics, "_client", topics)
    return topics


@pytest.fixture
def bus(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Bus:
    bus = Bus()
    monkeypatch.setattr(_outcome_bus, "_client", bus)
    return bus


@pytest.fixture
def queues(monkeypatch: pytest.MonkeyPatch) -> Queues:
    queues = Queues()
    monkeypatch.setattr(_queues, "_client", queues)
    monkeypatch.setenv("START_DEAD_LETTERS", queues.url)
    return queues


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> MemoryS3:
    """The sealed journal's bucket, listing two objects a page."""
    client = MemoryS3(page=2)
    monkeypatch.setattr(_journal, "_client", client)
    monkeypatch.setenv("JOURNAL_BUCKET", "journal")
    return client


@pytest.fixture
def in_review(calls: Calls, provider: Provider, secrets: Secrets) -> Calls:
    """A settlement whose payment is in review, as `ver_1`."""
    calls.before("VerifyKyc")
    provider.answer = IN_REVIEW
    with pytest.raises(InReview):
        calls("VerifyKyc")
    return calls


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """Lines of the functions' logger; other output is in `capfd`."""
    lines = io.StringIO()
    monkeypatch.setattr(telemetry.logger.registered_handler, "stream", lines)
    yield lines
    telemetry.logger.remove_keys(["key", "step", "execution"])


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Later:
    """Move the handlers' clock, by default by seven seconds."""

    def move(**by: float) -> None:
        moment = NOW + timedelta(**by or {"seconds": 7})
        monkeypatch.setattr(_dependencies, "now", lambda: moment)

    return move


@pytest.fixture
def change_config(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def change(**to: Any) -> None:
        monkeypatch.setattr(_dependencies, "config", replace(_dependencies.config, **to))

    return change


@pytest.fixture
def freeze_reads(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Freeze the settlement's row for the handlers' reads, despite later writes."""

    def freeze() -> None:
        row, read = calls.row(), calls.ledger.store.read
        own = keys.settlement(KEY)
        monkeypatch.setattr(_dependencies.store, "read", lambda key: dict(row) if key == own else read(key))

    return freeze


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Run another call once, around the next call of a method."""

    def interleave(owner: Any, method: str, act: Callable[[], object], *, after: bool = False) -> None:
        real = getattr(owner, method)

        def interleaved(*positional: Any, **named: Any) -> Any:
            monkeypatch.setattr(owner, method, real)
            if not after:
                act()
            answer = real(*positional, **named)
            if after:
                act()
            return answer

        monkeypatch.setattr(owner, method, interleaved)

    return interleave


@pytest.fixture
def counted(capsys: pytest.CaptureFixture[str]) -> Counted:
    """Return sums of metrics published since the last call; of ages, the maximum."""

    def read() -> dict[str, float]:
        sums: dict[str, float] = {}
        for line in capsys.readouterr().out.splitlines():
            document = json.loads(line)
            for directive in document.get("_aws", {}).get("CloudWatchMetrics", ()):
                for metric in directive["Metrics"]:
                    name = metric["Name"]
                    total = max if name.endswith("Seconds") else sum
                    sums[name] = total([sums.get(name, 0), *document[name]])
        return sums

    return read
