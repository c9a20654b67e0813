import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from settle.acceptance.run import Run
from settle.acceptance.verdict import NotApplicable, Refuted
from settle.acceptance.watching import described_alarms
from settle.local.demo.stuck_reversal import messages

HEARD_SECONDS_MAX = 120

_STATES = ("ALARM", "OK")


def ringing(run: Run) -> str:
    """Raise and clear one alarm per topic. Receive both messages."""
    if run.stack.endpoint_url:
        raise NotApplicable("the embedded AWS: alarms are not deployed to it")
    alarms = _one_of_each_topic(run, [*described_alarms(run).values()])
    cloudwatch, told = run.stack.client("cloudwatch"), []
    with messages(run.stack, [*alarms]) as received:
        for name in alarms.values():
            try:
                for state in _STATES:
                    began = time.monotonic()
                    cloudwatch.set_alarm_state(AlarmName=name, StateValue=state, StateReason=run.reason)
                    _hear(run, received, name, state)
                    told.append(f"{state} of {name} in {time.monotonic() - began:.1f} s")
            finally:
                cloudwatch.set_alarm_state(AlarmName=name, StateValue="OK", StateReason=run.reason)
    return f"{len(alarms)} topics: {', '.join(told)}"


def _one_of_each_topic(run: Run, alarms: list[dict[str, Any]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for alarm in alarms:
        if alarm["StateValue"] != "ALARM" and alarm["AlarmActions"] and alarm["OKActions"]:
            found.setdefault(alarm["AlarmActions"][0], alarm["AlarmName"])
    topics = {topic for alarm in alarms for topic in alarm["AlarmActions"]}
    if lacking := topics - found.keys():
        raise Refuted(
            f"each alarm of {', '.join(sorted(lacking))} is in ALARM, or does not tell when it is over"
        )
    if not found:
        raise Refuted("no alarm has a topic")
    return found


def _hear(run: Run, received: Callable[[], Iterator[dict[str, str]]], name: str, state: str) -> None:
    run.waits_for = f"the message that {name} is {state}"
    give_up_at = time.monotonic() + HEARD_SECONDS_MAX
    while time.monotonic() < give_up_at:
        for message in received():
            try:
                content = json.loads(message["Message"])
            except ValueError:  # a page about someone else's case
                continue
            if (content.get("AlarmName"), content.get("NewStateValue")) == (name, state):
                return
    raise Refuted(f"no message says within {HEARD_SECONDS_MAX} s that {name} is {state}")
