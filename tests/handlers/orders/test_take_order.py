import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from handlers.http._http import BODY_BYTES_MAX
from settlement.core.ledger import keys
from settlement.core.model.errors import (
    CallerUnknown,
    InvalidRequest,
    NotReversible,
    StartUnavailable,
    StepFenced,
)
from tests.handlers.conftest import Calls
from tests.world.constants import CLAIMED_AT, EXECUTION_ARN, KEY, LATER_AT, NONCE, ORDER, WIRE
from tests.world.functions import Context
from tests.world.orders import PROOF, request
from tests.world.rooms import there
from tests.world.services import Died, throttled, unanswered

DECISIONS = ["retry", "write-off", "complete"]
BEA = "arn:aws:iam::123456789012:user/bea"
OWNER = f"{KEY}-resolve-{NONCE[:6]}"
AFTER = {
    "retry": ("COMPENSATING", 48),
    "write-off": ("COMPENSATING", 4820),
    "complete": ("SETTLED", 0),
}
"""The settlement's status and escrow after the decision."""


def on_record(decision: str, at: str = LATER_AT) -> dict[str, Any]:
    known = {name: PROOF[name] for name in ("user_id", "request_id")}
    return {**ORDER, "decision": decision, **known, "posted_at": at}


def named(name: str) -> dict[str, Any]:
    """Return the input of an execution started by an order: only the order's name."""
    return {"settlement": WIRE, "order": name}


# The person


@pytest.mark.parametrize(
    "decision", [*DECISIONS, "reverse", "recover", "open", "deposit", "close", *there("merchants", "sweep")]
)
@pytest.mark.parametrize("field", ["by", "user_id", "proof", "settlement"])
def test_an_identity_field_in_the_body_is_refused_as_unknown(calls: Calls, decision: str, field: str) -> None:
    calls.fall()
    body: dict[str, Any] = {"key": KEY, "reason": "why", field: BEA}
    body |= {"case": 1, "decision": decision} if decision in DECISIONS else {}
    body |= {"order": decision, "account": "bob"} if decision in ("open", "deposit", "close") else {}

    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=rf"{field}: unknown field"):
        calls.raw_order(decision, body)


@pytest.mark.parametrize(
    "change",
    [
        lambda context: context.pop("authorizer"),
        lambda context: context["authorizer"].update(iam=None),
        lambda context: context["authorizer"]["iam"].pop("userArn"),
        lambda context: context["authorizer"]["iam"].update(userArn=""),
        lambda context: context["authorizer"]["iam"].update(userId=7),
        lambda context: context.pop("requestId"),
        lambda context: context["http"].pop("sourceIp"),
    ],
)
def test_a_call_without_a_proven_identity_is_refused(calls: Calls, change: Callable[[Any], Any]) -> None:
    calls.fall()
    event = request("retry", {"key": KEY, "case": 1, "decision": "retry", "reason": "x"}, ORDER["by"])
    change(event["requestContext"])

    with calls.writes_nothing():
        answer = calls.handlers["TakeOrder"](event, Context())

    assert (answer["statusCode"], json.loads(answer["body"])["error"]) == (403, CallerUnknown.__name__)


# The order


@pytest.mark.parametrize(
    ("decision", "change", "status", "message"),
    [
        ("retry", {"key": "short"}, 400, "key: must be a string that matches"),
        ("retry", {"key": "order-no-such-0001"}, 404, "key: no request has claimed it"),
        ("retry", {"case": 0}, 400, "case: must be the number of a case"),
        ("retry", {"case": 2}, 409, "case: the open case is number 1, not 2"),
        ("retry", {"reason": ""}, 400, "reason: must be one line"),
        ("retry", {"decision": "write-off"}, 400, "decision: must be retry, as the route says"),
        ("retry", {"decision": ["retry"]}, 400, "decision: must be retry, as the route says"),
        ("retry", {"amount": "1.00"}, 400, "amount: unknown field"),
        ("reverse", {"key": "order-no-such-0001"}, 404, "key: no request has claimed it"),
        ("reverse", {"expected_status": "LIMBO"}, 400, "expected_status: must be SETTLED or PROCESSING"),
        ("reverse", {"expected_status": "SETTLED"}, 409, "reverse: it was to be SETTLED, but"),
        ("reverse", {"reason": " "}, 400, "reason: must be one line"),
        ("recover", {"key": None}, 400, "key: must be a string that matches"),
        ("recover", {"key": "order-no-such-0001"}, 404, "key: no request has claimed it"),
    ],
)
def test_a_bad_order_names_its_field_and_writes_nothing(
    limbo: Calls, decision: str, change: dict[str, Any], status: int, message: str
) -> None:
    body: dict[str, Any] = {"key": KEY}
    body |= {"case": 1, "decision": decision, "reason": "x"} if decision in DECISIONS else {}
    body |= {"reason": "x"} if decision == "reverse" else {}

    with limbo.writes_nothing():
        answer = limbo.handlers["TakeOrder"](request(decision, body | change, ORDER["by"]), Context())

    assert (answer["statusCode"], json.loads(answer["body"])["message"][: len(message)]) == (status, message)


