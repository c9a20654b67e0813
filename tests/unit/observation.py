"""The log group of an invocation, and an event whose payload must not be found there."""

import io
import json
from types import SimpleNamespace
from typing import Any

import pytest

CONTEXT = SimpleNamespace(
    function_name="under-test",
    memory_limit_in_mb=512,
    invoked_function_arn="arn:aws:lambda:eu-west-1:000000000000:function:under-test",
    aws_request_id="request-1",
    get_remaining_time_in_millis=lambda: 60_000,
)
KEY = "order-2026-000101"
EXECUTION = "execution-1"
WIRE = {
    "key": KEY,
    "payer": "canary-payer",
    "payee": "canary-payee",
    "amount": "918273.64",
    "currency": "EUR",
    "fee": "5647.38",
}
CANARIES = ["canary", "918273", "91827364", "5647", "912626", "91262626", "73737373"]
"""Ids and amounts of the settlement, its net amount and the balance of the payer, as sent and as stored."""

ERROR = {"Error": "InsufficientFunds", "Cause": '{"errorMessage": "payer: canary-payer has 918273"}'}
ORDER = {"reason": "canary-reason", "by": "arn:canary-person"}
EVENT = {
    "settlement": WIRE,
    "execution": EXECUTION,
    "claimed_at": "2026-11-20T12:00:00.123Z",
    "replayed": True,
    "error": ERROR,
    "stuck": {"fee": ERROR},
    "steps": ["fee", "hold", "release", "verify"],
    "reversed": [],
    "case": 1,
    "token": "canary-token",
    "execution_arn": "arn:aws:states:eu-west-1:000000000000:execution:compensation:execution-1",
    "resolution": ORDER | {"decision": "retry"},
}
STATE = {name: EVENT[name] for name in ("settlement", "error", "case")} | {"alerts": 0}
"""A machine's state: two of its functions are passed all of it."""

STARTS: list[dict[str, Any]] = [
    {"error": ERROR},
    {"reversal": ORDER},
    {"resolution": ORDER | {"decision": "retry"}},
    {},
]
"""The causes of a compensation in its input, beside the settlement."""


class Output:
    """The log group of an invocation: the logger's lines and the metrics' lines."""

    def __init__(self, log: io.StringIO, capsys: pytest.CaptureFixture[str]) -> None:
        self._log, self._capsys = log, capsys

    def take(self) -> tuple[list[dict[str, Any]], list[str], str]:
        """Return the log lines, the names of the metrics, and all of the text, since the last call."""
        text, printed = self._log.getvalue(), self._capsys.readouterr()
        self._log.seek(0)
        self._log.truncate()
        lines = [json.loads(line) for line in text.splitlines()]
        blobs = [json.loads(line) for line in printed.out.splitlines() if '"_aws"' in line]
        names = [
            metric["Name"]
            for blob in blobs
            for directive in blob["_aws"]["CloudWatchMetrics"]
            for metric in directive["Metrics"]
            for _ in blob[metric["Name"]]
        ]
        return lines, names, text + printed.out + printed.err


def assert_telling_nothing(text: str) -> None:
    assert not [canary for canary in CANARIES if canary in text], text
