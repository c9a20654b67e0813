import re
from dataclasses import replace
from typing import Any

import pytest

from handlers.doors import start_settlements
from infra.config import STAGES
from infra.doors import BATCH_MAX, MESSAGE_BYTES_MAX, RECEIVES_MAX, START, visibility_seconds
from infra.functions import function_seconds
from settlement.aws import queues as _queues
from settlement.aws import step_functions as _step_functions
from settlement.core.store.dynamodb import CLIENT_CONFIG
from tests.infra.stack import (
    attached,
    each_stage,
    each_stage_on_aws,
    no_plain_http,
    of_function,
    properties,
    resources,
    variables,
)
from tests.world.rooms import there
from tests.world.services import ATTRIBUTE_BYTES_MAX
from tests.world.templates import PROJECT

QUEUES = (
    *("StartQueue", "StartDeadLetters", "JournalGivenUp", "OutcomesPutAside", "OutcomesGivenUp"),
    *there("merchants", "MerchantsReleases", "MerchantsGivenUp"),
)
TWO_WEEKS = 14 * 86_400


def queue(stage: str, name: str = "StartQueue") -> Any:
    return properties(stage, "SQS::Queue")[name]


def unanswered_seconds(config: Any) -> int:
    """Return the duration of an unanswered call with all attempts, 1 s apart."""
    attempts = config.retries["total_max_attempts"]
    seconds: int = attempts * (config.connect_timeout + config.read_timeout) + attempts - 1
    return seconds


@each_stage
def test_the_stage_has_exactly_the_listed_queues(stage: str) -> None:
    assert resources(stage, "SQS::Queue").keys() == {*QUEUES, "PagerUndelivered"}


@each_stage
@pytest.mark.parametrize("name", QUEUES)
def test_a_queue_is_encrypted_and_has_the_longest_retention(stage: str, name: str) -> None:
    """A dead letter keeps its message's age, so a shorter retention could drop it on arrival."""
    found = queue(stage, name)

    assert found["SqsManagedSseEnabled"] is True
    assert found["MessageRetentionPeriod"] == TWO_WEEKS
    assert "FifoQueue" not in found  # one bad message of a group would hold up all that come after it


@each_stage
@pytest.mark.parametrize("name", QUEUES)
def test_a_queue_on_aws_demands_tls_and_admits_no_principal(stage: str, name: str) -> None:
    denied = set() if STAGES[stage].is_embedded else no_plain_http("sqs:*", f"${{{name}.Arn}}")

    assert attached(stage, "SQS::QueuePolicy", "Queues", f"${{{name}}}") == denied


@each_stage_on_aws
def test_on_aws_a_message_is_hidden_for_six_function_timeouts(stage: str) -> None:
    """AWS advises this: within that time, Lambda retries a throttled batch without receiving it again."""
    timeout = properties(stage, "Lambda::Function")["StartSettlements"]["Timeout"]

    assert queue(stage)["VisibilityTimeout"] >= 6 * timeout


@pytest.mark.parametrize("timeout_factor", [1, 5, 20])
def test_the_embedded_aws_hides_a_message_until_its_function_ends(timeout_factor: int) -> None:
    """If it were visible earlier, two functions could process it at once."""
    kyc = replace(STAGES["local"].kyc, connect_timeout_seconds=1, read_timeout_seconds=3)
    settings = replace(STAGES["local"], timeout_factor=timeout_factor, kyc=kyc)

    assert visibility_seconds(settings) > function_seconds(START, settings)


@each_stage
def test_a_failed_message_is_retried_after_the_documented_minutes(stage: str) -> None:
    assert queue(stage)["VisibilityTimeout"] == 5 * 60
    for page in ("calling/starting.md", "runbooks/alarms.md"):
        text = " ".join((PROJECT / "docs" / page).read_text().split())
        assert re.search(rf"after (5|five) minutes, up to {RECEIVES_MAX} times", text), page


@each_stage
def test_a_message_becomes_a_dead_letter_only_after_hours(stage: str) -> None:
    """Only persons read dead letters, so the hours outlast an outage of Step Functions."""
    redrive = {"deadLetterTargetArn": "${StartDeadLetters.Arn}", "maxReceiveCount": RECEIVES_MAX}

    assert queue(stage)["RedrivePolicy"] == redrive
    assert RECEIVES_MAX * queue(stage)["VisibilityTimeout"] >= 2 * 3600
    assert "RedrivePolicy" not in queue(stage, "StartDeadLetters")


@each_stage
def test_one_function_reads_the_queue_and_reports_failed_messages_singly(stage: str) -> None:
    """The function's concurrency is limited, so a full queue leaves concurrency for settlements.

    It has no filter, because Lambda would silently delete unmatched messages.
    """
    assert of_function(stage, "StartSettlements", "Lambda::EventSourceMapping") == {
        "BatchSize": BATCH_MAX,
        "EventSourceArn": "${StartQueue.Arn}",
        "FunctionName": "${StartSettlements}",
        "FunctionResponseTypes": ["ReportBatchItemFailures"],
        "ScalingConfig": {"MaximumConcurrency": STAGES[stage].start_queue_calls},
    }
    assert variables(stage, "StartSettlements")["START_DEAD_LETTERS"] == "${StartDeadLetters}"


@pytest.mark.parametrize("then", [_step_functions, _queues])
def test_the_last_message_begun_by_a_run_ends_in_time(then: Any) -> None:
    """A function that is cut off reports nothing, so the whole batch comes back."""
    reserved = start_settlements._RESERVED_MS / 1000

    assert unanswered_seconds(CLIENT_CONFIG) + unanswered_seconds(then._client.meta.config) <= reserved
    for settings in STAGES.values():
        assert reserved < function_seconds(START, settings)


@pytest.mark.parametrize("then", [_step_functions, _queues])
def test_the_slowest_batch_leaves_time_for_each_message(then: Any) -> None:
    """A message that is received but not begun loses one of its attempts."""
    slowest = unanswered_seconds(CLIENT_CONFIG) + unanswered_seconds(then._client.meta.config)
    reserved = start_settlements._RESERVED_MS / 1000

    for settings in STAGES.values():
        left = function_seconds(START, settings) - (BATCH_MAX - 1) * slowest
        assert left > reserved


@each_stage
def test_a_message_with_its_reason_fits_the_dead_letter_queue(stage: str) -> None:
    """A message's size includes its attributes. SQS's default is 256 KiB."""
    attributes = 2 * ATTRIBUTE_BYTES_MAX

    assert queue(stage)["MaximumMessageSize"] == MESSAGE_BYTES_MAX
    assert "MaximumMessageSize" not in queue(stage, "StartDeadLetters")
    assert attributes + MESSAGE_BYTES_MAX <= 256 * 1024