@pytest.mark.parametrize("body", ["", "{", "[]", "7", "null", "[" * 100_000, " " * 30_000])
@pytest.mark.parametrize("encoded", [True, False])
def test_a_body_other_than_a_json_object_is_refused(limbo: Calls, body: str, encoded: bool) -> None:
    event = request("retry", body, ORDER["by"]) | {"isBase64Encoded": encoded}

    with limbo.writes_nothing():
        answer = limbo.handlers["TakeOrder"](event, Context())

    assert (answer["statusCode"], json.loads(answer["body"])["message"][:5]) == (400, "body:")


def test_a_field_given_twice_is_refused_as_parsers_differ(calls: Calls) -> None:
    told = r"^body: must have each field once, and has key twice$"
    with calls.writes_nothing(), pytest.raises(InvalidRequest, match=told):
        calls.raw_order("recover", f'{{"key": "{KEY}", "key": "{KEY}"}}')


@pytest.mark.parametrize("encoded", [True, False])
def test_an_oversized_body_is_refused_with_limit_and_size(limbo: Calls, encoded: bool) -> None:
    """The limit applies to the bytes, not to their base64."""
    for size in (BODY_BYTES_MAX, BODY_BYTES_MAX + 1):
        body = '{"key": "é"}'.encode().ljust(size)
        text = base64.b64encode(body).decode() if encoded else body.decode()
        event = request("retry", text, ORDER["by"]) | {"isBase64Encoded": encoded}
        with limbo.writes_nothing():
            answer = limbo.handlers["TakeOrder"](event, Context())

        is_too_long = f"at most {BODY_BYTES_MAX} bytes, and has {size}" in answer["body"]
        assert (answer["statusCode"], is_too_long) == (400, size > BODY_BYTES_MAX)


# A decision on a case of LIMBO


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_decision_closes_the_case_and_wakes_the_waiting_execution(limbo: Calls, decision: str) -> None:
    limbo.later()
    limbo.counted()

    answer = limbo.decide(decision)

    assert answer == {"key": KEY, "case": 1, "order": on_record(decision)}
    assert (limbo.step_functions.sent, limbo.step_functions.started) == ([{"case": 1}], [])
    made = {**ORDER, "decision": decision}
    listed = {"account": "bob", "posted_at": LATER_AT, **keys.orders_index(LATER_AT)}
    evidence = limbo.ledger.row(keys.evidence(KEY, "resolve:1")) or {}
    assert evidence.items() >= {**made, **PROOF, **listed}.items()
    row, bob = limbo.row(), limbo.account("bob")
    assert ((row["status"], row["escrow"]), row["owner"]) == (AFTER[decision], OWNER)
    assert row["resolution"].items() >= {**made, "decided_at": LATER_AT}.items()
    assert (bob["available"], bob["limbo_cases"]) == (5272, 0)
    assert limbo.counted() == {"StepCalled": 1} | ({"Settled": 1} if decision == "complete" else {})


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("waited", ["gone", "ended", "timed out", "for another case"])
def test_an_execution_with_the_orders_name_starts_if_none_waits(
    limbo: Calls, waited: str, decision: str
) -> None:
    if waited == "gone":
        limbo.step_functions.machines.executions.clear()
    elif waited == "ended":
        limbo.step_functions.end(EXECUTION_ARN)
    elif waited == "timed out":
        limbo.step_functions.machines.executions[0].token = "another"
    else:
        limbo.ledger.put(limbo.ledger.row({"pk": f"WAITING#{KEY}", "sk": "WAITING"}) | {"case": 2})  # type: ignore[operator]

    limbo.decide(decision)

    assert limbo.step_functions.started == [("Compensation", OWNER, named("resolve:1"))]
    assert limbo.step_functions.sent == []


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("gone_at", ["entry", "decision"])
def test_a_case_whose_account_is_missing_can_be_decided(calls: Calls, decision: str, gone_at: str) -> None:
    found = calls.fall() if gone_at == "decision" else calls.stuck()
    calls.close("bob")
    if gone_at == "entry":
        calls.limbo(found)

    first = calls.decide(decision)

    assert (calls.row()["status"], calls.row()["owner"]) == (AFTER[decision][0], OWNER)
    with calls.writes_nothing():
        assert calls.decide(decision) == first


