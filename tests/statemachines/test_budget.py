"""Time: Express has 300 s in all, a reversal has minutes, and no function outlives its task."""

import json
from typing import Any

import pytest

from handlers import _kyc, _secrets, _step_functions
from infra.config import STAGES, Settings
from infra.state_machines import render_definition
from settlement.adapters.dynamodb import CLIENT_CONFIG
from settlement.policy.pager import PagerConfig
from tests.statemachines.definitions import DEFINITIONS, INVOCATIONS, START, paths, task
from tests.support import templates

EXPRESS_SECONDS_MAX = 300
MARGIN_SECONDS = 60
"""For the parts that are not counted: the transitions themselves, and the caller's own timeout."""

START_SECONDS_MAX = 1
"""For an attempt to start an execution: a call that AWS answers or throttles at once. It has no timeout, as
the Standard settlement waits there for a person."""

BACKOFF_SECONDS_MAX = 1
"""The longest that botocore's standard mode waits before a second attempt."""

OUTAGE_SECONDS_MIN = 120
"""The outage that a reversal outlasts if every wait is the longest; jitter halves that on average."""

NOTICE_SECONDS_MAX = 60
"""How long the announcement of a decision may delay the reversal."""

HISTORY_EVENTS_MAX = 25_000
ALERT_EVENTS_MAX = 5 + 5 + 2 + 6 + 2
"""The events of an unanswered alert in a history: PrepareAlert, PageOnCall, IsPaged, AwaitResolution
and, at worst, PauseBetweenAlerts.
"""

YEAR_SECONDS = 365 * 86_400

THROTTLED = "Lambda.TooManyRequestsException"


def settings(function_timeout_seconds: int, **more: Any) -> Settings:
    return Settings(
        stage="test", currencies=("EUR",), function_timeout_seconds=function_timeout_seconds, **more
    )


def waits(retry: Any) -> list[float]:
    """Return the longest wait before each further attempt that a rule grants."""
    return [
        min(retry["IntervalSeconds"] * retry["BackoffRate"] ** attempt, retry["MaxDelaySeconds"])
        for attempt in range(retry["MaxAttempts"])
    ]


def seconds_max(state: Any) -> float:
    """Return the longest time of a state: every attempt times out, every wait is the longest.

    A throttled attempt is answered at once: it adds its wait, but no timeout.
    """
    if state["Type"] != "Task":
        return 0
    attempt_seconds = START_SECONDS_MAX if state["Resource"] == START else state["TimeoutSeconds"]
    timeouts = 1 + sum(
        retry["MaxAttempts"] for retry in state["Retry"] if retry["ErrorEquals"] != [THROTTLED]
    )
    return float(attempt_seconds * timeouts + sum(sum(waits(retry)) for retry in state["Retry"]))


@pytest.mark.parametrize("stage", ["dev", "prod"])
def test_all_attempts_of_any_path_fit_an_express_execution(stage: str) -> None:
    definition = json.loads(render_definition("settlement", STAGES[stage]))
    longest = max(
        paths(definition), key=lambda path: sum(seconds_max(definition["States"][name]) for name in path)
    )

    seconds = sum(seconds_max(definition["States"][name]) for name in longest)

    assert longest[-3:] == ["Compensate", "ReportOutcome", "SettlementStalled"]
    assert seconds <= EXPRESS_SECONDS_MAX - MARGIN_SECONDS


@pytest.mark.parametrize("name", [name for machine, name in INVOCATIONS if machine == "compensation"])
def test_a_reversal_outlasts_an_outage_of_minutes(name: str) -> None:
    """A transient fault must not page on call: neither throttling nor an unavailable store."""
    for retry in task("compensation", name)["Retry"]:
        assert sum(waits(retry)) >= OUTAGE_SECONDS_MIN


def test_an_alert_outlasts_an_outage_of_minutes() -> None:
    (retry,) = task("compensation", "PageOnCall")["Retry"]

    assert sum(waits(retry)) >= OUTAGE_SECONDS_MIN


def test_an_unavailable_bus_does_not_delay_a_decision_for_long() -> None:
    """The payer waits for the decision, and the decision does not wait for its announcement."""
    assert seconds_max(task("compensation", "AnnounceResolution")) <= NOTICE_SECONDS_MAX


@pytest.mark.parametrize("stage", ["dev", "prod"])
def test_a_year_of_alerts_fits_the_history_of_one_execution(stage: str) -> None:
    """An execution whose history is full ends, and its alerts with it."""
    pager = PagerConfig.from_json(STAGES[stage].pager)

    waited, alerts = 0, 0
    while waited < YEAR_SECONDS:
        alerts += 1
        waited += pager.wait_seconds(alerts)

    assert pager.wait_seconds(1) == 1800
    assert alerts > 365
    assert alerts * ALERT_EVENTS_MAX <= HISTORY_EVENTS_MAX


