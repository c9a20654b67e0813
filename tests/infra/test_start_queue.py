"""The start queue: its messages are kept, protected, retried, and started by one function."""

import re
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from handlers import _dead_letters, _step_functions
from handlers import start_settlements as handler
from infra.config import STAGES
from infra.functions import function_seconds
from infra.start_queue import RECEIVES_MAX, visibility_seconds
from settlement.adapters.dynamodb import CLIENT_CONFIG
from tests.infra.iam import Statement, attribute, of_document, statements
from tests.infra.machines import each_stage, function_id, logical_id, name
from tests.infra.test_functions import properties
from tests.infra.test_grants import about, granted
from tests.support import templates

QUEUES = ("StartQueue", "StartDeadLetters")
RECEIVES = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"}
SENDS = {"sqs:SendMessage"}
LOOKS = {"sqs:GetQueueAttributes", "sqs:GetQueueUrl"}
"""The actions that read a queue's attributes, and no message."""

each_queue = pytest.mark.parametrize(
    ("stage", "queue"), [(stage, queue) for stage in STAGES for queue in QUEUES]
)

start_settlements = partial(properties, state="StartSettlements")
"""The properties of the function between the queue and the machine."""


def queue_id(stage: str, queue: str) -> str:
    (found,) = (one for one in templates.resources("AWS::SQS::Queue", stage) if name(one) == queue)
    return found


def queue_properties(stage: str, queue: str) -> Any:
    return templates.resources("AWS::SQS::Queue", stage)[queue_id(stage, queue)]["Properties"]


def source(stage: str) -> Any:
    """Return the one event source mapping."""
    (found,) = templates.resources("AWS::Lambda::EventSourceMapping", stage).values()
    return found["Properties"]


def unwrapped(page: str) -> str:
    """Return the text of a page in `docs/`, without its line breaks."""
    return " ".join((templates.PROJECT / "docs" / page).read_text().split())


def unanswered_seconds(config: Any) -> int:
    """Return how long an unanswered call takes with all attempts; before a second one it waits 1 s."""
    attempts = config.retries["total_max_attempts"]
    seconds: int = attempts * (config.connect_timeout + config.read_timeout) + attempts - 1
    return seconds


def policy(stage: str, queue: str) -> list[Statement]:
    """Return the statements of the queue's own policies."""
    of_queue = {"Ref": queue_id(stage, queue)}
    return [
        statement
        for found in templates.resources("AWS::SQS::QueuePolicy", stage).values()
        if of_queue in found["Properties"]["Queues"]
        for statement in of_document(found["Properties"]["PolicyDocument"], stage)
    ]


@each_stage
def test_these_are_the_queues(stage: str) -> None:
    """No construct adds a queue of its own, which these tests would not cover."""
    found = [name(one) for one in templates.resources("AWS::SQS::Queue", stage)]

    assert sorted(found) == sorted([*QUEUES, "PagerUndelivered"])


@each_queue
def test_a_queue_is_encrypted_and_keeps_a_message_for_the_longest_time(stage: str, queue: str) -> None:
    """A dead letter keeps its message's age: with a shorter retention it would be dropped on arrival."""
    found = queue_properties(stage, queue)

    assert found["SqsManagedSseEnabled"] is True
    assert found["MessageRetentionPeriod"] == 14 * 86_400
    assert "FifoQueue" not in found  # one bad message of a group would hold up all that come after it


@each_queue
def test_a_queue_on_aws_demands_tls_and_its_policy_admits_no_principal(stage: str, queue: str) -> None:
    """A sender's permission is in its own role. The embedded AWS speaks plain HTTP."""
    found = policy(stage, queue)

    assert [one.effect for one in found] == ([] if STAGES[stage].is_embedded else ["Deny"])
    for one in found:
        assert one.principals == {"*"}
        assert one.actions == {"sqs:*"}
        assert one.resources == (queue_id(stage, queue),)
        assert one.conditions == {"Bool": {"aws:SecureTransport": "false"}}


@each_queue
def test_a_queue_outlives_the_stack_where_money_is_real(stage: str, queue: str) -> None:
    """Each message is a payment that its sender relies on."""
    found = templates.resources("AWS::SQS::Queue", stage)[queue_id(stage, queue)]

    kept = "Retain" if STAGES[stage].keeps_data else "Delete"
    assert found["DeletionPolicy"] == found["UpdateReplacePolicy"] == kept


@pytest.mark.parametrize("stage", [stage for stage in STAGES if not STAGES[stage].is_embedded])
def test_on_aws_a_message_is_hidden_for_six_times_the_functions_timeout(stage: str) -> None:
    """As AWS advises: Lambda retries a throttled batch within that time, and receives it only once."""
    visibility = queue_properties(stage, "StartQueue")["VisibilityTimeout"]

    assert visibility >= 6 * start_settlements(stage)["Timeout"]


@pytest.mark.parametrize("timeout_factor", [1, 5, 20])
def test_on_the_embedded_aws_a_message_is_hidden_until_its_function_has_ended(timeout_factor: int) -> None:
    """Received again before that, two functions would work on it at once."""
    settings = replace(STAGES["local"], timeout_factor=timeout_factor)

    hidden = visibility_seconds(settings)

    assert hidden > function_seconds("StartSettlements", settings)


