"""The circuit breaker around the KYC provider: Powertools' own, with the count of failures shared by all.

Powertools counts failures in each function environment for itself, so that a dead provider is called
about threshold times environments before the circuit opens. Here every counted failure is one write to
the circuit's row, and whoever makes it learns from the answer how things stand:

    environment A   fails: 1 ----------- fails: 3 = threshold -> OPEN
    environment B        fails: 2 ------------------- (asked before) fails: is told OPEN
    environment C                                          refused at once ----- probe -> CLOSED

Until it is open the provider sees `threshold` failing calls, and one more from each other environment
at most. A healthy call writes nothing, and reads the row once in `CACHE_SECONDS`.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from aws_lambda_powertools.utilities.circuit_breaker import (
    CircuitBreakerConfig,
    CircuitInfo,
    CircuitState,
    circuit_breaker,
)
from aws_lambda_powertools.utilities.circuit_breaker.persistence import CircuitBreakerDynamoDBPersistence
from aws_lambda_powertools.utilities.circuit_breaker.persistence.record import CircuitStateRecord
from boto3.dynamodb.types import TypeSerializer
from botocore.exceptions import BotoCoreError, ClientError

from settlement import rows
from settlement.errors import KycUnavailable
from settlement.kyc import Refused
from settlement.request import Settlement
from settlement.verdict import Verdict

CIRCUIT = "kyc"
CACHE_SECONDS = 5
"""How long an environment takes the circuit's state for granted."""

Announce = Callable[[CircuitState], None]
"""Told of the state of the circuit. It must not raise: what it is told of has happened."""

_CLOSED = "(attribute_not_exists(#state) OR #state = :closed)"
"""Nobody has opened the circuit."""

_RECENT = "(attribute_not_exists(failed_at) OR failed_at >= :remembered)"
"""The failure before this one is not so long ago that they have nothing to do with each other."""


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """When the circuit opens, and when it is tried again.

    It opens at `failures` in a row, each at most `within_seconds` after the one before; after
    `recovery_seconds` one call is let through as a probe.
    """

    failures: int
    within_seconds: int
    recovery_seconds: int


