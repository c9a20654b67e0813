from collections.abc import Callable, Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import cast

import pytest

from settle.stack import Stack
from settlement.core.ledger import entries, forward, keys, kyc_review, reversal
from settlement.core.ledger.keys import Row
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.status import Step
from settlement.core.policy import compensation, steps
from settlement.core.store.dynamodb import Store
from settlement.proof import pages, second_look, table_scan
from settlement.proof.pages import Part
from settlement.proof.spool import Spool
from tests.proof.moving import moving
from tests.world.environment import NOW
from tests.world.journal import journal
from tests.world.ledger import Ledger
from tests.world.openings import opening
from tests.world.provider import APPROVED

LATER = NOW + timedelta(seconds=1)


@pytest.fixture
def stack(
    ledger: Ledger, config: StageConfig, settlement: Settlement, monkeypatch: pytest.MonkeyPatch
) -> Stack:
    """A table with two accounts and one held settlement."""
    monkeypatch.setattr(second_look, "_PAUSE_SECONDS", 0)
    stack = cast(
        Stack,
        SimpleNamespace(
            name="under-test",
            outputs={"TableName": ledger.table_name},
            store=ledger.store,
            config=config,
            client=lambda service: ledger.client,
        ),
    )
    ledger.store.transact(opening("alice", 50_000, "EUR", NOW))
    ledger.store.transact(opening("bob", 0, "EUR", NOW))
    ledger.store.claim(forward.claim(settlement, "an-execution", NOW, config))
    ledger.store.commit(steps.hold(settlement, NOW))
    return stack


def verify(stack: Stack, settlement: Settlement) -> None:
    stack.store.put(entries.evidence(settlement, Step.VERIFY, APPROVED.evidence(), LATER))
    stack.store.update(kyc_review.record_verdict(settlement, APPROVED, LATER))


def release(stack: Stack, settlement: Settlement) -> None:
    """Pay the payee; only the fee stays in escrow."""
    verify(stack, settlement)
    stack.store.commit(steps.release(settlement, stack.config, LATER))


def give_up(stack: Stack, settlement: Settlement) -> None:
    """Reverse the hold; nothing stays in escrow."""
    failure = {"step": "verify", "error": "KycRejected", "cause": "no"}
    stack.store.update(reversal.begin(settlement, failure, owner="an-execution", execution="a-reversal"))
    stack.store.commit(compensation.reverse_step(settlement, Step.HOLD, LATER))


def open_another(stack: Stack, settlement: Settlement) -> None:
    stack.store.transact(opening("carla", 2_500, "EUR", LATER))


FIRST: dict[str, Callable[[Row], bool]] = {
    "accounts": keys.is_account,
    "entries": keys.is_entry,
    "evidence": keys.is_evidence,
    "settlements": keys.is_settlement,
    "settlements and entries": lambda row: keys.is_settlement(row) or keys.is_entry(row),
    "none": lambda row: False,
}
"""Choices of rows that a scan meets before an event; it meets all other rows after it."""


@pytest.mark.parametrize(
    ("meanwhile", "first", "in_flight"),
    [
        *(
            (release, first, 1)
            for first in ("accounts", "evidence", "settlements", "settlements and entries")
        ),
        (release, "entries", 2),
        *((give_up, first, 1) for first in ("accounts", "settlements", "settlements and entries")),
        (give_up, "entries", 2),
        (verify, "settlements", 0),
        (verify, "evidence", 1),
        *((open_another, first, 1) for first in ("accounts", "entries")),
        *((meanwhile, "none", 0) for meanwhile in (release, give_up, open_another)),
    ],
)
def test_money_moving_during_the_scan_is_not_a_fault(
    monkeypatch: pytest.MonkeyPatch,
    stack: Stack,
    settlement: Settlement,
    meanwhile: Callable[[Stack, Settlement], None],
    first: str,
    in_flight: int,
) -> None:
    every_row, is_first = pages.scan, FIRST[first]

    def scan(store: Store, part: Part) -> Iterator[Row]:
        yield from [row for row in every_row(store, part) if is_first(row)]
        meanwhile(stack, settlement)
        yield from [row for row in every_row(store, part) if not is_first(row)]

    monkeypatch.setattr(pages, "scan", scan)

    findings = table_scan.check(stack.store)

    assert (findings.faults, findings.unproven, findings.conserved) == ([], [], True)
    assert findings.in_flight == in_flight


ALICE, PAYMENT = keys.account("alice"), keys.settlement("order-2026-000101")


