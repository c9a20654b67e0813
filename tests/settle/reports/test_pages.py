import json
from decimal import Decimal
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given, settings
from hypothesis import strategies as st

from settlement.core.store.wire import from_wire, to_wire
from settlement.proof import pages
from tests.settle.desk import Desk
from tests.settle.wire import SECONDS_MAX

pytestmark = pytest.mark.server


def in_order(rows: Any) -> list[Any]:
    return sorted(rows, key=lambda row: (row["pk"], row["sk"]))


@pytest.mark.parametrize("page_rows", [1, 2, 1000])
def test_a_scan_reads_every_row_of_the_table_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, page_rows: int
) -> None:
    monkeypatch.setattr(pages, "PAGE_ROWS", page_rows)
    desk.stuck()

    assert in_order(pages.scan(desk.stack.store)) == desk.ledger.rows()


@pytest.mark.parametrize("page_rows", [1, 1000])
def test_a_query_reads_all_rows_of_its_partitions_in_order(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, page_rows: int
) -> None:
    monkeypatch.setattr(pages, "PAGE_ROWS", page_rows)
    desk.stuck()

    read = list(pages.query(desk.stack.store, "ENTRIES#bob", "ENTRIES#unopened", "ENTRIES#alice"))

    rows = desk.ledger.rows()
    of = {name: [row for row in rows if row["pk"] == f"ENTRIES#{name}"] for name in ("bob", "alice")}
    assert read == of["bob"] + of["alice"]
    assert len(of["bob"]) > 1


def test_reading_pages_does_not_change_the_clients_other_answers(desk: Desk) -> None:
    """In tests, unlike in a command, scans share the client."""
    list(pages.scan(desk.stack.store))
    rows = pages.query(desk.stack.store, "ENTRIES#alice")
    next(rows)
    rows.close()  # type: ignore[attr-defined]

    (item,) = desk.ledger.client.query(
        TableName=desk.ledger.table_name,
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": "ACCOUNT#alice"}},
    )["Items"]

    assert item["currency"] == {"S": "EUR"}


def test_the_segments_of_a_scan_are_read_in_parallel(desk: Desk) -> None:
    """Each answer waits until all are asked, so sequential reading would hang."""
    all_asked, timed_out = Barrier(pages.SEGMENTS), list[object]()

    def meet(**_: Any) -> None:
        try:
            all_asked.wait(SECONDS_MAX)
        except BrokenBarrierError as waited:
            timed_out.append(waited)

    rows = desk.ledger.rows()
    desk.ledger.client.meta.events.register_first("before-send.dynamodb.Scan", meet)

    assert in_order(pages.scan(desk.stack.store)) == rows
    assert timed_out == []


def test_an_error_of_a_segment_is_raised_unchanged(desk: Desk) -> None:
    with pytest.raises(ClientError, match="ValidationException"):
        list(pages.scan(desk.stack.store, FilterExpression="no expression"))


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
NUMBERS = st.integers(-(10**37), 10**37)
SIMPLE = st.one_of(TEXTS, NUMBERS, st.booleans(), st.sets(TEXTS, min_size=1, max_size=2))
VALUES = st.one_of(SIMPLE, st.dictionaries(TEXTS, SIMPLE, min_size=2, max_size=3))


@settings(max_examples=50)
@given(st.dictionaries(TEXTS, VALUES, min_size=2, max_size=4))
def test_rows_are_decoded_as_boto3_decodes_them(row: dict[str, Any]) -> None:
    wire = to_wire(row)

    read = pages._DECODER.decode(json.dumps({"Items": [wire], "Count": 1}))

    assert read == {"Items": [from_wire(wire)], "Count": 1}


@pytest.mark.parametrize(
    ("wire", "read"),
    [
        ({"N": "1.50"}, Decimal("1.5")),
        ({"N": "1E+3"}, 1000),
        ({"NULL": True}, {"NULL": True}),
        ({"L": [{"S": "a"}]}, {"L": ["a"]}),
    ],
)
def test_an_unknown_type_of_value_is_kept_as_unusable(wire: Any, read: Any) -> None:
    assert pages._DECODER.decode(json.dumps({"pk": {"S": "a"}, "odd": wire})) == {"pk": "a", "odd": read}
