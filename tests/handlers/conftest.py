"""Fixtures of the handlers' tests."""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from handlers import (
    _runtime,
    await_resolution,
    begin_compensation,
    claim_key,
    collect_fee,
    enter_limbo,
    hold_funds,
    prepare_page,
    reclaim_funds,
    refund_fee,
    reject_settlement,
    release_funds,
    report_outcome,
    resolve_limbo,
    verify_kyc,
    void_hold,
)
from settlement import rows, telemetry
from tests.conftest import NOW, Ledger
from tests.handlers.calls import KEY, Calls

Counted = Callable[[], dict[str, float]]


@pytest.fixture
def calls(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Calls:
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
        },
    )


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
