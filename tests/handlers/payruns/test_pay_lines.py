"""PayLines pays each line of an approved run once, and reports hindered runs."""

import io
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import chain, repeat
from typing import Any

import pytest

from handlers import _dependencies
from handlers.core import _claim
from handlers.payouts import _payouts
from settlement.aws import step_functions
from settlement.core.ledger import keys
from settlement.core.model.errors import StartUnavailable, StoreUnavailable
from settlement.core.model.request import parse_request
from settlement.core.model.status import Step
from settlement.core.model.timestamps import timestamp
from settlement.core.store.dynamodb import Store
from settlement.payruns import bucket, paying, writes
from settlement.payruns.file import RunFile, digest_of, key_of
from settlement.payruns.run import Run, Status
from tests.handlers.payouts.conftest import BEA as CONFIRMS
from tests.handlers.payouts.conftest import CONFIRM, PAYEE
from tests.handlers.payruns.conftest import ADA, BEA, RUN, Desk, Throttled, lines
from tests.unit.payruns.rows import ADA as ADA_CALLER
from tests.unit.payruns.rows import BEA as BEA_CALLER
from tests.unit.payruns.rows import FILE, HEADER, LINES, payout_file, proposal
from tests.world.environment import NOW
from tests.world.step_functions import client_error

NUMBERS = [line.number for line in LINES]
ONE = {"running": 1, "waiting": 0}
HINDERED = {"running": 1, "waiting": 1}
AGAIN: dict[str, Any] = {"started": 0, "ended": 0, "outcomes": {}, "sums": {}}
"""Attributes of a run's row as before its first start."""


def keys_of(run: str, *numbers: int) -> set[str]:
    return {key_of(run, number) for number in numbers}


def claimed(desk: Desk) -> set[str]:
    return {row["pk"].partition("#")[2] for row in desk.calls.ledger.rows() if keys.is_settlement(row)}


def test_each_line_is_claimed_and_started_on_express(desk: Desk) -> None:
    desk.go()

    assert desk.pay() == ONE

    started = desk.calls.step_functions.started
    assert {machine for machine, _, _ in started} == {"SettlementExpress"}
    assert {wire["key"] for _, _, wire in started} == claimed(desk) == keys_of(RUN, *NUMBERS)
    first = next(wire for _, _, wire in started if wire["key"] == key_of(RUN, 2))
    known = {"payer": "market", "payee": "bob", "amount": "48.20", "reference": "November"}
    assert known.items() <= first.items()
    assert (desk.run().started, desk.run().ended) == (3, 0)


def test_ended_payments_are_counted_and_the_run_ends(desk: Desk) -> None:
    desk.go()
    desk.pay()
    desk.settle(RUN, 2)
    desk.settle(RUN, 5)
    desk.pay()
    assert (desk.run().ended, desk.run().status) == (1, Status.RUNNING)

    desk.settle(RUN, 3, status="REJECTED")
    assert desk.pay() == ONE

    assert desk.run().status is Status.FINISHED
    assert desk.run().outcomes == {"SETTLED": 2, "REJECTED": 1}
    assert desk.run().sums == {"SETTLED EUR": 48_20, "REJECTED EUR": 10_00, "SETTLED JPY": 7}
    with desk.calls.writes_nothing():
        assert desk.pay() == {"running": 0, "waiting": 0}


def test_only_running_runs_are_paid(desk: Desk) -> None:
    desk.propose()
    assert desk.pay() == {"running": 0, "waiting": 0}
    desk.give("approve", BEA)
    assert desk.pay() == {"running": 0, "waiting": 0}
    desk.give("run")
    desk.give("pause")
    assert desk.pay() == {"running": 0, "waiting": 0}

    assert claimed(desk) == set()


def test_a_repeated_call_claims_and_starts_nothing_more(desk: Desk) -> None:
    desk.go()
    desk.pay()
    desk.alter(keys.payrun(RUN), **AGAIN)
    for number in NUMBERS:
        desk.alter(keys.settlement(key_of(RUN, number)), **{Step.HOLD.slot: timestamp(NOW)})

    desk.pay()

    assert desk.run().started == 3
    assert len(desk.calls.step_functions.started) == 3


def test_a_failed_start_is_repeated_by_the_next_call(desk: Desk) -> None:
    desk.go()
    desk.calls.step_functions.failing["start_execution"] = client_error("StartExecution", "Dead")
    assert desk.pay() == HINDERED
    assert desk.calls.counted()["PayRunFailed"] == 1
    assert (desk.run().begun, desk.run().started) == (3, 0)

    desk.calls.step_functions.failing.clear()
    assert desk.pay() == ONE

    assert {wire["key"] for _, _, wire in desk.calls.step_functions.started} == keys_of(RUN, *NUMBERS)


