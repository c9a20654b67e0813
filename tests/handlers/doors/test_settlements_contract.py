"""Schemathesis checks the services' API against docs/contracts/settlements.openapi.yaml."""

import base64
import copy
import io
import json
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
import requests
import schemathesis
import urllib3
import yaml
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance, unsupported_method

from handlers.payouts import _payouts, serve_payouts
from handlers.reading import read_settlements
from infra.doors import CANCEL_ROUTE as CANCEL
from infra.doors import START_ROUTE as START
from infra.payouts import PAY_ROUTE, READ_ROUTE
from settlement.core.ledger import keys
from settlement.core.model.request import KEY as KEY_PATTERN
from settlement.core.model.request import STARTED_BY
from settlement.journal.sealed_journal import SealedJournal
from settlement.payouts import destination
from settlement.payouts.payout import Status as PayoutStatus
from settlement.reading import queries as reading
from tests.handlers.conftest import Calls
from tests.handlers.reading.test_read_settlements import Clock, clock
from tests.unit.payouts.rows import ADA, BEA, GIVEN
from tests.unit.payouts.rows import STATES as PAYOUT_STATES
from tests.world.constants import KEY, OTHER_CONTENT, WIRE
from tests.world.contracts import CONTRACTS, checked_outcome, schema
from tests.world.environment import NOW
from tests.world.functions import HANDLERS, Context
from tests.world.ledger import Ledger, signing
from tests.world.memory_s3 import MemoryS3
from tests.world.posting import NAMELESS
from tests.world.sealed import inserted
from tests.world.step_functions import StepFunctions

__all__ = ["clock"]

CONTRACT: dict[str, Any] = yaml.safe_load((CONTRACTS / "settlements.openapi.yaml").read_text())
api = schemathesis.openapi.from_dict(
    {name: part for name, part in copy.deepcopy(CONTRACT).items() if name != "security"}
)
"""The contract without the signature, which API Gateway checks and the function never sees."""

PAYOUTS = {"limits": {"payout": {"EUR": 10_000}, "day": {"EUR": 20_000}}}

