import json
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from handlers import _dependencies
from handlers.checks import _checks
from settlement.checks import demanded, of_stage, together
from settlement.checks.check import Answer, Approve, Check, Payment, Refuse, Tools, Wait
from settlement.checks.circuit import FAILURES_MAX, Circuits
from settlement.checks.of_stage import Installed
from settlement.core import telemetry
from settlement.core.ledger import keys
from settlement.core.model.errors import (
    CheckRefused,
    CheckUnavailable,
    InReview,
    KycUnavailable,
)
from settlement.core.model.stored import MalformedRow
from settlement.core.model.timestamps import timestamp
from settlement.core.model.verdict import KycDecision
from settlement.proof import on_record, rows, settlement_row
from tests.handlers.conftest import Calls, Meanwhile
from tests.world.constants import CLAIMED_AT, KEY, LATER_AT
from tests.world.environment import NOW
from tests.world.functions import Context
from tests.world.provider import IN_REVIEW, REJECTED
from tests.world.services import OWNER, PREVIOUS, THIRD, signed, text

DAY = 86_400
TOKEN = f"{KEY}:check:delivered"
RESUME = {"key": KEY, "owner": OWNER}


class Asked:
    """A check's function with settable answer."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.tokens = answer, list[str]()

    def __call__(self, payment: Payment, token: str, tools: Tools) -> Answer:
        self.tokens.append(token)
        if isinstance(self.answer, BaseException):
            raise self.answer
        answer: Answer = self.answer(payment) if callable(self.answer) else self.answer
        return answer


Install = Callable[..., dict[str, Asked]]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Give the stage checks, by name and answer; all may refuse as `lost`, and wait for a day."""

    def installed(**answers: Any) -> dict[str, Asked]:
        asked = {name: Asked(answer) for name, answer in answers.items()}
        checks = {
            name: Installed(Check(name=name, refusals=("lost",), ask=one, wait_seconds=DAY))
            for name, one in asked.items()
        }
        secrets = dict.fromkeys(checks, "arn:aws:secretsmanager:eu-west-1:123456789012:secret:check")
        monkeypatch.setenv("CHECK_SIGNING_SECRETS", json.dumps(secrets))
        monkeypatch.setenv("CHECK_NAMES", json.dumps([*checks]))
        monkeypatch.setattr(_dependencies.store, "_adds", (demanded.with_checks,))
        monkeypatch.setattr(of_stage, "installed", lambda: checks)
        declared = {name: one.check for name, one in checks.items()}
        monkeypatch.setattr(of_stage, "declared", lambda: declared)
        monkeypatch.setattr(together, "_stuck", {})
        monkeypatch.setattr(_checks, "_circuits", Circuits())
        return asked

    return installed


def sent(path: str = "/delivered", caller: Any = signed, **more: Any) -> dict[str, Any]:
    content = {"token": TOKEN, "decision": "approve", **more}
    return {**caller(text(content)), "rawPath": path}


def called_back(calls: Calls, event: Any) -> tuple[int, dict[str, str]]:
    answer = calls.handlers["CheckDecided"](event, Context())
    return answer["statusCode"], json.loads(answer["body"])


def differs(calls: Calls) -> list[str]:
    """Return the proof's findings on the row and its evidence."""
    found = [one for one in calls.ledger.rows() if one["sk"].startswith(f"{KEY}:")]
    evidence = [rows.evidence(one) for one in found if one["pk"].startswith("EVIDENCE#")]
    row = calls.row()
    facts = settlement_row.settlement(row)
    return [*settlement_row.contradictions(row, facts), *on_record.differences(facts, evidence)]


@pytest.fixture
def waiting(calls: Calls, install: Install) -> Calls:
    """A payment that waits for `delivered`."""
    install(delivered=Wait())
    calls.before("VerifyKyc")
    with pytest.raises(InReview):
        calls("VerifyKyc")
    return calls


# Answers


def test_a_stage_without_checks_reads_and_writes_what_it_did(calls: Calls) -> None:
    calls.before("VerifyKyc")

    calls("VerifyKyc")

    assert calls.entries() == {"hold", "verify"}
    assert calls.provider.asked == [KEY]


