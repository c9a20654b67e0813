"""The request to the provider, and the failures to send it."""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest

from settlement.model.errors import KycRequestRefused, KycUnavailable
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from settlement.model.verdict import KycDecision, Verdict
from tests.kyc.raw import answer, client, raw

QUIET = {"status": 200, "results": []}


def listed(score: bytes = b"0.93") -> bytes:
    """One match, recorded from the match API and cut to a little more than the client reads."""
    return (
        b'{"id": "NK-1", "caption": "Alice", "schema": "Person", "datasets": ["us_ofac_sdn", "eu_fsf"],'
        b' "score": %b, "match": true, "properties": {"name": ["Alice"]}}' % score
    )


def named(settlement: Settlement) -> Settlement:
    """Return the settlement with the names of its parties."""
    return replace(settlement, payer_name="Alice Muster", payee_name="Bob Muster")


@pytest.fixture
def full() -> Iterator[int]:
    """A port with a full backlog that never accepts: to connect there takes for ever."""
    with ExitStack() as stack, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def test_a_refused_connection_is_an_outage(settlement: Settlement, config: StageConfig) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and never listens
        with pytest.raises(KycUnavailable, match=r"^kyc: NewConnectionError$"):
            client(f"http://127.0.0.1:{closed.getsockname()[1]}", config).ask(settlement, "secret")


def test_a_connection_that_does_not_come_about_is_an_outage(
    settlement: Settlement, config: StageConfig, full: int
) -> None:
    with pytest.raises(KycUnavailable, match=r"^kyc: ConnectTimeoutError$"):
        client(f"http://127.0.0.1:{full}", config).ask(settlement, "secret")


def test_an_unknown_host_is_an_outage(settlement: Settlement, config: StageConfig) -> None:
    with pytest.raises(KycUnavailable, match=r"^kyc: NameResolutionError$"):
        client("http://kyc.invalid", config).ask(settlement, "secret")


@pytest.mark.parametrize("prefix", ["", "/", "/v1", "/v1/"])
def test_a_question_is_exactly_this(settlement: Settlement, config: StageConfig, prefix: str) -> None:
    with raw(answer()) as server:
        client(server.url + prefix, config).ask(settlement, "secret")

        head, _, body = server.requests[0].partition(b"\r\n\r\n")
        request, *headers = head.decode().split("\r\n")
        assert request == f"POST {prefix.rstrip('/')}/verifications HTTP/1.1"
        assert sorted(headers) == [
            "Accept-Encoding: identity",
            "Accept: application/json",
            "Authorization: Bearer secret",
            f"Content-Length: {len(body)}",
            "Content-Type: application/json",
            f"Host: 127.0.0.1:{server.port}",
            "Idempotency-Key: order-2026-000101:verify",
            "User-Agent: settlement-saga",
        ]
        assert json.loads(body) == {"payer": "alice", "payee": "bob", "amount": "48.20", "currency": "EUR"}


@pytest.mark.parametrize(
    ("currency", "amount"), [("EUR", "48.20"), ("JPY", "4820"), ("KWD", "4.820"), ("USD", "48.20")]
)
def test_an_amount_has_the_decimals_of_its_currency(
    settlement: Settlement, config: StageConfig, currency: str, amount: str
) -> None:
    with raw(answer()) as server:
        paid = Settlement(**settlement.__dict__ | {"currency": currency})
        client(server.url, config).ask(paid, "secret")

        told = json.loads(server.requests[0].partition(b"\r\n\r\n")[2])
        assert (told["amount"], told["currency"]) == (amount, currency)


def test_each_question_has_the_key_that_it_is_asked_with(settlement: Settlement, config: StageConfig) -> None:
    with raw(lambda connection: connection.sendall(answer())) as server:
        asking = client(server.url, config)
        asking.ask(settlement, "old")
        asking.ask(settlement, "new")

        sent = [request.partition(b"Authorization: ")[2].partition(b"\r\n")[0] for request in server.requests]
        assert sent == [b"Bearer old", b"Bearer new"]
        assert server.connections == 1


def test_opensanctions_is_asked_about_both_parties_by_name(
    settlement: Settlement, config: StageConfig
) -> None:
    said = json.dumps({"responses": {"payer": QUIET, "payee": QUIET}, "limit": 5}).encode()
    with raw(answer(said)) as server:
        verdict = client(server.url, config, "opensanctions").ask(named(settlement), "secret")

        head, _, body = server.requests[0].partition(b"\r\n\r\n")
        assert head.startswith(b"POST /match/default HTTP/1.1\r\n")
        assert b"Authorization: ApiKey secret\r\n" in head
        assert json.loads(body) == {
            "queries": {
                "payer": {"schema": "LegalEntity", "properties": {"name": ["Alice Muster"]}},
                "payee": {"schema": "LegalEntity", "properties": {"name": ["Bob Muster"]}},
            }
        }
    assert verdict == Verdict(
        decision=KycDecision.APPROVED,
        reference="order-2026-000101:verify",
        reason="no listed party matches",
        provider="opensanctions",
    )


@pytest.mark.parametrize("party", ["payer", "payee"])
def test_a_match_of_opensanctions_is_a_review_with_the_score_as_it_was_sent(
    settlement: Settlement, config: StageConfig, party: str
) -> None:
    responses = {"payer": b'{"status": 200, "results": []}', "payee": b'{"status": 200, "results": []}'}
    responses[party] = b'{"status": 200, "results": [%b]}' % listed(b"0.930000000000000001")
    said = b'{"responses": {"payer": %b, "payee": %b}}' % (responses["payer"], responses["payee"])

    with raw(answer(said)) as server:
        verdict = client(server.url, config, "opensanctions").ask(named(settlement), "secret")

    assert isinstance(verdict, Verdict)
    assert verdict.decision is KycDecision.REVIEW
    assert verdict.reason == f"{party}: NK-1 in us_ofac_sdn, eu_fsf, score 0.930000000000000001"


@pytest.mark.parametrize(
    "responses",
    [
        pytest.param({"payer": QUIET}, id="one party is missing"),
        pytest.param({"payer": QUIET, "payee": QUIET | {"status": 500}}, id="one query has failed"),
        pytest.param({"payer": QUIET, "payee": {"status": 200, "results": {}}}, id="results are no list"),
        pytest.param({"payer": QUIET, "payee": {"status": 200, "results": [{}]}}, id="a result is empty"),
        pytest.param([], id="no object"),
    ],
)
def test_half_an_answer_of_opensanctions_is_an_outage(
    settlement: Settlement, config: StageConfig, responses: object
) -> None:
    said = answer(json.dumps({"responses": responses}).encode())
    with raw(said) as server, pytest.raises(KycUnavailable, match="not what its contract says"):
        client(server.url, config, "opensanctions").ask(named(settlement), "secret")


def test_opensanctions_is_not_asked_without_names(settlement: Settlement, config: StageConfig) -> None:
    """It approves what matches no list, and an account id matches none."""
    with raw(answer()) as server:
        with pytest.raises(KycRequestRefused):
            client(server.url, config, "opensanctions").ask(settlement, "secret")

        assert server.connections == 0
