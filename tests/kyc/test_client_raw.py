import gzip
import socket
import struct
import time

import pytest

from settlement.core.model.errors import KycUnavailable
from settlement.core.model.settlement import Settlement
from settlement.core.model.verdict import KycDecision, Verdict
from settlement.kyc.client import Refused
from tests.kyc.conftest import Ask
from tests.kyc.environments import PAYMENT
from tests.kyc.raw import (
    HEAD,
    HEAD_AND_LENGTH,
    IMPATIENT,
    PERSON,
    VERDICT,
    WAIT_SECONDS_MAX,
    Talk,
    answer,
    client,
    dripping,
    raw,
    silent,
)

LENGTH = b"Content-Length: %d\r\n\r\n"
LONGEST = VERDICT.ljust(65_536)
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
REFUSAL = b"HTTP/1.1 400 Bad Request\r\n"


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
    "the longest, in chunks": CHUNKED + chunks(LONGEST),
    "after a status of its own, 100": b"HTTP/1.1 100 Continue\r\n\r\n" + answer(),
    "more than its length": answer() + b"and more",
    "unknown fields": answer(b'{"risk": 1.5e999, ' + VERDICT[1:]),
}
BAD: dict[str, Talk | bytes] = {
    "closed before it": b"",
    "reset before it": resets,
    "closed in its status": b"HTTP/1.",
    "closed in its headers": HEAD + PERSON,
    "closed in its body": answer()[:-1],
    "a length that is too long": HEAD + LENGTH % (len(VERDICT) + 1) + VERDICT,
    "closed in a chunk": CHUNKED + b"%x\r\n" % len(VERDICT) + VERDICT[:-1],
    "closed before the last chunk": CHUNKED + chunks(VERDICT, end=b""),
    "a chunk of no length": CHUNKED + PERSON + b"\r\n" + VERDICT,
    "too long, with its length": answer(LONGEST + b" "),
    "too long, in chunks": CHUNKED + chunks(LONGEST + b" "),
    "compressed though not asked for": answer(gzip.compress(VERDICT), 200, b"Content-Encoding: gzip"),
    "a header without end": HEAD + b"X: " + b"x" * 70_000,
    "headers without end": HEAD + b"X: y\r\n" * 200 + b"\r\n",
    "not HTTP": PERSON + b"\r\n\r\n",
    "a status that is no number": b"HTTP/1.1 " + PERSON + b"\r\n\r\n" + VERDICT,
    "silent from the start": silent,
    "silent after its headers": lambda c: silent(c, HEAD + LENGTH % len(VERDICT)),
    "silent in its body": lambda c: silent(c, answer()[:-1]),
    "a drip of its status": dripping(b"HTTP/1.1 200 ", b"O"),
    "a drip of its headers": dripping(HEAD + PERSON, b"x"),
    "a drip of its body": dripping(HEAD_AND_LENGTH, b" "),
    "a drip of its chunks": dripping(CHUNKED, b"1\r\n \r\n"),
    # Its status was read, but the rest is unknown: a refusal would be final.
    "a drip at the end of a refusal's headers": dripping(REFUSAL, b"x"),
    "a drip in a refusal's header": dripping(REFUSAL + b"X: ", b"x"),
    # Without a length only the provider ends a body; here the client closes the connection.
    "a drip after a verdict": dripping(HEAD + b"\r\n" + VERDICT, b" "),
    "no JSON": answer(PERSON),
    "JSON nested beyond reason": answer(b"[" * 60_000),
    "a number of 5000 digits": answer(b'{"n": ' + b"9" * 5000 + b"}"),
    "two decisions": answer(b'{"decision": "REJECTED", ' + VERDICT[1:]),
    "a byte order mark": answer(b"\xef\xbb\xbf" + VERDICT),
    "text that is no UTF-8": answer(b'{"decision": "\xff"}'),
    "a reference that is free text": answer(VERDICT.replace(b"ver_1", b"of " + PERSON)),
}


@pytest.mark.parametrize("said", GOOD.values(), ids=GOOD)
def test_an_answer_in_any_http_framing_is_accepted(ask: Ask, said: bytes) -> None:
    with raw(said) as server:
        verdict = ask(client(server.url))

    assert verdict == Verdict(
        decision=KycDecision.APPROVED, reference="ver_1", reason=PERSON.decode(), provider="verifications"
    )


@pytest.mark.parametrize("said", BAD.values(), ids=BAD)
def test_an_answer_incomplete_in_time_is_an_outage_without_retry(ask: Ask, said: Talk | bytes) -> None:
    began = time.monotonic()

    with raw(said) as server:
        outage = ask(client(server.url, (20, 20) if isinstance(said, bytes) else IMPATIENT))
        while not server.requests and time.monotonic() - began < WAIT_SECONDS_MAX:
            time.sleep(0.01)

    assert isinstance(outage, KycUnavailable)
    assert str(outage).startswith("kyc: ")
    assert time.monotonic() - began < WAIT_SECONDS_MAX  # a drip left alone takes longer
    assert len(server.requests) == 1


def test_each_http_status_means_verdict_refusal_or_outage(ask: Ask) -> None:
    def talk(connection: socket.socket) -> bool:
        status = int(server.requests[-1].partition(b":verify")[0][-3:])
        location = b"Location: /" + PERSON
        connection.sendall(answer(b"" if status in (204, 304) else VERDICT, status, location))
        return True

    def meaning(status: int) -> str:
        told = ask(asking, Settlement(**vars(PAYMENT) | {"key": f"order-2026-000{status}"}))
        if isinstance(told, Refused):
            assert told.http_status == status
            return "wants another key" if told.wants_another_key else "refusal"
        if isinstance(told, KycUnavailable):
            return str(told).removeprefix(f"kyc: the provider answers with status {status}")
        return "verdict"

    statuses = [*range(200, 600), 999]
    with raw(talk) as server:
        asking = client(server.url)
        found = {status: meaning(status) for status in statuses}

    outages = dict.fromkeys([408, 425, 429, *range(500, 600), 999], "")
    refusals = dict.fromkeys(range(400, 500), "refusal") | dict.fromkeys((401, 403), "wants another key")
    verdicts = dict.fromkeys((200, 201), "verdict")
    assert found == dict.fromkeys(statuses, ", which is no verdict") | verdicts | refusals | outages
    assert (len(server.requests), server.connections) == (len(statuses), 1)


def test_a_redirect_is_never_followed(ask: Ask) -> None:
    with raw(answer()) as elsewhere:
        with raw(answer(b"", 307, b"Location: " + elsewhere.url.encode())) as server:
            outage = ask(client(server.url))

        assert str(outage) == "kyc: the provider answers with status 307, which is no verdict"
        assert elsewhere.connections == 0