@pytest.mark.parametrize("stage", STAGES)
def test_no_function_outlives_its_task(stage: str) -> None:
    """Lambda runs on after the task's timeout, and would commit when no task waits for the answer."""
    functions = templates.resources("AWS::Lambda::Function", stage)
    checked = set()
    for machine in templates.resources("AWS::StepFunctions::StateMachine", stage).values():
        properties = machine["Properties"]
        for name, state in json.loads(properties["DefinitionString"])["States"].items():
            if "lambda:invoke" not in state.get("Resource", ""):
                continue
            function, _ = properties["DefinitionSubstitutions"][name]["Fn::GetAtt"]
            if name == "AwaitResolution":  # on the embedded AWS the wait begins after its function has ended
                seconds = 0 if STAGES[stage].is_embedded else STAGES[stage].alert_again_after_seconds
            else:
                seconds = state["TimeoutSeconds"]
            checked.add(name)
            if seconds:
                assert functions[function]["Properties"]["Timeout"] < seconds, name

    assert checked == {name for _, name in INVOCATIONS}


@pytest.mark.parametrize("machine", DEFINITIONS)
def test_a_function_that_may_outlive_its_task_is_refused_at_synth(machine: str) -> None:
    shortest = min(
        state["TimeoutSeconds"]
        for state in DEFINITIONS[machine]["States"].values()
        if "TimeoutSeconds" in state
    )

    render_definition(machine, settings(shortest - 1))
    for too_long in (shortest, shortest + 1):
        with pytest.raises(ValueError, match=r"TimeoutSeconds must exceed function_timeout_seconds"):
            render_definition(machine, settings(too_long))


def test_a_function_that_may_outlive_the_wait_for_a_person_is_refused_at_synth() -> None:
    """A late function would overwrite the token of the next wait with that of a wait that has ended."""
    render_definition("compensation", settings(8, alert_again_after_seconds=9))
    for too_short in (8, 7):
        with pytest.raises(ValueError, match=r"alert_again_after_seconds"):
            render_definition("compensation", settings(8, alert_again_after_seconds=too_short))


@pytest.mark.parametrize("machine", DEFINITIONS)
@pytest.mark.parametrize("stage", STAGES)
def test_the_stages_timeout_factor_multiplies_every_timeout_and_changes_nothing_else(
    stage: str, machine: str
) -> None:
    """Except on the embedded AWS, which knows no wait whose length is in the state: there it is fixed."""
    rendered = json.loads(render_definition(machine, STAGES[stage]))

    if machine == "compensation" and STAGES[stage].is_embedded:
        fixed = rendered["States"]["AwaitResolution"]
        assert fixed.pop("TimeoutSeconds") == STAGES[stage].alert_again_after_seconds
        fixed["TimeoutSecondsPath"] = "$.wait_seconds"
    for state in rendered["States"].values():
        if "TimeoutSeconds" in state:
            assert state["TimeoutSeconds"] % STAGES[stage].timeout_factor == 0
            state["TimeoutSeconds"] //= STAGES[stage].timeout_factor
    assert rendered == DEFINITIONS[machine]


@pytest.mark.parametrize("stage", STAGES)
def test_the_dynamodb_client_times_out_before_its_function(stage: str) -> None:
    """A silent DynamoDB then ends in StoreUnavailable, and not in a function that Lambda ends."""
    attempts = CLIENT_CONFIG.retries["total_max_attempts"]
    attempt_seconds = CLIENT_CONFIG.connect_timeout + CLIENT_CONFIG.read_timeout
    times_out_after = attempts * attempt_seconds + (attempts - 1) * BACKOFF_SECONDS_MAX

    for function in templates.resources("AWS::Lambda::Function", stage).values():
        assert times_out_after < function["Properties"]["Timeout"]


def test_a_provider_that_hangs_is_counted_before_its_function_times_out() -> None:
    """A function that times out counts nothing, and the circuit around a dead provider would never open.

    The time after the longest exchange is for reading the row, and for the event about the circuit.
    """
    events = _kyc._events.meta.config
    event_seconds = events.connect_timeout + events.read_timeout

    assert events.retries["total_max_attempts"] == 1
    for settings in STAGES.values():
        assert settings.kyc.exchange_seconds + event_seconds < settings.function_timeout_seconds


def test_a_secret_and_a_start_time_out_before_the_function() -> None:
    for client in (_secrets._provider.client, _step_functions._client):
        config = client.meta.config
        attempts = config.retries["total_max_attempts"]
        waiting = attempts * (config.connect_timeout + config.read_timeout)
        times_out_after = waiting + (attempts - 1) * BACKOFF_SECONDS_MAX
        for settings in STAGES.values():
            assert times_out_after < settings.function_timeout_seconds
