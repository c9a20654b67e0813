"""The units of each layout: by AWS's rule, and as two engines report them."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.exceptions import ClientError

from benchmarks.layouts.histories import Execution, Layout, Machine, settle
from benchmarks.layouts.payment import Payment
from benchmarks.layouts.writes import Get, Refusal, Row, Table, Write, kinds, put, request, units, wire_row
from tests.world import engines

ENGINES = ("dynoxide", "dynamodb-local")
PAYMENT = Payment("order-2026-000101", "alice", "bob", 4820, 48)
OPENED_AT = "2026-11-20T11:00:00.000Z"


@dataclass
class Figures:
    """The figures of one scenario. `refused` is the most that AWS may charge for refused writes."""

    units: int = 0
    refused: int = 0
    reported: float = 0
    writes: int = 0
    reads: int = 0


class Measured:
    """A table in memory, and its twin on an engine that must refuse the same."""

    def __init__(self, client: Any, table_name: str) -> None:
        self._client = client
        self._table_name = table_name
        self._table = Table()
        self.figures = Figures()
        self.put_kinds: set[str] = set()
        self.updated_kinds: set[str] = set()
        self.entry_kinds: set[str] = set()

    def write(self, writes: Sequence[Write]) -> Row | Refusal | None:
        """Send the writes to both, count what they cost, and compare the answers."""
        before = [self._table.rows.get(write.key) for write in writes]
        answer = self._table.write(writes)
        self.figures.writes += 1
        in_transaction = len(writes) > 1
        if isinstance(answer, Refusal):
            self.figures.refused += len(writes) * (2 if in_transaction else 1)
        else:
            for write, old in zip(writes, before, strict=True):
                new = self._table.rows.get(write.key)
                self.figures.units += units(old, new, in_transaction=in_transaction)
            self._note(writes)
        refused_at = writes.index(answer.write) if isinstance(answer, Refusal) else None
        if self._send(writes) != refused_at:
            raise RuntimeError("the engine answers otherwise than the model")
        return answer

    def read(self, key: tuple[str, str]) -> Row | None:
        """Read from the model; a consistent read of a row costs one read unit."""
        self.figures.reads += 1
        return self._table.read(key)

    def _note(self, writes: Sequence[Write]) -> None:
        for write in writes:
            kind = kinds([write.key])
            if write.put is None:
                self.updated_kinds |= kind
            elif "debit" in write.put:
                self.entry_kinds |= kind
            self.put_kinds |= kind

    def _send(self, writes: Sequence[Write]) -> int | None:
        """Send the writes to the engine; return the refused one's position, or None."""
        operation, parameters = request(self._table_name, writes)
        try:
            answer = getattr(self._client, operation)(**parameters, ReturnConsumedCapacity="TOTAL")
        except ClientError as error:
            if error.response["Error"]["Code"] == "ConditionalCheckFailedException":
                return 0
            codes = [reason["Code"] for reason in error.response["CancellationReasons"]]
            return codes.index("ConditionalCheckFailed")
        consumed = answer["ConsumedCapacity"]
        tables = consumed if isinstance(consumed, list) else [consumed]
        self.figures.reported += sum(table["CapacityUnits"] for table in tables)
        return None

    def opened(self, layout: Layout, available: int) -> None:
        """Open the customers' accounts; this is not counted."""
        for account, amount in ((PAYMENT.payer, available), (PAYMENT.payee, 500)):
            balance = {"pk": f"ACCOUNT#{account}", "sk": "BALANCE", "available": amount, "currency": "EUR"}
            rows = [balance, layout.deposit(account, amount, OPENED_AT)]
            self._table.write([put(row) for row in rows])
            for row in rows:
                self._client.put_item(TableName=self._table_name, Item=wire_row(row))


@contextmanager
def table(client: Any) -> Iterator[Measured]:
    """Yield a fresh table with both indexes, in memory and on an engine."""
    name = f"t-{uuid.uuid4().hex}"
    keys = [f"{index}{part}" for index in ("", "gsi1", "gsi2") for part in ("pk", "sk")]

    def schema(prefix: str) -> list[dict[str, str]]:
        pairs = ((f"{prefix}pk", "HASH"), (f"{prefix}sk", "RANGE"))
        return [{"AttributeName": attribute, "KeyType": kind} for attribute, kind in pairs]

    client.create_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": each, "AttributeType": "S"} for each in keys],
        KeySchema=schema(""),
        GlobalSecondaryIndexes=[
            {"IndexName": index, "KeySchema": schema(index), "Projection": {"ProjectionType": "KEYS_ONLY"}}
            for index in ("gsi1", "gsi2")
        ],
        BillingMode="PAY_PER_REQUEST",
    )
    yield Measured(client, name)
    client.delete_table(TableName=name)


@contextmanager
def client(engine: str) -> Iterator[Any]:
    """Start an engine and yield its client."""
    with engines.server(engine) as endpoint_url:
        yield boto3.client(
            "dynamodb",
            endpoint_url=endpoint_url,
            region_name="eu-west-1",
            aws_access_key_id="none",
            aws_secret_access_key="none",  # noqa: S106
        )


def run(measured: Measured, machine: Machine) -> None:
    """Run a machine alone, each call at a later second."""
    execution = Execution(machine)
    second = 0
    while not execution.is_over:
        if execution.call is None:
            second += 1
            execution.start_call(f"2026-11-20T12:00:{second:02}.123Z")
        elif isinstance(execution.sends, Get):
            execution.answered(measured.read(execution.sends.key))
        else:
            execution.answered(measured.write(execution.sends))


def approve() -> str:
    """Answer as a provider that approves."""
    return "APPROVED"


def reject() -> str:
    """Answer as a provider that rejects."""
    return "REJECTED"


SCENARIOS: dict[str, tuple[int, Callable[[], str]]] = {
    "happy": (10_000, approve),
    "no funds": (0, approve),
    "KYC says no": (10_000, reject),
}
"""The payer's balance and the provider of each scenario."""


def measure(layout: Layout, scenario: str, client: Any) -> Measured:
    """Run a scenario on a fresh table."""
    available, provider = SCENARIOS[scenario]
    with table(client) as measured:
        measured.opened(layout, available)
        run(measured, settle(layout, PAYMENT, f"{PAYMENT.key}-settle-0", provider))
    return measured


def kyc_writes(layout: Layout) -> frozenset[str]:
    """Return the kinds of partitions that the function VerifyKyc writes in this layout."""
    rows = Table()
    call = layout.verify(PAYMENT, "2026-11-20T12:00:02.123Z", "2026-11-20T12:00:01.123Z", approve)
    written: list[tuple[str, str]] = []
    try:
        sends = next(call)
        while True:
            if isinstance(sends, Get):
                is_row = sends.key[1] == "SETTLEMENT"
                sends = call.send({"status": "PROCESSING"} if is_row else rows.read(sends.key))
            else:
                written += [write.key for write in sends if write.put is not None]
                sends = call.send(dict(sends[0].put or {}))
    except StopIteration:
        return kinds(written)
