"""A deployed stage records a bank's file from its bucket, and does not need the file afterwards."""

import json
from datetime import UTC, datetime

import pytest

from settle.accounts.accounts import give
from settle.bank import comparison
from settlement.accounts.order import OrderKind
from settlement.bank.statement import Side
from tests.e2e.embedded import Embedded, embedded_aws, new_account, new_key
from tests.world.bank_files import camt, line

pytestmark = pytest.mark.long


def test_a_bank_file_put_in_the_bucket_is_recorded() -> None:
    day = datetime.now(UTC).date().isoformat()
    with embedded_aws() as embedded:
        embedded.up()
        stack, dora = embedded.stack, new_account(embedded, "dora")
        moved = {"account": dora, "amount": "48.20", "currency": "EUR", "reference": "INV-7"}
        give(stack, OrderKind.DEPOSIT, key=new_key("deposit"), reason="paid", **moved)
        lines = [
            line("48.20", Side.IN, end_to_end="inv-7", bank_reference="B-1"),
            line("1.00", Side.IN, end_to_end="unknown", bank_reference="B-2"),
        ]
        files = {"day.xml": camt(lines, day=day, opening="0.00"), "wrong.xml": b"%PDF-1.7"}
        bucket, s3 = stack.outputs["StatementsBucket"], stack.client("s3")
        for name, content in files.items():
            s3.put_object(Bucket=bucket, Key=f"incoming/{name}", Body=content)

        told = read(embedded)

        assert told == {"files": 1, "refused": 1, "lines": 2, "matched": 1, "faults": 1, "missing": 0}
        left = s3.list_objects_v2(Bucket=bucket)["Contents"]
        assert [one["Key"] for one in left] == ["incoming/wrong.xml"]
        kept = s3.list_objects_v2(Bucket=stack.outputs["JournalBucket"], Prefix="statements/")
        assert len(kept["Contents"]) == 1
        wanted = comparison.wanted(stack, 3, None, None, "EUR", with_pairs=True)
        (pair,) = comparison.on_record(stack, day, wanted)["pairs"]
        assert (pair["line"]["bank_reference"], pair["order"]["account"]) == ("B-1", dora)
        assert embedded.conserved()


def read(embedded: Embedded) -> dict[str, int]:
    name = embedded.functions["ReadStatements"]
    answer = embedded.stack.client("lambda").invoke(FunctionName=name, Payload=b"{}")
    found: dict[str, int] = json.loads(answer["Payload"].read())
    return found
