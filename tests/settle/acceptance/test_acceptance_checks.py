"""Tests of acceptance checks that the local engines cannot run, against AWS's documented answers."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Lock
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from settle.acceptance import load, ringing, watching
from settle.acceptance.checks import CHECKS, chosen
from settle.acceptance.provider import ERROR, REVIEW
from settle.acceptance.report import described, markdown
from settle.acceptance.run import AMOUNT, Run
from settle.acceptance.runner import Report
from settle.acceptance.trouble import interval
from settle.acceptance.verdict import NotApplicable, Refuted
from settle.acceptance.webhook import Event, foreign_secret, signed
from settle.accounts import accounts
from settle.local.kyc_behaviour import Behaviour, behaviour_of
from settle.stack import Stack
from settlement.core.model.request import ACCOUNT
from settlement.core.model.verdict import parse_verdict
from tests.settle.acceptance.stage import stage
from tests.unit import states

Message = dict[str, str]


def run_on(client: Any, **more: Any) -> Run:
    return Run(stage(client), **more)


class History:
    """History of an execution waiting in LIMBO."""

    def __init__(self, timeout: int | None, state: str = "AwaitResolution") -> None:
        scheduled = {"resource": "invoke.waitForTaskToken", "timeoutInSeconds": timeout}
        self.events: list[dict[str, Any]] = [
            {"taskScheduledEventDetails": {"resource": "invoke", "timeoutInSeconds": 10}},
            {"stateEnteredEventDetails": {"name": state, "input": json.dumps({"wait_seconds": 900})}},
            {"taskScheduledEventDetails": {k: v for k, v in scheduled.items() if v is not None}},
        ]

    def get_paginator(self, operation: str) -> Any:
        assert operation == "get_execution_history"
        return SimpleNamespace(paginate=lambda **asked: [{"events": [one]} for one in self.events])


def waited(history: History) -> str:
    return interval(run_on(history, stuck="arn:of:stuck"))


def test_the_check_accepts_a_wait_of_the_stated_length() -> None:
    assert "after 900 s" in waited(History(900))


STOPPED = datetime(2026, 11, 24, 12, tzinfo=UTC)


def aborted(monkeypatch: pytest.MonkeyPatch, *changes: tuple[str, int]) -> str:
    """Check an alarm that had these changes: (state, seconds after the stop)."""
    monkeypatch.setattr(watching, "ALARM_SECONDS_MAX", 0)
    alarm = {"PagerSettlementStandardAborted": "an-alarm"}
    monkeypatch.setattr(watching, "physical", lambda stack, kind: alarm)
    items = [
        {
            "Timestamp": STOPPED + timedelta(seconds=seconds),
            "HistoryData": json.dumps({"newState": {"stateValue": state}}),
        }
        for state, seconds in changes
    ]
    client = SimpleNamespace(describe_alarm_history=lambda **asked: {"AlarmHistoryItems": items})
    return watching.aborted(run_on(client, stopped_at=STOPPED))


def test_the_check_accepts_an_alarm_that_fires_and_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    told = aborted(monkeypatch, ("OK", 10), ("ALARM", 90), ("OK", 400))

    assert told == "an-alarm went off 90 s after the stop, and was over after 400 s"


Patch = pytest.MonkeyPatch


@pytest.mark.parametrize(
    ("check", "failure", "why"),
    [
        (lambda patch: waited(History(20)), Refuted, "is 20, and should be 900"),
        (lambda patch: waited(History(None)), Refuted, "is None, and should be 900"),
        (
            lambda patch: waited(History(900, "PrepareAlert")),
            Refuted,
            "stuck has not entered AwaitResolution",
        ),
        (lambda patch: interval(run_on(History(900))), NotApplicable, "no case of LIMBO has waited"),
        (aborted, Refuted, r"after the stop: is \[\], and should be"),
        (lambda patch: aborted(patch, ("OK", 10)), Refuted, r"after the stop: is \[\], and should be"),
        (lambda patch: aborted(patch, ("ALARM", 90)), Refuted, r"after the stop: is \['ALARM'\], and should"),
        (lambda patch: watching.aborted(run_on(None)), NotApplicable, "no execution was stopped"),
    ],
)
def test_a_wrong_or_missing_wait_or_alarm_is_not_proven(
    monkeypatch: Patch, check: Callable[[Patch], str], failure: type[Exception], why: str
) -> None:
    with pytest.raises(failure, match=why):
        check(monkeypatch)


class CloudWatch:
    """Alarms that publish their changes, unless silenced."""

    def __init__(self, silent: Sequence[tuple[str, str]] = (), before: str = "OK") -> None:
        self.silent, self.states = silent, {"urgent-1": "ALARM", "urgent-2": before, "morning": "OK"}
        self.sent: list[Message] = []

    def described(self) -> list[dict[str, Any]]:
        topics = {name: [name.partition("-")[0]] for name in self.states}
        return [
            {"AlarmName": name, "StateValue": state, "AlarmActions": topics[name], "OKActions": topics[name]}
            for name, state in self.states.items()
        ]

    def set_alarm_state(self, **asked: str) -> None:
        name, state = asked["AlarmName"], asked["StateValue"]
        assert asked["StateReason"].startswith("acceptance ")
        if self.states[name] != state and (name, state) not in self.silent:
            self.sent.append({"Message": json.dumps({"AlarmName": name, "NewStateValue": state})})
        self.states[name] = state


@pytest.fixture
def rings(monkeypatch: pytest.MonkeyPatch) -> Callable[[CloudWatch], str]:
    """Return the check of alarms. Its queue already holds another alert."""

    def check(alarms: CloudWatch) -> str:
        @contextmanager
        def messages(stack: Stack, topics: Sequence[str]) -> Iterator[Callable[[], Iterator[Message]]]:
            assert sorted(topics) == ["morning", "urgent"]
            alarms.sent.append({"Message": "Run: settle limbo show …"})

            def received() -> Iterator[Message]:
                while alarms.sent:
                    yield alarms.sent.pop(0)

            yield received

        monkeypatch.setattr(ringing, "messages", messages)
        monkeypatch.setattr(ringing, "HEARD_SECONDS_MAX", 0.05)
        described = {one["AlarmName"]: one for one in alarms.described()}
        monkeypatch.setattr(ringing, "described_alarms", lambda run: described)
        return ringing.ringing(run_on(alarms))

    return check


def test_the_check_receives_an_alarm_from_each_topic(rings: Callable[[CloudWatch], str]) -> None:
    alarms = CloudWatch()
    evidence = rings(alarms)

    assert evidence.startswith("2 topics: ALARM of urgent-2 in")
    assert evidence.count(" of morning in") == 2
    assert alarms.states == {"urgent-1": "ALARM", "urgent-2": "OK", "morning": "OK"}


@pytest.mark.parametrize("state", ["ALARM", "OK"])
def test_an_alarm_that_is_not_received_is_refuted_and_reset(
    rings: Callable[[CloudWatch], str], state: str
) -> None:
    alarms = CloudWatch(silent=[("morning", state)])

    with pytest.raises(Refuted, match=f"that morning is {state}"):
        rings(alarms)
    assert alarms.states["morning"] == "OK"


def test_the_check_fails_if_all_alarms_of_a_topic_ring(rings: Callable[[CloudWatch], str]) -> None:
    with pytest.raises(Refuted, match="each alarm of urgent is in ALARM"):
        rings(CloudWatch(before="ALARM"))


class Payments:
    """A stage that settles payments, with its rows and log lines."""

    def __init__(self, *, throttles: int = 0, loses: int = 0, stalls: int = 0, conflicts: int = 0) -> None:
        self.throttles, self.loses, self.stalls, self.conflicts = throttles, loses, stalls, conflicts
        self.settled: list[str] = []
        self.lock = Lock()

    def start_sync_execution(self, **asked: str) -> dict[str, Any]:
        key, began = json.loads(asked["input"])["key"], datetime(2026, 11, 23, tzinfo=UTC)
        number = int(key.rpartition("-")[2])
        if number < self.throttles:
            raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "slow"}}, "StartSync")
        with self.lock:
            self.settled.append(key)
        took = timedelta(milliseconds=100 + number)
        return {
            "status": "SUCCEEDED",
            "output": '{"status": "SETTLED"}',
            "startDate": began,
            "stopDate": began + took,
        }

    def read(self, store: Any, rows: Sequence[dict[str, str]]) -> list[dict[str, Any]]:
        found = [states.row(status="SETTLED") for _ in rows]
        return [states.row() for _ in range(self.stalls)] + found[self.stalls :]

    def lines(self, stack: Stack, instant: float) -> list[dict[str, Any]]:
        used = {name: {"calls": 1, "units": 1} for name in ("get_item", "put_item")}
        found = [{"dynamodb": used, "key": key} for key in self.settled for _ in range(5)]
        busy = {"dynamodb": {"transact_write_items": {"calls": 1, "units": 0}}, "TransactionConflict": [1.0]}
        return [*found, *(busy | {"key": self.settled[0]} for _ in range(self.conflicts))]

    def balance(self) -> Callable[[Run, str], int]:
        def of(run: Run, account: str) -> int:
            count = len(self.settled)
            return run.net * count - self.loses if account.endswith("-b") else AMOUNT * (10 - count)

        return of


def loaded(payments: Payments, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a load of ten payments a second for one second."""
    monkeypatch.setattr(accounts, "open_account", lambda *order, reason: None)
    monkeypatch.setattr(load, "client_of", lambda *place: payments)
    monkeypatch.setattr(load, "SECONDS", 1)
    monkeypatch.setattr(load, "REST_SECONDS_MAX", 0)
    monkeypatch.setattr(load, "LOGS_SECONDS_MAX", 0)
    monkeypatch.setattr(load, "_POLL_SECONDS", 0)
    monkeypatch.setattr("settle.acceptance.load.batch.read", payments.read)
    monkeypatch.setattr(load, "lines_since", payments.lines)
    monkeypatch.setattr(Run, "balance", payments.balance())
    run = Run(stage(outputs={"SettlementExpressArn": "arn:of:express"}))
    load.load(run, [10])
    return run


