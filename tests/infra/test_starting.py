"""The queue for services that send a message: nothing in it is lost, read by others, or started by force."""

from functools import partial
from typing import Any

import pytest

from handlers import _machines, _queues
from handlers import start_settlements as handler
from infra.settings import STAGES
from settlement.store import CLIENT_CONFIG
from tests.infra.iam import Statement, attribute, of_document, statements
from tests.infra.machines import each_stage, function_id, logical_id, name
from tests.infra.test_functions import properties
from tests.infra.test_grants import about, granted
from tests.support import templates

QUEUES = ("StartingQueue", "StartingDeadLetters")
RECEIVES = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:ChangeMessageVisibility"}
SENDS = {"sqs:SendMessage"}
LOOKS = {"sqs:GetQueueAttributes", "sqs:GetQueueUrl"}
"""What tells of a queue, and nothing of its messages."""

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
    """The one way by which anything is read from a queue."""
    (found,) = templates.resources("AWS::Lambda::EventSourceMapping", stage).values()
    return found["Properties"]


def unanswered_seconds(config: Any) -> int:
    """How long a call takes that hears nothing until its last attempt; before a second one it waits 1 s."""
    attempts = config.retries["total_max_attempts"]
    seconds: int = attempts * (config.connect_timeout + config.read_timeout) + attempts - 1
    return seconds


def policy(stage: str, queue: str) -> list[Statement]:
    """What the queue's own policies say; none where it has none."""
    of_queue = {"Ref": queue_id(stage, queue)}
    return [
        statement
        for found in templates.resources("AWS::SQS::QueuePolicy", stage).values()
        if of_queue in found["Properties"]["Queues"]
        for statement in of_document(found["Properties"]["PolicyDocument"], stage)
    ]


@each_stage
def test_these_are_the_queues(stage: str) -> None:
    """No construct brings one of its own, which none of the tests would look at."""
    found = [name(one) for one in templates.resources("AWS::SQS::Queue", stage)]

    assert sorted(found) == sorted([*QUEUES, "PagingUndelivered"])


@each_queue
def test_a_queue_is_encrypted_and_keeps_a_message_for_as_long_as_there_is(stage: str, queue: str) -> None:
    """A message's age goes with it to the dead letters: kept for less, it would be dropped on arrival."""
    found = queue_properties(stage, queue)

    assert found["SqsManagedSseEnabled"] is True
    assert found["MessageRetentionPeriod"] == 14 * 86_400
    assert "FifoQueue" not in found  # one bad message of a group would hold up all that come after it


@each_queue
def test_a_queue_demands_tls_where_there_is_tls_and_admits_nobody_by_itself(stage: str, queue: str) -> None:
    """Who sends has that from their own role; the embedded AWS speaks plain HTTP."""
    found = policy(stage, queue)

    assert [one.effect for one in found] == ([] if STAGES[stage].interpreter else ["Deny"])
    for one in found:
        assert one.principals == {"*"}
        assert one.actions == {"sqs:*"}
        assert one.resources == (queue_id(stage, queue),)
        assert one.conditions == {"Bool": {"aws:SecureTransport": "false"}}


@each_queue
def test_a_queue_outlives_the_stack_where_money_is_real(stage: str, queue: str) -> None:
    """What lies in it is a payment that somebody counts on."""
    found = templates.resources("AWS::SQS::Queue", stage)[queue_id(stage, queue)]

    kept = "Retain" if STAGES[stage].keeps_data else "Delete"
    assert found["DeletionPolicy"] == found["UpdateReplacePolicy"] == kept


@each_stage
def test_a_message_that_is_worked_on_is_shown_to_nobody_else(stage: str) -> None:
    """Six times the function's timeout, as AWS advises: a batch that is throttled is not received twice."""
    visibility = queue_properties(stage, "StartingQueue")["VisibilityTimeout"]

    assert visibility >= 6 * start_settlements(stage)["Timeout"]


@each_stage
def test_a_message_is_tried_for_hours_before_it_is_given_up(stage: str) -> None:
    """That bears an outage of Step Functions; what is not fit to start is put aside at once."""
    found = queue_properties(stage, "StartingQueue")

    redrive = found["RedrivePolicy"]
    assert attribute(redrive["deadLetterTargetArn"]) == queue_id(stage, "StartingDeadLetters")
    assert redrive["maxReceiveCount"] == 30
    assert redrive["maxReceiveCount"] * found["VisibilityTimeout"] >= 2 * 3600