class SharedCircuit(CircuitBreakerDynamoDBPersistence):
    """The circuit's row in the settlement table, with a count of failures that all environments share."""

    def __init__(self, client: Any, table_name: str, thresholds: Thresholds, announce: Announce) -> None:
        super().__init__(
            table_name=table_name,
            key_attr="pk",
            sort_key_attr="sk",
            static_pk_value=rows.circuit_key(CIRCUIT)["pk"],
            expiry_attr="not_needed_after",  # which expires nothing: a circuit that is open must not vanish
            boto3_client=client,
        )
        self._thresholds, self._announce = thresholds, announce
        self._has_failed, self._owner = False, ""

    def save_open(self, name: str, failure_count: int, opened_at: int) -> None:
        """Count a failure, which Powertools calls this for; open the circuit where that makes too many."""
        self._has_failed = True
        counted = self._count(name, opened_at)
        if counted.state is CircuitState.CLOSED and counted.failure_count >= self._thresholds.failures:
            counted = self._open(name, opened_at)
        if counted.state is not CircuitState.CLOSED:
            self._save_to_cache(counted)

    def try_acquire_half_open(self, name: str, owner: str, opened_at: int) -> bool:
        """Become the one who probes, and tell of it."""
        try:
            acquired: bool = super().try_acquire_half_open(name, owner, opened_at)
        except (ClientError, BotoCoreError):
            return False  # no answer from DynamoDB is no leave to probe
        if acquired:
            self._owner = owner
            self._announce(CircuitState.HALF_OPEN)
        return acquired

    def save_reopen(self, name: str, opened_at: int) -> None:
        """The probe has failed."""
        super().save_reopen(name, opened_at)
        self._announce(CircuitState.OPEN)

    def save_closed(self, name: str) -> None:
        """The probe has succeeded."""
        super().save_closed(name)
        self._has_failed = False
        self._announce(CircuitState.CLOSED)

    def succeeded(self) -> None:
        """Forget the failures that this environment knows of, its own or others': they were not in a row."""
        known = self._retrieve_from_cache(CIRCUIT)
        if not (self._has_failed or (known and known.failure_count)):
            return
        self._has_failed = False
        # Only a closed circuit counts, and what it counts is forgotten after a while in any case.
        with suppress(_Refused, ClientError, BotoCoreError):
            self._save_to_cache(self._update("SET failure_count = :none", "#state = :closed", **{":none": 0}))

    def _count(self, name: str, now: int) -> CircuitStateRecord:
        """One more failure. Returns the circuit as that leaves it, or as it stands where it is not closed."""
        more = "SET #state = :closed, failed_at = :now, not_needed_after = :expires ADD failure_count :one"
        first = "SET #state = :closed, failed_at = :now, not_needed_after = :expires, failure_count = :one"
        values: dict[str, int | str] = {":now": now, ":expires": self._durable_ttl(name), ":one": 1}
        try:
            remembered = now - self._thresholds.within_seconds
            return self._update(more, f"{_CLOSED} AND {_RECENT}", **values | {":remembered": remembered})
        except _Refused as refused:
            if refused.stands.state is not CircuitState.CLOSED:
                return refused.stands
        try:
            return self._update(first, _CLOSED, **values)
        except _Refused as refused:
            return refused.stands

    def _open(self, name: str, now: int) -> CircuitStateRecord:
        """Open the circuit. Of several who count too many failures at once, one does and tells of it."""
        expires = self._durable_ttl(name)
        values: dict[str, int | str] = {":open": CircuitState.OPEN.value, ":now": now, ":expires": expires}
        try:
            opened = self._update(
                "SET #state = :open, opened_at = :now, not_needed_after = :expires", _CLOSED, **values
            )
        except _Refused as refused:
            return refused.stands
        self._announce(CircuitState.OPEN)
        return opened

    def _update(self, expression: str, condition: str, **values: int | str) -> CircuitStateRecord:
        values[":closed"] = CircuitState.CLOSED.value
        try:
            answer = self.client.update_item(
                TableName=self.table_name,
                Key=self._get_key(CIRCUIT),
                UpdateExpression=expression,
                ConditionExpression=condition,
                ExpressionAttributeNames={"#state": "state"},
                ExpressionAttributeValues={name: TypeSerializer().serialize(v) for name, v in values.items()},
                ReturnValues="ALL_NEW",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
            )
        except self.client.exceptions.ConditionalCheckFailedException as refused:
            item = refused.response.get("Item")
            closed = CircuitStateRecord(name=CIRCUIT, state=CircuitState.CLOSED)
            raise _Refused(self._item_to_record(item) if item else closed) from None
        return self._item_to_record(answer["Attributes"])

    def _build_update_query(self, record: CircuitStateRecord) -> dict[str, Any]:
        """As Powertools ends a probe, but not once another one has taken over."""
        query: dict[str, Any] = super()._build_update_query(record)
        query["ConditionExpression"] = "#half_open_owner = :owner"
        query["ExpressionAttributeValues"][":owner"] = self._s(self._owner)
        return query

    def _record_to_item(self, record: CircuitStateRecord) -> dict[str, Any]:
        """As Powertools puts it, and with the time of a probe for those who ask how things stand."""
        item: dict[str, Any] = super()._record_to_item(record)
        if record.probe_lease_expiry is not None:
            item["probed_at"] = self._n(record.probe_lease_expiry - self._thresholds.recovery_seconds)
        return item


class _Refused(Exception):
    """The circuit does not stand as the update has it; `stands` is how."""

    def __init__(self, stands: CircuitStateRecord) -> None:
        super().__init__()
        self.stands = stands


def guarded(
    ask: Callable[[Settlement, str], Verdict | Refused],
    circuit: SharedCircuit,
    thresholds: Thresholds,
    measure: Announce,
) -> Callable[[Settlement, str], Verdict | Refused]:
    """Put the circuit around `ask`. While it is open, `ask` is not called, and KycUnavailable is raised.

    `measure` is told of the state with each call that the circuit refuses, and with each that is answered.
    """

    def refuse(*_: Any, circuit: CircuitInfo) -> None:
        measure(circuit.state)
        raise KycUnavailable(f"kyc: not asked, as the circuit is {circuit.state}")

    @circuit_breaker(
        name=CIRCUIT,
        persistence_store=circuit,
        on_circuit_open=refuse,
        config=CircuitBreakerConfig(
            failure_threshold=1,  # each failure goes to save_open, where it is counted
            success_threshold=1,
            recovery_timeout=thresholds.recovery_seconds,
            handled_exceptions=KycUnavailable,
            local_cache_max_age=CACHE_SECONDS,
        ),
    )
    def ask_and_note(settlement: Settlement, api_key: str) -> Verdict | Refused:
        answer = ask(settlement, api_key)
        circuit.succeeded()
        measure(CircuitState.CLOSED)
        return answer

    return cast("Callable[[Settlement, str], Verdict | Refused]", ask_and_note)
