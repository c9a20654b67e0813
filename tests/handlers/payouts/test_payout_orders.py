"""Two persons name a payee, and two decide a case. One order alone moves no money."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from handlers.payouts import _orders
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import (
    DestinationRefused,
    IdempotencyConflict,
    InvalidRequest,
    PayoutNotFound,
    PayoutRefused,
    ResolutionRefused,
    RowDamaged,
    StartUnavailable,
)
from settlement.payouts.payout import Word
from settlement.payouts.port import Found
from settlement.signing.signature import SIGNATURE
from tests.handlers.accounts.test_take_account_order import FREEZE
from tests.handlers.payouts.conftest import ADA, BEA, CONFIRM, HOLDER, IBAN, KEY, PAYEE, Desk
from tests.world.services import throttled, unanswered

ADA_AGAIN = "arn:aws:sts::123456789012:assumed-role/Approver/Ada"
"""The same person in another role's session. IAM compares names without case."""

DECISION = {"key": KEY, "case": 1, "digest": "0" * 64, "verdict": "ask", "reason": "a call"}
BODIES: dict[str, dict[str, Any]] = {
    "add-payee": PAYEE,
    "confirm-payee": CONFIRM,
    "freeze-payee": {"id": "landlord"},
    "ask-payout": {"key": KEY},
    "propose-payout": DECISION,
    "approve-payout": DECISION,
}


def test_these_tests_cover_each_order_of_the_room() -> None:
    assert BODIES.keys() == _orders.ORDERS.keys()


@pytest.mark.parametrize("route", BODIES)
def test_an_order_is_refused_if_the_room_is_off(
    empty: Desk, configure: Callable[[str | None], None], route: str
) -> None:
    configure(None)

    with empty.calls.writes_nothing(), pytest.raises(PayoutRefused, match="this stage has none"):
        empty.order(route, BODIES[route])


@pytest.mark.parametrize("route", BODIES)
@pytest.mark.parametrize("body", ["[]", "{}", '{"id": ["landlord"], "key": {}}', '{"id": "\\ud800"}'])
def test_a_malformed_order_is_refused(desk: Desk, route: str, body: str) -> None:
    with desk.calls.writes_nothing(), pytest.raises(InvalidRequest):
        desk.order(route, body)


# Payees


def test_a_payee_is_added_once(empty: Desk) -> None:
    first = empty.order("add-payee", PAYEE)
    empty.calls.later()

    with empty.calls.writes_nothing():
        assert empty.order("add-payee", PAYEE, BEA) == first
        with pytest.raises(IdempotencyConflict):
            empty.order("add-payee", PAYEE | {"holder": "Mallory"})

    assert first["added_by"] == ADA


@pytest.mark.parametrize(
    "changed",
    [{"iban": "DE89370400440532013001"}, {"iban": f" {IBAN}"}, {"holder": "a\nb"}, {"holder": "n" * 71}],
    ids=str,
)
def test_a_malformed_bank_account_is_refused_without_showing_it(empty: Desk, changed: dict[str, str]) -> None:
    with empty.calls.writes_nothing(), pytest.raises(InvalidRequest) as refused:
        empty.order("add-payee", PAYEE | changed)

    assert next(iter(changed.values())) not in str(refused.value)


@pytest.mark.parametrize("by", [ADA, ADA_AGAIN])
def test_one_person_cannot_both_add_and_confirm_a_payee(empty: Desk, by: str) -> None:
    empty.order("add-payee", PAYEE)

    with empty.calls.writes_nothing(), pytest.raises(DestinationRefused, match="does not confirm"):
        empty.order("confirm-payee", CONFIRM, by)


def test_a_repeated_confirmation_does_not_restart_the_rest_period(empty: Desk) -> None:
    empty.order("add-payee", PAYEE)
    first = empty.order("confirm-payee", CONFIRM, BEA)
    empty.calls.later(hours=5)

    assert empty.order("confirm-payee", CONFIRM, BEA) == first


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("iban", one) for one in ("GB82WEST12345698765432", None, [IBAN])],
        *[("account", one) for one in ("mallory", None, ["alice"])],
        *[("holder", one) for one in ("Mallory", HOLDER.upper(), f"{HOLDER} ", "", None)],
    ],
    ids=str,
)
def test_a_confirmation_with_other_facts_than_recorded_is_refused(empty: Desk, name: str, value: Any) -> None:
    empty.order("add-payee", PAYEE)

    with empty.calls.writes_nothing(), pytest.raises(DestinationRefused, match=f"^{name}: ") as refused:
        empty.order("confirm-payee", CONFIRM | {name: value}, BEA)

    assert all(known not in str(refused.value) for known in (IBAN, HOLDER, "alice"))


