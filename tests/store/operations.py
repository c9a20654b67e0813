"""Random operations on rows in any state: our writes, with all or some of their conditions."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from settlement.core.ledger import keys as ledger_keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import Write
from settlement.core.store.dynamodb import Store
from tests.unit.conditions import clauses, without
from tests.unit.every_row import rows_met_by
from tests.unit.vectors import POSTERS, SETTLEMENT, YEN, named_writes, writes_of

_STORE = Store(client=None, table_name="")
_AVAILABLE = (0, 47, 48, 4771, 4772, 4819, 4820, 12_000, 99_995_228, 99_995_229, 100_000_000)


@dataclass(frozen=True)
class Operation:
    name: str
    parameters: Mapping[str, Any]


class Operations:
    """Endless, reproducible operations of a seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def __iter__(self) -> Iterator[Operation]:
        makers = {
            self._transaction: 22,
            self._own_write: 10,
            self._own_state: 12,
            self._own_listed: 3,
            self._read: 1,
            self._delete: 8,
        }
        while True:
            (make,) = self._random.choices(list(makers), list(makers.values()))
            yield make()

    def _transaction(self) -> Operation:
        if self._rarely(0.5):
            return _transact(self._weakened(self._random.choice(_transactions())))
        names = self._random.sample(sorted(_writes()), self._random.choice((1, 2, 3, 4)))
        return _transact(self._weakened([_writes()[name] for name in names]))

    def _own_write(self) -> Operation:
        (write,) = self._weakened([self._random.choice(list(_writes().values()))])
        return _alone(_parameters(write), self._random)

    def _weakened(self, writes: Sequence[Write]) -> list[Write]:
        """Drop random conditions from some of the writes, so that more of them commit."""
        if self._rarely(0.3):
            return list(writes)
        found = []
        for write in writes:
            asked = clauses(write)
            for clause in self._random.sample(asked, self._random.randrange(len(asked))):
                write = without(write, clause)  # noqa: PLW2901
            found.append(write)
        return found

    def _own_state(self) -> Operation:
        """Overwrite a settlement or account with a row in any state."""
        if self._rarely(0.6):
            row = self._random.choice(rows_met_by(self._random.choice(_claims())))
        else:
            party = self._random.choice((SETTLEMENT.payer, SETTLEMENT.payee, YEN.payer, YEN.payee))
            row = {**ledger_keys.account(party), "available": self._random.choice(_AVAILABLE)}
            row["currency"] = self._random.choice(("EUR", "EUR", "JPY"))
            limbo_cases = self._random.choice((None, 0, 1, 2))
            row |= {} if limbo_cases is None else {"limbo_cases": limbo_cases}
        put = Write("Put", {"Item": row}, lambda _: AssertionError())  # type: ignore[arg-type,return-value]
        return Operation("put_item", {"Item": _parameters(put)["Item"]})

    def _own_listed(self) -> Operation:
        partitions = [
            *(ledger_keys.in_flight_partition(shard) for shard in range(ledger_keys.IN_FLIGHT_SHARDS)),
            ledger_keys.LIMBO,
        ]
        return self._query(self._random.choice(partitions), ledger_keys.END_OF_TIME)

    def _query(self, partition: str, up_to: str) -> Operation:
        parameters = {
            "IndexName": ledger_keys.INDEX,
            "KeyConditionExpression": "gsi1pk = :partition AND gsi1sk <= :up_to",
            "ProjectionExpression": "pk, sk, gsi1sk",
            "ExpressionAttributeValues": {":partition": {"S": partition}, ":up_to": {"S": up_to}},
        }
        return Operation("query", {**parameters, "Limit": self._random.choice((1, 2, 3, 10))})

    def _read(self) -> Operation:
        return Operation("get_item", {"Key": self._key(), "ConsistentRead": True})

    def _rarely(self, share: float) -> bool:
        return self._random.random() < share

    def _delete(self) -> Operation:
        return Operation("delete_item", {"Key": self._key()})

    def _key(self) -> dict[str, Any]:
        return _key_of(_parameters(self._random.choice(list(_writes().values()))))


@cache
def _writes() -> dict[str, Write]:
    return named_writes()


@cache
def _transactions() -> list[tuple[Write, ...]]:
    return [writes_of(vector.build()) for vectors in POSTERS.values() for vector in vectors]


@cache
def _claims() -> list[Write]:
    keys = {settlement.key for settlement in (SETTLEMENT, YEN)}
    found = [write for write in _writes().values() if _row_of(write)["sk"] == "SETTLEMENT"]
    return [next(write for write in found if key in _row_of(write)["pk"]) for key in sorted(keys)]


def _row_of(write: Write) -> Row:
    row: Row = write.parameters.get("Key") or write.parameters["Item"]
    return row


def _parameters(write: Write) -> dict[str, Any]:
    parameters = _STORE._parameters(write)
    del parameters["TableName"]
    texts = f"{parameters.get('UpdateExpression')} {parameters.get('ConditionExpression')}"
    used = set(re.findall(r"[:#]\w+", texts))
    for placeholders in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        if placeholders in parameters:  # a removed condition leaves unused placeholders
            kept = {name: value for name, value in parameters[placeholders].items() if name in used}
            parameters |= {placeholders: kept}
            if not kept:
                del parameters[placeholders]
    return parameters


def _alone(parameters: dict[str, Any], random: Random) -> Operation:
    if "Item" in parameters:
        return Operation("put_item", parameters)
    asked = {"ReturnValues": "ALL_NEW"} if random.random() < 0.8 else {}
    return Operation("update_item", parameters | asked)


def _transact(writes: Sequence[Write]) -> Operation:
    return _transact_wire([_parameters(write) for write in writes])


def _transact_wire(writes: Sequence[dict[str, Any]]) -> Operation:
    apart = {str(_key_of(write)): write for write in writes}.values()
    items = [{"Put" if "Item" in write else "Update": write} for write in apart]
    return Operation("transact_write_items", {"TransactItems": items})


def _key_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    row = parameters.get("Key") or parameters["Item"]
    return {"pk": row["pk"], "sk": row["sk"]}
