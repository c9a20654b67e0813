"""The circuit breaker around the KYC provider: Powertools' own, with a shared count of failures.

Powertools counts failures in each function environment for itself, so that a dead provider is called
about threshold times environments before the circuit opens. Here every counted failure is one write to
the circuit's row, whose answer tells the environment the state of the circuit:

    environment A   fails: 1 ----------- fails: 3 = threshold -> OPEN
    environment B        fails: 2 ------------------- (asked before) fails: answer is OPEN
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

from settlement.adapters.kyc_client import Refused
from settlement.ledger import keys
from settlement.model.errors import KycCircuitOpen, KycUnavailable
from settlement.model.verdict import Verdict

CIRCUIT = "kyc"
CACHE_SECONDS = 5
"""How long an environment caches the circuit's state."""

Announce = Callable[[CircuitState], None]
"""Reports a state of the circuit. It must not raise: the change has happened already."""

_CLOSED = "(attribute_not_exists(#state) OR #state = :closed)"
"""The circuit is closed."""

_RECENT = "(attribute_not_exists(failed_at) OR failed_at >= :remembered)"
"""The previous failure is recent enough to count as one of the same series."""


@dataclass(frozen=True, kw_only=True)
class Thresholds:
    """When the circuit opens, and when it lets a probe through.

    It opens after `failures` in a row, each at most `within_seconds` after the one before; after
    `recovery_seconds` one call passes as a probe.
    """

    failures: int
    within_seconds: int
    recovery_seconds: int


class SharedCircuit(CircuitBreakerDynamoDBPersistence):
    """The circuit's row in the settlement table, with the count of failures of all environments."""

    def __init__(self, client: Any, table_name: str, thresholds: Thresholds, announce: Announce) -> None:
        super().__init__(
            table_name=table_name,
            key_attr="pk",
            sort_key_attr="sk",
            static_pk_value=keys.circuit(CIRCUIT)["pk"],
            expiry_attr="not_needed_after",  # no TTL reads it: an open circuit must not vanish
            boto3_client=client,
        )
        self._thresholds, self._announce = thresholds, announce
        self._has_failed, self._owner = False, ""
        self.has_met_probe = False
        """Whether the latest call found that another environment has taken the lease of the probe."""

    def get_state(self, name: str) -> CircuitStateRecord:
        """Return the circuit's state, cached for `CACHE_SECONDS` unless a probe is under way."""
        self.has_met_probe = False
        return super().get_state(name)

    def save_open(self, name: str, failure_count: int, opened_at: int) -> None:
        """Count a failure, and open the circuit at the threshold. Powertools calls this for every failure."""
        self._has_failed = True
        counted = self._count(name, opened_at)
        if counted.state is CircuitState.CLOSED and counted.failure_count >= self._thresholds.failures:
            counted = self._open(name, opened_at)
        if counted.state is not CircuitState.CLOSED:
            self._save_to_cache(counted)

    def try_acquire_half_open(self, name: str, owner: str, opened_at: int) -> bool:
        """Take the lease of the one probe, and report it."""
        try:
            acquired: bool = super().try_acquire_half_open(name, owner, opened_at)
        except (ClientError, BotoCoreError):
            return False  # without an answer from DynamoDB there is no lease
        if not acquired:
            self.has_met_probe = True
            self._forget(name)  # the cached state is out of date
        if acquired:
            self._owner = owner
            self._announce(CircuitState.HALF_OPEN)
        return acquired

    def save_reopen(self, name: str, opened_at: int) -> None:
        """Open the circuit again after a failed probe."""
        super().save_reopen(name, opened_at)
        self._announce(CircuitState.OPEN)

    def save_closed(self, name: str) -> None:
        """Close the circuit after a successful probe."""
        super().save_closed(name)
        self._has_failed = False
        self._announce(CircuitState.CLOSED)

    def succeeded(self) -> None:
        """Reset the count if this environment knows of failures: they were not in a row."""
        known = self._retrieve_from_cache(CIRCUIT)
        if not (self._has_failed or (known and known.failure_count)):
            return
        self._has_failed = False
        # Only a closed circuit counts, and its count expires in any case.
        with suppress(_Refused, ClientError, BotoCoreError):
            self._save_to_cache(self._update("SET failure_count = :none", "#state = :closed", **{":none": 0}))

    def _save_to_cache(self, record: CircuitStateRecord) -> None:
        """Cache a state, but not that of a probe, which may end before the machine's next try."""
        if record.state is CircuitState.HALF_OPEN:
            self._forget(record.name)
        else:
            super()._save_to_cache(record)

    def _forget(self, name: str) -> None:
        with self._lock:
            if name in self._cache:
                del self._cache[name]

    def _count(self, name: str, now: int) -> CircuitStateRecord:
        """Count one more failure; return the circuit after it, or as it is if it is not closed."""
        more = "SET #state = :closed, failed_at = :now, not_needed_after = :expires ADD failure_count :one"
        first = "SET #state = :closed, failed_at = :now, not_needed_after = :expires, failure_count = :one"
        values: dict[str, int | str] = {":now": now, ":expires": self._durable_ttl(name), ":one": 1}
        try:
            remembered = now - self._thresholds.within_seconds
            return self._update(more, f"{_CLOSED} AND {_RECENT}", **values | {":remembered": remembered})
        except _Refused as refused:
            if refused.found.state is not CircuitState.CLOSED:
                return refused.found
        try:
            return self._update(first, _CLOSED, **values)
        except _Refused as refused:
            return refused.found

    def _open(self, name: str, now: int) -> CircuitStateRecord:
        """Open the circuit. Of several environments at the threshold, one opens and reports it."""
        expires = self._durable_ttl(name)
        values: dict[str, int | str] = {":open": CircuitState.OPEN.value, ":now": now, ":expires": expires}
        try:
            opened = self._update(
                "SET #state = :open, opened_at = :now, not_needed_after = :expires", _CLOSED, **values
            )
        except _Refused as refused:
            return refused.found
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
        """End a probe as Powertools does, unless another environment has taken the lease."""
        query: dict[str, Any] = super()._build_update_query(record)
        query["ConditionExpression"] = "#half_open_owner = :owner"
        query["ExpressionAttributeValues"][":owner"] = self._s(self._owner)
        return query

    def _record_to_item(self, record: CircuitStateRecord) -> dict[str, Any]:
        """Write the row as Powertools does, with the time of the probe for `settle kyc status`."""
        item: dict[str, Any] = super()._record_to_item(record)
        if record.probe_lease_expiry is not None:
            item["probed_at"] = self._n(record.probe_lease_expiry - self._thresholds.recovery_seconds)
        return item