def test_a_load_check_reports_its_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    (figures,) = loaded(Payments(throttles=1, conflicts=3), monkeypatch).figures

    assert figures["ends"] == {"SETTLED": 9, "not started": 1}
    assert figures["settled_in_the_end"] == 9
    assert (figures["p50_seconds"], figures["max_seconds"]) == (0.105, 0.109)
    assert (figures["writes_sent"], figures["conflicts"], figures["conflict_share"]) == (48, 3, 0.0625)
    assert 5 < figures["reached"] < 20
    assert "| rate | reached |" in markdown(Report("1", "s", figures=[figures]))
    assert described(Report("1", "s", figures=[figures]))["load"] == [figures]


def test_requested_checks_run_before_the_last_one() -> None:
    names = [check.name for check in CHECKS]

    assert [check.name for check in chosen([])] == names
    assert [check.name for check in chosen([], [10], rings=True)] == [
        *names[:-1],
        "ringing",
        "load",
        names[-1],
    ]
    assert [check.name for check in chosen(["twins"], [10])] == ["twins", "load"]


@pytest.mark.parametrize(
    ("payments", "why"),
    [
        (Payments(loses=1), "what the payee has got: is 9899, and should be 9900"),
        (Payments(stalls=2), "2 of 10 payments are in flight"),
    ],
    ids=["a lost cent", "stalled"],
)
def test_a_load_that_loses_money_or_stalls_is_refuted(
    monkeypatch: pytest.MonkeyPatch, payments: Payments, why: str
) -> None:
    with pytest.raises(Refuted, match=why):
        loaded(payments, monkeypatch)


def test_an_event_is_signed_as_the_specification_requires() -> None:
    event, secret = Event("acceptance-1"), foreign_secret()
    headers = signed(event, secret, int(time.time()))

    assert Webhook(secret).verify(event.body, headers) == json.loads(event.body)
    with pytest.raises(WebhookVerificationError):
        Webhook(foreign_secret()).verify(event.body, headers)


def test_an_acceptance_event_contains_a_valid_kyc_verdict() -> None:
    content = json.loads(Event("acceptance-1").body)

    assert parse_verdict(content, "webhook").decision == "APPROVED"


@pytest.mark.parametrize(("told", "behaviour"), [(ERROR, Behaviour.ERROR), (REVIEW, Behaviour.REVIEW)])
def test_an_account_name_selects_the_simulated_providers_behaviour(
    monkeypatch: pytest.MonkeyPatch, told: str, behaviour: Behaviour
) -> None:
    monkeypatch.setattr(accounts, "open_account", lambda *order, reason: None)
    payer = Run(stage()).account("circuit-good-a", provider=told)

    assert ACCOUNT.fullmatch(payer)
    assert behaviour_of({"payer": payer, "payee": "bob"}, Behaviour.APPROVE) is behaviour
