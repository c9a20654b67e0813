from typing import Any

import boto3
import pytest

import settlement_client
from clients.conformance.server import ACCESS_KEY, REGION, SECRET_KEY, cases, serving
from settlement_client import Arrival, Client, Reading, Request, SettlementClientError, parse_event
from tests.client.conftest import Clock
from tests.unit.contracts import EVENT, OUTCOME, faults

CASES = cases()

each_case = pytest.mark.parametrize("name", CASES)


def result_of(call: dict[str, Any], url: str) -> Any:
    session = boto3.Session(ACCESS_KEY, SECRET_KEY, region_name=REGION)
    client = Client(api_url=url, session=session)
    match call["method"]:
        case "start":
            options = {name: call[name] for name in ("wait", "seconds") if name in call}
            return told(client.start(Request(**call["request"]), **options))
        case "get":
            return told(client.status(call["key"]))
        case "wait":
            return told(client.wait(call["key"], call["seconds"], call.get("after")))
        case "cancel":
            return told(client.cancel(Request(**call["request"]), call.get("seen")))
        case "receive":
            return arrivals(call["events"])
    raise AssertionError(f"{call}: has no method that this client knows")


def told(found: Reading | None) -> dict[str, Any] | None:
    return None if found is None else {"status": found.outcome.status, "sequence": found.sequence}


def arrivals(events: list[dict[str, Any]]) -> list[Arrival]:
    found, last = [], None
    for event in map(parse_event, events):
        found.append(Arrival.of(last, event.sequence))
        last = max(last or 0, event.sequence)
    return found


@each_case
def test_the_python_client_passes_each_case_of_the_shared_table(name: str, clock: Clock) -> None:
    case = CASES[name]

    with serving(case["exchanges"], clock.passed) as (url, script):
        if "error" in case:
            with pytest.raises(SettlementClientError, match=case["message"]) as raised:
                result_of(case["call"], url)
            assert type(raised.value) is getattr(settlement_client, case["error"])
        else:
            assert result_of(case["call"], url) == case["result"]

        assert script.faults() == []
    assert clock.slept == case.get("pauses", clock.slept)


@each_case
def test_outcomes_and_events_of_the_table_keep_their_contracts(name: str) -> None:
    case = CASES[name]
    bodies = [exchange["answer"].get("body") for exchange in case["exchanges"]]
    outcomes = [body for body in bodies if isinstance(body, dict) and "status" in body]
    found = [fault for body in outcomes for fault in faults(OUTCOME, body)]
    found += [fault for event in case["call"].get("events", []) for fault in faults(EVENT, event)]

    assert bool(found) is case.get("breaks_contract", False)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"path": "/settlement"}, "path is"),
        ({"headers": {"Prefer": "wait=1"}}, "headers is"),
        ({"headers": {"Idempotency-Key": None}}, "headers is"),
        ({"body": {}}, "body is"),
        ({"query": {"wait": "1"}}, "query is"),
        ({"method": "GET"}, "method is"),
    ],
)
def test_the_test_server_reports_an_unexpected_call(change: dict[str, Any], words: str) -> None:
    (exchange,) = CASES["accepted"]["exchanges"]
    expected = {"request": exchange["request"] | change, "answer": exchange["answer"]}

    with serving([expected]) as (url, script):
        result_of(CASES["accepted"]["call"], url)

        (fault,) = script.faults()
    assert words in fault


def test_the_test_server_reports_missing_and_surplus_calls() -> None:
    case = CASES["accepted"]

    with serving([]) as (url, script), pytest.raises(settlement_client.InvalidRequest):
        result_of(case["call"], url)
    with serving(case["exchanges"]) as (_, other):
        pass

    assert script.faults() == ["POST /settlements: no more calls are expected"]
    assert other.faults() == ["/settlements: was not asked"]


def test_the_test_server_reports_a_wrong_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["read"]
    monkeypatch.setattr(f"{__name__}.SECRET_KEY", "another")

    with serving(case["exchanges"]) as (url, script):
        result_of(case["call"], url)

        (fault,) = script.faults()
    assert "the signature is wrong" in fault
