import gzip
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from settle.settlements.machines import Machine
from settle.settlements.start import start
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.store.wire import to_wire
from settlement.journal.copy import Bucket
from settlement.proof import journal as journals
from settlement.proof import sealed, sealed_copy, sealed_freezes, table_scan
from tests.e2e.embedded import Embedded, new_account, new_request
from tests.e2e.test_iam import acting_as, outcome_of

pytestmark = pytest.mark.long


def compared(embedded: Embedded, *more: str) -> dict[str, Any]:
    embedded.invoke("SealJournal", None)
    finished = embedded.settle("reconcile", "--against", "stack", "--json", *more)
    found: dict[str, Any] = json.loads(finished.stdout)["sealed_journal"]
    assert finished.returncode == (0 if found["agrees"] else 1)
    return found


def about(found: dict[str, Any], names: set[str]) -> list[str]:
    """Return only the faults of the named rows, because other tests leave faults of their own."""
    return [fault for fault in found["faults"] if fault.partition(": ")[0] in names]


def sealed_rows(embedded: Embedded) -> set[str]:
    s3, bucket = embedded.stack.client("s3"), embedded.stack.outputs["JournalBucket"]
    found = set()
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="journal/"):
        for one in page.get("Contents", ()):
            body = s3.get_object(Bucket=bucket, Key=one["Key"])["Body"].read()
            for line in gzip.decompress(body).splitlines():
                told = json.loads(line)
                row = told["new" if "new" in told else "old"]["row"]
                found.add(f"{told['event']} {row['pk']} {row['sk']}")
    return found


def delete(embedded: Embedded, row: Row) -> None:
    embedded.dynamodb.delete_item(
        TableName=embedded.stack.outputs["TableName"],
        Key={name: {"S": row[name]} for name in ("pk", "sk")},
    )


def add(embedded: Embedded, account: str, amount: int) -> None:
    embedded.dynamodb.update_item(
        TableName=embedded.stack.outputs["TableName"],
        Key={name: {"S": text} for name, text in keys.account(account).items()},
        UpdateExpression="SET available = available + :amount",
        ExpressionAttributeValues={":amount": {"N": str(amount)}},
    )


def test_the_comparison_names_a_completely_deleted_settlement(embedded: Embedded) -> None:
    """All its rows are deleted and the balances restored, so the remaining rows agree with each other."""
    payer, payee = new_account(embedded, "alice", "100.00"), new_account(embedded, "bob")
    request = new_request(embedded, payer=payer, payee=payee)
    start(embedded.stack, Machine.STANDARD, json.dumps(request))
    row = embedded.stack.store.read(keys.settlement(request["key"]))
    assert row
    assert row["status"] == "SETTLED"
    journal = journals.read(embedded.stack.store, row)
    names = {f"{one['pk']} {one['sk']}" for one in (row, *journal.entries, *journal.evidence)}
    embedded.wait_for(lambda: {f"INSERT {name}" for name in names} <= sealed_rows(embedded))
    embedded.wait_for(lambda: compared(embedded)["seals"] > 0)
    before = compared(embedded)
    assert about(before, names) == []

    for one in (row, *journal.entries, *journal.evidence):
        delete(embedded, one)
    add(embedded, payer, row["amount"])
    add(embedded, payee, row["fee"] - row["amount"])

    assert table_scan.check(embedded.stack.store).conserved, "the rows alone show nothing"
    embedded.wait_for(lambda: {f"REMOVE {name}" for name in names} <= sealed_rows(embedded))
    found = compared(embedded, "--head", before["head"])
    faults = about(found, names)
    assert {fault.partition(": ")[0] for fault in faults} == names
    assert all("is in the sealed journal, and not in the table (REMOVE at " in fault for fault in faults)
    assert not any("no seal has the digest" in fault for fault in found["faults"])
    shown = embedded.settle("reconcile", "--against", "stack")
    assert shown.returncode == 1
    assert f"TAMPERED SETTLEMENT#{request['key']} SETTLEMENT: " in shown.stdout
    for one in (row, *journal.entries, *journal.evidence):
        embedded.stack.store.client.put_item(TableName=embedded.stack.outputs["TableName"], Item=to_wire(one))
    add(embedded, payer, -row["amount"])
    add(embedded, payee, row["amount"] - row["fee"])
    restored = compared(embedded)
    assert about(restored, names) == []
    assert {told.partition(": ")[0] for told in restored["restored"]} >= names


def update(embedded: Embedded, key: str, expression: str, **values: dict[str, str]) -> None:
    update_row(
        embedded,
        keys.settlement(key),
        UpdateExpression=expression,
        ExpressionAttributeNames={"#status": "status"},
        ExpressionAttributeValues={f":{name}": value for name, value in values.items()},
    )


def update_row(embedded: Embedded, row: Row, **change: Any) -> None:
    embedded.dynamodb.update_item(
        TableName=embedded.stack.outputs["TableName"],
        Key={name: {"S": row[name]} for name in ("pk", "sk")},
        **change,
    )


