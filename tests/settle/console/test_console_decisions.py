import pytest

from settle.console.allowed import KNOWN_SECONDS, Allowed
from settle.door import Answer
from settle.orders import partial_reversal
from settle.orders import proposing as proposal
from tests.settle.desk import ADA, GRACE, Desk
from tests.settle.reports.test_report import texts
from tests.settle.visitor import Sts, Visitor, hidden
from tests.world.constants import KEY

DECIDE = f"/settlements/{KEY}/decide"
REASON = "agreed with finance"
FORM = {"verb": "resolve", "case": "1", "reason": REASON, "confirmed": "write-off"}


@pytest.fixture
def visitor(desk: Desk) -> Visitor:
    """A visitor of the console while a case waits in LIMBO."""
    desk.stuck()
    return Visitor(desk).enter()


def as_person(desk: Desk, arn: str) -> Visitor:
    desk.stack.clients["sts"], desk.door.by = Sts(arn), arn
    return Visitor(desk).enter()


def given(desk: Desk) -> list[str]:
    return [route for route, order in desk.door.given if "key" in order and "account" not in order]


def test_each_decision_shows_its_amounts_before_it_is_made(desk: Desk, visitor: Visitor) -> None:
    with desk.writes_nothing():
        page = visitor.page(DECIDE)
        weighed = visitor.page(f"{DECIDE}/write-off?verb=resolve")

    effect = "covers 47.72 EUR from losses:EUR, and refunds 48.20 EUR to alice; bob keeps what it has"
    assert effect in texts(page)
    assert effect in texts(weighed)
    assert f"{DECIDE}/write-off?verb=resolve" in page
    assert "bob , which has 7.72 EUR" in texts(page)
    assert given(desk) == []


def test_an_irreversible_decision_needs_a_second_confirmation(desk: Desk, visitor: Visitor) -> None:
    path = f"{DECIDE}/write-off"
    weighed = visitor.page(f"{path}?verb=resolve")

    with desk.writes_nothing():
        asked = visitor.submit(weighed, path, reason=REASON)
        before = given(desk)
    done = visitor.submit(asked.text, path)

    assert (asked.status_code, before) == (200, [])
    shown = texts(asked.text)
    for words in ("This cannot be undone.", "covers 47.72 EUR from losses:EUR", REASON):
        assert words in shown
    assert (done.status_code, done.headers["location"]) == (303, f"/settlements/{KEY}")
    assert given(desk) == ["write-off"]
    assert desk.row()["status"] == "COMPENSATED"
    assert "COMPENSATED" in texts(visitor.page(done.headers["location"]))


def test_a_retry_needs_no_confirmation_and_may_open_another_case(desk: Desk, visitor: Visitor) -> None:
    done = visitor.submit(visitor.page(f"{DECIDE}/retry?verb=resolve"), f"{DECIDE}/retry", reason=REASON)

    assert done.status_code == 303
    assert desk.row()["status"] == "LIMBO"
    assert "Case 2" in texts(visitor.page(DECIDE))


def test_a_form_sent_twice_gives_one_order(desk: Desk, visitor: Visitor) -> None:
    first, second = (visitor.send(f"{DECIDE}/write-off", **FORM) for _ in range(2))
    rows = desk.ledger.rows()
    third = visitor.send(f"{DECIDE}/write-off", **(FORM | {"reason": "another"}))

    assert [first.status_code, second.status_code, third.status_code] == [303, 303, 409]
    assert "case 1 was resolved by write-off" in texts(third.text)
    assert desk.ledger.rows() == rows


