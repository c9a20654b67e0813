from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import Write
from settlement.core.model.errors import StepFenced
from settlement.core.model.request import parse_settlement
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status, Step
from settlement.core.model.stored import MalformedRow
from settlement.core.model.timestamps import seconds_since, timestamp
from settlement.core.policy import recovery
from settlement.core.policy.recovery import Action, Takeover
from tests.unit.conditions import admits, applied
from tests.unit.every_row import AFTER, AT, BEFORE, PREFIXES, settlement_row, verdicts
from tests.unit.vectors import CONFIG, IN_HASTE, LISTED, PLACE, SETTLEMENT, SITUATIONS, STALLED, slots
from tests.world.constants import NONCE
from tests.world.environment import NOW
from tests.world.ledger import in_memory

FAR, LONG_AGO = timestamp(NOW + timedelta(days=1)), timestamp(NOW - timedelta(days=1))


def stalled(**changes: Any) -> Row:
    return STALLED | {"deadline_at": FAR} | changes


def take_over(row: Row, now: datetime = NOW) -> Takeover:
    takeover = recovery.take_over(SettlementState.from_row(row), now, CONFIG, NONCE)
    assert takeover is not None
    return takeover


# The takeover


@pytest.mark.parametrize("status", Status)
def test_a_takeover_follows_from_status_release_deadline_and_review(status: Status) -> None:
    for steps, deadline_at in product(PREFIXES, (BEFORE, AT, AFTER)):
        for verified in verdicts(steps):
            unstepped = {name: value for name, value in stalled().items() if not name.endswith("_at")}
            row = {**unstepped, **settlement_row(status, set(steps), deadline_at, **verified)}
            row |= {"claimed_at": LISTED, "gsi1sk": deadline_at}
            expected = {
                Status.COMPENSATING: (Action.COMPENSATE, "c1"),
                Status.LIMBO: (Action.ALERT, "c1"),
            }.get(status)
            if status is Status.PROCESSING:
                if Step.RELEASE not in steps and deadline_at != AFTER:
                    expected = (Action.COMPENSATE, "c1")
                elif "review" not in verified:
                    expected = (Action.SETTLE, "r1")

            takeover = recovery.take_over(SettlementState.from_row(row), NOW, CONFIG, NONCE)

            assert (takeover is None) == (expected is None), row
            if takeover and expected:
                owner = takeover.write.parameters["ExpressionAttributeValues"][":owner"]
                assert takeover.action is expected[0]
                assert takeover.execution == owner == f"{SETTLEMENT.key}-{expected[1]}-{NONCE}"
                assert admits(takeover.write, row)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_takeover_passes_an_error_only_after_expiry(situation: str) -> None:
    error = {
        "processing.overdue": recovery.DEADLINE_PASSED,
        "processing.review_over": recovery.REVIEW_EXPIRED,
    }.get(situation)

    takeover = take_over(STALLED | SITUATIONS[situation])

    wire = SETTLEMENT.to_wire(CONFIG)
    given = {"settlement": wire} | ({"error": error} if error else {})
    assert takeover.input == (wire if takeover.action is Action.SETTLE else given)
    assert parse_settlement(wire, CONFIG) == SETTLEMENT


def test_a_resumed_settlement_keeps_the_deadline_that_its_request_named() -> None:
    row = stalled(**IN_HASTE.to_row(), **keys.settlement(IN_HASTE.key))

    assert take_over(row).input == IN_HASTE.to_wire(CONFIG)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_two_concurrent_runs_make_one_new_owner(situation: str) -> None:
    ledger = in_memory()
    ledger.put(STALLED | SITUATIONS[situation])
    owners = []

    for epoch in (1, 2, 3):
        (row,) = ledger.rows()
        one, other = (take_over(row, NOW + timedelta(minutes=epoch)) for _ in range(2))
        after = ledger.store.update(one.write)
        assert (after.owner, after.owner_epoch) == (one.execution, epoch)
        with pytest.raises(StepFenced, match=r"^recover: the settlement has moved on$"):
            ledger.store.update(other.write)
        owners.append(after.owner)

    assert len(set(owners)) == 3


