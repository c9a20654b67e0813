from collections.abc import Callable
from typing import Any

import pytest

from handlers import _dependencies
from settlement.core.model.errors import AlreadyClaimed, DeadlineExceeded, StoreUnavailable
from tests.handlers.conftest import Calls
from tests.world import posting
from tests.world.constants import KEY, LATER_AT, NONCE, OTHER_CONTENT, WIRE, WITHOUT_FEE
from tests.world.contracts import checked_outcome
from tests.world.functions import Context
from tests.world.posting import NAMELESS
from tests.world.reading import Answer, answer
from tests.world.services import Died, throttled, unanswered

COMPENSATOR = f"{KEY}-c1-{NONCE}"
Cancel = Callable[..., Answer]


@pytest.fixture
def cancel(calls: Calls) -> Cancel:
    def cancel(body: Any = NAMELESS, key: str = KEY, **headers: str) -> Answer:
        return answer(calls.handlers["CancelSettlement"](posting.cancel(body, key, **headers), Context()))

    return cancel


def told(found: Answer) -> tuple[int, str, str]:
    outcome = checked_outcome(found.content)
    return found.status, outcome["status"], outcome["failure"]["error"]


def refusal(found: Answer) -> tuple[int, str]:
    return found.status, found.content["error"]


# Before the hold


@pytest.mark.parametrize("body", [NAMELESS, WIRE, WITHOUT_FEE])
@pytest.mark.parametrize("headers", [{}, {"if_match": '"1"'}])
def test_cancelling_a_claimed_payment_rejects_it_permanently(
    calls: Calls, cancel: Cancel, body: Any, headers: dict[str, str]
) -> None:
    execution = calls.claimed()
    calls.counted()

    cancelled = cancel(body, **headers)

    assert told(cancelled) == (200, "REJECTED", "Cancelled")
    assert cancelled.headers["etag"] == '"2"'
    assert cancelled.headers["location"] == f"/settlements/{KEY}"
    assert cancelled.content["next"]["action"] == "new_key"
    assert calls.counted() == {"StepCalled": 1, "Rejected": 1}
    with calls.writes_nothing(), pytest.raises(AlreadyClaimed):
        calls("HoldFunds", execution=execution)
    assert calls.functions.sent == []


# In review


@pytest.mark.parametrize("headers", [{}, {"if_match": '"2"'}])
def test_cancelling_a_payment_in_review_gives_the_money_back(
    in_review: Calls, cancel: Cancel, headers: dict[str, str]
) -> None:
    in_review.later()

    cancelled = cancel(**headers)

    assert told(cancelled) == (202, "COMPENSATING", "Cancelled")
    row = in_review.row()
    assert (row["status"], row["gsi1sk"], row["sequence"]) == ("COMPENSATING", LATER_AT, 3)
    assert row["reversed_for"] == cancelled.content["failure"]
    assert in_review.functions.sent == [{"key": KEY, "owner": "execution-1"}]
    assert in_review.recover_now(**in_review.functions.sent[0])["execution"] == COMPENSATOR
    in_review.unwind(in_review.begin_as(COMPENSATOR, {"settlement": WIRE}))
    assert told(cancel(**headers)) == (200, "COMPENSATED", "Cancelled")
    assert in_review.account("alice")["available"] == 10_000