def test_the_comparison_names_a_rejected_payment_that_was_forged_payable(embedded: Embedded) -> None:
    """After one update of its status the functions pay it, and the rows' history looks lawful."""
    payer, payee = new_account(embedded, "alice"), new_account(embedded, "bob")
    request = new_request(embedded, payer=payer, payee=payee)
    key = request["key"]
    name = f"SETTLEMENT#{key} SETTLEMENT"
    start(embedded.stack, Machine.STANDARD, json.dumps(request))
    refused = embedded.settlement(key)
    assert refused["status"] == "REJECTED"
    reason = ("--currency", "EUR", "--reference", "bank-1", "--reason", "as agreed")
    embedded.told("account", "deposit", payer, "100.00", *reason)

    update(
        embedded,
        key,
        "SET #status = :status, gsi1pk = :list, gsi1sk = :at, deadline_at = :end REMOVE failure, finished_at",
        status={"S": "PROCESSING"},
        list={"S": keys.in_flight_index(key, "")["gsi1pk"]},
        at={"S": refused["claimed_at"]},
        end={"S": "2999-01-01T00:00:00.000Z"},
    )
    assert embedded.recover(key)["action"] == "settle"
    embedded.wait_for(lambda: embedded.settlement(key)["status"] == "SETTLED")

    assert table_scan.check(embedded.stack.store).conserved, "the rows alone show nothing"
    embedded.wait_for(lambda: f"MODIFY {name}" in sealed_rows(embedded))
    embedded.wait_for(lambda: compared(embedded)["seals"] > 0)
    (fault,) = about(compared(embedded), {name})
    assert fault.startswith(f"{name}: left REJECTED, as no function does, and is SETTLED (MODIFY at ")


def test_the_comparison_names_a_payment_by_a_frozen_account(
    embedded: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The freeze is removed from the row, and put back after the hold, so the rows agree."""
    payer, payee = new_account(embedded, "alice", "100.00"), new_account(embedded, "bob")
    embedded.told("account", "freeze", payer, "--reason", "a court order")
    frozen = embedded.stack.store.read(keys.account(payer))
    assert frozen
    time.sleep(sealed_freezes.APART_SECONDS + 1)

    update_row(embedded, frozen, UpdateExpression="REMOVE frozen_at")
    request = new_request(embedded, payer=payer, payee=payee)
    start(embedded.stack, Machine.STANDARD, json.dumps(request))
    at = {":at": {"S": frozen["frozen_at"]}}
    update_row(embedded, frozen, UpdateExpression="SET frozen_at = :at", ExpressionAttributeValues=at)

    assert table_scan.check(embedded.stack.store).conserved, "the rows alone show nothing"
    hold_at = embedded.settlement(request["key"])["hold_at"]
    name = " ".join(keys.entry(payer, hold_at, request["key"], "hold").values())
    embedded.wait_for(lambda: f"INSERT {name}" in sealed_rows(embedded))
    embedded.wait_for(lambda: compared(embedded)["seals"] > 0)
    monkeypatch.setattr(sealed, "LAG", timedelta(hours=-1))  # else it is judged in a quarter of an hour
    copy = Bucket(embedded.stack.client("s3"), embedded.stack.outputs["JournalBucket"])
    found = sealed_copy.compare(embedded.stack.store, copy, datetime.now(UTC))
    assert f"{name}: was put after an order to freeze the account" in found.faults


def test_the_comparison_reports_a_status_that_was_removed_and_restored(embedded: Embedded) -> None:
    request = new_request(embedded, payer=new_account(embedded, "alice"))
    name = f"SETTLEMENT#{request['key']} SETTLEMENT"
    start(embedded.stack, Machine.STANDARD, json.dumps(request))

    for status in ({"N": "1"}, {"S": "REJECTED"}):
        update(embedded, request["key"], "SET #status = :status", status=status)

    embedded.wait_for(lambda: f"MODIFY {name}" in sealed_rows(embedded))
    embedded.wait_for(lambda: compared(embedded)["seals"] > 0)
    found = compared(embedded)
    assert about(found, {name}) == []
    assert name in {told.partition(": ")[0] for told in found["restored"]}


def test_the_functions_that_move_money_cannot_reach_the_journal(embedded: Embedded) -> None:
    bucket = embedded.stack.outputs["JournalBucket"]
    calls: dict[str, dict[str, Any]] = {
        "put_object": {"Key": "journal/2026-11-22T0000/forged.jsonl.gz", "Body": b""},
        "get_object": {"Key": "seals/none.json"},
        "delete_object": {"Key": "journal/none"},
        "list_objects_v2": {},
    }

    for function in ("HoldFunds", "ReleaseFunds", "ResolveLimbo", "RecoverStalled", "SweepMerchants"):
        client = acting_as(embedded, function, "s3")
        ended = {
            name: outcome_of(getattr(client, name), Bucket=bucket, **more) for name, more in calls.items()
        }
        assert set(ended.values()) == {"AccessDenied"}, (function, ended)


def test_the_journals_function_may_only_put_objects_and_read_seals(embedded: Embedded) -> None:
    client, bucket = acting_as(embedded, "SealJournal", "s3"), embedded.stack.outputs["JournalBucket"]

    ended = {
        "elsewhere": outcome_of(client.put_object, Bucket=bucket, Key="elsewhere", Body=b""),
        "object": outcome_of(client.get_object, Bucket=bucket, Key="journal/none"),
        "delete": outcome_of(client.delete_object, Bucket=bucket, Key="journal/none"),
        "seal": outcome_of(client.get_object, Bucket=bucket, Key="seals/none.json"),
        "list": outcome_of(client.list_objects_v2, Bucket=bucket, Prefix="seals/"),
    }

    denied = dict.fromkeys(("elsewhere", "object", "delete"), "AccessDenied")
    assert ended == denied | {"seal": "NoSuchKey", "list": "done"}
