import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from settle.acceptance.resources import physical
from settle.acceptance.run import Run
from settle.acceptance.verdict import NotApplicable, Refuted, expect
from settle.events.tail import hearing
from settle.local.demo import cost
from settlement.core.ledger import keys

WRITE_UNITS, READ_UNITS_MAX = 20, 1.5
"""Write and read units of a settled payment. Source: docs/reference/costs.md."""

HEAR_SECONDS_MAX, RULE_PAYMENTS_MAX = 30, 4
"""Maximum delay of an event, and maximum payments until a new rule must deliver."""

LOGS_SECONDS_MAX, METRICS_SECONDS_MAX = 120, 420

ABORTED, ALARM_SECONDS_MAX = "SettlementStandardAborted", 1_500
"""An alarm's construct, and the longest wait for it: two periods and CloudWatch's delay."""


def events(run: Run) -> str:
    """Receive a payment's events; expect each sequence from 1 to the row's sequence."""
    payer, payee = run.parties("events")
    run.waits_for = "a rule on the outcome bus, and its queue"
    with hearing(run.stack, None) as heard:
        for _ in range(RULE_PAYMENTS_MAX):
            request = run.request("events", payer, payee)
            outcome = run.send(request).outcome
            expect("status", outcome and outcome["status"], "SETTLED")
            row = run.stack.store.read(keys.settlement(request["key"])) or {}
            wanted = [*range(1, int(row["sequence"]) + 1)]
            run.waits_for = f"the events of {request['key']}"
            delays = _delays(heard, request["key"], wanted)
            if sorted(delays) == wanted:
                return (
                    f"{len(wanted)} events, 1 to {wanted[-1]}; the latest {max(delays.values()):.1f} s after"
                )
            if sorted(delays) != wanted[len(wanted) - len(delays) :]:  # a late rule misses just the first
                break
    raise Refuted(f"of the events {wanted} came {sorted(delays)} within {HEAR_SECONDS_MAX} s")


def _delays(heard: Iterator[dict[str, Any] | None], key: str, wanted: list[int]) -> dict[int, float]:
    delays: dict[int, float] = {}
    give_up_at = time.monotonic() + HEAR_SECONDS_MAX
    for event in heard:
        if event and event["subject"] == key:
            told_at = datetime.fromisoformat(event["time"])
            delays.setdefault(int(event["sequence"]), (datetime.now(UTC) - told_at).total_seconds())
        if sorted(delays) == wanted or time.monotonic() > give_up_at:
            break
    return delays


def capacity(run: Run) -> str:
    payer, payee = run.parties("capacity")
    began, ended = time.time() - 60, run.send(run.request("capacity", payer, payee))
    expect("status", ended.outcome and ended.outcome["status"], "SETTLED")
    spent: list[cost.Cost] = []

    def is_logged() -> bool:
        found = cost.since(run.stack, began).get(ended.execution, cost.Cost())
        spent.append(found)
        return found.write_units >= WRITE_UNITS

    run.wait_for("the functions' lines", is_logged, LOGS_SECONDS_MAX)
    if not spent[-1].calls:
        raise NotApplicable("the stage's logs keep no units of a call")
    expect("write units", spent[-1].write_units, WRITE_UNITS)
    if spent[-1].read_units > READ_UNITS_MAX:
        raise Refuted(f"read units: are {spent[-1].read_units}, and should be {READ_UNITS_MAX} at most")
    return f"{spent[-1].write_units:g} write units, {spent[-1].read_units:g} read units"


def alarms(run: Run) -> str:
    _on_aws(run, "alarms are not deployed to it")
    found = described_alarms(run)
    if ringing := sorted(name for name, one in found.items() if one["StateValue"] == "ALARM"):
        raise Refuted(f"in ALARM: {', '.join(ringing)}")
    silent = sum(one["StateValue"] == "INSUFFICIENT_DATA" for one in found.values())
    return f"{len(found)} alarms, none in ALARM, {silent} without data yet"


def described_alarms(run: Run) -> dict[str, dict[str, Any]]:
    """Return alarms by name. Raises Refuted if one is missing."""
    names = [*physical(run.stack, "AWS::CloudWatch::Alarm").values()]
    if not names:
        raise Refuted("the stack has no alarm")
    found: dict[str, dict[str, Any]] = {}
    for start in range(0, len(names), 100):
        answer = run.stack.client("cloudwatch").describe_alarms(AlarmNames=names[start : start + 100])
        found |= {one["AlarmName"]: one for one in answer["MetricAlarms"]}
    if gone := sorted(set(names) - set(found)):
        raise Refuted(f"CloudWatch does not know {', '.join(gone)}")
    return found


def aborted(run: Run) -> str:
    """Wait until the alarm ABORTED goes off and clears, because `recovery` stopped an execution."""
    _on_aws(run, "alarms are not deployed to it")
    if run.stopped_at is None:
        raise NotApplicable("no execution was stopped: `recovery` has to run with it")
    names = physical(run.stack, "AWS::CloudWatch::Alarm")
    (alarm,) = (name for construct, name in names.items() if construct.endswith(ABORTED))
    client, states = run.stack.client("cloudwatch"), dict[str, datetime]()

    def is_over() -> bool:
        answer = client.describe_alarm_history(
            AlarmName=alarm,
            HistoryItemType="StateUpdate",
            StartDate=run.stopped_at,
            EndDate=datetime.now(UTC) + timedelta(minutes=1),
            ScanBy="TimestampAscending",
        )
        for item in answer["AlarmHistoryItems"]:
            state = json.loads(item["HistoryData"])["newState"]["stateValue"]
            if state == "ALARM" or "ALARM" in states:
                states.setdefault(state, item["Timestamp"])
        return "OK" in states

    run.wait_for(f"{alarm} to be in ALARM, and then OK", is_over, ALARM_SECONDS_MAX)
    expect(f"the states of {alarm} after the stop", [*states], ["ALARM", "OK"])
    off, over = ((states[one] - run.stopped_at).total_seconds() for one in ("ALARM", "OK"))
    return f"{alarm} went off {off:.0f} s after the stop, and was over after {over:.0f} s"


def metrics(run: Run) -> str:
    """Wait for a metric that CloudWatch extracts from this run's logs."""
    _on_aws(run, "it extracts no metrics from logs")
    began, monotonic = datetime.now(UTC) - timedelta(minutes=1), time.monotonic()
    payer, payee = run.parties("metrics")
    outcome = run.send(run.request("metrics", payer, payee)).outcome
    expect("status", outcome and outcome["status"], "SETTLED")
    client = run.stack.client("cloudwatch")
    sums: list[float] = []

    def has_come() -> bool:
        answer = client.get_metric_statistics(
            Namespace="Settlement",
            MetricName="Settled",
            Dimensions=[{"Name": "service", "Value": run.stack.service}],
            StartTime=began,
            EndTime=datetime.now(UTC) + timedelta(minutes=1),
            Period=60,
            Statistics=["Sum"],
        )
        sums.append(sum(one["Sum"] for one in answer["Datapoints"]))
        return sums[-1] >= 1

    if not run.wait_for("the metric Settled", has_come, METRICS_SECONDS_MAX):
        raise Refuted(f"Settled of {run.stack.name} counts nothing {METRICS_SECONDS_MAX} s after a payment")
    return f"Settled counted {sums[-1]:g}, {time.monotonic() - monotonic:.0f} s after the payment began"


def _on_aws(run: Run, why: str) -> None:
    if run.stack.endpoint_url:
        raise NotApplicable(f"the embedded AWS: {why}")
