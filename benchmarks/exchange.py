"""Measure the time of a request to an unreachable or slow KYC provider, with the default timeouts.

The provider's name leads to silent addresses, with or without a good one at the end; or the lookup, the
handshake or the answer is slow. To compare, run it with an earlier commit's `lambdas/` in PYTHONPATH.
"""

import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

from settlement.core.model.errors import KycUnavailable
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.kyc import client as kyc_client
from tests.kyc.network import Resolver, dripping_handshake, silent_ports
from tests.kyc.raw import HEAD_AND_LENGTH, answer, dripping, raw, silent

CONNECT_SECONDS, READ_SECONDS = 1, 3
GIVEN_UP_SECONDS = 20
"""The longest wait of a measurement."""

CONFIG = StageConfig.from_json(
    '{"currencies":{"EUR":2},"highest_balances":{},"fee_basis_points":0,'
    '"deadline_seconds":900,"recover_after_seconds":30}'
)
PAYMENT = Settlement(key="order-2026-000101", payer="alice", payee="bob", amount=4820, currency="EUR", fee=0)

Place = tuple[str, list[int]]


@contextmanager
def addresses(silent_ones: int, *, good: bool) -> Iterator[Place]:
    """Yield a provider's silent addresses, with a working one at the end if `good`."""
    with silent_ports(silent_ones) as ports, raw(answer()) as server:
        yield "http", [*ports, *([server.port] if good else [])]


@contextmanager
def talking(talk: Any) -> Iterator[Place]:
    """Yield a provider that accepts a connection, and answers as `talk` does."""
    with raw(talk) as server:
        yield "http", [server.port]


@contextmanager
def shaking_hands() -> Iterator[Place]:
    """Yield a provider whose handshake comes byte by byte."""
    with dripping_handshake() as port:
        yield "https", [port]


CASES: dict[str, tuple[Any, int]] = {
    **{f"{n} silent addresses, then a good one": (addresses(n, good=True), 0) for n in (1, 2, 8, 64)},
    **{f"{n} silent addresses": (addresses(n, good=False), 0) for n in (1, 2, 8, 64)},
    "a lookup of 2 s": (addresses(0, good=True), 2),
    "a lookup of 12 s": (addresses(0, good=True), 12),
    "a lookup that never ends": (addresses(0, good=True), GIVEN_UP_SECONDS),
    "a handshake that drips": (shaking_hands(), 0),
    "a silent answer": (talking(silent), 0),
    "an answer that drips": (talking(dripping(HEAD_AND_LENGTH, b"x")), 0),
}


def measure(case: Any, lookup_seconds: int) -> tuple[float, str]:
    """Ask once; return the seconds, and the verdict or the error. The case is set up before lookups hang."""
    resolver = Resolver()
    with ExitStack() as stack:
        scheme, resolver.ports = stack.enter_context(case)
        stack.enter_context(mock.patch.object(socket, "getaddrinfo", _named(resolver)))
        if lookup_seconds:
            resolver.may_answer.clear()
            timer = threading.Timer(lookup_seconds, resolver.may_answer.set)
            timer.start()
            stack.callback(resolver.may_answer.set)
            stack.callback(timer.cancel)
        endpoint = kyc_client.Endpoint(
            url=f"{scheme}://kyc.test",
            provider="verifications",
            dataset="default",
            connect_timeout_seconds=CONNECT_SECONDS,
            read_timeout_seconds=READ_SECONDS,
        )
        asking = kyc_client.Client(endpoint, CONFIG)
        began = time.monotonic()
        try:
            asking.ask(PAYMENT, "secret")
            told = "a verdict"
        except KycUnavailable as error:
            told = str(error).removeprefix("kyc: ")
        return time.monotonic() - began, told


def _named(resolver: Resolver) -> Any:
    """Return a getaddrinfo that takes any arguments, because an earlier client calls it through urllib3."""
    return lambda host, port, *_, **__: resolver.getaddrinfo(host, port)


if __name__ == "__main__":
    for name, (case, lookup_seconds) in CASES.items():
        seconds, told = measure(case, lookup_seconds)
        print(f"| {name} | {seconds:.1f} | {told} |", flush=True)
