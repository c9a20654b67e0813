import json
from dataclasses import replace

import pytest

from settlement.core.model.errors import KycRequestRefused
from settlement.core.model.verdict import KycDecision, Verdict
from settlement.kyc import client as kyc_client
from tests.kyc.conftest import Ask
from tests.kyc.environments import PAYMENT
from tests.kyc.raw import answer, client, raw, says

QUIET = b'{"status": 200, "results": []}'
MATCH = b'{"id": "NK-1", "datasets": ["us_ofac_sdn"], "score": 0.930000000000000001, "match": true}'
NAMED = replace(PAYMENT, payer_name="Alice Muster", payee_name="Bob Muster")


@pytest.mark.parametrize("prefix", ["", "/", "/v1/"])
def test_a_question_contains_exactly_the_expected_headers_and_body(prefix: str) -> None:
    with raw(answer()) as server:
        client(server.url + prefix).ask(PAYMENT, "secret")

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


def test_each_question_is_sent_with_the_api_key_given() -> None:
    with raw(says(answer(), hang_up=False)) as server:
        asking = client(server.url)
        for key in ("old", "new"):
            asking.ask(PAYMENT, key)

    sent = [request.partition(b"Authorization: ")[2].partition(b"\r\n")[0] for request in server.requests]
    assert sent == [b"Bearer old", b"Bearer new"]
    assert server.connections == 1


def test_the_log_line_has_the_provider_and_the_http_status(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    noted: dict[str, object] = {}
    monkeypatch.setattr(kyc_client, "note", noted.__setitem__)
    with raw(answer()) as server:
        ask(client(server.url))

    assert noted == {"kyc": {"provider": "verifications", "http_status": 200}}


def test_opensanctions_gets_both_parties_names_and_its_score_stays_exact() -> None:
    said = b'{"responses": {"payer": %b, "payee": {"status": 200, "results": [%b]}}}' % (QUIET, MATCH)

    with raw(answer(said)) as server:
        verdict = client(server.url, provider="opensanctions").ask(NAMED, "secret")

    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /match/default HTTP/1.1\r\n")
    assert b"Authorization: ApiKey secret\r\n" in head
    assert json.loads(body)["queries"].keys() == {"payer", "payee"}
    assert b"Alice Muster" in body
    assert isinstance(verdict, Verdict)
    assert verdict.decision is KycDecision.REVIEW
    assert verdict.reason == "payee: NK-1 in us_ofac_sdn, score 0.930000000000000001"


def test_opensanctions_is_not_asked_without_names() -> None:
    """Without names it would approve each party, because no list contains an account id."""
    with raw(answer()) as server:
        asking = client(server.url, provider="opensanctions")
        for refused in (lambda: asking.ensure_can_ask(PAYMENT), lambda: asking.ask(PAYMENT, "secret")):
            with pytest.raises(KycRequestRefused):
                refused()
        asking.ensure_can_ask(NAMED)
        client(server.url).ensure_can_ask(PAYMENT)

    assert server.connections == 0
