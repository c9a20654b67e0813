"""Checks the deployed API's routes and permissions against docs/contracts/settlements.openapi.yaml.

`tests/handlers/doors/test_settlements_contract.py` tests the functions in more depth.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import boto3
import pytest
import requests
import schemathesis
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance, unsupported_method

from settle.door import embedded_url
from settlement.core.model.status import Status
from settlement.reading.queries import WAIT_SECONDS_MAX
from tests.e2e.embedded import Embedded, new_key, new_request
from tests.e2e.test_starters import starter
from tests.handlers.doors.test_settlements_contract import api

pytestmark = pytest.mark.long

EXAMPLES = 15
"""Examples per route: few, because each call runs a function on a busy machine."""

TIMEOUT_SECONDS = (25, 175)
"""Connect and read timeouts: API Gateway answers within 30 s, this machine may be five times slower."""

few = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[
        Phase.explicit,
        Phase.generate,
    ],  # a failure is told as it is: to shrink it takes hundreds of calls
    suppress_health_check=list(HealthCheck),
)


class Signing(requests.adapters.HTTPAdapter):
    """Signs each request like an SDK, and records the keys of accepted payments."""

    def __init__(self, session: boto3.Session) -> None:
        super().__init__()
        self._session = session
        self.started: set[str] = set()

    def send(self, request: requests.PreparedRequest, *args: Any, **named: Any) -> requests.Response:
        method, url = str(request.method), str(request.url)
        sent = AWSRequest(method, url, data=request.body, headers=dict(request.headers))
        SigV4Auth(self._session.get_credentials(), "execute-api", self._session.region_name).add_auth(sent)
        request.headers.update(dict(sent.headers))
        answer = super().send(request, *args, **named | {"timeout": TIMEOUT_SECONDS})
        if answer.status_code == 202:
            self.started.add(answer.json()["key"])
        return answer


class Door:
    """The deployed API, called as a service that may read and pay."""

    def __init__(self, embedded: Embedded, session: boto3.Session) -> None:
        outputs = embedded.stack.outputs
        self.url = embedded_url(outputs["SettlementsApiUrl"], str(embedded.stack.endpoint_url))
        self.calls = requests.Session()
        self.signing = Signing(session)
        self.calls.mount(self.url, self.signing)


@pytest.fixture(scope="module")
def door(embedded: Embedded) -> Iterator[Door]:
    """Yield the API. At the end, wait for its payments, because other tests compare the table."""
    with ExitStack() as stack:
        door = Door(embedded, stack.enter_context(starter(embedded, "ReaderPolicyArn")).session)
        yield door
        embedded.wait_for(lambda: not any(is_in_flight(embedded, key) for key in door.signing.started))


def is_in_flight(embedded: Embedded, key: str) -> bool:
    return embedded.settlement(key)["status"] in (Status.PROCESSING, Status.COMPENSATING)


def wait_a_second_at_most(case: schemathesis.Case[Any]) -> None:
    """Limit a case's random wait to a second, because waits of twenty seconds would take minutes."""
    if str(case.query.get("wait")) in map(str, range(2, WAIT_SECONDS_MAX + 1)):
        case.query["wait"] = 1
    if re.fullmatch(r"wait=[1-9][0-9]?", str(case.headers.get("Prefer"))):
        case.headers["Prefer"] = "wait=1"


@api.parametrize()
@few
def test_the_deployed_api_keeps_the_contract(case: schemathesis.Case[Any], door: Door) -> None:
    wait_a_second_at_most(case)

    # As in the test of the functions: API Gateway has no route for other methods, and no schema says all.
    case.call_and_validate(
        base_url=door.url,
        session=door.calls,
        excluded_checks=[unsupported_method, positive_data_acceptance],
    )


def test_each_answer_about_a_payment_is_in_the_contract(embedded: Embedded, door: Door) -> None:
    """Random cases never name an existing payment."""
    request = new_request(embedded)
    key, unknown, payer = request["key"], new_key("unknown"), request["payer"]
    named, body = {"Idempotency-Key": key}, {name: request[name] for name in request if name != "key"}

    def status(method: str, path: str, route: str = "", **more: Any) -> int:
        answer = door.calls.request(method, f"{door.url}{path}", **more)
        api[route or path.partition("?")[0]][method].validate_response(answer)
        return answer.status_code

    assert status("POST", "/settlements", json=body, headers=named) == 202
    embedded.wait_for(lambda: embedded.settlement(key)["status"] == Status.SETTLED)
    etag = {"If-None-Match": f'"{embedded.settlement(key)["sequence"]}"'}
    other = body | {"amount": "1.00"}
    of_key, cancel, entries = "/settlements/{key}", "/settlements/{key}/cancel", "/accounts/{id}/entries"
    assert [
        status("POST", "/settlements", json=body, headers=named | {"Prefer": "wait=1"}),
        status("POST", "/settlements", json=other, headers=named),
        status("GET", f"/settlements/{key}", of_key),
        status("GET", f"/settlements/{key}", of_key, headers=etag),
        status("GET", f"/settlements/{unknown}", of_key),
        status("POST", f"/settlements/{key}/cancel", cancel, json=body),
        status("POST", f"/settlements/{unknown}/cancel", cancel, json=body),
        status("GET", f"/settlements?account={payer}"),
        status("GET", "/settlements?status=SETTLED"),
        status("GET", f"/accounts/{payer}/entries?limit=1", entries),
        status("GET", f"/accounts/{unknown}/entries", entries),
        status("GET", "/journal?limit=1"),
    ] == [200, 409, 200, 304, 404, 409, 404, 200, 400, 200, 404, 200]