reproducible = settings(
    max_examples=80,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
statuses: Counter[int] = Counter()


class Door(requests.adapters.HTTPAdapter):
    """Calls the function as an HTTP API does: with route, decoded parameters, and repeated ones joined."""

    def send(self, request: requests.PreparedRequest, *_: Any, **__: Any) -> requests.Response:
        url = urlsplit(str(request.url))
        query: dict[str, str] = {}
        for name, value in parse_qsl(url.query, keep_blank_values=True):
            query[name] = f"{query[name]},{value}" if name in query else value
        parts = [unquote(one) for one in url.path.strip("/").split("/")]
        event: dict[str, Any] = {
            "headers": {name.lower(): str(value) for name, value in request.headers.items()},
            "requestContext": {},
            **({"queryStringParameters": query} if query else {}),
            **_routed(parts),
        }
        name = "ServePayouts" if parts[0] == "payouts" else "ReadSettlements"
        if request.method == "POST":
            body = request.body or b""
            encoded = base64.b64encode(body if isinstance(body, bytes) else str(body).encode()).decode()
            event |= {"routeKey": START, "body": encoded, "isBase64Encoded": True}
            name = "AcceptSettlements"
            if parts == ["payouts"]:
                event["routeKey"], name = PAY_ROUTE, "ServePayouts"
            if parts[-1] == "cancel" and len(parts) > 2:
                event |= {"routeKey": CANCEL, "pathParameters": {"key": "/".join(parts[1:-1])}}
                name = "CancelSettlement"
        told = HANDLERS[name](event, Context())
        statuses[told["statusCode"]] += 1
        raw = urllib3.HTTPResponse(
            body=io.BytesIO(told.get("body", "").encode()),
            headers=told["headers"],
            status=told["statusCode"],
            preload_content=False,
        )
        return self.build_response(request, raw)


def _routed(parts: list[str]) -> dict[str, Any]:
    if parts == ["journal"]:
        return {"routeKey": "GET /journal"}
    if parts[0] == "accounts":
        return {"routeKey": "GET /accounts/{id}/entries", "pathParameters": {"id": parts[1]}}
    if parts[0] == "payouts":
        return {"routeKey": READ_ROUTE, "pathParameters": {"key": "/".join(parts[1:])}}
    if len(parts) == 1:
        return {"routeKey": "GET /settlements"}
    return {"routeKey": "GET /settlements/{key}", "pathParameters": {"key": "/".join(parts[1:])}}


@pytest.fixture
def door(
    calls: Calls, clock: Clock, s3: MemoryS3, monkeypatch: pytest.MonkeyPatch
) -> Iterator[requests.Session]:
    monkeypatch.setattr(_payouts, "config", lambda: PAYOUTS)
    monkeypatch.setattr(serve_payouts, "_ask", lambda key: None)
    calls.after("CollectFee")
    rows = [row for row in calls.ledger.rows() if row["pk"].startswith("ENTRIES#")]
    SealedJournal(s3, "journal").add([*map(inserted, rows)], NOW - timedelta(hours=1))
    with requests.Session() as session:
        session.mount("https://", Door())
        yield session


@api.include(method="GET").parametrize()
@reproducible
def test_the_reading_function_keeps_the_contract(
    case: schemathesis.Case[Any], door: requests.Session, ledger: Ledger
) -> None:
    before = ledger.rows()

    # API Gateway has no route for the other methods. And no schema says that
    # there is no 30th of February, which parameters go together, and which cursor a page has given.
    case.call_and_validate(
        base_url="https://door.example.com",
        session=door,
        excluded_checks=[unsupported_method, positive_data_acceptance],
    )

    assert ledger.rows() == before


@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # of a case that is 38 kB
@api.include(method="POST").parametrize()
@reproducible
def test_the_functions_that_start_and_cancel_keep_the_contract(
    case: schemathesis.Case[Any], door: requests.Session, step_functions: StepFunctions
) -> None:
    # No schema says that a fee is less than its amount, or what a currency's decimals are.
    case.call_and_validate(
        base_url="https://door.example.com",
        session=door,
        excluded_checks=[unsupported_method, positive_data_acceptance],
    )


@pytest.mark.parametrize(
    ("key", "body", "status"),
    [
        (KEY, WIRE, 200),
        ("order-2026-000999", NAMELESS, 202),
        (KEY, OTHER_CONTENT[0], 409),
        ("short", NAMELESS, 400),
    ],
)
def test_each_answer_to_a_start_is_in_the_contract(
    door: requests.Session, step_functions: StepFunctions, key: str, body: Any, status: int
) -> None:
    answer = door.post("https://door.example.com/settlements", json=body, headers={"Idempotency-Key": key})

    api["/settlements"]["POST"].validate_response(answer)
    assert answer.status_code == status


@pytest.mark.parametrize(
    ("key", "body", "headers", "status"),
    [
        (KEY, WIRE, {}, 409),
        (KEY, WIRE, {"If-Match": '"1"'}, 412),
        (KEY, OTHER_CONTENT[0], {}, 409),
        ("order-2026-000999", NAMELESS, {}, 404),
        (KEY, NAMELESS, {"If-Match": "1"}, 400),
        ("order-2026-000998", NAMELESS, {"If-Match": '"1"'}, 200),
    ],
)
def test_each_answer_to_a_cancellation_is_in_the_contract(
    door: requests.Session,
    step_functions: StepFunctions,
    *,
    key: str,
    body: Any,
    headers: dict[str, str],
    status: int,
) -> None:
    base = "https://door.example.com/settlements"
    door.post(base, json=NAMELESS, headers={"Idempotency-Key": "order-2026-000998"})

    answer = door.post(f"{base}/{key}/cancel", json=body, headers=headers)

    api["/settlements/{key}/cancel"]["POST"].validate_response(answer)
    assert answer.status_code == status


PAYOUT = {"key": "payout-2026-000101", "account": "alice", "currency": "EUR", "destination": "flat-9"}


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({}, 202),
        ({"key": "payout-2026-000102"}, 200),
        ({"key": "payout-2026-000102", "amount": "2.00"}, 409),
        ({"amount": "99999.00"}, 422),
        ({"account": "bob"}, 422),
        ({"destination": "nowhere"}, 422),
        ({"amount": "0"}, 400),
    ],
)
def test_each_answer_to_a_payout_is_in_the_contract(
    door: requests.Session, calls: Calls, changed: dict[str, str], status: int
) -> None:
    url, payout = "https://door.example.com/payouts", PAYOUT | {"amount": "1.00"}
    payable(calls.ledger)
    door.post(url, json=payout | {"key": "payout-2026-000102"})

    answer = door.post(url, json=payout | changed)
    read = door.get(f"{url}/payout-2026-000102")

    api["/payouts"]["POST"].validate_response(answer)
    api["/payouts/{key}"]["GET"].validate_response(read)
    assert (answer.status_code, read.status_code) == (status, 200)
    told = CONTRACT["components"]["schemas"]["Payout"]
    assert {*told["required"]} <= read.json().keys() <= told["properties"].keys()


