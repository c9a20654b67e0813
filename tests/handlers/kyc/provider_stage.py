"""The real provider client and circuit, on a test network, bus and table."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from handlers.kyc import _provider as _kyc
from settlement.core.ledger import keys
from settlement.core.model.errors import KycUnavailable
from settlement.core.model.settlement import Settlement
from settlement.core.model.verdict import Verdict
from settlement.kyc import circuit_events
from tests.world.functions import Context
from tests.world.ledger import Ledger

REAL_ASK = _kyc.ask

YES = (200, json.dumps({"decision": "APPROVED", "reference": "ver_1", "reason": "canary-reason"}).encode())
DEAD = KycUnavailable("kyc: ConnectTimeoutError")
FAILURES = 5


@dataclass
class Stage:
    """A provider that gives `answers` in turn and repeats the last. `sent` has each question's API key."""

    ledger: Ledger
    answers: list[tuple[int, bytes] | Exception] = field(default_factory=lambda: [YES])
    sent: list[str] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    bus: Any = 0

    def ask(self, settlement: Settlement, context: object = None) -> Verdict:
        return REAL_ASK(settlement, context or Context())

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[int, bytes]:
        self.sent.append(headers.get("Authorization", path).removeprefix("Bearer "))
        answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def put_events(self, *, Entries: list[dict[str, Any]]) -> dict[str, Any]:  # noqa: N803
        self.events += Entries
        if isinstance(self.bus, Exception):
            raise self.bus
        return {"FailedEntryCount": self.bus}

    def circuit(self) -> keys.Row:
        return self.ledger.row(keys.circuit("kyc")) or {}

    def forget(self) -> None:
        """Act as a new environment, which must read the circuit's state."""
        _kyc._circuit._known = None

    def recovered(self) -> None:
        self.ledger.put(self.circuit() | {"opened_at": 0})
        self.forget()

    def states(self) -> list[str]:
        return [json.loads(entry["Detail"])["state"] for entry in self.events]

    def open(self, settlement: Settlement) -> None:
        self.open_after(settlement, FAILURES)

    def open_after(self, settlement: Settlement, failures: int) -> None:
        self.answers = [DEAD]
        for number in range(failures):
            with pytest.raises(KycUnavailable):
                self.ask(replace(settlement, key=f"{settlement.key}-{number}"))


def stage(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage(ledger)
    monkeypatch.setattr(_kyc._client, "_exchange", made.exchange)
    monkeypatch.setattr(_kyc._circuit, "_client", ledger.client)
    monkeypatch.setattr(_kyc._circuit, "_table_name", ledger.table_name)
    monkeypatch.setattr(_kyc._circuit, "_answers", 0)
    monkeypatch.setattr(_kyc._circuit, "_reported_at", 0)
    monkeypatch.setattr(circuit_events, "_client", made)
    made.forget()
    return made