def test_kyc_is_asked_once_all_checks_have_approved(calls: Calls, install: Install) -> None:
    asked = install(limits=Approve({"today": 3}), delivered=Approve())
    calls.before("VerifyKyc")

    calls("VerifyKyc")
    with calls.writes_nothing():
        calls("VerifyKyc")

    assert calls.entries() == {"hold", "verify", "check:limits", "check:delivered"}
    assert calls.entry("check:limits") == {
        "posted_at": CLAIMED_AT,
        "decision": "APPROVED",
        "reason": "",
        "by_way": "ask",
        "evidence": '{"today": 3}',
    }
    assert (asked["limits"].tokens, asked["delivered"].tokens) == ([f"{KEY}:check:limits"], [TOKEN])
    assert (calls.provider.asked, calls.row()["verdict"], differs(calls)) == ([KEY], "APPROVED", [])


def test_a_declared_refusal_is_on_record_and_asked_for_once(calls: Calls, install: Install) -> None:
    asked = install(limits=Approve(), delivered=Refuse("lost", {"parcel": "1"}))
    calls.before("VerifyKyc")

    for _ in range(2):
        with pytest.raises(CheckRefused, match=r"^check delivered: lost$"):
            calls("VerifyKyc")
        asked["delivered"].answer = Approve()

    assert (calls.entry("check:delivered")["decision"], calls.provider.asked) == ("REFUSED", [])
    assert len(asked["delivered"].tokens) == 1
    assert (calls.row()["status"], "verdict" in calls.row(), differs(calls)) == ("PROCESSING", False, [])


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Refuse("stolen"), "refuses for a reason that it does not declare"),
        (True, "answers with bool, and not with Approve, Refuse or Wait"),
        (None, "answers with NoneType, and not with Approve, Refuse or Wait"),
        (Approve({"x": object()}), "its evidence is not JSON"),
        (Approve({"x": float("nan")}), "its evidence is not JSON"),
        (Approve({1: "x"}), "its evidence is not JSON"),  # type: ignore[dict-item]
        (Approve("yes"), "its evidence must be a mapping"),  # type: ignore[arg-type]
        (Approve({"x": "y" * 4_096}), "its evidence is longer than 4096 bytes of JSON"),
        (RuntimeError("a name"), "fails with RuntimeError"),
        (SystemExit(), "fails with SystemExit"),
    ],
)
def test_a_broken_check_is_named_and_asked_again(
    calls: Calls, install: Install, answer: Any, why: str
) -> None:
    asked = install(limits=Approve(), delivered=answer)
    calls.before("VerifyKyc")

    with pytest.raises(CheckUnavailable) as raised:
        calls("VerifyKyc")

    assert (str(raised.value), calls.provider.asked) == (f"check delivered: {why}", [])
    assert calls.entries() == {"hold", "check:limits"}
    asked["delivered"].answer = Approve()
    calls("VerifyKyc")
    assert (len(asked["limits"].tokens), calls.row()["verdict"], differs(calls)) == (1, "APPROVED", [])