@pytest.mark.parametrize("status", [Status.PROCESSING, Status.COMPENSATING, Status.LIMBO])
def test_a_settlement_without_an_index_entry_is_malformed(status: Status) -> None:
    unlisted = replace(SettlementState.from_row(stalled(status=status)), listed_at=None)

    with pytest.raises(MalformedRow, match=rf"^{SETTLEMENT.key}: is {status}, but has no place"):
        recovery.take_over(unlisted, NOW, CONFIG, NONCE)


# The next look

BACKOFF = [60, 120, 240, 480, *[900] * 17]
"""Seconds until the next look, by the number of earlier takeovers."""


def seconds_to_next_look(write: Write, row: Row) -> float:
    after = applied(write, row)
    name = "recover_at" if row["status"] == Status.LIMBO else "gsi1sk"
    return (datetime.fromisoformat(after[name]) - NOW).total_seconds()


@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_next_looks_delay_doubles_up_to_fifteen_minutes(situation: str) -> None:
    for owner_epoch, seconds in enumerate(BACKOFF):
        row = STALLED | SITUATIONS[situation] | {"owner_epoch": owner_epoch}
        row |= {"processing": {"deadline_at": FAR}, "processing.missed": {"gsi1sk": LONG_AGO}}.get(
            situation, {}
        )
        postponed = recovery.postpone(SettlementState.from_row(row), NOW, CONFIG)

        assert seconds_to_next_look(take_over(row).write, row) == seconds
        assert seconds_to_next_look(postponed, row | {"status": "any"}) == seconds


@pytest.mark.parametrize("owner_epoch", [0, 20])
@pytest.mark.parametrize(("left", "expected"), [(59_999, 59.999), (60_001, 60), (1, 0.001)])
def test_the_next_look_comes_no_later_than_a_future_deadline(
    owner_epoch: int, left: int, expected: float
) -> None:
    deadline_at = timestamp(NOW + timedelta(milliseconds=left))
    row = stalled(deadline_at=deadline_at, gsi1sk=timestamp(NOW), owner_epoch=owner_epoch)

    assert seconds_to_next_look(take_over(row).write, row) == (left / 1000 if owner_epoch else expected)


@pytest.mark.parametrize("deadline_at", [AFTER, AT, BEFORE])
def test_the_deadline_does_not_shorten_the_next_look_after_release(deadline_at: str) -> None:
    row = stalled(deadline_at=deadline_at, **slots({Step.HOLD, Step.VERIFY, Step.RELEASE}))

    assert seconds_to_next_look(take_over(row).write, row) == 60


@pytest.mark.parametrize(("more", "seconds"), [((), 900), ((60,), 60)])
def test_a_malformed_row_is_deferred(more: tuple[int, ...], seconds: int) -> None:
    row = stalled(status="unknown")

    after = applied(recovery.defer_unprocessable(PLACE, NOW, *more), row)

    assert after == row | {"gsi1sk": timestamp(NOW + timedelta(seconds=seconds))}


# The deadline waits for a recovery that is behind

LAST = timestamp(NOW - timedelta(seconds=30))
"""Last time at which a new owner could still finish before the deadline, `NOW`."""


def missed(**changes: Any) -> Row:
    """Return the row of a settlement that was due in time and whose deadline is now."""
    return stalled(deadline_at=AT, gsi1sk="2026-11-20T11:50:00.123Z", **changes)


@pytest.mark.parametrize("seconds", [-30, 0, 1, 60, 86_400])
def test_a_settlement_reached_too_late_resumes_with_its_remaining_time(seconds: int) -> None:
    now = NOW + timedelta(seconds=seconds)
    row = missed(owner_epoch=1)

    found = take_over(row, now)

    after = applied(found.write, row)
    assert (found.action, found.execution) == (Action.SETTLE, f"{SETTLEMENT.key}-r2-{NONCE}")
    assert admits(found.write, row)
    assert after["deadline_at"] == timestamp(now + timedelta(minutes=10))  # as it was when it was due
    assert after["deadline_extended_at"] == timestamp(now)
    assert after["gsi1sk"] == timestamp(now + timedelta(seconds=120))
    assert "expired_at" not in after


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"deadline_seconds": 600}, Action.COMPENSATE),
        ({"review": "ver_1"}, Action.COMPENSATE),
        ({"expired_at": LISTED}, Action.COMPENSATE),
        ({"gsi1sk": LAST}, Action.COMPENSATE),
        ({"gsi1sk": AT}, Action.COMPENSATE),
        ({"status": Status.COMPENSATING}, Action.COMPENSATE),
        (slots({Step.VERIFY, Step.RELEASE}), Action.SETTLE),
    ],
    ids=["named", "in review", "expired", "due too late", "due at its end", "being reversed", "released"],
)
def test_a_deadline_is_extended_only_if_recovery_missed_it(changes: Row, expected: Action) -> None:
    """The caller's own deadline is a promise to it, and after a review nothing is left to resume."""
    row = missed() | changes

    found = take_over(row)

    assert found.action is expected
    assert applied(found.write, row)["deadline_at"] == AT