def test_an_invalid_line_is_refused_only_after_the_runs_cancellation(desk: Desk) -> None:
    """Until then, a slower call can claim the line under the previous settings."""
    spoilt = RunFile(HEADER, [replace(LINES[0], payee="a:b"), *LINES[1:]])
    run = desk.go(spoilt)

    assert desk.pay() == HINDERED
    assert claimed(desk) == keys_of(run, 3, 5)
    desk.give("cancel", ADA, spoilt)
    assert desk.pay() == HINDERED
    desk.alter(keys.payrun(run), changed_at=timestamp(NOW - timedelta(minutes=6)))
    assert desk.pay() == ONE

    row = desk.calls.ledger.row(keys.payrun_line(run, 2))
    assert row
    assert (row["refused"], row["why"][:6]) == ("InvalidRequest", "payee:")
    assert desk.run(run).outcomes == {"REFUSED": 1}


def test_one_failing_start_leaves_the_other_lines_started(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.go()
    real = step_functions.start

    def start(machine: str, name: str, wire: dict[str, Any], trace: Any) -> None:
        if wire["key"] == key_of(RUN, 2):
            raise StartUnavailable("dead")
        real(machine, name, wire, trace)

    with monkeypatch.context() as patch:
        patch.setattr(step_functions, "start", start)
        assert desk.pay() == HINDERED

    assert {wire["key"] for _, _, wire in desk.calls.step_functions.started} == keys_of(RUN, 3, 5)
    assert (desk.run().begun, desk.run().started) == (3, 0)
    assert desk.pay() == ONE
    assert desk.run().started == 3


def test_a_damaged_payment_counts_as_started_but_not_as_ended(desk: Desk) -> None:
    desk.go()
    desk.pay()
    desk.alter(keys.settlement(key_of(RUN, 3)), status="LOST")
    desk.alter(keys.payrun(RUN), **AGAIN)

    assert desk.pay() == ONE
    desk.settle(RUN, 2, 5)
    desk.pay()

    assert (desk.run().started, desk.run().ended, desk.run().outcomes) == (3, 1, {"SETTLED": 1})


def test_a_line_whose_key_has_other_content_is_refused(desk: Desk) -> None:
    run = desk.go()
    other = {"key": key_of(run, 3), "payer": "market", "payee": "mallory", "amount": "1", "currency": "EUR"}
    _claim.claim(parse_request(other, _dependencies.config), "another")

    desk.pay()
    desk.settle(run, 2, 5)
    desk.pay()

    assert desk.run().outcomes == {"SETTLED": 2, "REFUSED": 1}
    assert desk.calls.ledger.row(keys.payrun_line(run, 3))["refused"] == "IdempotencyConflict"  # type: ignore[index]


# What hinders a run


def file_gone(desk: Desk) -> None:
    desk.s3.versions.clear()


def file_other(desk: Desk) -> None:
    desk.s3.put_object(
        Bucket="runs", Key=bucket.name_of(digest_of(FILE.content)), Body=FILE.content + b"{}\n"
    )


def facts(**changed: Any) -> Callable[[Desk], None]:
    """Replace the proposal by a signed proposal with other facts."""

    def act(desk: Desk) -> None:
        one = replace(proposal(), **changed)
        for place in (keys.payrun(RUN), keys.payrun_proposed(RUN)):
            desk.calls.ledger.delete(place)
        store = _dependencies.store
        store.transact(writes.propose(one, ADA_CALLER))
        state = Run(
            run=RUN,
            name=one.name,
            status=Status.RUNNING,
            sequence=4,
            proposed_at=one.posted_at,
            lines=3,
            approvals=1,
        )
        desk.calls.ledger.put(state.to_row())

    return act


def approved_by_the_proposer(desk: Desk) -> None:
    desk.alter(keys.payrun_approved(RUN, "bea"), by=ADA)


def approval_of_another_file(desk: Desk) -> None:
    desk.alter(keys.payrun_approved(RUN, "bea"), digest=RUN + "0" * 32)


def no_approval(desk: Desk) -> None:
    desk.calls.ledger.delete(keys.payrun_approved(RUN, "bea"))


def forged_approval(desk: Desk) -> None:
    no_approval(desk)
    row = writes.approve(replace(desk.run(), status=Status.PROPOSED), proposal(), BEA_CALLER, NOW)[0]
    desk.calls.ledger.put(row.parameters["Item"])


def forged_proposal(desk: Desk) -> None:
    desk.alter(keys.payrun_proposed(RUN), reason="forged")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (file_gone, "it is not in the bucket"),
        (file_other, "not those that were approved"),
        (facts(needed=1, lines=4), "its lines are not as approved"),
        (facts(needed=1, sums={"EUR": 1}), "its sums are not as approved"),
        (facts(needed=1, payer="mallory", name="x"), "its name, payer are not as approved"),
        (facts(needed=1, parent="ab" * 16), "its parent are not as approved"),
        (facts(needed=2), "has 1 of 2 approvals"),
        (approved_by_the_proposer, "has 0 of 1 approvals"),
        (approval_of_another_file, "has 0 of 1 approvals"),
        (no_approval, "has 0 of 1 approvals"),
        (forged_approval, "has 0 of 1 approvals"),
        (forged_proposal, "has no proposal with a valid signature"),
    ],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_a_run_that_is_not_proven_pays_nothing(
    desk: Desk, spoil: Callable[[Desk], None], told: str, log: io.StringIO
) -> None:
    desk.go()
    spoil(desk)

    with desk.calls.writes_nothing():
        assert desk.pay() == HINDERED

    assert claimed(desk) == set()
    assert told in log.getvalue()
    assert desk.calls.counted()["PayRunsWaiting"] == 1


