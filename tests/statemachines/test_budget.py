"""Time limits: Express has 300 s, a reversal minutes; no function outlives its task."""

import json
from typing import Any

import pytest

from handlers.kyc import _provider as _kyc
from infra import kyc
from infra.config import STAGES, Settings
from infra.functions import function_seconds
from infra.rooms import HANDLERS
from infra.state_machines import render_definition
from settlement.aws import step_functions as _step_functions
from settlement.core.policy.pager import PagerConfig
from settlement.core.store.dynamodb import CLIENT_CONFIG
from settlement.kyc import circuit_events
from settlement.kyc import shared_secrets as _secrets
from tests.infra.stack import each_stage, each_stage_on_aws
from tests.statemachines.definitions import DEFINITIONS, INVOCATIONS, START, WAITS, paths, states, task

EXPRESS_SECONDS_MAX = 300
MARGIN_SECONDS = 60
"""Reserve for transitions and the caller's own timeout."""

START_SECONDS_MAX = 1
"""Limit of a start, which AWS answers or throttles at once. The state itself has no timeout."""

BACKOFF_SECONDS_MAX = 1
"""botocore's longest wait before a second attempt, in standard mode."""

OUTAGE_SECONDS_MIN = 120
"""Duration of an outage that retries must outlast, before jitter, which halves the waits on average."""

NOTICE_SECONDS_MAX = 60
"""Maximum time that the announcement of a decision may delay the reversal."""

HISTORY_EVENTS_MAX = 25_000
ALERT_EVENTS_MAX = 5 + 5 + 2 + 6 + 2
"""History events per alert: PrepareAlert, PageOnCall, IsPaged, AwaitResolution, PauseBetweenAlerts."""

GIVEN_BACK_SECONDS_MAX, REST_SECONDS = 15, 1
"""Seconds until a payment without a provider's answer is returned.

REST_SECONDS of them are for the hold, the reversal and the functions' own work.
"""

YEAR_SECONDS = 365 * 86_400
THROTTLED = "Lambda.TooManyRequestsException"


def waits(retry: Any) -> list[float]:
    return [
        min(retry["IntervalSeconds"] * retry["BackoffRate"] ** attempt, retry["MaxDelaySeconds"])
        for attempt in range(retry["MaxAttempts"])
    ]


def seconds_max(state: Any) -> float:
    """Return a state's longest time, with all timeouts and waits. A throttled attempt takes only its wait."""
    if state["Type"] != "Task":
        return 0
    attempt_seconds = START_SECONDS_MAX if state["Resource"] == START else state["TimeoutSeconds"]
    timeouts = 1 + sum(
        retry["MaxAttempts"] for retry in state["Retry"] if retry["ErrorEquals"] != [THROTTLED]
    )
    return float(attempt_seconds * timeouts + sum(sum(waits(retry)) for retry in state["Retry"]))


def client_seconds(config: Any) -> float:
    attempts = config.retries["total_max_attempts"]
    attempt_seconds = config.connect_timeout + config.read_timeout
    return float(attempts * attempt_seconds + (attempts - 1) * BACKOFF_SECONDS_MAX)


@each_stage_on_aws
def test_all_attempts_of_any_path_fit_an_express_execution(stage: str) -> None:
    definition = json.loads(render_definition("settlement", STAGES[stage]))
    longest = max(
        paths(definition), key=lambda path: sum(seconds_max(definition["States"][name]) for name in path)
    )

    seconds = sum(seconds_max(definition["States"][name]) for name in longest)

    assert longest[-3:] == ["Compensate", "ReportOutcome", "SettlementStalled"]
    assert seconds <= EXPRESS_SECONDS_MAX - MARGIN_SECONDS


@pytest.mark.parametrize(
    "name", ["PageOnCall", *(name for machine, name in INVOCATIONS if machine == "compensation")]
)
def test_retries_of_reversals_and_alerts_outlast_an_outage(name: str) -> None:
    """Transient throttling or an unavailable store must not page on call."""
    for retry in task("compensation", name)["Retry"]:
        assert retry["MaxAttempts"] == 0 or sum(waits(retry)) >= OUTAGE_SECONDS_MIN