class _Refused(Exception):
    """The circuit is not as the update demands; `found` is its state."""

    def __init__(self, found: CircuitStateRecord) -> None:
        super().__init__()
        self.found = found


Ask = Callable[..., Verdict | Refused]
"""A question to the provider. The first argument is the settlement."""


def guarded(ask: Ask, circuit: SharedCircuit, thresholds: Thresholds, measure: Announce) -> Ask:
    """Put the circuit around `ask`. While it is open, KycCircuitOpen is raised.

    `measure` gets the state with each call that the circuit refuses, and with each answered call.
    """
    shared = circuit

    def refuse(*_: Any, circuit: CircuitInfo) -> None:
        state = CircuitState.HALF_OPEN if shared.has_met_probe else circuit.state
        measure(state)
        if state is CircuitState.OPEN:
            raise KycCircuitOpen("kyc: not asked, as the circuit is open")
        # It may close within a second, so the machine should try again.
        raise KycUnavailable("kyc: not asked, as a probe is under way")

    @circuit_breaker(
        name=CIRCUIT,
        persistence_store=circuit,
        on_circuit_open=refuse,
        config=CircuitBreakerConfig(
            failure_threshold=1,  # so that each failure goes to save_open, which counts it
            success_threshold=1,
            recovery_timeout=thresholds.recovery_seconds,
            handled_exceptions=KycUnavailable,
            local_cache_max_age=CACHE_SECONDS,
        ),
    )
    def ask_and_note(*question: Any) -> Verdict | Refused:
        answer = ask(*question)
        circuit.succeeded()
        measure(CircuitState.CLOSED)
        return answer

    return cast("Ask", ask_and_note)