def test_a_bad_run_does_not_delay_the_others(desk: Desk) -> None:
    desk.go()
    file_gone(desk)
    desk.calls.ledger.put(
        {**keys.payrun("x\ud7ff" * 99), **keys.payruns_index("2026", is_running=True), "status": "LOST"}
    )
    good = desk.go(lines(2))

    assert desk.pay() == {"running": 3, "waiting": 2}

    assert claimed(desk) == keys_of(good, 1, 2)


def test_a_damaged_line_row_does_not_stop_the_others(desk: Desk) -> None:
    desk.go()
    place = keys.payrun_line(RUN, 2)
    desk.calls.ledger.client.put_item(
        TableName="", Item={**{name: {"S": value} for name, value in place.items()}, "n": {"N": "1.5"}}
    )

    desk.pay()

    started = {wire["key"] for _, _, wire in desk.calls.step_functions.started}
    assert keys_of(RUN, 3, 5) <= started


def test_an_unanswered_bucket_read_is_repeated_by_the_next_call(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.go()
    monkeypatch.setattr(bucket, "_client", Throttled())
    assert desk.pay() == HINDERED

    monkeypatch.setattr(bucket, "_client", desk.s3)
    assert desk.pay() == ONE
    assert len(claimed(desk)) == 3


def test_a_file_above_the_size_limit_is_not_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "BYTES_MAX", 10)
    desk.go()

    assert desk.pay() == HINDERED


def test_a_call_without_time_begins_no_batch(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paying, "BATCH", 2)
    run = desk.go(lines(5))

    desk.pay(chain([50_000] * 4, repeat(15_000)))
    assert (desk.run(run).begun, desk.run(run).started) == (2, 2)
    desk.pay()

    assert (desk.run(run).begun, desk.run(run).started) == (5, 5)


@pytest.mark.parametrize(("minute", "begun"), [(0, [0, 2]), (1, [2, 0])])
def test_runs_share_the_time_and_begin_in_turn(desk: Desk, minute: int, begun: list[int]) -> None:
    runs = sorted(desk.go(lines(2, amount=amount)) for amount in ("0.01", "0.02"))
    desk.calls.later(minutes=minute)

    desk.pay(chain([55_000], repeat(35_000)))  # the first run's share ends at 35 s

    assert [desk.run(run).begun for run in runs] == begun


