"""Fixtures of the handlers' tests."""

import io
import json
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from handlers import (
    _machines,
    _provider,
    _queues,
    _runtime,
    _secrets,
    await_resolution,
    begin_compensation,
    claim_key,
    collect_fee,
    enter_limbo,
    hold_funds,
    kyc_decided,
    prepare_page,
    reclaim_funds,
    recover_stalled,
    refund_fee,
    reject_settlement,
    release_funds,
    report_outcome,
    resolve_limbo,
    start_settlements,
    verify_kyc,
    void_hold,
)
from settlement import rows, telemetry
from tests.conftest import NOW, Ledger, make_ledger
from tests.handlers.calls import KEY, Calls
from tests.handlers.stand_ins import Queues, Secrets, Starts
from tests.support.kyc import IN_REVIEW, Provider

Counted = Callable[[], dict[str, float]]


@pytest.fixture(params=["memory"])
def ledger(request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """What the functions write to: the model, of which `tests/store` proves that it does as DynamoDB does."""
    yield from make_ledger(request)


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Provider:
    """The KYC provider, which approves unless it is told otherwise."""
    provider = Provider()
    monkeypatch.setattr(_provider, "ask", provider.ask)
    return provider


@pytest.fixture
def calls(ledger: Ledger, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The real handlers on the table of the test, at `NOW`."""
    monkeypatch.setattr(_runtime, "store", ledger.store)
    monkeypatch.setattr(_runtime, "now", lambda: NOW)
    telemetry.metrics.clear_metrics()
    return Calls(
        ledger,
        {
            "ClaimKey": claim_key.handler,
            "HoldFunds": hold_funds.handler,
            "VerifyKyc": verify_kyc.handler,
            "ReleaseFunds": release_funds.handler,
            "CollectFee": collect_fee.handler,
            "RejectSettlement": reject_settlement.handler,
            "ReportOutcome": report_outcome.handler,
            "BeginCompensation": begin_compensation.handler,
            "RefundFee": refund_fee.handler,
            "ReclaimFunds": reclaim_funds.handler,
            "VoidHold": void_hold.handler,
            "EnterLimbo": enter_limbo.handler,
            "PreparePage": prepare_page.handler,
            "AwaitResolution": await_resolution.handler,
            "ResolveLimbo": resolve_limbo.handler,
            "KycDecided": kyc_decided.handler,
            "RecoverStalled": recover_stalled.handler,
            "StartSettlements": start_settlements.handler,
        },
    )


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Secrets:
    """Secrets Manager, behind the real cache, which is empty and of which the test keeps the time."""
    secrets = Secrets()
    monkeypatch.setattr(_secrets._provider, "client", secrets)
    monkeypatch.setattr(_secrets._provider, "store", {})
    return secrets


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> Starts:
    """Step Functions, as far as a start of an execution goes."""
    starts = Starts()
    monkeypatch.setattr(_machines, "_client", starts)
    return starts


@pytest.fixture
def queues(monkeypatch: pytest.MonkeyPatch) -> Queues:
    """The dead-letter queue of the start queue."""
    queues = Queues()
    monkeypatch.setattr(_queues, "_client", queues)
    monkeypatch.setenv("START_DEAD_LETTERS", queues.url)
    return queues


@pytest.fixture
def parked(calls: Calls, provider: Provider, secrets: Secrets, starts: Starts) -> Calls:
    """A settlement whose payment is in review, as `ver_1`."""
    calls.before("VerifyKyc")
    provider.answer = IN_REVIEW
    calls("VerifyKyc")
    return calls


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What the functions write by their logger; what they print beside it is in `capfd`."""
    lines = io.StringIO()
    monkeypatch.setattr(telemetry.logger.registered_handler, "stream", lines)
    yield lines
    telemetry.logger.remove_keys(["key", "step", "execution"])


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Move the handlers' clock: by seven seconds, or by what it is told."""

    def move(**by: float) -> None:
        moment = NOW + timedelta(**by or {"seconds": 7})
        monkeypatch.setattr(_runtime, "now", lambda: moment)

    return move


@pytest.fixture
def seen(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Once called, the handlers read the settlement's row as it is then, whatever becomes of it."""

    def freeze() -> None:
        row, read = calls.row(), calls.ledger.store.read
        own = rows.settlement_key(KEY)
        monkeypatch.setattr(_runtime.store, "read", lambda key: dict(row) if key == own else read(key))

    return freeze


@pytest.fixture
def counted(capsys: pytest.CaptureFixture[str]) -> Counted:
    """The sums of the metrics that the functions published since this was last called."""

    def read() -> dict[str, float]:
        sums: dict[str, float] = {}
        for line in capsys.readouterr().out.splitlines():
            document = json.loads(line)
            for directive in document.get("_aws", {}).get("CloudWatchMetrics", ()):
                for metric in directive["Metrics"]:
                    name = metric["Name"]
                    sums[name] = sums.get(name, 0) + sum(document[name])
        return sums

    return read