@pytest.mark.parametrize("missing", ["account", "iban", "holder"])
def test_a_confirmation_without_a_required_field_is_refused(empty: Desk, missing: str) -> None:
    empty.order("add-payee", PAYEE)

    with empty.calls.writes_nothing(), pytest.raises(InvalidRequest, match=missing):
        empty.order("confirm-payee", {name: CONFIRM[name] for name in CONFIRM if name != missing}, BEA)


def test_one_person_can_freeze_a_payee_permanently(desk: Desk) -> None:
    first = desk.order("freeze-payee", {"id": "landlord"})
    desk.calls.later()

    assert desk.order("freeze-payee", {"id": "landlord"}, BEA) == first
    with pytest.raises(DestinationRefused, match="frozen"):
        desk.reserve()


def test_a_damaged_payee_can_be_frozen(desk: Desk) -> None:
    row = desk.calls.ledger.row(keys.destination("landlord"))
    assert row
    desk.calls.ledger.put({name: row[name] for name in row if name != "iban"})

    desk.order("freeze-payee", {"id": "landlord"})

    assert "frozen_at" in (desk.calls.ledger.row(keys.destination("landlord")) or {})
    with pytest.raises(RowDamaged):
        desk.order("confirm-payee", CONFIRM, BEA)


def test_a_payee_with_an_invalid_freeze_time_counts_as_damaged(desk: Desk) -> None:
    row = desk.calls.ledger.row(keys.destination("landlord"))
    assert row
    desk.calls.ledger.put({**row, "frozen_at": 7})

    with pytest.raises(RowDamaged):
        desk.order("freeze-payee", {"id": "landlord"})


@pytest.mark.parametrize("route", ["confirm-payee", "freeze-payee"])
def test_an_order_on_an_unknown_payee_is_refused(empty: Desk, route: str) -> None:
    with empty.calls.writes_nothing(), pytest.raises(DestinationRefused, match="there is none"):
        empty.order(route, BODIES[route])


# Cases


def test_two_persons_decide_a_case_and_the_money_follows(desk: Desk) -> None:
    desk.case()
    shown = desk.shown()
    proposed = desk.order("propose-payout", shown)
    assert desk.moved() == {"alice": -48_20, "transit:EUR": 48_20}

    told = desk.order("approve-payout", shown, BEA)

    assert (proposed["proposed_by"], told["approved_by"]) == (ADA, BEA)
    assert told["payout"]["status"] == "REFUSED"
    assert desk.calls.account("alice")["available"] == 100_00
    assert desk.moved() == {}


@pytest.mark.parametrize("by", [ADA, ADA_AGAIN])
def test_a_proposer_cannot_approve_even_in_another_session(desk: Desk, by: str) -> None:
    desk.case()
    desk.order("propose-payout", desk.shown())

    with desk.calls.writes_nothing(), pytest.raises(ResolutionRefused, match="does not approve"):
        desk.order("approve-payout", desk.shown(), by, user_id="AROAAPPROVER:Ada")


def test_a_verdict_that_was_not_proposed_cannot_be_approved(desk: Desk) -> None:
    desk.case()
    desk.order("propose-payout", desk.shown())

    with desk.calls.writes_nothing(), pytest.raises(ResolutionRefused, match="nobody has proposed"):
        desk.order("approve-payout", desk.shown(verdict="paid"), BEA)


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({"case": 2}, ResolutionRefused),
        ({"digest": "0" * 64}, ResolutionRefused),
        ({"verdict": "give-back"}, ResolutionRefused),
        ({"key": "payout-2026-999999"}, PayoutNotFound),
        ({"digest": "\ud800"}, InvalidRequest),
        ({"digest": "0" * 10_000}, InvalidRequest),
        ({"digest": None}, InvalidRequest),
        ({"case": True}, InvalidRequest),
        ({"verdict": ["paid"]}, InvalidRequest),
        ({"reason": " "}, InvalidRequest),
    ],
    ids=lambda value: str(value)[:40],
)
@pytest.mark.parametrize("route", ["propose-payout", "approve-payout"])
def test_a_decision_with_a_wrong_field_is_refused(
    desk: Desk, route: str, changed: dict[str, Any], kind: type[Exception]
) -> None:
    desk.case()
    shown = desk.shown()
    desk.order("propose-payout", shown)

    with desk.calls.writes_nothing(), pytest.raises(kind):
        desk.order(route, shown | changed, BEA)


@pytest.mark.parametrize(
    "forge",
    [lambda row: row | {"by": ADA}, lambda row: {name: row[name] for name in row if name != SIGNATURE}],
    ids=["altered", "unsigned"],
)
def test_a_forged_proposal_is_not_approved(desk: Desk, forge: Callable[[Row], Row]) -> None:
    """Otherwise, a person who can write rows could decide alone."""
    desk.case()
    shown = desk.shown()
    desk.order("propose-payout", shown, BEA)
    (proposed,) = (row for row in desk.calls.ledger.rows() if "#PROPOSED#" in row["sk"])
    desk.calls.ledger.put(forge(proposed))

    with desk.calls.writes_nothing(), pytest.raises(RowDamaged):
        desk.order("approve-payout", shown, BEA)