def test_a_form_of_an_already_decided_case_is_refused(desk: Desk, visitor: Visitor) -> None:
    shown = visitor.page(f"{DECIDE}/write-off?verb=resolve")
    visitor.submit(visitor.page(f"{DECIDE}/retry?verb=resolve"), f"{DECIDE}/retry", reason="first")

    with desk.writes_nothing():
        asked = visitor.submit(shown, f"{DECIDE}/write-off", reason=REASON)
        late = visitor.submit(asked.text, f"{DECIDE}/write-off")

    assert late.status_code == 409
    assert "case 1 was resolved by retry" in texts(late.text)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"reason": ""}, "reason: "),
        ({"reason": "x" * 501}, "reason: "),
        ({"reason": "two\nlines"}, "reason: "),
        ({"case": ""}, "case: must be"),
        ({"case": "-1"}, "case: must be"),
        ({"case": "0"}, "case: "),
        ({"case": "٣"}, "case: must be"),
        ({"case": "9" * 11}, "case: must be"),
        ({"verb": "break-glass"}, "verb: must be one of"),
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_written(
    desk: Desk, visitor: Visitor, fields: dict[str, str], words: str
) -> None:
    with desk.writes_nothing():
        answer = visitor.send(f"{DECIDE}/write-off", **(FORM | fields))

    assert answer.status_code == 400
    assert words in texts(answer.text)
    assert given(desk) == []


@pytest.mark.usefixtures("two_persons")
def test_one_person_proposes_and_another_approves(desk: Desk) -> None:
    desk.stuck()
    ada = as_person(desk, ADA)
    assert f"{DECIDE}/write-off?verb=resolve" not in ada.page(DECIDE)
    weighed = ada.page(f"{DECIDE}/write-off?verb=propose")

    done = ada.submit(weighed, f"{DECIDE}/write-off", reason=REASON)
    own = ada.page(DECIDE)
    grace = as_person(desk, GRACE)
    asked = grace.submit(grace.page(DECIDE), f"/settlements/{KEY}/approve")
    before = desk.row()["status"]
    approved = grace.submit(asked.text, f"/settlements/{KEY}/approve")

    assert (done.status_code, done.headers["location"]) == (303, DECIDE)
    assert "You take part in it already: another person approves it." in texts(own)
    assert "Approve write-off" not in texts(own)
    for words in ("This cannot be undone.", "covers 47.72 EUR from losses:EUR", REASON, ADA):
        assert words in texts(asked.text)
    assert (before, approved.status_code) == ("LIMBO", 303)
    assert given(desk) == ["write-off/propose", "write-off/approve"]
    assert desk.row()["status"] == "COMPENSATED"
    shown = texts(grace.page(f"/settlements/{KEY}"))
    assert ADA in shown
    assert GRACE in shown


@pytest.mark.usefixtures("two_persons")
def test_a_withdrawn_proposal_may_be_made_again(desk: Desk) -> None:
    desk.stuck()
    ada = as_person(desk, ADA)
    ada.submit(ada.page(f"{DECIDE}/write-off?verb=propose"), f"{DECIDE}/write-off", reason=REASON)

    done = ada.submit(ada.page(DECIDE), f"/settlements/{KEY}/withdraw")

    assert done.headers["location"] == DECIDE
    page = ada.page(DECIDE)
    assert "Proposed:" not in texts(page)
    assert f"{DECIDE}/write-off?verb=propose" in page


@pytest.mark.usefixtures("two_persons")
def test_a_proposal_replaced_in_the_meantime_is_not_approved(desk: Desk) -> None:
    desk.stuck()
    ada = as_person(desk, ADA)
    ada.submit(ada.page(f"{DECIDE}/write-off?verb=propose"), f"{DECIDE}/write-off", reason=REASON)
    grace = as_person(desk, GRACE)
    asked = grace.submit(grace.page(DECIDE), f"/settlements/{KEY}/approve").text
    ada = as_person(desk, ADA)
    ada.submit(ada.page(DECIDE), f"/settlements/{KEY}/withdraw")
    ada.submit(ada.page(f"{DECIDE}/write-off?verb=propose"), f"{DECIDE}/write-off", reason="another")
    grace = as_person(desk, GRACE)

    with desk.writes_nothing():
        late = grace.send(f"/settlements/{KEY}/approve", **(hidden(asked) | {"csrf": grace.session.csrf}))

    assert late.status_code == 409
    assert "it is not that of the latest proposal" in texts(late.text)


