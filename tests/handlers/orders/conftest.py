"""The `Desk` of the orders' tests: persons at a settlement whose decision needs two of them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from settlement.aws import event_bus as _event_bus
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import ProposalRefused
from settlement.proof import Look, reconcile
from tests.handlers.conftest import Calls
from tests.world.constants import EXECUTION_ARN, KEY
from tests.world.functions import Context
from tests.world.orders import answered, request
from tests.world.services import PageBus

Person = tuple[str, str]
"""An ARN and a user id, as AWS proves them."""

SESSION = "arn:aws:sts::123456789012:assumed-role"
PERSONS: dict[str, Person] = {
    "ada": ("arn:aws:iam::123456789012:user/finance/ada", "AIDAADA"),
    "bea": (f"{SESSION}/Approver/bea", "AROAAPPROVER:bea"),
    "cyd": (f"{SESSION}/Approver/cyd", "AROAAPPROVER:cyd"),
}
DECISIONS = ("write-off", "complete", "retry")
ALL = (*DECISIONS, "reverse", "reverse-part")
EVIDENCE = {"reverse": "reverse", "reverse-part": "reverse-part:1"}
CONTENT: dict[str, dict[str, Any]] = {"reverse": {}, "reverse-part": {"part": 1, "amount": "5.00"}}
SHOWN: dict[str, dict[str, Any]] = {
    **{decision: {"case": 1, "amount": "47.72"} for decision in DECISIONS},
    "reverse": {"amount": "48.20"},
    "reverse-part": {"part": 1, "amount": "5.00"},
}
"""Facts that an approval repeats from its proposal, besides decision and digest."""


@dataclass
class Desk:
    """Persons who decide on one settlement. Each move names the digest of this desk's latest proposal."""

    calls: Calls
    decision: str
    change_config: Callable[..., None]
    digest: str = "0" * 64

    def needs(self, persons: int) -> None:
        self.change_config(approvals=dict.fromkeys((*DECISIONS, "reverse"), persons))

    def order(self, route: str, body: dict[str, Any], who: str | Person = "ada") -> dict[str, Any]:
        by, user_id = PERSONS[who] if isinstance(who, str) else who
        event = request(route, {"key": KEY, **body}, by, user_id=user_id, request_id=f"req-{user_id}")
        return answered(self.calls.handlers["TakeOrder"](event, Context()))

    def body(self, **more: Any) -> dict[str, Any]:
        content = CONTENT.get(self.decision, {"case": 1, "decision": self.decision})
        return {"reason": "sent to the wrong shop", **content, **more}

    def alone(self, **more: Any) -> dict[str, Any]:
        return self.order(self.decision, self.body(**more))

    def break_glass(self, **more: Any) -> dict[str, Any]:
        return self.order(f"{self.decision}/break-glass", self.body(**more))

    def propose(self, who: str = "ada", **more: Any) -> dict[str, Any]:
        told: dict[str, Any] = self.order(f"{self.decision}/propose", self.body(**more), who)["proposal"]
        self.digest = told["digest"]
        return told

    def approve(self, who: str | Person = "bea", **more: Any) -> dict[str, Any]:
        named = {"decision": self.decision, "digest": self.digest, **SHOWN[self.decision]}
        return self.order(f"{self.decision}/approve", named | more, who)

    def withdraw(self, who: str = "ada", **more: Any) -> dict[str, Any]:
        named = {"decision": self.decision, "digest": self.digest}
        return self.order(f"{self.decision}/withdraw", named | more, who)

    @contextmanager
    def refuses(
        self, told: str | None, error: type[BaseException] | tuple[type[BaseException], ...] = ProposalRefused
    ) -> Iterator[None]:
        with self.calls.writes_nothing(), pytest.raises(error, match=told):
            yield

    @property
    def is_decided(self) -> bool:
        row = self.calls.row()
        before = "LIMBO" if self.decision in DECISIONS else "SETTLED"
        return row["status"] != before or "parts" in row

    @property
    def row(self) -> Row:
        found = self.calls.ledger.row(keys.proposal(KEY))
        assert found is not None
        return found

    def change(self, **attributes: Any) -> None:
        """Overwrite attributes of the proposal's row, as a writer of the table can."""
        self.calls.ledger.put(self.row | attributes)

    def evidence(self, step: str | None = None) -> Row:
        found = self.calls.ledger.row(keys.evidence(KEY, step or self.evidence_name))
        assert found is not None
        return found

    @property
    def evidence_name(self) -> str:
        return EVIDENCE.get(self.decision, "resolve:1")

    def all_faults(self) -> list[str]:
        return list(reconcile(self.calls.ledger.rows(), lambda difference: Look.DISAGREES).faults)

    def faults(self) -> list[str]:
        """Return the proof's faults of the settlement only, because the accounts lack opening orders."""
        return [fault for fault in self.all_faults() if fault.startswith(f"SETTLEMENT#{KEY}")]


@pytest.fixture
def limbo(calls: Calls) -> Calls:
    """A case of LIMBO whose execution waits for a person."""
    calls.fall()
    calls.step_functions.waits(EXECUTION_ARN, "AQC")
    calls("AwaitResolution", token="AQC", execution_arn=EXECUTION_ARN)
    return calls


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> PageBus:
    bus = PageBus()
    monkeypatch.setattr(_event_bus, "_client", bus)
    return bus


@pytest.fixture(params=ALL)
def desk(request: pytest.FixtureRequest, calls: Calls, pages: PageBus) -> Desk:
    """Each decision that needs two persons, on a settlement that permits it."""
    if request.param in DECISIONS:
        request.getfixturevalue("limbo")
    else:
        calls.after("CollectFee")
    desk = Desk(calls, request.param, calls.change_config)
    desk.needs(2)
    return desk


@pytest.fixture
def proposed(desk: Desk) -> Desk:
    desk.propose()
    return desk


@pytest.fixture
def only_conditions(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let an approval skip the check after its reads, so only its write's conditions protect it."""
    return lambda: monkeypatch.setattr("settlement.orders.approval.ensure_approvable", lambda *seen: None)


def decides(*decisions: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("desk", decisions, indirect=True)
