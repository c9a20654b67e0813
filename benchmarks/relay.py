"""Measure how fast PublishEvents publishes successful payments: `python -m benchmarks.relay`.

The client is boto3's, which makes and signs each call; the network and EventBridge are left out.
"""

import argparse
import contextlib
import io
import json
import time
from itertools import pairwise
from typing import Any
from unittest import mock

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse, HeadersDict

from settlement.events import outcome_bus
from tests.world import environment
from tests.world.constants import CLAIMED_AT, WIRE
from tests.world.functions import FORWARD, Calls, Context
from tests.world.ledger import in_memory
from tests.world.provider import APPROVED
from tests.world.stream import record

assert environment  # the functions read it at import

BATCH = 100
"""Maximum records that the stack's mapping gathers for a call."""


class _Bus:
    """An EventBridge client that answers each call before it is sent, and accepts every event."""

    def __init__(self) -> None:
        self.taken = 0
        self.client = boto3.client("events", region_name="eu-west-1")
        self.client.meta.events.register("before-send.events.PutEvents", self._answer)

    def _answer(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        taken = len(json.loads(request.body)["Entries"])
        self.taken += taken
        content = json.dumps({"FailedEntryCount": 0, "Entries": [{"EventId": "1"}] * taken}).encode()
        headers = HeadersDict({"content-type": "application/x-amz-json-1.1"})
        answer = AWSResponse(request.url, 200, headers, None)
        answer._content = content
        return answer


def _records() -> list[dict[str, Any]]:
    """Return the stream's records of a successful payment's row."""
    from handlers import _dependencies  # noqa: PLC0415
    from handlers.core import _payee  # noqa: PLC0415
    from handlers.kyc import _provider as _kyc  # noqa: PLC0415
    from settlement.core.store.wire import to_wire  # noqa: PLC0415

    ledger = in_memory()
    calls = Calls(ledger)
    ledger.open("alice", 10_000)
    ledger.open("bob", 0)
    images: list[Any] = [None]
    with (
        mock.patch.object(_dependencies, "store", ledger.store),
        mock.patch.object(_dependencies, "now", return_value=environment.NOW),
        mock.patch.object(_kyc, "ask", return_value=APPROVED),
        mock.patch.object(_payee, "_remembered", {}),
    ):
        for state in FORWARD:
            calls(state, WIRE, claimed_at=CLAIMED_AT)
            images.append(to_wire(calls.row()))
    return [record(old, new, at=environment.NOW.timestamp()) for old, new in pairwise(images)]


def main() -> None:
    """Print the events per CPU second of the function."""
    from handlers.events import publish_events  # noqa: PLC0415

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000)
    wanted, bus, out = parser.parse_args().events, _Bus(), io.StringIO()
    with contextlib.redirect_stdout(out), mock.patch.object(outcome_bus, "_client", bus.client):
        told = _records()
        batch = {"Records": told * (BATCH // len(told))}
        began = time.process_time()
        while bus.taken < wanted:
            publish_events.handler(batch, Context())
        seconds = time.process_time() - began
    print(f"{bus.taken} events in {seconds:.1f} s of CPU: {bus.taken / seconds:.0f} a second")


if __name__ == "__main__":
    main()