def test_a_deadline_with_enough_time_left_is_not_extended() -> None:
    row = missed()

    after = applied(take_over(row, NOW - timedelta(seconds=30, milliseconds=1)).write, row)

    assert (after["deadline_at"], after.get("deadline_extended_at")) == (AT, None)


def test_slow_recovery_extends_a_deadline_at_most_four_times() -> None:
    """Each pause before a look shrinks the time left to settle, and no extension restores it."""
    ledger, now, left, extended = in_memory(), NOW, [], 0
    row: Row = missed()
    while take_over(row, now).action is Action.SETTLE:
        ledger.put(row)
        ledger.store.update(take_over(row, now).write)
        (row,) = ledger.rows()
        due = datetime.fromisoformat(row["gsi1sk"])
        left.append(datetime.fromisoformat(row["deadline_at"]) - due)
        extended += row["deadline_extended_at"] == timestamp(now)
        now = due + timedelta(days=1)

    assert extended == len(left) == 4
    assert left == [timedelta(seconds=seconds) for seconds in (540, 420, 180, 0)]


def test_a_settlement_that_could_not_start_keeps_its_remaining_time() -> None:
    """It stays due, and the delay before its first takeover extends the deadline only once."""
    ledger = in_memory()
    ledger.put(missed())
    first, then = NOW + timedelta(minutes=1), NOW + timedelta(minutes=20)
    taken = ledger.store.update(take_over(missed(), first).write)
    due = ledger.store.update(recovery.give_back(taken, "2026-11-20T11:50:00.123Z"))

    again = recovery.take_over(due, then, CONFIG, NONCE)

    assert again is not None
    after = ledger.store.update(again.write)
    assert due.listed_at == "2026-11-20T11:50:00.123Z"
    assert after.deadline_at == timestamp(then + timedelta(minutes=10))


def test_a_slow_clock_does_not_move_an_extended_deadline_back() -> None:
    row = missed(deadline_extended_at=AFTER)

    after = applied(take_over(row).write, row)

    assert (after["deadline_at"], after["deadline_extended_at"]) == (AT, AFTER)


# Due settlements


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("at", [BEFORE, AT, AFTER])
@pytest.mark.parametrize("recover_at", [None, BEFORE, AT, AFTER])
def test_a_settlement_is_due_by_its_row_not_the_index(
    recover_at: str | None, at: str, status: Status
) -> None:
    """In LIMBO the sort key is the start of the case, so an attribute holds the time of the next look."""
    state = replace(SettlementState.from_row(stalled(status=status)), listed_at=at, recover_at=recover_at)

    in_flight = status in (Status.PROCESSING, Status.COMPENSATING) and at != AFTER
    assert recovery.is_due(state, NOW) is (in_flight or (status is Status.LIMBO and recover_at != AFTER))


@pytest.mark.parametrize(
    ("away", "seconds"), [(0, 0), (1, 0), (999, 0), (1_000, 1), (90_500, 90), (-1, 0), (-86_400_000, 0)]
)
def test_an_age_is_in_whole_seconds_and_never_negative(away: int, seconds: int) -> None:
    age = seconds_since(timestamp(NOW - timedelta(milliseconds=away)), NOW)

    assert (type(age), age) == (int, seconds)


def test_the_age_in_flight_counts_from_claim_or_restart() -> None:
    assert recovery.in_flight_since(SettlementState.from_row(STALLED)) == LISTED
    assert recovery.in_flight_since(SettlementState.from_row(STALLED | {"in_flight_since": AT})) == AT