def test_a_call_without_time_reads_no_file(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.go()
    monkeypatch.setattr(bucket, "_client", Throttled())

    assert desk.pay(chain([50_000], repeat(15_000))) == ONE


def test_a_cancelled_run_pays_only_its_begun_lines(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paying, "BATCH", 2)
    file = lines(6)
    run = desk.go(file)
    desk.pay(chain([50_000] * 4, repeat(15_000)))
    assert desk.give("cancel", ADA, file)["cancelled_after"] == 2
    desk.settle(run, 1, 2)

    desk.pay()

    assert claimed(desk) == keys_of(run, 1, 2)
    assert (desk.run(run).status, desk.run(run).outcomes) == (Status.CANCELLED, {"SETTLED": 2})


# Payouts

PAYOUTS = payout_file(
    [
        replace(LINES[0], payee="landlord", amount=amount, number=at)
        for at, amount in enumerate(("30", "80", "20"), 1)
    ],
    payer="alice",
)


@pytest.fixture
def payouts(desk: Desk) -> Desk:
    desk.calls.ledger.open("alice", 100_00)
    desk.calls.later(days=-2)
    desk.order("add-payee", PAYEE)
    desk.order("confirm-payee", CONFIRM, CONFIRMS)
    desk.calls.later(days=0)
    return desk


def test_payouts_are_reserved_but_a_line_without_funds_is_refused(payouts: Desk) -> None:
    run = payouts.go(PAYOUTS, (BEA, "arn:aws:iam::123456789012:user/carl"))
    assert payouts.pay() == ONE

    rows = [payouts.calls.ledger.row(keys.payrun_line(run, at)) or {} for at in (1, 2, 3)]
    assert [row.get("refused") for row in rows] == [None, "InsufficientFunds", None]
    assert payouts.calls.account("alice")["available"] == 50_00
    reserved = [payouts.calls.ledger.row(keys.payout(key_of(run, at))) for at in (1, 2, 3)]
    assert [row and row["amount"] for row in reserved] == [30_00, None, 20_00]


def test_a_refused_payout_stays_refused_when_money_comes(payouts: Desk) -> None:
    run = payouts.go(PAYOUTS, (BEA, "arn:aws:iam::123456789012:user/carl"))
    payouts.pay()
    payouts.calls.ledger.open("alice", 1_000_00)
    for read_ahead in (False, True):
        payouts.alter(keys.payrun(run), **AGAIN)
        with pytest.MonkeyPatch.context() as patch:
            if read_ahead:  # a caller that has read the lines before the refusal was recorded
                patch.setattr("settlement.core.store.batch.read", lambda *_: [])
            payouts.pay()

    assert payouts.calls.account("alice")["available"] == 1_000_00
    assert payouts.calls.ledger.row(keys.payout(key_of(run, 2))) is None
    assert payouts.run(run).started == 3


def test_a_reservation_with_a_lost_answer_debits_once(payouts: Desk) -> None:
    run = payouts.go(PAYOUTS, (BEA, "arn:aws:iam::123456789012:user/carl"))
    real, times = Store.transact, [0]

    def lost(store: Store, made: Any) -> None:
        real(store, made)
        times[0] += 1
        if times[0] == 2:
            raise StoreUnavailable("DynamoDB: dead")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "transact", lost)
        assert payouts.pay() == HINDERED
    assert payouts.pay() == ONE

    assert payouts.calls.account("alice")["available"] == 50_00
    assert payouts.run(run).started == 3


def test_a_damaged_account_does_not_refuse_its_lines(payouts: Desk) -> None:
    """A refused line is never paid, not even after the row's repair."""
    run = payouts.go(PAYOUTS, (BEA, "arn:aws:iam::123456789012:user/carl"))
    payouts.alter(keys.account("alice"), available="many")

    assert payouts.pay() == HINDERED
    assert payouts.run(run).started == 0

    assert [payouts.calls.ledger.row(keys.payrun_line(run, at)) for at in (1, 2, 3)] == [None] * 3


def test_a_damaged_destination_refuses_its_lines(payouts: Desk) -> None:
    run = payouts.go(PAYOUTS, (BEA, "arn:aws:iam::123456789012:user/carl"))
    payouts.alter(keys.destination("landlord"), iban=7)

    assert payouts.pay() == ONE

    rows = [payouts.calls.ledger.row(keys.payrun_line(run, at)) or {} for at in (1, 2, 3)]
    assert [row.get("refused") for row in rows] == ["DestinationRefused"] * 3
    assert payouts.calls.account("alice")["available"] == 100_00


def test_lines_wait_if_the_stage_no_longer_pays_out(payouts: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later deployment can pay out again."""
    run = payouts.go(PAYOUTS, (BEA, "arn:aws:iam::123456789012:user/carl"))
    with monkeypatch.context() as patch:
        patch.delenv("PAYOUTS")
        _payouts.config.cache_clear()
        assert payouts.pay() == HINDERED
        _payouts.config.cache_clear()

    assert [payouts.calls.ledger.row(keys.payrun_line(run, at)) for at in (1, 2, 3)] == [None] * 3
    assert payouts.pay() == ONE
    assert payouts.calls.account("alice")["available"] == 50_00