@pytest.mark.parametrize(
    ("key", "change"),
    [
        *((ALICE, lambda row, by=by: row | {"available": row["available"] + by}) for by in (1, -1)),
        (ALICE, lambda row: row | {"currency": "USD"}),
        (ALICE, lambda row: row | {"available": "much"}),
        *((PAYMENT, lambda row, by=by: row | {"escrow": row["escrow"] + by}) for by in (1, -1)),
        (PAYMENT, lambda row: row | {"hold_reversed_at": row["hold_at"]}),
        (PAYMENT, lambda row: row | {"hold_at": row["deadline_at"]}),
        (PAYMENT, lambda row: row | {"verdict": "REJECTED"}),
        (PAYMENT, lambda row: row | {"status": "DONE"}),
        (ALICE, None),
        (PAYMENT, None),
    ],
)
def test_a_permanently_wrong_or_deleted_row_is_a_fault(
    ledger: Ledger, stack: Stack, key: Row, change: Callable[[Row], Row] | None
) -> None:
    row = stack.store.read(key)
    assert row
    ledger.put(change(row)) if change else ledger.delete(key)

    findings = table_scan.check(stack.store)

    assert {fault.partition(":")[0] for fault in findings.faults} == {key["pk"]}
    assert (findings.unproven, findings.conserved) == ([], False)


def test_an_unexplained_entry_is_reread_by_its_own_key(ledger: Ledger, stack: Stack) -> None:
    """The settlement's row names only known entries, so reading those would miss this one."""
    hold = journal(ledger.rows(), "order-2026-000101")["hold"]
    again = keys.entry("alice", "2026-11-20T13:00:00.000Z", "order-2026-000101", "hold")
    ledger.put(hold | again | {"posted_at": "2026-11-20T13:00:00.000Z", "amount": 0})

    findings = table_scan.check(stack.store)

    assert {fault.partition(":")[0] for fault in findings.faults} == {PAYMENT["pk"]}
    assert (findings.in_flight, findings.unproven) == (0, [])


@pytest.mark.parametrize("key", [PAYMENT, ALICE], ids=["settlement", "account"])
def test_a_row_at_rest_needs_only_one_look(
    monkeypatch: pytest.MonkeyPatch, ledger: Ledger, stack: Stack, key: Row
) -> None:
    row, asked, read = stack.store.read(key), list[Row](), stack.store.read
    assert row
    changed = {"hold_at": row["claimed_at"][:-2] + "9Z"} if key == PAYMENT else {"available": 1}
    ledger.put(row | changed)

    def recorded(key: Row) -> Row | None:
        asked.append(key)
        return read(key)

    monkeypatch.setattr(stack.store, "read", recorded)

    assert not table_scan.check(stack.store).conserved

    proposed = keys.proposal("order-2026-000101")
    assert asked == ([key, proposed] * 2 if key == PAYMENT else [key] * 3)


def test_a_row_that_changes_at_every_look_is_unproven(
    monkeypatch: pytest.MonkeyPatch, ledger: Ledger, stack: Stack
) -> None:
    row = stack.store.read(ALICE)
    assert row
    ledger.put(row | {"available": row["available"] + 1})
    monkeypatch.setattr(second_look, "TRIES_MAX", 5)
    monkeypatch.setattr(stack.store, "entries", moving(stack.store, "alice"))

    findings = table_scan.check(stack.store)

    assert findings.faults == []
    assert [one.partition(":")[0] for one in findings.unproven] == ["ACCOUNT#alice"]
    assert not findings.conserved


PRIVATE = (
    *("payer_name", "payee_name", "reason", "by", "user_id", "request_id", "source_ip"),
    *("approved_by", "approved_in", "break_glass", "proposer", "proposed_by", "persons"),
    *("error", "cause", "token", "failure", "reversed_for", "reference", "metadata"),
)
"""Attributes that are read, but never kept or shown: personal data, free text, secrets."""


def test_the_proof_keeps_and_prints_no_name_reason_or_token(
    monkeypatch: pytest.MonkeyPatch, ledger: Ledger, stack: Stack
) -> None:
    """All rows here are faulty, because faults are printed."""
    row, kept = stack.store.read(PAYMENT), list[object]()
    assert row
    private = {name: f"private {name}" for name in PRIVATE}
    failure = {"step": "reverse", "error": private["error"], "cause": private["cause"]}
    ledger.put(row | {"status": "COMPENSATING", "payer_name": private["payer_name"], "failure": failure})
    ledger.put({**keys.waiting("order-2026-000101"), "case": 1, "key": "order-2026-000101"} | private)
    evidence = {"step": "reverse", "posted_at": row["hold_at"], "request_hash": row["request_hash"]}
    ledger.put({**keys.evidence("order-2026-000101", "reverse"), **evidence} | private)
    monkeypatch.setattr(Spool, "_add", lambda spool, facts: kept.append(facts))

    told = table_scan.proof(stack.store, {"EUR": 2})

    assert {name for one in table_scan.rows(stack.store) for name in one} >= {"payer_name", "reason"}
    assert told["faults"]
    assert "private" not in f"{kept} {told}"
    assert private["payer_name"] in str(list(table_scan.rows(stack.store)))