def test_an_approval_whose_answer_was_lost_is_a_replay(desk: Desk) -> None:
    desk.case()
    shown = desk.shown()
    desk.order("propose-payout", shown)
    first = desk.order("approve-payout", shown, BEA)

    with desk.calls.writes_nothing():
        assert desk.order("approve-payout", shown, BEA) == first


def test_an_approval_for_another_account_is_not_a_replay(desk: Desk) -> None:
    desk.reserve()
    desk.bank.found = Found(Word.RETURNED)
    desk.look()
    desk.look()
    desk.calls.administer(FREEZE)
    assert desk.look()["status"] == "RETURNED"
    desk.calls.ledger.open("alice.too", 0)
    shown = desk.shown(verdict="give-back", account="alice.too")
    desk.order("propose-payout", shown)
    first = desk.order("approve-payout", shown, BEA)

    assert desk.order("approve-payout", shown, BEA) == first
    with desk.calls.writes_nothing(), pytest.raises(ResolutionRefused):
        desk.order("approve-payout", shown | {"account": "mallory"}, BEA)
    assert desk.moved() == {"alice": -48_20, "alice.too": 48_20}


@pytest.mark.parametrize("failing", [throttled("Invoke"), unanswered()], ids=["throttled", "silent"])
def test_an_approval_is_kept_if_follow_payouts_does_not_answer(desk: Desk, failing: Exception) -> None:
    desk.case()
    shown = desk.shown()
    desk.order("propose-payout", shown)
    desk.calls.functions.failing = failing

    told = desk.order("approve-payout", shown, BEA)

    assert told["not_yet"] in ("ClientError", "ReadTimeoutError")
    assert desk.state().trouble
    desk.run()
    assert desk.state().status == "REFUSED"


def test_an_approval_without_follow_payouts_waits_for_the_schedule(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.case()
    shown = desk.shown()
    desk.order("propose-payout", shown)
    monkeypatch.delenv("FOLLOW_PAYOUTS")

    assert "may not call" in desk.order("approve-payout", shown, BEA)["not_yet"]
    desk.run()

    assert desk.state().status == "REFUSED"


def test_an_approval_is_kept_if_follow_payouts_fails(desk: Desk) -> None:
    desk.case()
    shown = desk.shown()
    desk.order("propose-payout", shown)

    def refuse(event: Any) -> Any:
        raise StartUnavailable("canary")

    desk.calls.functions.answers = refuse

    assert desk.order("approve-payout", shown, BEA)["not_yet"] == "StartUnavailable"


def test_a_bank_answer_that_contradicts_an_approval_opens_a_case(desk: Desk) -> None:
    desk.case()
    desk.bank.found = Found(Word.PAID)

    desk.decided("not-paid")

    assert (desk.state().status, desk.state().cases) == ("LIMBO", 2)
    assert desk.moved() == {"alice": -48_20, "transit:EUR": 48_20}


def test_a_person_can_order_an_immediate_look(desk: Desk) -> None:
    desk.reserve()

    assert desk.order("ask-payout", {"key": KEY})["status"] == "ACCEPTED"


def test_ordering_a_look_at_an_unknown_payout_calls_no_function(desk: Desk) -> None:
    with pytest.raises(PayoutNotFound):
        desk.order("ask-payout", {"key": KEY})

    assert desk.calls.functions.sent == []


@pytest.mark.parametrize("failing", [throttled("Invoke"), unanswered()], ids=["throttled", "silent"])
def test_an_unanswered_look_returns_the_state_before_it(desk: Desk, failing: Exception) -> None:
    desk.reserve()
    desk.calls.functions.failing = failing

    told = desk.order("ask-payout", {"key": KEY})

    assert (told["status"], told["not_yet"]) == ("RESERVED", type(failing).__name__)
    assert told.keys() - {"not_yet"} == desk.get()[1].keys()


def test_a_look_with_a_truncated_answer_is_not_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    class Cut:
        def read(self) -> bytes:
            raise unanswered()

    desk.reserve()
    monkeypatch.setattr(desk.calls.functions, "invoke", lambda **_: {"Payload": Cut()})

    assert desk.order("ask-payout", {"key": KEY})["not_yet"] == "ReadTimeoutError"


def test_an_unanswered_look_does_not_show_the_bank_account(desk: Desk) -> None:
    desk.reserve()
    desk.calls.functions.failing = unanswered()

    assert IBAN not in json.dumps(desk.order("ask-payout", {"key": KEY}))


def test_no_order_on_a_case_shows_the_payees_bank_account(desk: Desk) -> None:
    desk.case()
    shown = desk.shown()

    told = [desk.order("propose-payout", shown), desk.order("approve-payout", shown, BEA)]

    assert IBAN not in json.dumps(told)