@pytest.mark.usefixtures("two_persons")
def test_a_proposed_reversal_is_shown_with_its_amounts(desk: Desk) -> None:
    desk.pay()
    desk.door.by = ADA
    proposal.propose(desk.stack, KEY, None, "sent back")
    grace = as_person(desk, GRACE)

    asked = grace.submit(grace.page(DECIDE), f"/settlements/{KEY}/approve")

    assert "refunds 48.20 EUR to alice: 47.72 from bob and the fee of 0.48" in texts(asked.text)
    grace.submit(asked.text, f"/settlements/{KEY}/approve")
    assert desk.row()["status"] == "COMPENSATED"


# Refused orders


def test_decisions_that_the_identity_may_not_give_are_not_offered(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.stuck()
    taken = desk.door.send

    def of_operator(route: str, order: dict[str, object]) -> Answer:
        may = route == "retry" or route.endswith("/propose")
        return taken(route, order) if may else Answer(403, {"message": "Forbidden"})

    monkeypatch.setattr(desk.door, "send", of_operator)
    visitor = Visitor(desk).enter()

    page = visitor.page(DECIDE)
    with desk.writes_nothing():
        forced = visitor.send(f"{DECIDE}/write-off", **FORM)

    assert f"{DECIDE}/retry?verb=resolve" in page
    assert f"{DECIDE}/write-off?verb=propose" in page
    assert f"{DECIDE}/write-off?verb=resolve" not in page
    assert forced.status_code == 403
    assert "execute-api:Invoke on POST /orders/write-off" in texts(forced.text)
    assert f"/settlements/{KEY}" in forced.text


def test_a_viewer_is_offered_no_decision_and_sees_the_reason(desk: Desk, visitor: Visitor) -> None:
    desk.door.answering = Answer(403, {"message": "Forbidden"})

    page = visitor.page(DECIDE)

    assert "?verb=" not in page
    assert "Your AWS identity may not give this order." in texts(page)


@pytest.mark.parametrize("status", [429, 500, 200])
def test_a_decision_whose_permission_is_unknown_is_offered(desk: Desk, status: int) -> None:
    desk.door.answering = Answer(status, {})

    assert Allowed(desk.stack).of(["write-off"]) == {"write-off"}


def test_permissions_are_asked_once_and_then_cached(desk: Desk) -> None:
    now = [0.0]
    allowed = Allowed(desk.stack, lambda: now[0])
    desk.door.given.clear()

    with desk.writes_nothing():
        allowed.of(["write-off", "retry", "write-off"])
        allowed.of(["write-off"])
        now[0] = KNOWN_SECONDS + 1
        desk.door.answering = Answer(403, {})
        later = allowed.of(["write-off"])

    assert [route for route, _ in desk.door.given].count("write-off") == 2
    assert later == frozenset()


def test_an_order_without_an_answer_can_be_repeated(desk: Desk, visitor: Visitor) -> None:
    desk.door.losing = 1

    lost = visitor.send(f"{DECIDE}/write-off", **FORM)
    again = visitor.send(f"{DECIDE}/write-off", **FORM)

    assert (lost.status_code, again.status_code) == (502, 303)
    assert "not carried out, or not known to be" in texts(lost.text)
    assert desk.row()["status"] == "COMPENSATED"


@pytest.mark.usefixtures("two_persons")
def test_a_partial_reversal_is_approved_with_its_amount_in_view(desk: Desk) -> None:
    desk.pay()
    partial_reversal.propose(desk.stack, KEY, "5.00", REASON, 1)
    grace = as_person(desk, GRACE)

    page = grace.page(DECIDE)
    asked = grace.submit(page, f"/settlements/{KEY}/approve")
    approved = grace.submit(asked.text, f"/settlements/{KEY}/approve")

    effect = "gives 5.00 EUR back to alice, from bob, as part 1; the fee stays"
    assert effect in texts(page)
    assert effect in texts(asked.text)
    assert approved.status_code == 303
    assert given(desk) == ["reverse-part/propose", "reverse-part/approve"]
