"""Both directions of docs/contracts/kyc.openapi.yaml, with the cases that schemathesis makes of it."""

import base64
import copy
import hmac
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
import yaml
from hypothesis import HealthCheck, settings
from schemathesis.checks import ignored_auth
from schemathesis.specs.openapi.checks import unsupported_method

from handlers import _dependencies, _secrets, _step_functions, claim_key, hold_funds, kyc_decided
from settle.local.kyc_behaviour import CONTRACT, Behaviour
from settlement.adapters import kyc_verifications
from settlement.model.settlement import Settlement
from settlement.model.stage_config import StageConfig
from settlement.model.verdict import Verdict
from tests.conftest import NOW, Ledger
from tests.handlers.calls import KEY, Calls, Context
from tests.kyc.conftest import Counting, url
from tests.kyc.function_url import function_url
from tests.kyc.raw import client

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
def test_the_simulator_keeps_the_contract(
    case: schemathesis.Case, simulator: Counting, settlement: Settlement
) -> None:
    simulator.state.answers.clear()
    simulator.state.api_keys = ["secret"]

    response = case.call_and_validate(
        base_url=url(simulator), headers={"Authorization": "Bearer secret"}, timeout=10
    )

    if response.status_code == 200:
        assert isinstance(kyc_verifications.read(response.json(), settlement), Verdict)


@pytest.mark.parametrize(
    "behaviour",
    [
        *(Behaviour.APPROVE, Behaviour.REJECT, Behaviour.REVIEW),
        *(Behaviour.REVIEW_APPROVE, Behaviour.REVIEW_REJECT, Behaviour.EARLY_APPROVE),
    ],
)
def test_each_answer_of_the_simulator_is_in_the_contract_and_is_read(
    simulator: Counting, settlement: Settlement, config: StageConfig, behaviour: Behaviour
) -> None:
    simulator.state.behaviour = behaviour
    answer = _ask(simulator, settlement, config)

    asked["/verifications"]["POST"].validate_response(answer)
    assert answer.status_code == 200
    assert kyc_verifications.read(answer.json(), settlement) == client(url(simulator), config).ask(
        settlement, "secret"
    )


@pytest.mark.parametrize(
    ("behaviour", "status"), [(Behaviour.REFUSE, 400), (Behaviour.BUSY, 429), (Behaviour.ERROR, 500)]
)
def test_each_failure_of_the_simulator_is_in_the_contract(
    simulator: Counting, settlement: Settlement, config: StageConfig, behaviour: Behaviour, status: int
) -> None:
    simulator.state.behaviour = behaviour
    answer = _ask(simulator, settlement, config)

    asked["/verifications"]["POST"].validate_response(answer)
    assert answer.status_code == status


class Signing(requests.auth.AuthBase):
    """Signs a request as the provider does: its very bytes, with its id."""

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
    """A settlement that waits for its verdict, and the webhook's answers to the cases."""

    def __init__(self, ledger: Ledger, address: str) -> None:
        self.ledger, self.address = ledger, address
        self.cases = 0
        self.statuses: Counter[int] = Counter()
        self.started: list[str] = []


@pytest.fixture
def held(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    monkeypatch.setattr(_dependencies, "store", ledger.store)
    monkeypatch.setattr(_dependencies, "now", lambda: NOW)
    monkeypatch.setattr(
        _secrets, "read", lambda secret_id, *, cache_seconds, fresh=False: {"current": SECRET}
    )
    Calls(ledger, {"ClaimKey": claim_key.handler, "HoldFunds": hold_funds.handler}).before("VerifyKyc")
    with function_url(kyc_decided.handler, Context()) as address:
        held = Held(ledger, address)
        monkeypatch.setattr(_step_functions, "start", lambda arn, name, data: held.started.append(name))
        yield held
    assert held.cases >= 20
    assert {200, 400, 401, 404, 409} <= held.statuses.keys()
    assert set(held.started) == {f"{KEY}-decided"}


@told.parametrize()
@reproducible
@pytest.mark.parametrize("ledger", ["moto"], indirect=True)
def test_the_webhook_keeps_the_contract(case: schemathesis.Case, held: Held) -> None:
    """Half of the cases are signed, and half of those are about a settlement that exists."""
    held.cases += 1
    sent = case.headers or {}
    proper = all(isinstance(sent.get(name), str) and _SENT[name].fullmatch(sent[name]) for name in _SENT)
    signed = proper and held.cases % 2 == 0
    named = case.body.get("idempotency_key") if isinstance(case.body, dict) else None
    if signed and held.cases % 4 == 0 and isinstance(named, str) and NAMED.fullmatch(named):
        case.body["idempotency_key"] = f"{KEY}:verify"
    before = held.ledger.rows()

    response = case.call(base_url=held.address, timeout=10, **({"auth": Signing()} if signed else {}))

    held.statuses[response.status_code] += 1
    # A function URL takes every method; and a case that is signed afterwards has no bad signature any more.
    case.validate_response(response, excluded_checks=[unsupported_method, ignored_auth])
    if response.status_code >= 400:
        assert held.ledger.rows() == before
    if not signed:
        assert response.status_code in (400, 401)


def _ask(simulator: Counting, settlement: Settlement, config: StageConfig) -> requests.Response:
    return requests.post(
        f"{url(simulator)}/verifications",
        json=kyc_verifications.body(settlement, config),
        headers={"Authorization": "Bearer secret", "Idempotency-Key": f"{settlement.key}:verify"},
        timeout=10,
    )