def test_an_undeclared_wait_is_a_fault(
    calls: Calls, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(delivered=Wait())
    never = Check(name="delivered", refusals=(), ask=Asked(Wait()))
    monkeypatch.setattr(of_stage, "installed", lambda: {"delivered": Installed(never)})
    calls.before("VerifyKyc")

    with pytest.raises(CheckUnavailable, match=r"^check delivered: waits, but declares no wait_seconds$"):
        calls("VerifyKyc")


def test_a_check_that_blocks_is_cut_off_alone(
    calls: Calls, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_checks, "SECONDS_MAX", 0.05)
    blocked = threading.Event()
    asked = install(limits=Approve(), delivered=lambda payment: blocked.wait(60) and Approve())
    calls.before("VerifyKyc")

    for _ in range(together.STUCK_MAX):
        monkeypatch.setattr(_checks, "_circuits", Circuits())
        with pytest.raises(CheckUnavailable, match=r"^check delivered: gave no answer in time$"):
            calls("VerifyKyc")
    with pytest.raises(CheckUnavailable, match=r"^check delivered: is not asked: 8 earlier calls are stuck$"):
        calls("VerifyKyc")

    assert (calls.entries(), len(asked["delivered"].tokens)) == ({"hold", "check:limits"}, 8)
    blocked.set()


def test_a_failing_check_is_left_alone_for_a_while(calls: Calls, install: Install) -> None:
    asked = install(delivered=OSError())
    calls.before("VerifyKyc")
    for _ in range(FAILURES_MAX):
        with pytest.raises(CheckUnavailable, match=r"fails with OSError$"):
            calls("VerifyKyc")
    assert calls.counted()["Check.delivered.unavailable"] == FAILURES_MAX

    with pytest.raises(CheckUnavailable, match=r"^check delivered: is not asked: its last calls failed$"):
        calls("VerifyKyc")
    calls.later(seconds=10)
    for why in ("fails", "is not asked"):
        with pytest.raises(CheckUnavailable, match=why):
            calls("VerifyKyc")
    calls.later(seconds=20)
    asked["delivered"].answer = Approve()
    calls("VerifyKyc")

    assert (len(asked["delivered"].tokens), calls.counted()["Check.delivered.approved"]) == (
        FAILURES_MAX + 2,
        1,
    )


def test_no_check_is_asked_too_late(calls: Calls, install: Install) -> None:
    asked = install(delivered=Approve())
    calls.before("VerifyKyc")
    event = {"settlement": _dependencies.store.settlement(KEY).settlement.to_wire(_dependencies.config)}  # type: ignore[union-attr]

    with pytest.raises(CheckUnavailable, match="too little"):
        calls.handlers["VerifyKyc"](event, Context(iter([1_400])))

    assert asked["delivered"].tokens == []


def test_the_first_answer_of_two_calls_counts(calls: Calls, install: Install) -> None:
    asked = install(delivered=Approve())
    calls.before("VerifyKyc")

    def other() -> None:
        asked["delivered"].answer = Refuse("lost")
        with pytest.raises(CheckRefused):
            calls("VerifyKyc")

    calls.meanwhile(_dependencies.store, "put", other)
    with pytest.raises(CheckRefused):
        calls("VerifyKyc")

    assert (calls.entry("check:delivered")["decision"], differs(calls)) == ("REFUSED", [])


# The wait


def test_a_wait_ends_a_fixed_time_after_the_hold(calls: Calls, install: Install) -> None:
    install(limits=Approve(), delivered=Wait())
    calls.before("VerifyKyc")
    calls.later(minutes=5)
    calls.counted()

    for _ in range(2):
        with pytest.raises(InReview, match=f"^check delivered: {KEY} waits for its callback$"):
            calls("VerifyKyc")

    row, ends = calls.row(), timestamp(NOW + timedelta(days=1))
    assert (row["review"], row["deadline_at"], row["gsi1sk"]) == ("check:delivered", ends, ends)
    assert (calls.provider.asked, differs(calls)) == ([], [])
    assert calls.counted()["CheckWaits"] == 1


def test_the_wait_that_ends_first_is_begun(
    calls: Calls, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(delivered=Wait(), limits=Wait())
    checks = dict(of_stage.installed())
    checks["limits"] = Installed(replace(checks["limits"].check, wait_seconds=3_600))
    monkeypatch.setattr(of_stage, "installed", lambda: checks)
    calls.before("VerifyKyc")

    with pytest.raises(InReview, match=r"^check limits: "):
        calls("VerifyKyc")

    assert calls.row()["deadline_at"] == timestamp(NOW + timedelta(hours=1))


def test_a_wait_whose_time_is_over_ends_at_once(calls: Calls, install: Install) -> None:
    asked = install(delivered=OSError())
    calls.before("VerifyKyc")
    calls.alter(deadline_at=timestamp(NOW + timedelta(days=3)))
    with pytest.raises(CheckUnavailable):
        calls("VerifyKyc")
    asked["delivered"].answer = Wait()

    calls.later(days=2)
    with pytest.raises(InReview):
        calls("VerifyKyc")

    assert calls.row()["deadline_at"] == timestamp(NOW + timedelta(days=1))
    assert calls.recover_now()["action"] == "compensate"


def test_a_callback_resumes_the_payment_and_commits_no_step(waiting: Calls) -> None:
    before = waiting.row()
    waiting.later()

    answer = called_back(waiting, sent(evidence={"parcel": "1"}))

    assert answer == (200, {"check": "delivered", "decision": "APPROVED", "key": KEY})
    assert waiting.row() == {name: before[name] for name in before if name != "review"} | {
        "owner": OWNER,
        "owner_epoch": 1,
        "waits": 1,
        "answered": {"delivered"},
        "deadline_at": LATER_AT.replace("12:00", "12:15"),
        "in_flight_since": LATER_AT,
        "gsi1sk": LATER_AT,
    }
    assert waiting.entry("check:delivered") == {
        "posted_at": LATER_AT,
        "decision": "APPROVED",
        "reason": "",
        "by_way": "callback",
        "evidence": '{"parcel": "1"}',
    }
    assert (waiting.functions.sent, waiting.provider.asked, differs(waiting)) == ([RESUME], [], [])
    waiting.recover_now(**RESUME)
    waiting("VerifyKyc")
    assert (waiting.provider.asked, waiting.row()["verdict"], differs(waiting)) == ([KEY], "APPROVED", [])
    for state in ("ReleaseFunds", "CollectFee"):
        waiting(state, claimed_at=CLAIMED_AT)
    assert (waiting.row()["status"], differs(waiting)) == ("SETTLED", [])


def test_a_refusing_callback_reverses_the_payment(waiting: Calls) -> None:
    waiting.later()
    assert called_back(waiting, sent(decision="refuse", reason="lost"))[0] == 200
    waiting.recover_now(**RESUME)

    with pytest.raises(CheckRefused, match=r"^check delivered: lost$"):
        waiting("VerifyKyc")

    assert differs(waiting) == []


def test_a_repeated_callback_changes_nothing_and_asks_again(waiting: Calls) -> None:
    called_back(waiting, sent())
    with waiting.writes_nothing():
        assert called_back(waiting, sent())[0] == 200
    assert waiting.functions.sent == [RESUME, RESUME]


def test_the_first_of_two_callbacks_counts(waiting: Calls) -> None:
    called_back(waiting, sent())
    waiting.counted()
    with waiting.writes_nothing():
        status, content = called_back(waiting, sent(decision="refuse", reason="lost"))
    assert (status, content["error"]) == (409, "IdempotencyConflict")
    assert waiting.counted()["CheckConflict"] == 1


def test_a_callback_before_the_question_counts(calls: Calls, install: Install) -> None:
    asked = install(delivered=Wait())
    calls.before("VerifyKyc")

    assert called_back(calls, sent())[0] == 200
    calls("VerifyKyc")

    assert (asked["delivered"].tokens, calls.row()["verdict"]) == ([], "APPROVED")
    assert differs(calls) == []


@pytest.fixture
def meets(meanwhile: Meanwhile) -> Callable[[str, Callable[[], object]], None]:
    """Let something happen within a call, just before the store's next call of this name."""

    def meets(name: str, happens: Callable[[], object]) -> None:
        def act() -> None:
            happens()
            telemetry.count("StepCalled")  # the call in between has published the metrics of the outer one

        meanwhile(_dependencies.store, name, act)

    return meets


def test_a_callback_while_the_wait_begins_counts_at_once(calls: Calls, install: Install, meets: Any) -> None:
    install(delivered=Wait())
    calls.before("VerifyKyc")
    meets("update", lambda: called_back(calls, sent()))

    calls("VerifyKyc")

    row = calls.row()
    assert ("review" in row, row["answered"], row["verdict"]) == (False, {"delivered"}, "APPROVED")
    assert differs(calls) == []


def test_a_refusal_while_the_wait_begins_counts_at_once(calls: Calls, install: Install, meets: Any) -> None:
    install(delivered=Wait())
    calls.before("VerifyKyc")
    meets("update", lambda: called_back(calls, sent(decision="refuse", reason="lost")))

    with pytest.raises(CheckRefused):
        calls("VerifyKyc")

    assert ("review" in calls.row(), differs(calls)) == (False, [])


def test_a_wait_that_begins_within_a_callback_is_ended(calls: Calls, install: Install, meets: Any) -> None:
    install(delivered=Wait())
    calls.before("VerifyKyc")

    def begins() -> None:
        with pytest.raises(InReview):
            calls("VerifyKyc")

    meets("transact", begins)

    assert called_back(calls, sent())[0] == 200
    row = calls.row()
    assert ("review" in row, row["waits"], row["answered"]) == (False, 1, {"delivered"})
    assert differs(calls) == []


def test_a_callback_ends_only_its_own_checks_wait(calls: Calls, install: Install) -> None:
    install(delivered=Wait(), limits=Wait())
    calls.before("VerifyKyc")
    with pytest.raises(InReview, match=r"^check delivered"):
        calls("VerifyKyc")
    before = calls.row()

    assert called_back(calls, sent("/limits", token=f"{KEY}:check:limits"))[0] == 200

    assert (calls.row(), differs(calls)) == (before | {"answered": {"limits"}}, [])


def test_a_payment_that_waits_twice_is_proven(calls: Calls, install: Install) -> None:
    install(delivered=Wait(), limits=Wait())
    calls.before("VerifyKyc")
    for seconds, name in enumerate(("delivered", "limits"), 1):
        with pytest.raises(InReview, match=f"^check {name}"):
            calls("VerifyKyc")
        calls.later(seconds=seconds)
        assert called_back(calls, sent(f"/{name}", token=f"{KEY}:check:{name}"))[0] == 200
        calls.recover_now(**RESUME)
        assert differs(calls) == []
    calls("VerifyKyc")

    assert (calls.row()["waits"], calls.row()["verdict"], differs(calls)) == (2, "APPROVED", [])


def test_a_kyc_review_may_follow_a_wait(waiting: Calls) -> None:
    waiting.later()
    called_back(waiting, sent())
    waiting.recover_now(**RESUME)
    waiting.provider.answer = IN_REVIEW
    with pytest.raises(InReview, match=r"^kyc: "):
        waiting("VerifyKyc")
    assert differs(waiting) == []

    assert waiting.decided(replace(signed, id="evt_9")())[0] == 200

    assert (waiting.row()["verdict"], differs(waiting)) == ("APPROVED", [])


@pytest.mark.parametrize(("decision", "status"), [("APPROVED", 409), ("REJECTED", 200)])
def test_a_webhook_cannot_approve_before_the_checks(
    calls: Calls, install: Install, decision: str, status: int
) -> None:
    install(delivered=Approve())
    calls.before("VerifyKyc")

    assert calls.decided(signed(decision=decision))[0] == status

    assert "verify_at" not in calls.row()


def test_a_kyc_webhook_cannot_end_the_wait_for_a_check(waiting: Calls) -> None:
    with waiting.writes_nothing():
        status, content = waiting.decided(signed(reference="check:delivered"))
    assert (status, content["message"][:9]) == (400, "reference")
    with waiting.writes_nothing():
        assert waiting.decided(signed(reference="ver_1"))[0] == 409


@pytest.mark.parametrize(
    ("event", "status"),
    [
        (lambda: sent("/"), 404),
        (lambda: sent("/nothing"), 404),
        (lambda: sent("/delivered", replace(signed, secret=THIRD)), 401),
        (lambda: sent(token="order-2026-999999:check:delivered"), 404),
        (lambda: sent(token=f"{KEY}:check:limits"), 400),
        (lambda: sent(token=7), 400),
        (lambda: sent(decision="APPROVED"), 400),
        (lambda: sent(decision="refuse"), 400),
        (lambda: sent(decision="refuse", reason="stolen"), 400),
        (lambda: sent(reason="lost"), 400),
        (lambda: sent(evidence=[1]), 400),
        (lambda: sent(evidence={"x": "y" * 5_000}), 400),
        (lambda: sent(more=1), 400),
        (lambda: {**signed("[]"), "rawPath": "/delivered"}, 400),
        (lambda: {**signed("{"), "rawPath": "/delivered"}, 400),
    ],
)
def test_a_strangers_or_malformed_callback_writes_nothing(
    waiting: Calls, event: Callable[[], Any], status: int
) -> None:
    with waiting.writes_nothing():
        assert called_back(waiting, event())[0] == status


def test_a_callback_after_the_end_is_fenced(waiting: Calls) -> None:
    waiting.later()
    called_back(waiting, sent())
    waiting.recover_now(**RESUME)
    waiting.provider.answer = REJECTED
    with pytest.raises(Exception, match="rejected"):
        waiting("VerifyKyc")
    waiting.ledger.delete({"pk": f"EVIDENCE#{KEY}", "sk": TOKEN})

    with waiting.writes_nothing():
        assert called_back(waiting, sent())[0] == 409


@pytest.mark.parametrize("decision", ["APPROVED", "REFUSED"])
def test_a_refusal_ends_the_wait_for_another_check(calls: Calls, install: Install, decision: str) -> None:
    install(delivered=Wait(), limits=Wait())
    calls.before("VerifyKyc")
    with pytest.raises(InReview, match=r"^check delivered"):
        calls("VerifyKyc")
    calls.later()
    said = {"decision": "refuse", "reason": "lost"} if decision == "REFUSED" else {}

    assert called_back(calls, sent("/limits", token=f"{KEY}:check:limits", **said))[0] == 200

    row = calls.row()
    assert ("review" in row, row.get("waits")) == ((False, 1) if said else (True, None))
    assert (row["answered"], differs(calls)) == ({"limits"}, [])
    if said:
        calls.recover_now(**RESUME)
        with pytest.raises(CheckRefused, match=r"^check limits: lost$"):
            calls("VerifyKyc")


def test_a_refusal_while_another_wait_begins_counts_at_once(
    calls: Calls, install: Install, meets: Any
) -> None:
    install(delivered=Wait(), limits=Wait())
    calls.before("VerifyKyc")
    refusal = sent("/limits", token=f"{KEY}:check:limits", decision="refuse", reason="lost")
    meets("update", lambda: called_back(calls, refusal))

    with pytest.raises(CheckRefused, match=r"^check limits: lost$"):
        calls("VerifyKyc")

    assert ("review" in calls.row(), differs(calls)) == (False, [])


def test_a_second_calls_refusal_ends_the_wait_for_another(calls: Calls, install: Install, meets: Any) -> None:
    """It lands after the first call's answers, and before its wait begins, or after that."""
    asked = install(delivered=Wait(), limits=Wait())
    calls.before("VerifyKyc")

    def refuses() -> None:
        asked["limits"].answer = Refuse("lost")
        with pytest.raises(CheckRefused):
            calls("VerifyKyc")

    meets("update", refuses)
    with pytest.raises(CheckRefused, match=r"^check limits: lost$"):
        calls("VerifyKyc")

    assert ("review" in calls.row(), calls.row()["answered"], differs(calls)) == (False, {"limits"}, [])


def test_a_senders_previous_secret_is_valid_for_a_time(waiting: Calls) -> None:
    assert called_back(waiting, sent(caller=replace(signed, secret=PREVIOUS)))[0] == 200


# Changes of the stage's checks


def test_an_added_check_is_for_new_payments_only(calls: Calls, install: Install) -> None:
    install(delivered=Wait())
    calls.before("VerifyKyc")
    with pytest.raises(InReview):
        calls("VerifyKyc")
    asked = install(delivered=Wait(), limits=Refuse("lost"))
    with calls.writes_nothing():
        assert called_back(calls, sent("/limits", token=f"{KEY}:check:limits"))[0] == 404

    assert called_back(calls, sent())[0] == 200
    calls.recover_now(**RESUME)
    calls.provider.answer = IN_REVIEW
    with pytest.raises(InReview, match=r"^kyc: "):
        calls("VerifyKyc")
    assert calls.decided(replace(signed, id="evt_9")())[0] == 200

    assert (asked["limits"].tokens, calls.row()["verdict"], differs(calls)) == ([], "APPROVED", [])


def test_a_stages_first_check_is_for_new_payments_only(calls: Calls, install: Install) -> None:
    calls.before("VerifyKyc")
    asked = install(delivered=Refuse("lost"))

    calls("VerifyKyc")

    assert (asked["delivered"].tokens, calls.row()["verdict"], differs(calls)) == ([], "APPROVED", [])


def test_a_removed_check_is_still_demanded(calls: Calls, install: Install) -> None:
    install(limits=OSError(), delivered=Approve())
    calls.before("VerifyKyc")
    with pytest.raises(CheckUnavailable):
        calls("VerifyKyc")
    install()

    with pytest.raises(CheckUnavailable, match=r"^check limits: this stage has none$"):
        calls("VerifyKyc")

    install(limits=Approve())
    calls("VerifyKyc")
    assert (calls.provider.asked, calls.row()["verdict"], differs(calls)) == ([KEY], "APPROVED", [])


def test_a_removed_checks_refusal_counts(calls: Calls, install: Install) -> None:
    install(limits=Refuse("lost"))
    calls.before("VerifyKyc")
    with pytest.raises(CheckRefused):
        calls("VerifyKyc")
    install()

    with pytest.raises(CheckRefused, match=r"^check limits: lost$"):
        calls("VerifyKyc")


def test_the_end_of_a_wait_is_no_ending_review(waiting: Calls) -> None:
    waiting.later(hours=23.5)
    waiting.counted()

    waiting.handlers["RecoverStalled"]({"partition": keys.LIMBO}, Context())

    assert waiting.counted()["ReviewsEnding"] == 0


def test_a_wait_for_a_removed_check_ends_at_its_deadline(waiting: Calls, install: Install) -> None:
    install()
    with pytest.raises(InReview, match=r"which this stage no longer has: it ends at its deadline$"):
        waiting("VerifyKyc")

    waiting.later(days=1, seconds=1)

    assert waiting.recover_now()["action"] == "compensate"
    assert differs(waiting) == []


def test_an_outage_of_kyc_keeps_the_approvals(calls: Calls, install: Install) -> None:
    asked = install(delivered=Approve())
    calls.before("VerifyKyc")
    calls.provider.answer = KycUnavailable("kyc: dead")
    for _ in range(2):
        with pytest.raises(KycUnavailable):
            calls("VerifyKyc")

    assert (len(asked["delivered"].tokens), KycDecision.REVIEW.value) == (1, "REVIEW")


# The proof


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (
            {"decision": "REFUSED", "reason": "lost"},
            "is APPROVED, but the check delivered has not approved",
        ),
        ({"request_hash": "0" * 64}, "its evidence check:delivered is of another request"),
        ({"posted_at": "2026-11-20T13:00:00.000Z"}, "is in flight since"),
    ],
)
def test_the_proof_names_changed_evidence(waiting: Calls, change: dict[str, str], finding: str) -> None:
    waiting.later()
    called_back(waiting, sent())
    waiting.recover_now(**RESUME)
    waiting("VerifyKyc")
    assert differs(waiting) == []
    found = next(one for one in waiting.ledger.rows() if one["sk"] == TOKEN)

    waiting.ledger.put(found | change)

    assert any(finding in one for one in differs(waiting)), differs(waiting)