@pytest.mark.parametrize("first", DECISIONS)
@pytest.mark.parametrize("raced", [True, False])
def test_a_case_is_decided_once_and_repetitions_get_equal_answers(
    limbo: Calls, freeze_reads: Callable[[], None], first: str, raced: bool
) -> None:
    if raced:
        freeze_reads()
    answer = limbo.decide(first)
    before = limbo.ledger.rows()
    limbo.later(days=1)

    assert limbo.decide(first) == answer
    assert limbo.decide(first, by=BEA) == answer
    others: list[dict[str, Any]] = [{"decision": second} for second in DECISIONS if second != first]
    told = rf"^resolve: case 1 was decided otherwise: {first} at {CLAIMED_AT}$"
    for other in [*others, {"reason": "because"}]:
        with pytest.raises(StepFenced, match=told):
            limbo.decide(**{"decision": first, **other})

    assert limbo.ledger.rows() == before


# Between the order and the wake


@pytest.mark.parametrize("decision", ["retry", "write-off"])
@pytest.mark.parametrize("error", [Died(), throttled("SendTaskSuccess"), unanswered()], ids=repr)
def test_recovery_completes_a_decision_whose_function_died_before_the_wake(
    limbo: Calls, error: BaseException, decision: str
) -> None:
    limbo.step_functions.failing["send_task_success"] = error
    with pytest.raises((Died, StartUnavailable)):
        limbo.decide(decision)
    assert limbo.row()["owner"] == OWNER
    limbo.step_functions.failing.clear()
    limbo.later(seconds=30)

    limbo.recover()

    assert limbo.step_functions.started == [("Compensation", f"{KEY}-c1-{NONCE}", named("resolve:1"))]


def test_recovery_does_not_announce_a_decision_that_was_taken_over(limbo: Calls) -> None:
    limbo.decide("retry")
    limbo.begin_as("another", named("resolve:1"))
    limbo.later(seconds=30)

    limbo.recover()

    assert limbo.step_functions.started == [("Compensation", f"{KEY}-c1-{NONCE}", {"settlement": WIRE})]


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_repeated_decision_sends_the_missed_wake(limbo: Calls, decision: str) -> None:
    limbo.step_functions.failing["send_task_success"] = throttled("SendTaskSuccess")
    with pytest.raises(StartUnavailable):
        limbo.decide(decision)
    limbo.step_functions.failing.clear()

    with limbo.writes_nothing():
        limbo.decide(decision)

    assert (limbo.step_functions.sent, limbo.step_functions.started) == ([{"case": 1}], [])


def test_a_completion_without_a_wake_is_announced_after_the_wait(limbo: Calls) -> None:
    limbo.step_functions.failing["send_task_success"] = throttled("SendTaskSuccess")
    with pytest.raises(StartUnavailable):
        limbo.decide("complete")
    waited = {"settlement": WIRE, "case": 1, "alerts": 1, "error": {"Error": "StepFenced"}}

    with limbo.writes_nothing():
        found = limbo.begin(waited)
        announced = limbo("ResolveLimbo", resolution=found["resolution"], case=found["case"])
        assert "resolution" not in limbo.begin(announced)

    assert announced["notice"]["decision"] == "complete"


