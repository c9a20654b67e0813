import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any

import pytest

from handlers.kyc import _provider as _kyc
from handlers.proof import reconcile_books
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import InReview, StoreUnavailable
from settlement.core.store.dynamodb import Store
from settlement.proof import Look, pages, second_look, table_scan, watch
from settlement.proof.spool import Spool
from tests.handlers.conftest import Calls
from tests.proof.moving import moving
from tests.world.constants import CLAIMED_AT, KEY, WIRE
from tests.world.environment import NOW
from tests.world.functions import FORWARD, Context
from tests.world.ledger import ROW_KEYS, Ledger, signing
from tests.world.openings import opening
from tests.world.provider import IN_REVIEW

pytestmark = pytest.mark.server

ALICE, PAYMENT = keys.account("alice"), keys.settlement(KEY)


@pytest.fixture
def ledger(ledger: Ledger) -> Ledger:
    return signing(ledger)


@pytest.fixture
def settled(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Books with one settlement, on a table that answers at once."""
    monkeypatch.setattr(second_look, "_PAUSE_SECONDS", 0)
    monkeypatch.setattr(pages, "wait_for_capacity", lambda tries: None)
    for name, available in (("alice", 10_000), ("bob", 500)):
        calls.ledger.store.transact(opening(name, available, "EUR", NOW))
    for state in FORWARD:
        calls(state, claimed_at=CLAIMED_AT)
    return calls


def run(left_ms: Iterator[int] | None = None) -> dict[str, Any]:
    answer: dict[str, Any] = reconcile_books.handler({}, Context(left_ms or repeat(900_000)))
    return answer


def metrics(faults: int, unproven: int, rows: int, ahead: int = 0) -> dict[str, float]:
    return {
        "StepCalled": 1,
        "ReconcileFaults": faults,
        "ReconcileUnproven": unproven,
        "ReconciledRows": rows,
        "ListedAhead": ahead,
    }


def test_a_run_on_sound_books_publishes_every_row_as_proven(settled: Calls) -> None:
    settled.counted()
    rows = settled.ledger.rows()

    with settled.writes_nothing():
        answer = run()

    found = {"in_flight": 0, "faults": [], "unproven": [], "ahead": []}
    assert answer == {"conserved": True, "rows": len(rows), **found}
    assert settled.counted() == metrics(0, 0, len(rows))


@pytest.mark.parametrize(
    ("minutes", "in_review", "is_ahead"), [(60, False, False), (61, False, True), (61, True, False)]
)
def test_a_settlement_from_a_fast_clock_is_not_a_fault(
    settled: Calls,
    log: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
    minutes: int,
    in_review: bool,
    is_ahead: bool,
) -> None:
    """A host's clock was ahead when its function claimed the key."""
    monkeypatch.setattr(table_scan, "datetime", SimpleNamespace(now=lambda _: NOW))
    settled.later(minutes=minutes, seconds=-30)  # recovery's first look comes half a minute later
    request = WIRE | {"key": "order-2026-000102", "amount": "1.00", "fee": "0.00"}
    settled("HoldFunds", request, execution="execution-2")
    if in_review:
        monkeypatch.setattr(_kyc, "ask", lambda settlement, context: IN_REVIEW)
        with pytest.raises(InReview):
            settled("VerifyKyc", request)
    settled.counted()
    log.truncate(0)

    answer = run()

    assert answer["conserved"]
    named = [told.partition(": ")[0] for told in answer["ahead"]]
    assert named == [f"SETTLEMENT#{request['key']}"] * is_ahead
    assert settled.counted() == metrics(0, 0, answer["rows"], ahead=is_ahead)
    lines = [json.loads(text) for text in log.getvalue().replace("\0", "").splitlines()]
    assert [(line["message"], line["key"]) for line in lines] == [("listed ahead", request["key"])] * is_ahead


def test_two_runs_give_the_same_result(settled: Calls) -> None:
    assert run() == run()


def test_a_fault_is_counted_returned_and_logged_by_row_kind(settled: Calls, log: io.StringIO) -> None:
    settled.counted()
    row = settled.ledger.row(ALICE)
    assert row
    settled.ledger.put(row | {"available": row["available"] + 1})

    answer = run()

    (line,) = (json.loads(text) for text in log.getvalue().splitlines())
    assert (line["level"], line["message"], line["kind"]) == ("ERROR", "reconcile fault", "ACCOUNT")
    assert str(row["available"] + 1) not in json.dumps(line), "no amount is logged"
    assert [fault.partition(":")[0] for fault in answer["faults"]] == ["ACCOUNT#alice"]
    assert (answer["conserved"], answer["unproven"]) == (False, [])
    assert settled.counted() == metrics(1, 0, answer["rows"])


SHOP = "merchant.of.alice"
EVIDENCE = keys.evidence(KEY, "verify")


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (PAYMENT, {"kind": "SETTLEMENT", "key": KEY}),
        (keys.settlement("alice"), {"kind": "SETTLEMENT"}),
        (keys.payout(KEY), {"kind": "PAYOUT", "key": KEY}),
        (keys.payout_day("alice", "2026-11-20"), {"kind": "PAYOUT_DAY"}),
        (ALICE, {"kind": "ACCOUNT"}),
        (keys.entry("alice", CLAIMED_AT, KEY, "hold"), {"kind": "ENTRIES"}),
        (keys.entry(SHOP, CLAIMED_AT, KEY, "release"), {"kind": "ENTRIES"}),
        (keys.swept(keys.entry_partitions(SHOP)[3], "2026-11-20T12:00"), {"kind": "SWEPT"}),
        (keys.order("order-of-alice-00001"), {"kind": "ORDER"}),
        (EVIDENCE, {"kind": "EVIDENCE"}),
        ({"pk": "LOAN#alice", "sk": "alice"}, {"kind": "LOAN"}),
    ],
    ids=lambda one: one.get("pk"),
)
def test_a_log_line_names_only_the_rows_kind_and_key(
    settled: Calls, log: io.StringIO, row: Row, told: dict[str, str]
) -> None:
    """Other row names can contain accounts, so logs leave them out."""
    settled.ledger.put(row | {"status": "NONSENSE", "payer": "alice"})

    answer = run()

    assert any(one.startswith(f"{row['pk']}: ") for one in answer["faults"] + answer["unproven"])
    lines = [json.loads(text) for text in log.getvalue().splitlines()]
    named = [{name: line[name] for name in ("kind", "key") if name in line} for line in lines]
    assert told in named
    assert all(one.get("key", KEY) == KEY for one in named)
    assert "alice" not in log.getvalue()


