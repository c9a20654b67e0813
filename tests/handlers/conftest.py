import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from aws_lambda_powertools.metrics.provider.cloudwatch_emf import cloudwatch

from handlers import _dependencies
from handlers.core import _payee, _workers
from handlers.kyc import _provider as _kyc
from settlement.aws import functions as _functions
from settlement.aws import queues as _queues
from settlement.aws import step_functions as _step_functions
from settlement.core import telemetry
from settlement.core.ledger import keys
from settlement.core.model.errors import InReview, StoreUnavailable
from settlement.events import outcome_bus as _outcome_bus
from settlement.journal import bucket as _journal
from settlement.kyc import shared_secrets as _secrets
from settlement.paging import topics as _topics
from tests.world.constants import CLAIMED_AT, KEY, NONCE, WIRE
from tests.world.environment import NOW
from tests.world.functions import Calls as AllFunctions
from tests.world.ledger import Ledger
from tests.world.memory_s3 import MemoryS3
from tests.world.provider import IN_REVIEW, Provider
from tests.world.services import Bus, Functions, Queues, Secrets, Topics
from tests.world.step_functions import StepFunctions

Counted = Callable[[], dict[str, float]]
Later = Callable[..., None]
Meanwhile = Callable[..., None]


HELD = {"settlement": WIRE, "claimed_at": CLAIMED_AT, "owner_epoch": 0, "nonce": NONCE}
"""HoldFunds's answer to the first claim."""


@dataclass(frozen=True, kw_only=True)
class Calls(AllFunctions):
    """The functions, the fakes around them, and their clock, settings and metrics."""

    provider: Provider
    step_functions: StepFunctions
    functions: Functions
    topics: Topics
    queues: Queues
    secrets: Secrets
    later: Later
    change_config: Callable[..., None]
    meanwhile: Meanwhile
    counted: Counted

    def run(self, *states: str, settlement: Any = WIRE, execution: str = "execution-1") -> Any:
        answer = None
        for state in states:
            answer = self(state, settlement, execution=execution, claimed_at=CLAIMED_AT)
        return answer

    @contextmanager
    def fails(self, method: str, error: BaseException, *, after: bool = False) -> Iterator[None]:
        """Let a method of the store raise an error, in place of its effect or `after` it."""
        real = getattr(_dependencies.store, method)

        def fail(*positional: Any, **named: Any) -> None:
            if after:
                real(*positional, **named)
            raise error

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_dependencies.store, method, fail)
            yield

    @contextmanager
    def dies_at_write(self, number: int) -> Iterator[None]:
        """Let the store's nth write, counted from 0, raise an error and write nothing."""
        call, writes = _dependencies.store._call, count()

        def dying(operation: str, *arguments: Any, **more: Any) -> Any:
            if operation in ("put_item", "transact_write_items") and next(writes) == number:
                raise StoreUnavailable("DynamoDB: dead")
            return call(operation, *arguments, **more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_dependencies.store, "_call", dying)
            yield


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Provider:
    provider = Provider()
    monkeypatch.setattr(_kyc, "ask", provider.ask)
    return provider


@pytest.fixture
def calls(
    ledger: Ledger,
    provider: Provider,
    *,
    step_functions: StepFunctions,
    queues: Queues,
    secrets: Secrets,
    later: Later,
    change_config: Callable[..., None],
    meanwhile: Meanwhile,
    counted: Counted,
    monkeypatch: pytest.MonkeyPatch,
) -> Calls:
    """The real handlers on the test's table, at `NOW`."""
    functions, topics = Functions(), Topics()
    monkeypatch.setattr(_functions, "_client", functions)
    monkeypatch.setattr(_topics, "_client", topics)
    monkeypatch.setattr(_dependencies, "store", ledger.store)
    monkeypatch.setattr(_dependencies, "now", lambda: NOW)
    monkeypatch.setattr(_payee, "_remembered", {})
    monkeypatch.setattr(_workers, "pause", lambda seconds: None)
    telemetry.metrics.clear_metrics()
    return Calls(
        ledger,
        provider=provider,
        step_functions=step_functions,
        functions=functions,
        topics=topics,
        queues=queues,
        secrets=secrets,
        later=later,
        change_config=change_config,
        meanwhile=meanwhile,
        counted=counted,
    )


@pytest.fixture
def funded(calls: Calls) -> Calls:
    """Both accounts are open, and nothing is claimed."""
    calls.before("HoldFunds")
    return calls


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
def in_review(calls: Calls) -> Calls:
    """A settlement whose payment is in review, as `ver_1`."""
    calls.before("VerifyKyc")
    calls.provider.answer = IN_REVIEW
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
    """Set the handlers' clock to a time after `NOW`, by default seven seconds."""

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
    """Let the handlers read the settlement's row as it is now, despite later writes."""

    def freeze() -> None:
        row, read = calls.row(), calls.ledger.store.read
        own = keys.settlement(KEY)
        monkeypatch.setattr(_dependencies.store, "read", lambda key: dict(row) if key == own else read(key))

    return freeze


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Run another call once, before or after the next call of a method."""

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
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    """Return each metric's sum since the last call, or its maximum if it is in seconds."""
    published: list[str] = []

    def publish(document: str) -> None:
        published.append(document)
        print(document)

    def read() -> dict[str, float]:
        sums: dict[str, float] = {}
        for document in map(json.loads, published):
            for directive in document["_aws"]["CloudWatchMetrics"]:
                for metric in directive["Metrics"]:
                    name = metric["Name"]
                    total = max if name.endswith("Seconds") else sum
                    sums[name] = total([sums.get(name, 0), *document[name]])
        published.clear()
        return sums

    monkeypatch.setattr(cloudwatch, "print", publish, raising=False)
    return read