def test_a_repeated_decision_leaves_starting_an_execution_to_recovery(limbo: Calls) -> None:
    """The first decision used up the execution's token, and a second execution would alert twice."""
    limbo.decide("retry")
    limbo.step_functions.failing["send_task_success"] = ClientError(
        {"Error": {"Code": "TaskTimedOut", "Message": "used"}}, "SendTaskSuccess"
    )

    limbo.decide("retry")

    assert (limbo.step_functions.started, limbo.functions.sent) == ([], [{"key": KEY}])


def test_a_repeated_decision_on_a_finished_settlement_starts_nothing(calls: Calls) -> None:
    calls.fall()
    calls.decide("complete")
    calls.step_functions.started.clear()

    calls.decide("complete")

    assert calls.step_functions.started == []


# A reversal


@pytest.mark.parametrize(
    ("state", "expected"),
    [("CollectFee", {}), ("ReleaseFunds", {"expected_status": "PROCESSING"}), ("HoldFunds", None)],
)
def test_a_reversal_begins_with_its_order_and_starts_an_execution(
    calls: Calls, state: str, expected: dict[str, str] | None
) -> None:
    calls.after(state)
    more = {"expected_status": "PROCESSING"} if expected is None else expected

    answer = calls.order_reversal(ORDER | more)

    assert answer["key"] == KEY
    assert answer["order"].items() >= {**ORDER, "posted_at": CLAIMED_AT}.items()
    assert calls.row()["status"] == "COMPENSATING"
    assert calls.step_functions.started == [("Compensation", f"{KEY}-reverse-{NONCE[:6]}", named("reverse"))]


def test_a_repeated_reversal_order_keeps_the_first_persons_record(calls: Calls) -> None:
    calls.after("CollectFee")
    first = calls.order_reversal()

    with calls.writes_nothing():
        assert calls.order_reversal({"reason": "another", "by": BEA}) == first

    assert [data for _, _, data in calls.step_functions.started] == [named("reverse")]
    assert calls.functions.sent == [{"key": KEY}]  # recovery looks whether that execution runs


def test_a_repeated_reversal_order_in_limbo_starts_nothing(calls: Calls) -> None:
    calls.fall("fee")
    calls.step_functions.started.clear()

    calls.order_reversal()

    assert calls.step_functions.started == []


def test_recovery_starts_a_reversal_whose_function_died_before_the_start(calls: Calls) -> None:
    calls.after("CollectFee")
    calls.step_functions.failing["start_execution"] = Died()
    with pytest.raises(Died):
        calls.order_reversal()
    calls.step_functions.failing.clear()
    calls.later(seconds=30)

    calls.recover()

    assert calls.step_functions.started == [("Compensation", f"{KEY}-c1-{NONCE}", {"settlement": WIRE})]


def test_a_reversal_ended_by_completion_is_not_ordered_again(calls: Calls) -> None:
    calls.fall("fee")
    calls.decide("complete")

    message = r"^reverse: the settlement was completed out of LIMBO since it was first ordered$"
    with calls.writes_nothing(), pytest.raises(NotReversible, match=message):
        calls.order_reversal()


# Recovery


def test_a_recover_order_invokes_recovery_and_returns_its_answer(calls: Calls) -> None:
    calls.after("HoldFunds")
    done = {"key": KEY, "action": "settle", "execution": f"{KEY}-r1-{NONCE}"}
    calls.functions.answers = lambda event: done

    assert calls.order("recover", {"key": KEY, "by": ORDER["by"]}) == done
    assert calls.functions.sent == [{"key": KEY}]


@pytest.mark.parametrize("error", [throttled("Invoke"), unanswered()], ids=repr)
def test_a_recover_order_that_got_no_answer_returns_503(calls: Calls, error: Exception) -> None:
    calls.after("HoldFunds")
    calls.functions.failing = error

    answer = calls.handlers["TakeOrder"](request("recover", {"key": KEY}, ORDER["by"]), Context())

    assert (answer["statusCode"], json.loads(answer["body"])["error"]) == (503, "StartUnavailable")


def test_a_recover_order_raises_recoverys_own_error(calls: Calls) -> None:
    def fails(event: Any) -> Any:
        raise StartUnavailable("x: not started")

    calls.after("HoldFunds")
    calls.functions.answers = fails

    with pytest.raises(StartUnavailable, match=f"^{KEY}: not resumed yet: StartUnavailable$"):
        calls.order("recover", {"key": KEY, "by": ORDER["by"]})