@each_stage
def test_a_failed_message_is_tried_again_after_the_minutes_in_the_docs(stage: str) -> None:
    """Six times the embedded stage's timeout, which is long already, would be 25 minutes."""
    minutes, rest = divmod(queue_properties(stage, "StartQueue")["VisibilityTimeout"], 60)

    assert (minutes, rest) == (5, 0)
    for page in ("starting.md", "runbooks/alarms.md"):
        assert re.search(rf"after (5|five) minutes, up to {RECEIVES_MAX} times", unwrapped(page)), page


@each_stage
def test_a_message_is_tried_for_hours_before_it_becomes_a_dead_letter(stage: str) -> None:
    """That outlasts an outage of Step Functions; an invalid message becomes a dead letter at once."""
    found = queue_properties(stage, "StartQueue")

    redrive = found["RedrivePolicy"]
    assert attribute(redrive["deadLetterTargetArn"]) == queue_id(stage, "StartDeadLetters")
    assert redrive["maxReceiveCount"] == RECEIVES_MAX == 30
    assert redrive["maxReceiveCount"] * found["VisibilityTimeout"] >= 2 * 3600


@each_stage
def test_no_function_reads_the_dead_letters(stage: str) -> None:
    """They are for a person: started again, they would only come back."""
    assert "RedrivePolicy" not in queue_properties(stage, "StartDeadLetters")
    assert attribute(source(stage)["EventSourceArn"]) == queue_id(stage, "StartQueue")


@each_stage
def test_a_failed_message_does_not_fail_its_batch(stage: str) -> None:
    """Without the report a batch succeeds or fails as a whole."""
    found = source(stage)

    assert found["FunctionName"] == {"Ref": function_id(stage, "StartSettlements")}
    assert found["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert "FilterCriteria" not in found  # a message that matches no filter is deleted silently
    assert found.get("Enabled", True) is True


@pytest.mark.parametrize("then", [_step_functions, _dead_letters])
def test_the_last_message_of_a_run_ends_in_time(then: Any) -> None:
    """Cut off, the function reports nothing, and the whole batch comes back."""
    reserved = handler._RESERVED_MS / 1000

    assert unanswered_seconds(CLIENT_CONFIG) + unanswered_seconds(then._client.meta.config) <= reserved
    for stage in STAGES:
        assert reserved < start_settlements(stage)["Timeout"]


@each_stage
def test_a_full_queue_does_not_use_up_the_concurrency_that_settlements_need(stage: str) -> None:
    assert source(stage)["ScalingConfig"] == {"MaximumConcurrency": 10}


@each_stage
def test_start_settlements_may_claim_settlements_and_use_no_other_row(stage: str) -> None:
    """A message is a stranger's input: a mistake in its parser must not be a way to a balance."""
    (table,) = templates.resources("AWS::DynamoDB::Table", stage)

    (allowed,) = about("dynamodb", granted(stage, "StartSettlements"))

    assert allowed.actions == {"dynamodb:GetItem", "dynamodb:PutItem"}
    assert allowed.resources == (table,)
    assert allowed.conditions == {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["SETTLEMENT#*"]}}


@each_stage
def test_start_settlements_may_receive_from_the_queue_and_send_to_the_dead_letters(stage: str) -> None:
    """If it could send to its own queue, a message could circulate for ever."""
    allowed = {one.resources: one.actions for one in about("sqs", granted(stage, "StartSettlements"))}

    queue, dead_letters = ((queue_id(stage, one),) for one in QUEUES)
    assert allowed.keys() == {queue, dead_letters}
    assert allowed[queue] - LOOKS == RECEIVES
    assert allowed[dead_letters] - LOOKS == SENDS


@each_stage
def test_no_other_role_may_use_the_queues(stage: str) -> None:
    """Upstream services have roles of their own, which may send."""
    calling = {role for role in templates.resources("AWS::IAM::Role", stage) if sqs(stage, role)}

    assert calling == {attribute(start_settlements(stage)["Role"])}


@each_stage
def test_start_settlements_starts_the_standard_machine_only(stage: str) -> None:
    """As recovery does: a Standard execution is known by its name, and starts once."""
    standard = logical_id(stage, "SettlementStandard")

    (allowed,) = about("states", granted(stage, "StartSettlements"))

    assert allowed.actions == {"states:StartExecution"}
    assert allowed.resources == (standard,)


@each_stage
def test_start_settlements_gets_the_machine_and_the_dead_letters(stage: str) -> None:
    variables = start_settlements(stage)["Environment"]["Variables"]

    assert variables["SETTLEMENT_MACHINE"] == {"Ref": logical_id(stage, "SettlementStandard")}
    assert variables["START_DEAD_LETTERS"] == {"Ref": queue_id(stage, "StartDeadLetters")}
    assert "COMPENSATION_MACHINE" not in variables


def sqs(stage: str, role: str) -> list[Statement]:
    """Return a role's statements about queues."""
    found: list[Statement] = about("sqs", statements(role, stage))
    return found
