"""Schemathesis checks the simulated provider and our webhook against docs/contracts/kyc.openapi.yaml."""

import base64
import copy
import hmac
import io
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
import urllib3
import yaml
from hypothesis import HealthCheck, settings
from schemathesis.checks import ignored_auth
from schemathesis.specs.openapi.checks import unsupported_method

from handlers import _dependencies
from settle.local.kyc_behaviour import CONTRACT, Behaviour
from settlement.aws import resumption
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.verdict import Verdict
from settlement.kyc import shared_secrets as _secrets
from settlement.kyc import verifications as kyc_verifications
from tests.kyc.conftest import Counting
from tests.kyc.environments import PAYMENT
from tests.kyc.test_client import DECISIONS
from tests.world.constants import KEY
from tests.world.environment import NOW
from tests.world.functions import HANDLERS, Calls, Context
from tests.world.ledger import Ledger

SECRET = "whsec_" + "c2VjcmV0IG9mIHRoZSB3ZWJob29rIG9mIHRlc3Rz"
KEY_BYTES = base64.b64decode(SECRET.removeprefix("whsec_"))
NAMED = re.compile(r"[A-Za-z0-9_-]{16,64}:verify", re.ASCII)
_SENT = {
    "webhook-id": re.compile(r"[!-~]{1,200}", re.ASCII),
    "webhook-timestamp": re.compile(r"[0-9]{1,12}", re.ASCII),
    "webhook-signature": re.compile(r"[!-~][ -~]*", re.ASCII),
}

_contract = yaml.safe_load(CONTRACT.read_text())
asked = schemathesis.openapi.from_dict(_contract)
told = schemathesis.openapi.from_dict(
    {
        **{name: part for name, part in copy.deepcopy(_contract).items() if name != "webhooks"},
        "paths": {"/": copy.deepcopy(_contract["webhooks"]["decided"])},
    }
)

# The same cases each time: a check of every change must not vary. All cases of a test share its fixtures.
reproducible = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@asked.parametrize()
@reproducible
def test_the_simulator_keeps_the_contract(case: schemathesis.Case[Any], simulator: Counting) -> None:
    simulator.state.answers.clear()
    simulator.state.api_keys = ["secret"]

    response = case.call_and_validate(
        base_url=simulator.url, headers={"Authorization": "Bearer secret"}, timeout=60
    )

    if response.status_code == 200:
        assert isinstance(kyc_verifications.read(response.json(), PAYMENT), Verdict)


FAILURES = {Behaviour.REFUSE: 400, Behaviour.BUSY: 429, Behaviour.ERROR: 500}


@pytest.mark.parametrize("behaviour", [*DECISIONS, *FAILURES])
def test_each_answer_of_the_simulator_is_in_the_contract(
    simulator: Counting, config: StageConfig, behaviour: Behaviour
) -> None:
    simulator.state.behaviour = behaviour

    answer = requests.post(
        f"{simulator.url}/verifications",
        json=kyc_verifications.body(PAYMENT, config),
        headers={"Authorization": "Bearer secret", "Idempotency-Key": f"{PAYMENT.key}:verify"},
        timeout=60,
    )

    asked["/verifications"]["POST"].validate_response(answer)
    assert answer.status_code == FAILURES.get(behaviour, 200)


class FunctionUrl(requests.adapters.HTTPAdapter):
    """Calls the webhook like a function URL: lower-case headers, binary body in base64.

    Source: https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html
    """

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        body: Any = request.body or b""
        sent: bytes = body.encode() if isinstance(body, str) else body
        event: dict[str, Any] = {
            "version": "2.0",
            "rawPath": "/",
            "rawQueryString": "",
            "headers": {name.lower(): value for name, value in request.headers.items()},
            "requestContext": {"http": {"method": request.method, "path": "/"}},
            "isBase64Encoded": False,
        }
        try:
            event |= {"body": sent.decode()} if sent else {}
        except UnicodeDecodeError:
            event |= {"body": base64.b64encode(sent).decode(), "isBase64Encoded": True}
        answer = HANDLERS["KycDecided"](event, Context())
        content = io.BytesIO(b"" if request.method == "HEAD" else answer["body"].encode())
        raw = urllib3.HTTPResponse(
            content, answer["headers"], answer["statusCode"], version=11, preload_content=False
        )
        return self.build_response(request, raw)


class Signing(requests.auth.AuthBase):
    """Signs a request's exact bytes and id, like the provider."""

    def __call__(self, request: Any) -> Any:
        event, body = (
            sent.encode() if isinstance(sent, str) else sent
            for sent in (request.headers["webhook-id"], request.body or b"")
        )
        sent_at = str(int(NOW.timestamp()))
        # By hand, as the library signs texts only, and a body may be any bytes.
        signature = hmac.digest(KEY_BYTES, b".".join((event, sent_at.encode(), body)), "sha256")
        request.headers["webhook-timestamp"] = sent_at
        request.headers["webhook-signature"] = f"v1,{base64.b64encode(signature).decode()}"
        return request


class Held:
    """A settlement awaiting its verdict, and the webhook's answers to the cases."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.cases = 0
        self.statuses: Counter[int] = Counter()
        self.resumed: list[tuple[str, str]] = []
        self.session = requests.Session()
        self.session.mount("http://", FunctionUrl())


@pytest.fixture
def held(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    held = Held(ledger)
    monkeypatch.setattr(_dependencies, "store", ledger.store)
    monkeypatch.setattr(_dependencies, "now", lambda: NOW)
    monkeypatch.setattr(
        _secrets, "read", lambda secret_id, *, cache_seconds, fresh=False, metric="": {"current": SECRET}
    )
    monkeypatch.setattr(resumption, "ask", lambda key, owner: held.resumed.append((key, owner)))
    Calls(ledger).before("VerifyKyc")
    yield held
    assert held.cases >= 20
    assert {200, 400, 401, 404, 409} <= held.statuses.keys()
    assert set(held.resumed) == {(KEY, f"{KEY}-decided")}


@told.parametrize()
@reproducible
@pytest.mark.parametrize("engine", ["memory"])
def test_the_webhook_keeps_the_contract(case: schemathesis.Case[Any], held: Held) -> None:
    """Half of the cases are signed, half of those for an existing settlement."""
    held.cases += 1
    sent: dict[str, Any] = dict(case.headers or {})
    proper = all(isinstance(sent.get(name), str) and _SENT[name].fullmatch(sent[name]) for name in _SENT)
    signed = proper and held.cases % 2 == 0
    body: Any = case.body
    named = body.get("idempotency_key") if isinstance(body, dict) else None
    if signed and held.cases % 4 == 0 and isinstance(named, str) and NAMED.fullmatch(named):
        body["idempotency_key"] = f"{KEY}:verify"
    before = held.ledger.rows()
    auth: dict[str, Any] = {"auth": Signing()} if signed else {}

    response = case.call(base_url="http://webhook", session=held.session, timeout=60, **auth)

    held.statuses[response.status_code] += 1
    # A function URL takes every method; and a case that is signed afterwards has no bad signature any more.
    case.validate_response(response, excluded_checks=[unsupported_method, ignored_auth])
    if response.status_code >= 400:
        assert held.ledger.rows() == before
    if not signed:
        assert response.status_code in (400, 401)
