"""The calls that leave a process for DynamoDB, and their capacity units."""

from dataclasses import dataclass, field
from typing import Any

from botocore.session import Session

_WRITES = {"PutItem": 1, "UpdateItem": 1, "DeleteItem": 1}
"""Write units of a row of up to 1 KB, by AWS's published rule. A transaction doubles them."""


@dataclass(frozen=True)
class Call:
    """An answered call. `units` is the engine's report, `by_rule` the result of AWS's published rule."""

    operation: str
    units: float
    by_rule: float

    @property
    def is_write(self) -> bool:
        """Whether the call writes."""
        return self.operation in _WRITES or self.operation == "TransactWriteItems"


@dataclass
class Wire:
    """The calls of all clients of the process."""

    calls: list[Call] = field(default_factory=list)
    sent: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def watch(self) -> None:
        """Watch each later client of any session."""
        create = Session.create_client

        def create_watched(session: Session, service: str, *args: Any, **options: Any) -> Any:
            client = create(session, service, *args, **options)
            client.meta.events.register("provide-client-params.dynamodb", self._ask)
            client.meta.events.register("after-call.dynamodb", self._answered)
            return client

        Session.create_client = create_watched

    def _ask(self, params: dict[str, Any], model: Any, context: dict[str, Any], **_: Any) -> None:
        params["ReturnConsumedCapacity"] = "INDEXES"
        context["rows"] = len(params.get("TransactItems", ()))
        self.sent.append((model.name, params))

    def _answered(
        self, parsed: dict[str, Any], model: Any, context: dict[str, Any], http_response: Any, **_: Any
    ) -> None:
        if http_response.status_code != 200:
            return
        consumed = parsed.get("ConsumedCapacity", [])
        tables = consumed if isinstance(consumed, list) else [consumed]
        units = sum(table["CapacityUnits"] for table in tables)
        indexes = [index for table in tables for index in table.get("GlobalSecondaryIndexes", {}).values()]
        of_index = sum(index["CapacityUnits"] for index in indexes)
        of_table = _WRITES.get(model.name) or 2 * context["rows"] or units
        self.calls.append(Call(model.name, units, of_table + of_index))
