"""One person proposes a run, others approve it: no order alone pays anything."""

from typing import Any

import pytest

from handlers import _dependencies
from handlers.payruns import _orders
from settlement.core.ledger import keys
from settlement.core.model.errors import InvalidRequest, PayRunRefused, RowDamaged
from tests.handlers.payruns.conftest import ADA, BEA, BEA_AGAIN, CARL, RUN, Desk, lines
from tests.unit.payruns import rows
from tests.unit.payruns.rows import PROPOSAL
from tests.unit.payruns.test_orders import BODY

ADA_AGAIN = "arn:aws:sts::123456789012:assumed-role/Operator/ADA"
ROUTES = ("propose-payrun", "approve-payrun", "run-payrun", "pause-payrun", "cancel-payrun")
SHOWN = {"run": RUN, "digest": PROPOSAL.digest}
LARGE = lines(91)


def test_these_tests_cover_each_order_of_the_room() -> None:
    assert _orders.ORDERS.keys() == {*ROUTES}


@pytest.mark.parametrize("route", ROUTES)
def test_an_order_is_refused_if_the_room_is_off(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, route: str
) -> None:
    monkeypatch.delenv("PAYRUNS")

    with desk.calls.writes_nothing(), pytest.raises(PayRunRefused, match="this stage has none"):
        desk.order(route, BODY if route == ROUTES[0] else SHOWN)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("body", ["[]", "{}", '{"run": ["a"], "digest": {}}', '{"run": "\\ud800"}'])
def test_a_malformed_order_is_refused(desk: Desk, route: str, body: str) -> None:
    with desk.calls.writes_nothing(), pytest.raises(InvalidRequest):
        desk.order(route, body)


@pytest.mark.parametrize("route", ROUTES[1:])
def test_an_order_on_an_unproposed_run_is_refused(desk: Desk, route: str) -> None:
    with desk.calls.writes_nothing(), pytest.raises(PayRunRefused, match="nobody has proposed"):
        desk.order(route, SHOWN)


def test_a_proposals_answer_shows_the_proposed_run(desk: Desk) -> None:
    told = desk.propose()

    assert told == {
        **SHOWN,
        "name": "sellers-2026-11",
        "status": "PROPOSED",
        **dict.fromkeys(("approvals", "begun", "started", "ended"), 0),
        "lines": 3,
        "outcomes": [],
        "needed": 1,
        "proposed_by": ADA,
    }


def test_the_same_file_is_proposed_once(desk: Desk) -> None:
    first = desk.propose()

    with desk.calls.writes_nothing():
        assert desk.propose() == first
        assert desk.propose(by=BEA) == first


@pytest.mark.parametrize(
    "changed",
    [
        *({"payer": "mallory"}, {"lines": 4}, {"sums": {"EUR": "58.21", "JPY": "7"}}),
        *({"kind": "payouts"}, {"sums": {"EUR": "58.20"}}),
    ],
    ids=str,
)
def test_a_second_proposal_with_other_facts_is_refused(desk: Desk, changed: dict[str, Any]) -> None:
    desk.propose()

    with desk.calls.writes_nothing(), pytest.raises(PayRunRefused, match="proposed with other facts"):
        desk.propose(by=BEA, **changed)


@pytest.mark.parametrize("changed", [{"name": "another"}, {"parent": "ab" * 16}], ids=str)
def test_a_file_cannot_be_proposed_again_under_another_name(desk: Desk, changed: dict[str, Any]) -> None:
    """PayLines would not pay such a run, because its facts differ from the file."""
    desk.propose(**changed)

    with pytest.raises(PayRunRefused):
        desk.propose()


@pytest.mark.parametrize("by", [ADA, ADA_AGAIN])
def test_a_proposer_cannot_approve_their_own_run(desk: Desk, by: str) -> None:
    desk.propose()

    with desk.calls.writes_nothing(), pytest.raises(PayRunRefused, match="does not approve"):
        desk.give("approve", by)


@pytest.mark.parametrize("route", ["approve", "run", "pause", "cancel"])
def test_an_order_with_another_files_digest_is_refused(desk: Desk, route: str) -> None:
    desk.propose()
    digest = RUN + "0" * 32

    with desk.calls.writes_nothing(), pytest.raises(PayRunRefused, match="another file than you were shown"):
        desk.give(route, BEA, digest=digest)


