import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
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
from settlement.core.model.errors import CheckRefused, CheckUnavailable, InReview, KycRejected, KycUnavailable
from settlement.core.model.stored import MalformedRow
from settlement.core.model.timestamps import timestamp
from settlement.proof import on_record, rows, settlement_row
from tests.handlers.conftest import Calls
from tests.world.constants import CLAIMED_AT, KEY, LATER_AT, WIRE
from tests.world.environment import NOW
from tests.world.functions import Context
from tests.world.provider import IN_REVIEW, REJECTED
from tests.world.services import OWNER, PREVIOUS, THIRD, signed, text

DAY = 86_400
TOKEN = f"{KEY}:check:delivered"
RESUME = {"key": KEY, "owner": OWNER}


class Asked:
    """A check's function with a settable answer."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.tokens = answer, list[str]()

    def __call__(self, payment: Payment, token: str, tools: Tools) -> Answer:
        self.tokens.append(token)
        if isinstance(self.answer, BaseException):
            raise self.answer
        answer: Answer = self.answer(payment) if callable(self.answer) else self.answer
        return answer


@dataclass
class Checks:
    """A stage's checks, and a payment whose verification is next."""

    calls: Calls
    monkeypatch: pytest.MonkeyPatch

    def install(self, **answers: Any) -> dict[str, Asked]:
        """Install checks that give these answers; each may refuse as `lost`, and wait a day."""
        asked = {name: Asked(answer) for name, answer in answers.items()}
        self.declare(
            **{
                name: Check(name=name, refusals=("lost",), ask=one, wait_seconds=DAY)
                for name, one in asked.items()
            }
        )
        secrets = dict.fromkeys(asked, "arn:aws:secretsmanager:eu-west-1:123456789012:secret:check")
        self.monkeypatch.setenv("CHECK_SIGNING_SECRETS", json.dumps(secrets))
        self.monkeypatch.setenv("CHECK_NAMES", json.dumps([*asked]))
        self.monkeypatch.setattr(_dependencies.store, "_adds", (demanded.with_checks,))
        self.monkeypatch.setattr(together, "_stuck", {})
        self.forget_failures()
        return asked

    def declare(self, **checks: Check) -> None:
        self.monkeypatch.setattr(of_stage, "declared", lambda: checks)
        installed = {name: Installed(check) for name, check in checks.items()}
        self.monkeypatch.setattr(of_stage, "installed", lambda: installed)

    def forget_failures(self) -> None:
        self.monkeypatch.setattr(_checks, "_circuits", Circuits())

    def pay(self, **answers: Any) -> dict[str, Asked]:
        asked = self.install(**answers)
        self.calls.before("VerifyKyc")
        return asked

    def verify(self) -> None:
        self.calls("VerifyKyc")

    def stops(self, error: type[Exception], told: str | None = None) -> None:
        """Call VerifyKyc, which must raise this error."""
        with pytest.raises(error, match=told):
            self.verify()

    def hear(self, path: str = "/delivered", caller: Any = signed, **more: Any) -> tuple[int, dict[str, str]]:
        """Send a check's callback; return the answer's status and content."""
        return self.hear_event(sent(path, caller, **more))

    def hear_event(self, event: Any) -> tuple[int, dict[str, str]]:
        answer = self.calls.handlers["CheckDecided"](event, Context())
        return answer["statusCode"], json.loads(answer["body"])

    def hear_limits(self, **more: Any) -> int:
        return self.hear("/limits", token=f"{KEY}:check:limits", **more)[0]

    def resume(self) -> None:
        self.calls.recover_now(**RESUME)

    def during(self, name: str, happens: Callable[[], object]) -> None:
        """Run `happens` just before the store's next call of method `name`."""

        def act() -> None:
            happens()
            telemetry.count("StepCalled")  # the call in between has published the metrics of the outer one

        self.calls.meanwhile(_dependencies.store, name, act)

    @property
    def row(self) -> keys.Row:
        return self.calls.row()

    @property
    def verdict(self) -> tuple[Any, list[str]]:
        """The payment's verdict, and the proof's findings on the row and its evidence."""
        return self.row.get("verdict"), self.differs

    @property
    def differs(self) -> list[str]:
        found = [one for one in self.calls.ledger.rows() if one["sk"].startswith(f"{KEY}:")]
        evidence = [rows.evidence(one) for one in found if one["pk"].startswith("EVIDENCE#")]
        facts = settlement_row.settlement(self.row)
        return [*settlement_row.contradictions(self.row, facts), *on_record.differences(facts, evidence)]