@pytest.mark.parametrize("status", PAYOUT_STATES)
def test_every_state_of_a_payout_is_in_the_contract(
    door: requests.Session, ledger: Ledger, status: PayoutStatus
) -> None:
    state = PAYOUT_STATES[status]
    ledger.put(state.to_row())

    read = door.get(f"https://door.example.com/payouts/{state.key}")

    api["/payouts/{key}"]["GET"].validate_response(read)
    told = CONTRACT["components"]["schemas"]["Payout"]
    assert read.json().keys() <= told["properties"].keys()
    assert told["properties"]["status"]["enum"] == [*PAYOUT_STATES]


def payable(ledger: Ledger) -> None:
    """Put a payee's bank account that two persons have added and confirmed."""
    store, at = signing(ledger).store, NOW - timedelta(days=3)
    store.put(destination.add(GIVEN | {"id": "flat-9"}, ADA, at))
    row = ledger.row(keys.destination("flat-9"))
    assert row
    found = destination.Destination.from_rows(row, None)
    store.put(destination.confirm(found, {**GIVEN, "id": "flat-9"}, BEA, timedelta(days=1), at))


def test_the_apis_request_schema_equals_the_requests_own_contract() -> None:
    told, own = CONTRACT["components"]["schemas"]["Request"], schema("settlement-request")

    def rules(field: dict[str, Any]) -> dict[str, Any]:
        return {name: rule for name, rule in field.items() if name not in ("description", "examples")}

    fields = {name: rules(field) for name, field in own["properties"].items() if name != STARTED_BY}
    assert told["properties"] == fields
    assert {"key", *told["required"]} == set(own["required"])


def test_the_apis_outcome_schema_agrees_with_the_outcomes_own_contract(door: requests.Session) -> None:
    answer = door.get(f"https://door.example.com/settlements/{KEY}")

    api["/settlements/{key}"]["GET"].validate_response(answer)
    assert checked_outcome(answer.json())["replayed"] is True
    told = CONTRACT["components"]["schemas"]["Outcome"]
    assert told["required"] == schema("settlement-outcome")["required"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/payouts/payout-2026-999999", 404),
        ("/payouts/short", 400),
        (f"/settlements/{KEY}", 200),
        ("/settlements/order-2026-999999", 404),
        ("/settlements?account=alice", 200),
        ("/settlements?status=LIMBO", 200),
        ("/settlements?status=SETTLED", 400),
        ("/accounts/fees%3AEUR/entries?limit=1", 200),
        ("/accounts/carol/entries", 404),
        ("/journal?limit=1", 200),
        ("/journal?cursor=x", 400),
    ],
)
def test_each_answer_to_a_reading_keeps_the_contract(door: requests.Session, path: str, status: int) -> None:
    answer = door.get(f"https://door.example.com{path}")

    route = _routed(urlsplit(path).path.strip("/").split("/"))["routeKey"].partition(" ")[2]
    api[route]["GET"].validate_response(answer)
    assert answer.status_code == status


def test_the_contracts_routes_and_limits_match_the_code() -> None:
    schemas = CONTRACT["components"]["schemas"]
    bounds = {
        (path, one["name"]): one["schema"].get("maximum")
        for path, methods in CONTRACT["paths"].items()
        for one in methods.get("get", {}).get("parameters", ())
        if "name" in one
    }

    routes = {f"{one.upper()} {path}" for path, methods in CONTRACT["paths"].items() for one in methods}
    assert routes == {*read_settlements.ROUTES, *serve_payouts.ROUTES, START, CANCEL}
    assert schemas["Key"]["pattern"] == f"^{KEY_PATTERN.pattern}$"
    assert bounds["/settlements/{key}", "wait"] == reading.WAIT_SECONDS_MAX
    assert CONTRACT["paths"]["/settlements"].keys() == {"get", "post"}
    assert bounds["/settlements", "limit"] == reading.PAGE_SETTLEMENTS_MAX
    assert bounds["/accounts/{id}/entries", "limit"] == reading.PAGE_ENTRIES_MAX
    assert bounds["/journal", "limit"] == reading.PAGE_JOURNAL_MAX
    assert json.dumps([*reading.LISTED]) in json.dumps(CONTRACT["paths"]["/settlements"])