def test_one_persons_repeated_approval_counts_once(desk: Desk) -> None:
    assert desk.propose(LARGE)["needed"] == 2
    first = desk.give("approve", BEA, LARGE)

    with desk.calls.writes_nothing():
        for by in (BEA, BEA_AGAIN):
            assert desk.give("approve", by, LARGE) == first
        with pytest.raises(PayRunRefused, match="it is PROPOSED"):
            desk.give("run", ADA, LARGE)
    assert (first["status"], first["approvals"]) == ("PROPOSED", 1)

    second = desk.give("approve", CARL, LARGE)
    assert (second["status"], second["approvals"]) == ("APPROVED", 2)
    with desk.calls.writes_nothing():
        assert desk.give("approve", CARL, LARGE) == second
        with pytest.raises(PayRunRefused, match="it is APPROVED"):
            desk.give("approve", "arn:aws:iam::123456789012:user/dora", LARGE)
    assert desk.give("run", ADA, LARGE)["status"] == "RUNNING"


def test_a_sum_over_the_limit_needs_two_approvals(desk: Desk) -> None:
    assert desk.propose(lines(2, amount="50.00"))["needed"] == 1
    assert desk.propose(lines(2, amount="50.01"))["needed"] == 2


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (("run", "run"), "RUNNING"),
        (("run", "pause", "pause"), "PAUSED"),
        (("run", "pause", "run"), "RUNNING"),
        (("cancel", "cancel"), "CANCELLED"),
        (("run", "cancel", "cancel"), "CANCELLED"),
        (("run", "pause", "cancel"), "CANCELLED"),
    ],
)
def test_a_repeated_order_changes_nothing(desk: Desk, path: tuple[str, ...], status: str) -> None:
    desk.propose()
    desk.give("approve", BEA)
    for order in path:
        desk.give(order)
    with desk.calls.writes_nothing():
        assert desk.give(path[-1])["status"] == status


@pytest.mark.parametrize("order", ["run", "pause"])
def test_a_cancelled_run_stays_cancelled(desk: Desk, order: str) -> None:
    desk.propose()
    desk.give("cancel")

    with desk.calls.writes_nothing():
        assert desk.propose()["status"] == "CANCELLED"
        for route, by in ((order, ADA), ("approve", BEA)):
            with pytest.raises(PayRunRefused, match=r"it is (CANCELLED|cancelled already)"):
                desk.give(route, by)


def test_an_approval_after_a_concurrent_cancellation_is_refused(desk: Desk) -> None:
    desk.propose(LARGE)
    desk.calls.meanwhile(_dependencies.store, "transact", lambda: desk.give("cancel", ADA, LARGE))

    with pytest.raises(PayRunRefused, match="has moved on to CANCELLED"):
        desk.give("approve", BEA, LARGE)


@pytest.mark.parametrize("order", ["run", "pause", "cancel"])
def test_two_concurrent_equal_orders_both_succeed(desk: Desk, order: str) -> None:
    desk.propose()
    desk.give("approve", BEA)
    if order == "pause":
        desk.give("run")
    take: Any = _orders.ORDERS[f"{order}-payrun"][0]
    desk.calls.meanwhile(_dependencies.store, "transact", lambda: take(SHOWN, rows.CARL))

    assert desk.give(order)["status"] in ("RUNNING", "PAUSED", "CANCELLED")


@pytest.mark.parametrize("route", ["approve", "run", "pause", "cancel"])
@pytest.mark.parametrize("changed", [{"needed": 1}, {"by": CARL}, {"signature": "1:x"}], ids=str)
def test_orders_on_a_forged_proposal_are_refused(desk: Desk, route: str, changed: dict[str, Any]) -> None:
    desk.propose(LARGE)
    desk.alter(keys.payrun_proposed(str(desk.propose(LARGE)["run"])), **changed)

    with desk.calls.writes_nothing(), pytest.raises(RowDamaged):
        desk.give(route, BEA, LARGE)


def test_an_order_on_a_damaged_run_raises_row_damaged(desk: Desk) -> None:
    desk.propose()
    desk.alter(keys.payrun(RUN), begun=9)

    for route in ("approve", "run", "pause", "cancel"):
        with desk.calls.writes_nothing(), pytest.raises(RowDamaged):
            desk.give(route, BEA)


def test_no_order_moves_money(desk: Desk) -> None:
    desk.go()

    assert {row["pk"].partition("#")[0] for row in desk.calls.ledger.rows()} == {"PAYRUN", "PAYRUN_DECISION"}
    assert desk.calls.step_functions.started == []
