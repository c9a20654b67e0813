"""Log bytes of a happy settlement: a lean stage writes one line per function call.

The services add none: Lambda logs from WARN, an Express execution from ERROR.
"""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from handlers.core import _payee
from handlers.kyc import _provider as _kyc
from settlement.core import telemetry
from tests.handlers.conftest import Calls
from tests.handlers.kyc.provider_stage import stage
from tests.world.constants import CLAIMED_AT, WIRE
from tests.world.functions import FORWARD

EVENT_BYTES = 26
"""Bytes that CloudWatch Logs adds to each event's text."""

BYTES_MAX = 3_000
KEY_LENGTH_MAX, NAME_LENGTH_MAX = 64, 80
"""Longest key of a settlement, and longest execution name in Step Functions."""

Logged = Callable[[str, str], list[dict[str, Any]]]


@pytest.fixture
def logged(
    calls: Calls, log: io.StringIO, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Logged:
    """Settle with the real provider client; return the lines of all functions."""
    monkeypatch.setattr(_kyc, "ask", stage(calls.ledger, monkeypatch).ask)
    calls.before(FORWARD[0])

    def settle(key: str, execution: str) -> list[dict[str, Any]]:
        capsys.readouterr()
        _payee._remembered.clear()
        for state in FORWARD:
            calls(state, WIRE | {"key": key}, execution=execution, claimed_at=CLAIMED_AT)
        output = log.getvalue() + capsys.readouterr().out
        return [json.loads(line) for line in output.splitlines()]

    return settle


def size(lines: list[dict[str, Any]]) -> int:
    """Return the bytes charged by CloudWatch Logs; our libraries write lines without blanks."""
    return sum(len(json.dumps(line, separators=(",", ":"))) + EVENT_BYTES for line in lines)


@pytest.mark.parametrize("length", [(17, 36), (KEY_LENGTH_MAX, NAME_LENGTH_MAX)])
def test_a_lean_settlement_logs_four_lines_within_three_kilobytes(
    logged: Logged, length: tuple[int, int]
) -> None:
    key, execution = ("k" * length[0], "e" * length[1])

    lines = logged(key, execution)

    assert [line["step"] for line in lines] == ["hold", "verify", "release", "fee"]
    assert {(line["key"], line["execution"]) for line in lines} == {(key, execution)}
    assert size(lines) <= BYTES_MAX


def test_full_detail_adds_a_line_for_each_call_of_dynamodb(
    logged: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry, "_detail", {"keys": ["order-2026-000102"]})

    lean, full = logged("order-2026-000103", "e-1"), logged("order-2026-000102", "e-2")

    used = [used for line in lean for used in line["dynamodb"].values()]
    assert len(full) == len(lean) + sum(one["calls"] for one in used)
