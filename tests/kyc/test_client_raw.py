"""The client's reading of answers that no HTTP library would give."""

import socket
import struct
import time
from collections.abc import Iterator

import pytest

from settlement.adapters.kyc_client import Client, Refused
from settlement.model.errors import KycUnavailable
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from settlement.model.verdict import KycDecision, Verdict
from tests.kyc.raw import (
    IMPATIENT,
    VERDICT,
    WAIT_SECONDS_MAX,
    Raw,
    Talk,
    answer,
    client,
    dripping,
    raw,
    says,
    silent,
)

HEAD = b"HTTP/1.1 200 OK\r\n"
LENGTH = b"Content-Length: %d\r\n\r\n"
LONGEST = VERDICT.ljust(65_536)
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
OUTAGE_STATUSES = {408, 425, 429}


def chunks(body: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    pieces = [body[at : at + 40_000] for at in range(0, len(body), 40_000)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + end


def resets(connection: socket.socket) -> bool:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


GOOD = {
    "with its length": answer(),
    "ended by closing": HEAD + b"\r\n" + VERDICT,
    "in chunks": CHUNKED + chunks(VERDICT),
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\n\r\n" + VERDICT,
    "the longest, with its length": answer(LONGEST),
    "the longest, ended by closing": HEAD + b"\r\n" + LONGEST,
    "the longest, in chunks": CHUNKED + chunks(LONGEST),
    "after a status of its own, 100": b"HTTP/1.1 100 Continue\r\n\r\n" + answer(),
    "more than its length": answer() + b"and more",
    "fields that nobody knows": answer(b'{"risk": 1.5e999, ' + VERDICT[1:]),
}
BAD: dict[str, Talk | bytes] = {
    "closed before it": b"",
    "reset before it": resets,
    "closed in its status": b"HTTP/1.",
    "closed in its headers": HEAD + b"Content-Len",
    "closed after its headers": HEAD + LENGTH % len(VERDICT),
    "closed in its body": answer()[:-1],
    "a length that is too long": HEAD + LENGTH % (len(VERDICT) + 1) + VERDICT,
    "a length that is too short": HEAD + LENGTH % (len(VERDICT) - 1) + VERDICT,
    "no body": answer(b""),
    "closed in a chunk": CHUNKED + b"%x\r\n" % len(VERDICT) + VERDICT[:-1],
    "closed before the last chunk": CHUNKED + chunks(VERDICT, end=b""),
    "a chunk of no length": CHUNKED + b"what\r\n" + VERDICT,
    "too long, with its length": answer(LONGEST + b" "),
    "too long, ended by closing": HEAD + b"\r\n" + LONGEST + b" ",
    "too long, in chunks": CHUNKED + chunks(LONGEST + b" "),
    "compressed though not asked for": answer(b"\x1f\x8b\x08", 200, b"Content-Encoding: gzip"),
    "a header without end": HEAD + b"X: " + b"x" * 70_000,
    "headers without end": HEAD + b"X: y\r\n" * 200 + b"\r\n",
    "not HTTP": b"SSH-2.0-OpenSSH_9.6\r\n",
    "a status that is no number": b"HTTP/1.1 OK\r\n\r\n" + VERDICT,
    "silent from the start": silent,
    "silent after its headers": lambda c: silent(c, HEAD + LENGTH % len(VERDICT)),
    "silent in its body": lambda c: silent(c, answer()[:-1]),
    "a drip of its status": dripping(b"HTTP/1.1 200 ", b"O"),
    "a drip of its headers": dripping(HEAD + b"X: ", b"x"),
    "a drip of its body": dripping(HEAD + b"Content-Length: 65000\r\n\r\n", b" "),
    "a drip of its chunks": dripping(CHUNKED, b"1\r\n \r\n"),
    "no JSON": answer(VERDICT[:-1]),
    "two answers in one": answer(VERDICT * 2),
    "JSON that is no object": answer(b"[" + VERDICT + b"]"),
    "JSON nested beyond reason": answer(b"[" * 60_000),
    "a number of 5000 digits": answer(b'{"n": ' + b"9" * 5000 + b"}"),
    "text that is no UTF-8": answer(b'{"decision": "\xff"}'),
    "no decision": answer(b'{"reference": "ver_1"}'),
    "a decision that is none": answer(VERDICT.replace(b"APPROVED", b"approved")),
    "a reference that is free text": answer(VERDICT.replace(b"ver_1", b"Alice Smith")),
}


@pytest.mark.parametrize("said", GOOD.values(), ids=GOOD)
def test_an_answer_may_come_in_any_framing_that_http_has(
    settlement: Settlement, config: StageConfig, said: bytes
) -> None:
    with raw(said) as server:
        verdict = client(server.url, config).ask(settlement, "secret")

    assert verdict == Verdict(
        decision=KycDecision.APPROVED,
        reference="ver_1",
        reason="nothing is known",
        provider="verifications",
    )


@pytest.mark.parametrize("said", BAD.values(), ids=BAD)
def test_an_answer_that_is_not_whole_in_time_is_an_outage_and_is_not_asked_for_again(
    settlement: Settlement, config: StageConfig, said: Talk | bytes
) -> None:
    began = time.monotonic()

    with raw(said) as server:
        with pytest.raises(KycUnavailable, match=r"^kyc: "):
            client(server.url, config, **_patience(said)).ask(settlement, "secret")

        assert time.monotonic() - began < WAIT_SECONDS_MAX  # a drip left alone takes longer
        assert len(server.requests) == 1


@pytest.mark.parametrize("status", [b"400 Bad Request", b"200 OK"])
@pytest.mark.parametrize("head", [b"", b"X: "], ids=["at its end", "in a header"])
def test_headers_that_were_cut_off_at_the_bound_are_no_answer(
    settlement: Settlement, config: StageConfig, status: bytes, head: bytes
) -> None:
    """The status was read, but the rest is unknown: a refusal would be final."""
    said = dripping(b"HTTP/1.1 " + status + b"\r\n" + head, b"x")

    with raw(said) as server, pytest.raises(KycUnavailable):
        client(server.url, config, **IMPATIENT).ask(settlement, "secret")


def test_a_body_that_was_cut_off_at_the_bound_is_no_answer(
    settlement: Settlement, config: StageConfig
) -> None:
    """Without a length only the provider ends a body; here the client closed the connection."""
    with raw(dripping(HEAD + b"\r\n" + VERDICT, b" ")) as server, pytest.raises(KycUnavailable):
        client(server.url, config, **IMPATIENT).ask(settlement, "secret")


@pytest.fixture(scope="module")
def statuses() -> Iterator[Raw]:
    """Answers each request with the status that the settlement's key ends with."""

    def talk(connection: socket.socket) -> bool:
        status = int(server.requests[-1].partition(b":verify")[0][-3:])
        connection.sendall(answer(b"" if status in (204, 304) else VERDICT, status, b"Location: /elsewhere"))
        return True

    with raw(talk) as server:
        yield server


@pytest.fixture(scope="module")
def asking(statuses: Raw, config: StageConfig) -> Client:
    return client(statuses.url, config, read_timeout_seconds=20)


@pytest.mark.parametrize("status", [200, 201])
def test_a_verdict_comes_with_these_statuses(asking: Client, settlement: Settlement, status: int) -> None:
    assert isinstance(asking.ask(_telling(settlement, status), "secret"), Verdict)


@pytest.mark.parametrize("status", sorted(set(range(400, 500)) - OUTAGE_STATUSES))
def test_a_status_that_blames_the_request_is_a_refusal(
    asking: Client, settlement: Settlement, status: int
) -> None:
    refused = asking.ask(_telling(settlement, status), "secret")

    assert refused == Refused(status)
    assert isinstance(refused, Refused)
    assert refused.wants_another_key == (status in (401, 403))


@pytest.mark.parametrize("status", sorted({*range(202, 400), *range(500, 600), 999, *OUTAGE_STATUSES}))
def test_every_other_status_is_an_outage_even_with_a_verdict_and_no_redirect_is_followed(
    statuses: Raw, asking: Client, settlement: Settlement, status: int
) -> None:
    before = len(statuses.requests)

    with pytest.raises(KycUnavailable, match=f"status {status}"):
        asking.ask(_telling(settlement, status), "secret")

    assert len(statuses.requests) == before + 1


def test_a_redirect_leads_nowhere_even_with_the_credentials_of_the_provider(
    settlement: Settlement, config: StageConfig
) -> None:
    with raw(answer()) as elsewhere:
        moved = answer(b"", 307, b"Location: " + elsewhere.url.encode())
        with raw(moved) as server, pytest.raises(KycUnavailable):
            client(server.url, config).ask(settlement, "secret")

        assert (elsewhere.connections, elsewhere.requests) == (0, [])


def test_a_connection_that_was_closed_in_between_is_replaced(
    settlement: Settlement, config: StageConfig
) -> None:
    """A restart of the provider closes the kept connections."""
    with raw(says(answer(), hang_up=True)) as server:
        asking = client(server.url, config)
        for number in range(3):
            server.closed.clear()
            assert isinstance(asking.ask(settlement, "secret"), Verdict)
            assert server.closed.wait(20)
            assert server.connections == number + 1


def _patience(said: Talk | bytes) -> dict[str, float]:
    """An answer that comes at once must be refused for its content, and never for its time."""
    return {"read_timeout_seconds": 20} if isinstance(said, bytes) else IMPATIENT


def _telling(settlement: Settlement, status: int) -> Settlement:
    return Settlement(**settlement.__dict__ | {"key": f"order-2026-000{status}"})
