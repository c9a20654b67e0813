"""A circuit's row, which all environments that call its provider share.

    environment A   fails: 1 ----------- fails: 3 = failures -> OPEN
    environment B        fails: 2 ------------------- (asked before) fails: finds it OPEN
    environment C                                          refused at once ----- probe -> CLOSED

`circuit.py` decides; this module reads and writes. A write replaces the whole row if its version is
unchanged; otherwise the decision is repeated from the new row. An environment reads once in `CACHE_SECONDS`.
It writes its failures, and its answers only while the row counts failures, once in `CACHE_SECONDS`.
"""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from settlement.core.ledger import keys
from settlement.core.store.wire import from_wire, to_wire
from settlement.core.telemetry import count
from settlement.http import circuit as rules
from settlement.http.circuit import Circuit, State, Thresholds

CACHE_SECONDS = 5
"""Lifetime of the cache, and shortest time between reports of answers."""

TRIES_MAX = 20
"""Maximum tries of a write. A refusal means that another environment has written.

An open circuit ends the counting, so a dead provider costs an environment at most `failures` + 1 tries.
"""

Announce = Callable[[State], None]
"""Publishes a state. Must not raise: the change is already written."""

_UNAVAILABLE = (ClientError, BotoCoreError)


class NotAdmitted(Exception):
    """The call is refused: the circuit is OPEN, or HALF_OPEN while another probe is under way."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.state = state


@dataclass(frozen=True, kw_only=True)
class Named:
    """A circuit's name, and the `metric` that counts writers with a fast clock."""

    name: str
    metric: str


@dataclass(frozen=True)
class Lease:
    """A permitted call. Only a probe has a `probe` name."""

    payment: str
    probe: str | None = None


class _Known(NamedTuple):
    circuit: Circuit
    read_at: int