def test_two_concurrent_cancellations_take_effect_once_with_equal_answers(
    in_review: Calls, cancel: Cancel, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = _dependencies.store.settlement(KEY)
    with monkeypatch.context() as both:
        both.setattr(_dependencies.store, "settlement", lambda key: seen)
        first, second = cancel(), cancel()

    assert told(first) == told(second) == (202, "COMPENSATING", "Cancelled")
    assert in_review.row()["sequence"] == 3
    assert in_review.functions.sent[0] == in_review.functions.sent[1]
    in_review.recover_now(**in_review.functions.sent[0])
    with in_review.writes_nothing():
        assert in_review.recover_now(**in_review.functions.sent[1])["action"] == "none"


def test_a_repeated_cancellation_asks_recovery_until_it_owns_the_payment(
    in_review: Calls, cancel: Cancel
) -> None:
    cancel()
    with in_review.writes_nothing():
        assert told(cancel()) == (202, "COMPENSATING", "Cancelled")
    in_review.recover_now(**in_review.functions.sent[-1])

    with in_review.writes_nothing():
        repeated = cancel()

    assert repeated.content["replayed"] is True
    assert len(in_review.functions.sent) == 2
    assert [name for _, name, _ in in_review.step_functions.started] == [COMPENSATOR]


@pytest.mark.parametrize("failing", [throttled("Invoke"), unanswered(), Died()], ids=repr)
def test_a_cancellation_takes_effect_even_if_asking_recovery_fails(
    in_review: Calls, cancel: Cancel, failing: BaseException
) -> None:
    in_review.functions.failing = failing
    in_review.counted()

    if isinstance(failing, Died):
        with pytest.raises(Died):
            cancel()
    else:
        assert told(cancel()) == (202, "COMPENSATING", "Cancelled")
        assert in_review.counted() == {"StepCalled": 1, "StartUnavailable": 1}

    in_review.recover()
    assert in_review.row()["owner"] == COMPENSATOR
    assert [name for _, name, _ in in_review.step_functions.started] == [COMPENSATOR]


def test_a_lost_write_answer_returns_503_and_a_retry_succeeds(in_review: Calls, cancel: Cancel) -> None:
    with in_review.fails("update", StoreUnavailable("DynamoDB: no answer"), after=True):
        assert refusal(cancel()) == (503, "StoreUnavailable")

    assert told(cancel(if_match='"2"')) == (202, "COMPENSATING", "Cancelled")
    assert in_review.row()["sequence"] == 3


def test_cancelling_a_review_that_recovery_expired_succeeds(in_review: Calls, cancel: Cancel) -> None:
    """The cancellation becomes the reversal's reason, and recovery's execution gives the amount back."""
    in_review.later(days=2)
    in_review.recover()

    assert told(cancel()) == (202, "COMPENSATING", "Cancelled")

    ((_, execution, data),) = in_review.step_functions.started
    in_review.unwind(in_review.begin_as(execution, data))
    assert told(cancel()) == (200, "COMPENSATED", "Cancelled")


# After the hold, outside a review


def test_cancelling_a_held_payment_outside_review_is_refused_with_advice(
    calls: Calls, cancel: Cancel
) -> None:
    calls.after("HoldFunds")

    with calls.writes_nothing():
        refused = cancel()

    assert refusal(refused) == (409, "NotCancellable")
    advice = "wait for its outcome; once it is SETTLED, a person's order reverses it"
    assert refused.content["message"].endswith(advice)
    assert calls.functions.sent == []


@pytest.mark.parametrize(
    ("body", "headers", "refused"),
    [
        (NAMELESS, {"if_match": '"1"'}, (412, "SequenceChanged")),
        (OTHER_CONTENT[0], {}, (409, "IdempotencyConflict")),
    ],
)
def test_a_call_about_another_request_or_version_is_refused(
    in_review: Calls, cancel: Cancel, body: Any, headers: dict[str, str], refused: tuple[int, str]
) -> None:
    with in_review.writes_nothing():
        assert refusal(cancel(body, **headers)) == refused


def test_an_unclaimed_key_is_404(calls: Calls, cancel: Cancel) -> None:
    with calls.writes_nothing():
        assert refusal(cancel()) == (404, "SettlementNotFound")


@pytest.mark.parametrize(
    ("body", "key", "headers", "fields"),
    [
        pytest.param(NAMELESS, "short", {}, ["key"], id="a bad key"),
        pytest.param(WIRE, "order-2026-999999", {}, ["key"], id="another key"),
        pytest.param({}, KEY, {}, ["amount", "currency", "payee", "payer"], id="no request"),
        pytest.param(NAMELESS | {"amount": 5}, KEY, {}, ["amount"], id="a number"),
        pytest.param("", KEY, {}, ["body"], id="no body"),
        pytest.param(NAMELESS, KEY, {"if_match": "2"}, ["If-Match"], id="no quotes"),
        pytest.param(NAMELESS, KEY, {"if_match": "*"}, ["If-Match"], id="any"),
        pytest.param(NAMELESS, KEY, {"if_match": '"1", "2"'}, ["If-Match"], id="a list"),
        pytest.param(NAMELESS, KEY, {"if_match": 'W/"2"'}, ["If-Match"], id="a weak one"),
        pytest.param(NAMELESS, KEY, {"if_match": ""}, ["If-Match"], id="an empty one"),
    ],
)
def test_a_bad_call_names_its_fields_and_changes_nothing(
    in_review: Calls, cancel: Cancel, *, body: Any, key: str, headers: dict[str, str], fields: list[str]
) -> None:
    with in_review.writes_nothing():
        refused = cancel(body, key, **headers)

    assert refusal(refused) == (400, "InvalidRequest")
    assert [one.partition(":")[0] for one in refused.content["message"].split("; ")] == fields


def test_a_start_after_the_cancellation_gets_its_outcome(calls: Calls, cancel: Cancel) -> None:
    """A late start of a cancelled key pays nothing, so a payment needs a new key."""
    calls.claimed()
    cancel()

    with calls.writes_nothing():
        again = answer(calls.handlers["AcceptSettlements"](posting.asked(), Context(iter([28_000]))))

    assert told(again) == (200, "REJECTED", "Cancelled")
    with pytest.raises((AlreadyClaimed, DeadlineExceeded)), calls.writes_nothing():
        calls("HoldFunds")