@each_stage_on_aws
def test_a_payment_that_kyc_never_answers_is_refunded_in_time(stage: str) -> None:
    """In the worst case each try has a whole exchange, and each pause is the longest."""
    verify = task("settlement", "VerifyKyc")["Retry"][-1]

    asked = (1 + verify["MaxAttempts"]) * STAGES[stage].kyc.exchange_seconds

    assert verify["ErrorEquals"] == ["States.ALL"]
    assert asked + sum(waits(verify)) <= GIVEN_BACK_SECONDS_MAX - REST_SECONDS


def test_an_unavailable_bus_does_not_delay_a_decision_for_long() -> None:
    """The payer waits for the decision, which must not wait for its announcement."""
    assert seconds_max(task("compensation", "AnnounceResolution")) <= NOTICE_SECONDS_MAX


@each_stage_on_aws
def test_a_year_of_alerts_fits_the_history_of_one_execution(stage: str) -> None:
    pager = PagerConfig.from_json(STAGES[stage].pager)

    waited, alerts = 0, 0
    while waited < YEAR_SECONDS:
        alerts += 1
        waited += pager.wait_seconds(alerts)

    assert pager.wait_seconds(1) == 1800
    assert alerts > 365
    assert alerts * ALERT_EVENTS_MAX <= HISTORY_EVENTS_MAX


@each_stage
def test_each_function_times_out_before_its_task(stage: str) -> None:
    """A function that outlives its task would commit with no task waiting.

    On the embedded AWS a person's wait begins after its function's end.
    """
    settings = STAGES[stage]
    rendered = {machine: json.loads(render_definition(machine, settings)) for machine in DEFINITIONS}

    for machine, name in INVOCATIONS:
        if (machine, name) not in WAITS:
            seconds = rendered[machine]["States"][name]["TimeoutSeconds"]
            assert function_seconds(HANDLERS[name], settings) < seconds, name
        elif not settings.is_embedded:
            assert function_seconds(HANDLERS[name], settings) < settings.alert_again_after_seconds


@pytest.mark.parametrize("machine", DEFINITIONS)
def test_a_function_outliving_its_task_is_refused_at_synth(machine: str) -> None:
    shortest = min(state.get("TimeoutSeconds", EXPRESS_SECONDS_MAX) for state in states(machine).values())

    def render(function_timeout_seconds: int) -> str:
        chosen = Settings(
            stage="test", currencies=("EUR",), function_timeout_seconds=function_timeout_seconds
        )
        return render_definition(machine, chosen)

    assert render(shortest - 1)
    for too_long in (shortest, shortest + 1):
        with pytest.raises(ValueError, match=r"TimeoutSeconds must exceed function_timeout_seconds"):
            render(too_long)


@pytest.mark.parametrize(
    "config",
    [CLIENT_CONFIG, _secrets._provider.client.meta.config, _step_functions._client.meta.config],
    ids=["DynamoDB", "Secrets Manager", "Step Functions"],
)
def test_the_clients_timeouts_end_before_the_functions_timeout(config: Any) -> None:
    """A silent DynamoDB then raises StoreUnavailable before Lambda kills the function."""
    for settings in STAGES.values():
        assert client_seconds(config) < settings.function_timeout_seconds


def test_a_hanging_provider_is_counted_before_its_function_times_out() -> None:
    """A function that times out counts no failure, so the circuit would never open.

    A call asks the provider only if RESERVED_SECONDS remain after it.
    """
    events = circuit_events._client.meta.config

    assert events.retries["total_max_attempts"] == 1
    assert client_seconds(events) <= _kyc.RESERVED_SECONDS < kyc._REST_SECONDS
    for settings in STAGES.values():
        needed = settings.kyc.exchange_seconds + _kyc.RESERVED_SECONDS
        assert needed < settings.function_timeout_seconds * settings.timeout_factor