class SharedCircuit:
    """One environment's view of the row, for one call at a time."""

    def __init__(
        self,
        named: Named,
        client: Any,
        table_name: str,
        thresholds: Thresholds,
        announce: Announce,
        clock: Callable[[], int] = lambda: int(time.time()),
    ) -> None:
        self._named, self._client, self._table_name, self._clock = named, client, table_name, clock
        self._thresholds, self._announce = thresholds, announce
        self._known: _Known | None = None
        self._answers = self._reported_at = 0

    def admit(self, payment: str) -> Lease:
        """Let a call through, as a probe if the circuit is not closed.

        Raises NotAdmitted. An unreadable circuit lets calls through: it never causes an outage.
        """
        try:
            circuit = self._read()
        except _UNAVAILABLE:
            self._known = None
            return Lease(payment)
        if circuit.state is State.CLOSED:
            return Lease(payment)
        probe = os.urandom(8).hex()  # not `random`: a snapshot clones its state
        try:
            circuit = self._change(lambda found: self._with_probe(found, payment, probe))
        except _UNAVAILABLE:
            raise NotAdmitted(State.OPEN) from None  # a probe needs its lease on record
        if circuit.state is State.CLOSED:
            return Lease(payment)
        if circuit.probe == probe:
            return Lease(payment, probe)
        raise NotAdmitted(circuit.state)

    def failed(self, lease: Lease) -> None:
        """Count a failed call, if DynamoDB answers."""
        answers, self._answers = self._answers, 0

        def decide(found: Circuit) -> Circuit:
            if lease.probe:
                return self._after_probe(found, lease, answered=False)
            return rules.after_failure(found, lease.payment, answers, self._clock(), self._thresholds)

        if not self._note(decide):
            self._known = None  # maybe outdated: the next call reads the row again

    def answered(self, lease: Lease) -> None:
        """Close the circuit after a probe, or report answers while the row counts failures."""
        self._answers += 1
        if lease.probe:
            self._note(lambda found: self._after_probe(found, lease, answered=True))
        elif self._known and self._known.circuit.count and not self._is_fresh(self._reported_at):
            answers, self._answers, self._reported_at = self._answers, 0, self._clock()
            self._note(lambda found: rules.after_answers(found, answers))

    def make_due(self) -> None:
        """Reread the circuit and make its probe due. Raises ClientError, BotoCoreError."""
        self._known = None
        self._read()
        self._change(lambda found: rules.due_now(found, self._clock(), self._thresholds))

    @property
    def state(self) -> State:
        return self._known.circuit.state if self._known else State.CLOSED

    def _note(self, decide: Callable[[Circuit], Circuit]) -> bool:
        """Change the circuit, if DynamoDB answers. Return whether the cache was renewed."""
        before = self._known
        with suppress(*_UNAVAILABLE):
            self._change(decide)
        return self._known is not before

    def _after_probe(self, found: Circuit, lease: Lease, *, answered: bool) -> Circuit:
        probe, now = lease.probe or "", self._clock()
        return rules.after_probe(found, probe, lease.payment, now, self._thresholds, answered=answered)

    def _with_probe(self, found: Circuit, payment: str, probe: str) -> Circuit:
        now = self._clock()
        if found.state is State.CLOSED:
            return found
        sound = rules.in_time(found, now)
        if sound != found:
            count(self._named.metric)
        if rules.may_probe(sound, payment, now, self._thresholds):
            return rules.with_probe(sound, probe, now)
        return sound

    def _read(self) -> Circuit:
        known = self._known
        if known and known.circuit.state is not State.HALF_OPEN and self._is_fresh(known.read_at):
            return known.circuit
        now = self._clock()
        answer = self._client.get_item(
            TableName=self._table_name, Key=to_wire(keys.circuit(self._named.name)), ConsistentRead=True
        )
        self._answers = 0  # older than failures that this read may have found
        return self._remember(from_row(from_wire(answer.get("Item", {}))), now)

    def _change(self, decide: Callable[[Circuit], Circuit]) -> Circuit:
        circuit = self._known.circuit if self._known else Circuit()
        for _ in range(TRIES_MAX):
            decided = decide(circuit)
            if decided == circuit:
                break
            decided = replace(decided, version=circuit.version + 1)
            now = self._clock()
            found = self._put(decided, circuit.version)
            if found == decided:
                self._remember(decided, now)
                if (decided.state, decided.probe) != (circuit.state, circuit.probe):
                    self._announce(decided.state)
                return decided
            circuit = self._remember(found, now)
        return circuit

    def _put(self, circuit: Circuit, version: int) -> Circuit:
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(version)"}
        if version:
            condition = {
                "ConditionExpression": "version = :version",
                "ExpressionAttributeValues": {":version": {"N": str(version)}},
            }
        try:
            self._client.put_item(
                TableName=self._table_name,
                Item=to_wire(to_row(self._named.name, circuit)),
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **condition,
            )
        except self._client.exceptions.ConditionalCheckFailedException as refused:
            return from_row(from_wire(refused.response.get("Item", {})))
        return circuit

    def _remember(self, circuit: Circuit, now: int) -> Circuit:
        """Cache the circuit. `now` precedes the DynamoDB call, which can be slow."""
        self._known = _Known(circuit, now)
        return circuit

    def _is_fresh(self, since: int) -> bool:
        return 0 <= self._clock() - since < CACHE_SECONDS  # a clock may be set back


def from_row(row: Mapping[str, Any]) -> Circuit:
    """Parse a circuit's row. An empty row means CLOSED. Rows of earlier releases have no version."""
    return Circuit(
        version=row.get("version", 0),
        state=State(row["state"]) if row.get("state") in list(State) else State.CLOSED,
        count=row.get("failure_count", 0),
        failed=tuple(row.get("failed", "").split()),
        failed_at=row.get("failed_at"),
        opened_at=row.get("opened_at"),
        probed_at=row.get("probed_at"),
        probe=row.get("probe"),
    )


def to_row(name: str, circuit: Circuit) -> keys.Row:
    """Build a circuit's row, without an expiry, because an open circuit must not vanish."""
    optional = {
        "failed": " ".join(circuit.failed) or None,
        "failed_at": circuit.failed_at,
        "opened_at": circuit.opened_at,
        "probed_at": circuit.probed_at,
        "probe": circuit.probe,
    }
    return {
        **keys.circuit(name),
        "version": circuit.version,
        "state": circuit.state.value,
        "failure_count": circuit.count,
        **{attribute: value for attribute, value in optional.items() if value is not None},
    }