@each_stage
def test_nothing_becomes_of_a_dead_letter_by_itself(stage: str) -> None:
    """A person looks at it: sent on once more, it would only come back."""
    assert "RedrivePolicy" not in queue_properties(stage, "StartingDeadLetters")
    assert attribute(source(stage)["EventSourceArn"]) == queue_id(stage, "StartingQueue")


@each_stage
def test_one_message_that_fails_takes_none_of_its_batch_with_it(stage: str) -> None:
    """Without the report a batch is done or not as a whole."""
    found = source(stage)

    assert found["FunctionName"] == {"Ref": function_id(stage, "StartSettlements")}
    assert found["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert "FilterCriteria" not in found  # what matches no filter is deleted without a word
    assert found.get("Enabled", True) is True


@pytest.mark.parametrize("then", [_machines, _queues])
def test_what_is_begun_with_the_last_of_the_time_is_ended_in_time(then: Any) -> None:
    """Cut off, the function reports nothing: what it has done of the batch is all done again, and again."""
    reserved = handler._RESERVED_MS / 1000

    assert unanswered_seconds(CLIENT_CONFIG) + unanswered_seconds(then._client.meta.config) <= reserved
    for stage in STAGES:
        assert reserved < start_settlements(stage)["Timeout"]


@each_stage
def test_a_full_queue_does_not_use_up_the_concurrency_that_settlements_need(stage: str) -> None:
    assert source(stage)["ScalingConfig"] == {"MaximumConcurrency": 10}


@each_stage
def test_what_starts_from_the_queue_may_claim_settlements_and_touch_no_other_row(stage: str) -> None:
    """A message is what a stranger has written: no mistake in what reads it is a way to a balance."""
    (table,) = templates.resources("AWS::DynamoDB::Table", stage)

    (allowed,) = about("dynamodb", granted(stage, "StartSettlements"))

    assert allowed.actions == {"dynamodb:PutItem"}
    assert allowed.resources == (table,)
    assert allowed.conditions == {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["SETTLEMENT#*"]}}


@each_stage
def test_what_starts_from_the_queue_may_receive_there_and_send_to_the_dead_letters_only(stage: str) -> None:
    """Sent to its own queue, a message would go round for ever; from the dead letters nothing is taken."""
    allowed = {one.resources: one.actions for one in about("sqs", granted(stage, "StartSettlements"))}

    queue, dead_letters = ((queue_id(stage, one),) for one in QUEUES)
    assert allowed.keys() == {queue, dead_letters}
    assert allowed[queue] - LOOKS == RECEIVES
    assert allowed[dead_letters] - LOOKS == SENDS


@each_stage
def test_nobody_else_has_to_do_with_the_queues(stage: str) -> None:
    """The services upstream bring a role of their own, which may send."""
    calling = {role for role in templates.resources("AWS::IAM::Role", stage) if sqs(stage, role)}

    assert calling == {attribute(start_settlements(stage)["Role"])}


@each_stage
def test_what_starts_from_the_queue_starts_the_standard_machine_only(stage: str) -> None:
    """It starts what recovery would start: an execution that is found by its name, and started once."""
    standard = logical_id(stage, "SettlementStandard")

    (allowed,) = about("states", granted(stage, "StartSettlements"))

    assert allowed.actions == {"states:StartExecution"}
    assert allowed.resources == (standard,)


@each_stage
def test_what_starts_from_the_queue_is_told_the_machine_and_the_dead_letters(stage: str) -> None:
    variables = start_settlements(stage)["Environment"]["Variables"]

    assert variables["SETTLEMENT_MACHINE"] == {"Ref": logical_id(stage, "SettlementStandard")}
    assert variables["START_DEAD_LETTERS"] == {"Ref": queue_id(stage, "StartingDeadLetters")}
    assert "COMPENSATION_MACHINE" not in variables


def sqs(stage: str, role: str) -> list[Statement]:
    """What a role may do to any queue."""
    found: list[Statement] = about("sqs", statements(role, stage))
    return found
