import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from settle.accounts import statement
from settle.journal import sealed
from settle.proof import books
from settle.settlements import settlement
from settle.settlements.machines import Machine
from settle.settlements.start import start
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.store.wire import to_wire
from settlement.proof import journal as journals
from settlement.proof import table_scan
from settlement.retention.expiry import EXPIRES
from tests.e2e.embedded import Embedded, new_account, new_request
from tests.e2e.journal.test_sealed_journal import delete, sealed_rows

pytestmark = pytest.mark.long

DAYS = 400
LATER = datetime.now(UTC) + timedelta(days=DAYS + 2)
EXPIRING = ("HoldFunds", "ReleaseFunds", "CollectFee", "RefundFee", "ReclaimFunds", "VoidHold")


class Clock:
    """Sets the commands' clock to a time long after the payment."""

    fromisoformat = staticmethod(datetime.fromisoformat)
    now = staticmethod(lambda zone: LATER)


@pytest.fixture
def stack(embedded: Embedded) -> Iterator[Stack]:
    """The stack, deployed with a retention until the test ends."""
    before = embedded.variable("HoldFunds", "STAGE_CONFIG")
    config = json.dumps(json.loads(before) | {"retention_days": DAYS, "shortest_retention_days": DAYS})
    for function in EXPIRING:
        embedded.renew(function, STAGE_CONFIG=config)
    yield replace(embedded.stack, outputs=embedded.stack.outputs | {"StageConfig": config})
    for function in EXPIRING:
        embedded.renew(function, STAGE_CONFIG=before)


def journal_of(embedded: Embedded, key: str) -> tuple[Row, list[Row]]:
    row = embedded.stack.store.read(keys.settlement(key))
    assert row
    return row, journals.read(embedded.stack.store, row).entries


def download(embedded: Embedded, place: Path) -> str:
    s3, bucket = embedded.stack.client("s3"), embedded.stack.outputs["JournalBucket"]
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for one in page.get("Contents", ()):
            file = place / one["Key"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(s3.get_object(Bucket=bucket, Key=one["Key"])["Body"].read())
    return str(place)


def keep_for_ever(embedded: Embedded, entries: list[Row]) -> None:
    """Put entries back without expiry, because for other tests the stage has no retention."""
    for entry in entries:
        row = {name: value for name, value in entry.items() if name != EXPIRES}
        embedded.dynamodb.put_item(
            TableName=embedded.stack.outputs["TableName"], Item=to_wire(embedded.stack.row_keys.signed(row))
        )


def is_proven(stack: Stack) -> bool:
    proof = books.prove(stack)
    return bool(proof["conserved"])


def test_a_payment_with_expired_entries_is_proven_replayed_and_reversed(
    embedded: Embedded, stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The embedded AWS has no time to live, so the test deletes the expired rows."""
    payer, payee = new_account(embedded, "alice", "100.00"), new_account(embedded, "bob")
    request = new_request(embedded, payer=payer, payee=payee)
    start(embedded.stack, Machine.STANDARD, json.dumps(request))
    row, entries = journal_of(embedded, request["key"])
    try:
        for entry in entries:
            posted = int(datetime.fromisoformat(entry["posted_at"]).timestamp())
            assert entry[EXPIRES] == posted + DAYS * 86_400
        names = {f"{one['pk']} {one['sk']}" for one in (row, *entries)}
        embedded.wait_for(lambda: {f"INSERT {name}" for name in names} <= sealed_rows(embedded))
        embedded.wait_for(lambda: embedded.invoke("SealJournal", None) == {} and _has_seal(embedded))
        archive = download(embedded, tmp_path)
        for module in (books, sealed, settlement, statement, table_scan):
            monkeypatch.setattr(module, "datetime", Clock)

        for entry in entries:
            delete(embedded, entry)

        assert is_proven(stack)
        found = sealed.compare(stack, archive, None)
        assert [fault for fault in found["faults"] if fault.partition(": ")[0] in names] == []
        assert found["expired"] == len(entries) == 3
        shown = statement.show(stack, payer, archive)
        assert [one["step"] for one in shown["entries"]] == ["deposit", "hold"]
        assert shown["entries"][-1]["sum"] == shown["available"] == embedded.available(payer)
        assert [one["step"] for one in settlement.describe(stack, request["key"])["entries"]] == [
            *("hold", "verify", "release", "fee")
        ]

        again: Any = start(embedded.stack, Machine.STANDARD, json.dumps(request)).outcome
        assert (again["status"], again["replayed"]) == ("SETTLED", True)
        assert embedded.told("reverse", request["key"], "--reason", "disputed")["status"] == "COMPENSATED"

        assert (embedded.available(payer), embedded.available(payee)) == ("100.00", "0.00")
        assert is_proven(stack)
        assert not table_scan.check(embedded.stack.store).conserved, "a stage without a retention misses them"
    finally:
        _, reversals = journal_of(embedded, request["key"])
        once = {(one["pk"], one["sk"]): one for one in (*entries, *reversals)}
        keep_for_ever(embedded, list(once.values()))
    assert embedded.conserved()


def _has_seal(embedded: Embedded) -> bool:
    s3, bucket = embedded.stack.client("s3"), embedded.stack.outputs["JournalBucket"]
    return bool(s3.list_objects_v2(Bucket=bucket, Prefix="seals/").get("KeyCount"))