def test_the_proof_demands_each_check(waiting: Calls) -> None:
    waiting.later()
    called_back(waiting, sent())
    waiting.recover_now(**RESUME)
    waiting("VerifyKyc")

    waiting.alter(checks={"delivered", "limits"})
    assert differs(waiting) == ["its verdict is APPROVED, but the check limits has not approved"]
    waiting.alter(checks={"limits"})
    assert "the check delivered has answered, but was never demanded" in differs(waiting)


@pytest.mark.parametrize("name", ["", "Limits", "limits delivered", "\x1b[2Jlimits", "x" * 31])
@pytest.mark.parametrize("attribute", ["checks", "answered"])
def test_no_forged_name_of_a_check_reaches_a_finding(waiting: Calls, attribute: str, name: str) -> None:
    waiting.alter(**{attribute: {name}})

    with pytest.raises(MalformedRow, match=f"^{attribute} is no set of checks' names$"):
        differs(waiting)


@pytest.mark.parametrize("step", ["check", "check:", "check:Limits", "check:limits:1", "check:\x1b[2J"])
def test_an_answer_of_no_check_is_malformed(waiting: Calls, step: str) -> None:
    called_back(waiting, sent())
    row = waiting.ledger.row(keys.evidence(KEY, "check:delivered"))
    assert row

    with pytest.raises(MalformedRow, match=f"^step is {re.escape(repr(step))}$"):
        rows.evidence({**row, **keys.evidence(KEY, step), "step": step})


@pytest.mark.parametrize("waits", [0, 2, "1"])
def test_the_proof_counts_the_waits(waiting: Calls, waits: Any) -> None:
    called_back(waiting, sent())
    waiting.alter(waits=waits)

    with pytest.raises((AssertionError, MalformedRow)):
        assert differs(waiting) == []


@pytest.mark.parametrize(
    "change",
    [
        {"decision": "MAYBE"},
        {"decision": None},
        {"reason": "x" * 51},
        {"reason": ""},
        {"by_way": "guess"},
        {"evidence": "{"},
        {"evidence": "[]"},
    ],
)
def test_the_proof_names_malformed_evidence(waiting: Calls, change: dict[str, Any]) -> None:
    called_back(waiting, sent(decision="refuse", reason="lost"))
    found = next(one for one in waiting.ledger.rows() if one["sk"] == TOKEN)
    rows.evidence(found)

    with pytest.raises(MalformedRow):
        rows.evidence(found | change)
