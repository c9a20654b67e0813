"""Fixtures of the handlers' tests."""

import io
import json
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from handlers import (
    _dead_letters,
    _dependencies,
    _kyc,
    _secrets,
    _step_functions,
    await_resolution,
    begin_compensation,
    claim_key,
    collect_fee,
    enter_limbo,
    hold_funds,
    kyc_decided,
    prepare_alert,
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
from settlement.adapters import telemetry
from settlement.ledger import keys
from tests.conftest import NOW, Ledger, make_ledger
from tests.handlers.calls import KEY, Calls
from tests.handlers.stand_ins import Queues, Secrets, Starts
from tests.support.kyc import IN_REVIEW, Provider

Counted = Callable[[], dict[str, float]]


@pytest.fixture(params=["memory"])
def ledger(request: pytest.FixtureRequest) -> Iterator[Ledger]:
    """The table of the functions, in memory; `tests/store` proves that it behaves as DynamoDB does."""
    yield from make_ledger(request)


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Provider:
    """The KYC provider, which approves by default."""
    provider = Provider()
    monkeypatch.setattr(_kyc, "ask", provider.ask)
    return provider


@pytest.fixture
def calls(ledger: Ledger, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The real handlers on the table of the test, at `NOW`."""
    monkeypatch.setattr(_dependencies, "store", ledger.store)
    monkeypatch.setattr(_dependencies, "now", lambda: NOW)
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
            "PrepareAlert": prepare_alert.handler,
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
    monkeypatch.setattr(_step_functions, "_client", starts)
    return starts


@pytest.fixture
def queues(monkeypatch: pytest.MonkeyPatch) -> Queues:
    """The dead-letter queue of the start queue."""
    queues = Queues()
    monkeypatch.setattr(_dead_letters, "_client", queues)
    monkeypatch.setenv("START_DEAD_LETTERS", queues.url)
    return queues


@pytest.fixture
def in_review(calls: Calls, provider: Provider, secrets: Secrets, starts: Starts) -> Calls:
    """A settlement whose payment is in review, as `ver_1`."""
    calls.before("VerifyKyc")
    provider.answer = IN_REVIEW
    calls("VerifyKyc")
    return calls


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """The lines of the functions' logger; their other output is in `capfd`."""
    lines = io.StringIO()
    monkeypatch.setattr(telemetry.logger.registered_handler, "stream", lines)
    yield lines
    telemetry.logger.remove_keys(["key", "step", "execution"])


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Move the handlers' clock: by seven seconds, or by another time."""

    def move(**by: float) -> None:
        moment = NOW + timedelta(**by or {"seconds": 7})
        monkeypatch.setattr(_dependencies, "now", lambda: moment)

    return move


@pytest.fixture
def freeze_reads(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function that freezes the settlement's row for the handlers' reads, despite later writes."""

    def freeze() -> None:
        row, read = calls.row(), calls.ledger.store.read
        own = keys.settlement(KEY)
        monkeypatch.setattr(_dependencies.store, "read", lambda key: dict(row) if key == own else read(key))

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