def test_many_faults_are_all_counted_but_only_some_logged(
    settled: Calls, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled.counted()
    monkeypatch.setattr(reconcile_books, "LINES_MAX", 3)
    for number in range(5):
        settled.ledger.put({**keys.settlement(f"order-bad-{number:06}"), "status": "NONSENSE"})

    answer = run()

    assert (len(answer["faults"]), len(log.getvalue().splitlines())) == (3, 3)
    assert settled.counted()["ReconcileFaults"] == 5


def test_a_run_without_time_is_unproven_and_names_no_fault(
    settled: Calls, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Judged by half of its entries, each settlement would be a fault."""
    settled.counted()
    monkeypatch.setattr(watch, "STRIDE", 3)
    enough, too_little = reconcile_books.RESERVED_MS, reconcile_books.RESERVED_MS - 1

    answer = run(chain([enough, enough], repeat(too_little)))

    why = "no time is left while reading rows, after 6"
    told = f"the table: cut off after 6 rows: {why}"
    found = {"in_flight": 0, "faults": [], "unproven": [told], "ahead": []}
    assert answer == {"conserved": False, "rows": 6, **found}
    assert settled.counted() == metrics(0, 1, 6)
    unproven, cut_off = (json.loads(text) for text in log.getvalue().splitlines())
    assert (unproven["kind"], cut_off["message"], cut_off["why"]) == ("the table", "reconcile cut off", why)


def test_a_run_cut_off_while_judging_is_unproven(settled: Calls) -> None:
    settled.counted()
    enough, too_little = reconcile_books.RESERVED_MS, reconcile_books.RESERVED_MS - 1

    answer = run(chain([enough] * 3, repeat(too_little)))

    (told,) = answer["unproven"]
    assert told.endswith("no time is left while judging settlements and accounts, after 1")
    assert (answer["conserved"], answer["faults"]) == (False, [])


@pytest.mark.parametrize("call_ms", [1_000, 5_000, 20_000])
def test_a_hot_account_is_unproven_without_delaying_the_others(
    settled: Calls, call_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The account's statement changes at each read. If Lambda ended the run, it would report nothing."""
    settled.counted()
    _differ(settled)
    store, clock = settled.ledger.store, Clock(900_000, call_ms, monkeypatch)
    monkeypatch.setattr(store, "entries", moving(store, "alice"))

    answer = run(iter(lambda: clock.left_ms, None))

    assert clock.left_ms >= 900_000 / 2, "it gets a share of the time"
    assert {fault.partition(":")[0] for fault in answer["faults"]} == {PAYMENT["pk"]}
    (told,) = answer["unproven"]
    assert told.startswith("ACCOUNT#alice: its second look was cut off: it takes too long, looking again")
    assert not answer["conserved"]
    assert settled.counted() == metrics(len(answer["faults"]), 1, answer["rows"])


def test_a_run_without_time_for_second_looks_keeps_its_faults(
    settled: Calls, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled.counted()
    _differ(settled)
    clock = Clock(900_000, 0, monkeypatch)
    look_again = second_look.look_again

    def late(*given: Any) -> Look:
        if keys.is_account(given[1].key):
            clock.left_ms = reconcile_books.RESERVED_MS - 1
        return look_again(*given)

    monkeypatch.setattr(table_scan, "look_again", late)

    answer = run(iter(lambda: clock.left_ms, None))

    assert {fault.partition(":")[0] for fault in answer["faults"]} == {PAYMENT["pk"]}
    assert [told.partition(":")[0] for told in answer["unproven"]] == ["ACCOUNT#alice", "the table"]
    assert not answer["conserved"]
    assert settled.counted() == metrics(len(answer["faults"]), 2, answer["rows"])
    why = json.loads(log.getvalue().splitlines()[-1])["why"]
    assert why == "no time is left while looking again at a row of kind ACCOUNT, after 0"


class Clock:
    """A run's remaining time, reduced by each DynamoDB call."""

    def __init__(self, left_ms: int, call_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left_ms, send = left_ms, Store._call

        def slow(store: Store, *given: Any, **parameters: Any) -> Any:
            self.left_ms -= call_ms
            return send(store, *given, **parameters)

        monkeypatch.setattr(Store, "_call", slow)


def _differ(settled: Calls) -> None:
    """Give a settlement a fault, and an account a wrong balance."""
    row = settled.ledger.row(ALICE)
    assert row
    settled.ledger.put(row | {"available": row["available"] + 1})
    settled.alter(escrow=5)


@pytest.mark.parametrize("after", [0, 1, 2, 5])
def test_a_table_that_stops_answering_after_some_pages_is_unproven(
    settled: Calls, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    settled.counted()
    answered, page = 0, Store.page

    def throttled(store: Store, operation: str, **parameters: Any) -> Any:
        nonlocal answered
        answered += 1
        if answered > after:
            raise StoreUnavailable("DynamoDB: ThrottlingException")
        return page(store, operation, **parameters)

    monkeypatch.setattr(Store, "page", throttled)
    monkeypatch.setattr(pages, "PAGE_ROWS", 1)

    answer = run()

    (told,) = answer["unproven"]
    assert told == f"the table: cut off after {answer['rows']} rows: DynamoDB: ThrottlingException"
    assert (answer["conserved"], answer["faults"]) == (False, [])
    assert settled.counted() == metrics(0, 1, answer["rows"])


def test_a_page_throttled_a_few_times_is_finally_read(
    settled: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, page = pages.TRIES_MAX - 1, Store.page

    def throttled(store: Store, operation: str, **parameters: Any) -> Any:
        nonlocal left
        if parameters.get("Segment") == 0 and left:
            left -= 1
            raise StoreUnavailable("DynamoDB: ThrottlingException")
        return page(store, operation, **parameters)

    monkeypatch.setattr(Store, "page", throttled)

    answer = run()

    assert left == 0
    assert (answer["conserved"], answer["rows"]) == (True, len(settled.ledger.rows()))


def test_an_unanswered_second_look_leaves_the_table_unproven(settled: Calls) -> None:
    row = settled.ledger.row(ALICE)
    assert row
    settled.ledger.put(row | {"available": row["available"] + 1})

    with settled.fails("read", StoreUnavailable("DynamoDB: ConnectTimeoutError")):
        answer = run()

    assert (answer["conserved"], answer["faults"]) == (False, [])
    assert answer["unproven"][0].endswith("DynamoDB: ConnectTimeoutError")


def test_a_full_disk_leaves_the_table_unproven(settled: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    class Small(Spool):
        def __init__(self) -> None:
            super().__init__()
            self._database.execute("PRAGMA max_page_count = 1")

    monkeypatch.setattr("settlement.proof.proof.Spool", Small)
    verified = settled.ledger.row(keys.evidence(KEY, "verify"))
    assert verified
    for number in range(2_000):
        row = verified | keys.evidence(f"order-full-{number:06}", "verify")
        settled.ledger.put(ROW_KEYS.signed(row))

    answer = run()

    (told,) = answer["unproven"]
    assert told.startswith("the table: cut off after ")
    assert told.endswith("the spool in TMPDIR: database or disk is full")
    assert (answer["conserved"], answer["faults"]) == (False, [])


def test_an_unknown_row_is_unproven_and_an_unknown_attribute_ignored(settled: Calls) -> None:
    settled.counted()
    settled.alter(colour="blue")
    settled.ledger.put({"pk": "LOAN#1", "sk": "LOAN", "amount": 5, "currency": "EUR"})

    answer = run()

    assert [told.partition(":")[0] for told in answer["unproven"]] == ["LOAN#1"]
    assert (answer["conserved"], answer["faults"]) == (False, [])
    assert settled.counted() == metrics(0, 1, answer["rows"])


@pytest.mark.parametrize("row", [ALICE, PAYMENT, keys.entry("alice", CLAIMED_AT, KEY, "hold")])
def test_a_row_scanned_twice_leaves_the_table_unproven(
    settled: Calls, monkeypatch: pytest.MonkeyPatch, row: Row
) -> None:
    """Segments may overlap or a page repeat. Then no row is at fault, but the sums are wrong."""
    page = Store.page

    def twice(store: Store, operation: str, **parameters: Any) -> Any:
        answer = page(store, operation, **parameters)
        again = [one for one in answer["Items"] if (one["pk"], one["sk"]) == (row["pk"], row["sk"])]
        return answer | {"Items": answer["Items"] + again * (operation == "scan")}

    monkeypatch.setattr(Store, "page", twice)

    answer = run()

    (told,) = answer["unproven"]
    assert told.endswith(" twice")
    assert (answer["conserved"], answer["faults"]) == (False, [])


def test_an_unforeseen_failure_is_raised_so_that_lambda_counts_it(
    settled: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    settled.counted()

    def broken(*_: Any, **__: Any) -> None:
        raise sqlite3.InterfaceError("a bug")

    monkeypatch.setattr(Store, "page", broken)

    with pytest.raises(sqlite3.InterfaceError):
        run()

    assert settled.counted() == {"StepCalled": 1, "FunctionFailed": 1}


def test_many_hot_accounts_leave_half_the_time_to_the_others() -> None:
    left = 600_000
    watch_of = table_scan.until(60_000, lambda: left)
    phase = watch.looking_again("ACCOUNT")

    for _ in range(50):
        left -= 100  # another row is judged
        with suppress(watch.TooLong):
            for done in range(1_000):
                watch_of(phase, done)
                left -= 1_000

    assert left > 270_000