def sent(path: str = "/delivered", caller: Any = signed, **more: Any) -> dict[str, Any]:
    content = {"token": TOKEN, "decision": "approve", **more}
    return {**caller(text(content)), "rawPath": path}


@pytest.fixture
def checks(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Checks:
    return Checks(calls, monkeypatch)


@pytest.fixture
def waiting(checks: Checks) -> Checks:
    """A payment that waits for `delivered`."""
    checks.pay(delivered=Wait())
    checks.stops(InReview)
    return checks


@pytest.fixture
def proven(waiting: Checks) -> Checks:
    """A verified payment, which `delivered` approved by callback."""
    waiting.calls.later()
    waiting.hear()
    waiting.resume()
    waiting.verify()
    assert waiting.verdict == ("APPROVED", [])
    return waiting


# Answers


def test_kyc_is_asked_only_after_all_checks_have_approved(checks: Checks) -> None:
    asked = checks.pay(limits=Approve({"today": 3}), delivered=Approve())

    checks.verify()
    with checks.calls.writes_nothing():
        checks.verify()

    assert checks.calls.entries() == {"hold", "verify", "check:limits", "check:delivered"}
    assert checks.calls.entry("check:limits") == {
        "posted_at": CLAIMED_AT,
        "decision": "APPROVED",
        "reason": "",
        "by_way": "ask",
        "evidence": '{"today": 3}',
    }
    assert (asked["limits"].tokens, asked["delivered"].tokens) == ([f"{KEY}:check:limits"], [TOKEN])
    assert (checks.calls.provider.asked, checks.verdict) == ([KEY], ("APPROVED", []))


def test_a_check_is_not_asked_again_after_its_declared_refusal(checks: Checks) -> None:
    asked = checks.pay(limits=Approve(), delivered=Refuse("lost", {"parcel": "1"}))

    for _ in range(2):
        checks.stops(CheckRefused, r"^check delivered: lost$")
        asked["delivered"].answer = Approve()

    assert checks.calls.entry("check:delivered")["decision"] == "REFUSED"
    assert (checks.calls.provider.asked, len(asked["delivered"].tokens)) == ([], 1)
    assert (checks.row["status"], checks.verdict) == ("PROCESSING", (None, []))


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
def test_a_failing_check_is_named_and_asked_again(checks: Checks, answer: Any, why: str) -> None:
    asked = checks.pay(limits=Approve(), delivered=answer)

    checks.stops(CheckUnavailable, f"^check delivered: {why}$")

    assert checks.calls.provider.asked == []
    assert checks.calls.entries() == {"hold", "check:limits"}
    asked["delivered"].answer = Approve()
    checks.verify()
    assert (len(asked["limits"].tokens), checks.verdict) == (1, ("APPROVED", []))


def test_a_check_cannot_wait_without_declaring_wait_seconds(checks: Checks) -> None:
    checks.pay(delivered=Wait())
    checks.declare(delivered=Check(name="delivered", refusals=(), ask=Asked(Wait())))

    checks.stops(CheckUnavailable, r"^check delivered: waits, but declares no wait_seconds$")


def test_a_check_that_blocks_is_cut_off_without_stopping_others(
    checks: Checks, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = threading.Event()
    asked = checks.pay(limits=Approve(), delivered=lambda payment: blocked.wait(60) and Approve())

    for _ in range(together.STUCK_MAX):
        checks.forget_failures()
        if "check:limits" in checks.calls.entries():  # else its thread, too, would have so little time
            monkeypatch.setattr(_checks, "SECONDS_MAX", 0.05)
        checks.stops(CheckUnavailable, r"^check delivered: gave no answer in time$")
    checks.stops(CheckUnavailable, r"^check delivered: is not asked: 8 earlier calls are stuck$")

    assert (checks.calls.entries(), len(asked["delivered"].tokens)) == ({"hold", "check:limits"}, 8)
    blocked.set()


def test_a_repeatedly_failing_check_is_not_asked_for_a_while(checks: Checks) -> None:
    asked = checks.pay(delivered=OSError())
    for _ in range(FAILURES_MAX):
        checks.stops(CheckUnavailable, r"fails with OSError$")
    assert checks.calls.counted()["Check.delivered.unavailable"] == FAILURES_MAX

    checks.stops(CheckUnavailable, r"^check delivered: is not asked: its last calls failed$")
    checks.calls.later(seconds=10)
    for why in ("fails", "is not asked"):
        checks.stops(CheckUnavailable, why)
    checks.calls.later(seconds=20)
    asked["delivered"].answer = Approve()
    checks.verify()

    assert len(asked["delivered"].tokens) == FAILURES_MAX + 2
    assert checks.calls.counted()["Check.delivered.approved"] == 1


def test_no_check_is_asked_without_enough_time_left(checks: Checks) -> None:
    asked = checks.pay(delivered=Approve())

    with pytest.raises(CheckUnavailable, match="too little"):
        checks.calls.handlers["VerifyKyc"]({"settlement": WIRE}, Context(iter([1_400])))

    assert asked["delivered"].tokens == []


def test_the_first_recorded_of_two_concurrent_answers_counts(checks: Checks) -> None:
    asked = checks.pay(delivered=Approve())

    def other() -> None:
        asked["delivered"].answer = Refuse("lost")
        checks.stops(CheckRefused)

    checks.during("put", other)
    checks.stops(CheckRefused)

    assert (checks.calls.entry("check:delivered")["decision"], checks.differs) == ("REFUSED", [])


def test_the_checks_approvals_survive_an_outage_of_kyc(checks: Checks) -> None:
    asked = checks.pay(delivered=Approve())
    checks.calls.provider.answer = KycUnavailable("kyc: dead")
    for _ in range(2):
        checks.stops(KycUnavailable)

    assert len(asked["delivered"].tokens) == 1


# The wait


def test_a_wait_ends_a_fixed_time_after_the_hold(checks: Checks) -> None:
    checks.pay(limits=Approve(), delivered=Wait())
    checks.calls.later(minutes=5)
    checks.calls.counted()

    for _ in range(2):
        checks.stops(InReview, f"^check delivered: {KEY} waits for its callback$")

    row, ends = checks.row, timestamp(NOW + timedelta(days=1))
    assert (row["review"], row["deadline_at"], row["gsi1sk"]) == ("check:delivered", ends, ends)
    assert (checks.calls.provider.asked, checks.differs) == ([], [])
    assert checks.calls.counted()["CheckWaits"] == 1


def test_the_shorter_of_two_waits_begins(checks: Checks) -> None:
    checks.pay(delivered=Wait(), limits=Wait())
    installed = {name: one.check for name, one in of_stage.installed().items()}
    checks.declare(**installed | {"limits": replace(installed["limits"], wait_seconds=3_600)})

    checks.stops(InReview, r"^check limits: ")

    assert checks.row["deadline_at"] == timestamp(NOW + timedelta(hours=1))


def test_a_payment_whose_wait_already_ended_is_reversed_at_once(checks: Checks) -> None:
    asked = checks.pay(delivered=OSError())
    checks.calls.alter(deadline_at=timestamp(NOW + timedelta(days=3)))
    checks.stops(CheckUnavailable)
    asked["delivered"].answer = Wait()

    checks.calls.later(days=2)
    checks.stops(InReview)

    assert checks.row["deadline_at"] == timestamp(NOW + timedelta(days=1))
    assert checks.calls.recover_now()["action"] == "compensate"


def test_a_callback_resumes_the_payment_and_commits_no_step(waiting: Checks) -> None:
    before = waiting.row
    waiting.calls.later()

    answer = waiting.hear(evidence={"parcel": "1"})

    assert answer == (200, {"check": "delivered", "decision": "APPROVED", "key": KEY})
    assert waiting.row == {name: before[name] for name in before if name != "review"} | {
        "owner": OWNER,
        "owner_epoch": 1,
        "waits": 1,
        "answered": {"delivered"},
        "deadline_at": LATER_AT.replace("12:00", "12:15"),
        "in_flight_since": LATER_AT,
        "gsi1sk": LATER_AT,
    }
    assert waiting.calls.entry("check:delivered") == {
        "posted_at": LATER_AT,
        "decision": "APPROVED",
        "reason": "",
        "by_way": "callback",
        "evidence": '{"parcel": "1"}',
    }
    assert (waiting.calls.functions.sent, waiting.calls.provider.asked) == ([RESUME], [])
    assert waiting.differs == []
    waiting.resume()
    waiting.calls.run("VerifyKyc", "ReleaseFunds", "CollectFee")
    assert (waiting.row["status"], waiting.verdict) == ("SETTLED", ("APPROVED", []))


def test_a_repeated_callback_changes_nothing_and_asks_recovery_again(waiting: Checks) -> None:
    waiting.hear()
    with waiting.calls.writes_nothing():
        assert waiting.hear()[0] == 200
    assert waiting.calls.functions.sent == [RESUME, RESUME]


def test_a_refusing_callback_reverses_the_payment(waiting: Checks) -> None:
    waiting.calls.later()
    assert waiting.hear(decision="refuse", reason="lost")[0] == 200
    waiting.resume()

    waiting.stops(CheckRefused, r"^check delivered: lost$")

    assert waiting.verdict == (None, [])


def test_the_first_of_two_contradicting_callbacks_counts(waiting: Checks) -> None:
    waiting.hear()
    waiting.calls.counted()
    with waiting.calls.writes_nothing():
        status, content = waiting.hear(decision="refuse", reason="lost")
    assert (status, content["error"]) == (409, "IdempotencyConflict")
    assert waiting.calls.counted()["CheckConflict"] == 1


def test_a_callback_before_the_check_is_asked_counts(checks: Checks) -> None:
    asked = checks.pay(delivered=Wait())

    assert checks.hear()[0] == 200
    checks.verify()

    assert (asked["delivered"].tokens, checks.verdict) == ([], ("APPROVED", []))


def test_an_approval_while_a_wait_begins_counts_at_once(checks: Checks) -> None:
    checks.pay(delivered=Wait())
    checks.during("update", checks.hear)

    checks.verify()

    assert ("review" in checks.row, checks.row["answered"]) == (False, {"delivered"})
    assert checks.verdict == ("APPROVED", [])


@pytest.mark.parametrize("refusing", ["delivered", "limits"])
def test_a_refusal_while_a_wait_begins_counts_at_once(checks: Checks, refusing: str) -> None:
    checks.pay(delivered=Wait(), limits=Wait())
    refusal = {"token": f"{KEY}:check:{refusing}", "decision": "refuse", "reason": "lost"}
    checks.during("update", lambda: checks.hear(f"/{refusing}", **refusal))

    checks.stops(CheckRefused, f"^check {refusing}: lost$")

    assert ("review" in checks.row, checks.differs) == (False, [])


def test_a_callback_ends_a_wait_that_begins_during_its_write(checks: Checks) -> None:
    checks.pay(delivered=Wait())
    checks.during("transact", lambda: checks.stops(InReview))

    assert checks.hear()[0] == 200

    row = checks.row
    assert ("review" in row, row["waits"], row["answered"]) == (False, 1, {"delivered"})
    assert checks.differs == []


def test_a_refusal_from_a_concurrent_call_ends_another_checks_wait(checks: Checks) -> None:
    """The refusal is recorded just before the first call writes its wait."""
    asked = checks.pay(delivered=Wait(), limits=Wait())

    def refuses() -> None:
        asked["limits"].answer = Refuse("lost")
        checks.stops(CheckRefused)

    checks.during("update", refuses)
    checks.stops(CheckRefused, r"^check limits: lost$")

    assert ("review" in checks.row, checks.row["answered"], checks.differs) == (False, {"limits"}, [])


def test_one_checks_approval_does_not_end_another_checks_wait(checks: Checks) -> None:
    checks.pay(delivered=Wait(), limits=Wait())
    checks.stops(InReview, r"^check delivered")
    before = checks.row

    assert checks.hear_limits() == 200

    assert (checks.row, checks.differs) == (before | {"answered": {"limits"}}, [])


def test_one_checks_refusal_ends_another_checks_wait(checks: Checks) -> None:
    checks.pay(delivered=Wait(), limits=Wait())
    checks.stops(InReview, r"^check delivered")
    checks.calls.later()

    assert checks.hear_limits(decision="refuse", reason="lost") == 200

    row = checks.row
    assert ("review" in row, row["waits"], row["answered"]) == (False, 1, {"limits"})
    assert checks.differs == []
    checks.resume()
    checks.stops(CheckRefused, r"^check limits: lost$")


def test_the_proof_accepts_a_payment_that_waited_twice(checks: Checks) -> None:
    checks.pay(delivered=Wait(), limits=Wait())
    for seconds, name in enumerate(("delivered", "limits"), 1):
        checks.stops(InReview, f"^check {name}")
        checks.calls.later(seconds=seconds)
        assert checks.hear(f"/{name}", token=f"{KEY}:check:{name}")[0] == 200
        checks.resume()
        assert checks.differs == []
    checks.verify()

    assert (checks.row["waits"], checks.verdict) == (2, ("APPROVED", []))


def test_a_kyc_review_can_follow_a_wait_for_a_check(waiting: Checks) -> None:
    waiting.calls.later()
    waiting.hear()
    waiting.resume()
    waiting.calls.provider.answer = IN_REVIEW
    waiting.stops(InReview, r"^kyc: ")
    assert waiting.differs == []

    assert waiting.calls.decided(replace(signed, id="evt_9")())[0] == 200

    assert waiting.verdict == ("APPROVED", [])


@pytest.mark.parametrize(("decision", "status"), [("APPROVED", 409), ("REJECTED", 200)])
def test_a_webhook_cannot_approve_before_the_checks(checks: Checks, decision: str, status: int) -> None:
    checks.pay(delivered=Approve())

    assert checks.calls.decided(signed(decision=decision))[0] == status

    assert "verify_at" not in checks.row


def test_a_kyc_webhook_cannot_end_the_wait_for_a_check(waiting: Checks) -> None:
    with waiting.calls.writes_nothing():
        status, content = waiting.calls.decided(signed(reference="check:delivered"))
        assert (status, content["message"][:9]) == (400, "reference")
        assert waiting.calls.decided(signed(reference="ver_1"))[0] == 409


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
def test_a_foreign_or_malformed_callback_writes_nothing(
    waiting: Checks, event: Callable[[], Any], status: int
) -> None:
    with waiting.calls.writes_nothing():
        assert waiting.hear_event(event())[0] == status


def test_a_callback_after_the_end_is_fenced(waiting: Checks) -> None:
    waiting.calls.later()
    waiting.hear()
    waiting.resume()
    waiting.calls.provider.answer = REJECTED
    waiting.stops(KycRejected)
    waiting.calls.ledger.delete({"pk": f"EVIDENCE#{KEY}", "sk": TOKEN})

    with waiting.calls.writes_nothing():
        assert waiting.hear()[0] == 409


def test_a_callback_signed_with_the_previous_secret_is_accepted(waiting: Checks) -> None:
    assert waiting.hear(caller=replace(signed, secret=PREVIOUS))[0] == 200


# Changes of the stage's checks


def test_an_added_check_applies_to_new_payments_only(waiting: Checks) -> None:
    asked = waiting.install(delivered=Wait(), limits=Refuse("lost"))
    with waiting.calls.writes_nothing():
        assert waiting.hear_limits() == 404

    assert waiting.hear()[0] == 200
    waiting.resume()
    waiting.calls.provider.answer = IN_REVIEW
    waiting.stops(InReview, r"^kyc: ")
    assert waiting.calls.decided(replace(signed, id="evt_9")())[0] == 200

    assert (asked["limits"].tokens, waiting.verdict) == ([], ("APPROVED", []))


def test_a_stages_first_check_applies_to_new_payments_only(checks: Checks) -> None:
    checks.calls.before("VerifyKyc")
    asked = checks.install(delivered=Refuse("lost"))

    checks.verify()

    assert (asked["delivered"].tokens, checks.verdict) == ([], ("APPROVED", []))


def test_a_payment_still_demands_a_check_removed_from_the_stage(checks: Checks) -> None:
    checks.pay(limits=OSError(), delivered=Approve())
    checks.stops(CheckUnavailable)
    checks.install()

    checks.stops(CheckUnavailable, r"^check limits: this stage has none$")

    checks.install(limits=Approve())
    checks.verify()
    assert (checks.calls.provider.asked, checks.verdict) == ([KEY], ("APPROVED", []))


def test_a_refusal_by_a_since_removed_check_still_counts(checks: Checks) -> None:
    checks.pay(limits=Refuse("lost"))
    checks.stops(CheckRefused)
    checks.install()

    checks.stops(CheckRefused, r"^check limits: lost$")


def test_waiting_for_a_check_is_not_counted_as_ending_review(waiting: Checks) -> None:
    waiting.calls.later(hours=23.5)
    waiting.calls.counted()

    waiting.calls.handlers["RecoverStalled"]({"partition": keys.LIMBO}, Context())

    assert waiting.calls.counted()["ReviewsEnding"] == 0


def test_a_wait_for_a_removed_check_ends_at_its_deadline(waiting: Checks) -> None:
    waiting.install()
    waiting.stops(InReview, r"which this stage no longer has: it ends at its deadline$")

    waiting.calls.later(days=1, seconds=1)

    assert waiting.calls.recover_now()["action"] == "compensate"
    assert waiting.differs == []


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
def test_the_proof_names_a_checks_changed_evidence(
    proven: Checks, change: dict[str, str], finding: str
) -> None:
    found = next(one for one in proven.calls.ledger.rows() if one["sk"] == TOKEN)

    proven.calls.ledger.put(found | change)

    assert any(finding in one for one in proven.differs), proven.differs


def test_the_proof_compares_the_demanded_checks_with_the_answers(proven: Checks) -> None:
    proven.calls.alter(checks={"delivered", "limits"})
    assert proven.differs == ["its verdict is APPROVED, but the check limits has not approved"]
    proven.calls.alter(checks={"limits"})
    assert "the check delivered has answered, but was never demanded" in proven.differs


@pytest.mark.parametrize("name", ["", "Limits", "limits delivered", "\x1b[2Jlimits", "x" * 31])
@pytest.mark.parametrize("attribute", ["checks", "answered"])
def test_the_proof_refuses_a_forged_name_of_a_check(waiting: Checks, attribute: str, name: str) -> None:
    waiting.calls.alter(**{attribute: {name}})

    with pytest.raises(MalformedRow, match=f"^{attribute} is no set of checks' names$"):
        _ = waiting.differs


@pytest.mark.parametrize("step", ["check", "check:", "check:Limits", "check:limits:1", "check:\x1b[2J"])
def test_evidence_whose_step_names_no_check_is_malformed(waiting: Checks, step: str) -> None:
    waiting.hear()
    row = waiting.calls.ledger.row(keys.evidence(KEY, "check:delivered"))
    assert row

    with pytest.raises(MalformedRow, match=f"^step is {re.escape(repr(step))}$"):
        rows.evidence({**row, **keys.evidence(KEY, step), "step": step})


@pytest.mark.parametrize("waits", [0, 2, "1"])
def test_the_proof_finds_a_wrong_count_of_waits(waiting: Checks, waits: Any) -> None:
    waiting.hear()
    waiting.calls.alter(waits=waits)

    with pytest.raises((AssertionError, MalformedRow)):
        assert waiting.differs == []


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
def test_the_proof_names_a_checks_malformed_evidence(waiting: Checks, change: dict[str, Any]) -> None:
    waiting.hear(decision="refuse", reason="lost")
    found = next(one for one in waiting.calls.ledger.rows() if one["sk"] == TOKEN)
    rows.evidence(found)

    with pytest.raises(MalformedRow):
        rows.evidence(found | change)
