"""The real handlers over a table in memory, with the key in any state."""

import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from unittest import mock

from tests.world.environment import NOW  # first: it makes the functions' environment
from tests.world.ledger import Ledger  # first: it makes the functions' environment

from handlers import _dependencies  # isort: skip
from settlement.journal import bucket as _journal  # isort: skip
from handlers.kyc import _provider as _kyc  # isort: skip
from settlement.kyc import shared_secrets as _secrets  # isort: skip
from handlers.reading import _long_poll  # isort: skip
from settlement.aws import event_bus as _event_bus
from settlement.aws import functions as _functions
from settlement.aws import queues as _queues
from settlement.aws import step_functions as _step_functions
from settlement.core import telemetry
from settlement.core.model.errors import SettlementError
from settlement.core.model.verdict import Verdict
from settlement.events import outcome_bus as _outcome_bus
from settlement.paging import topics as _topics
from tests.fuzz.table import Rows, Table
from tests.world import functions
from tests.world.constants import LIMBO_AFTER, REJECTED_BY_KYC, STALLED_ORDER
from tests.world.functions import Calls
from tests.world.memory_s3 import MemoryS3
from tests.world.provider import APPROVED, IN_REVIEW, REJECTED, Provider
from tests.world.services import Bus, Died, Functions, PageBus, Queues, Secrets, Topics, signed
from tests.world.step_functions import StepFunctions

HANDLERS = dict(zip((file.stem for file in functions.FILES), functions.HANDLERS.values(), strict=True))

TIMES = (NOW, NOW + timedelta(seconds=40), NOW + timedelta(hours=2), NOW + timedelta(days=2))
ANSWERS = (APPROVED, REJECTED, IN_REVIEW)


@dataclass
class Stage:
    table: Table = field(default_factory=Table)
    provider: Provider = field(default_factory=Provider)
    step_functions: StepFunctions = field(default_factory=StepFunctions)
    queues: Queues = field(default_factory=Queues)
    functions: Functions = field(default_factory=Functions)
    pages: PageBus = field(default_factory=PageBus)
    at: datetime = NOW

    def set(self, rows: Rows, at: datetime, answer: Any) -> None:
        """Reset to these rows, time and provider's answer."""
        self.table = Table(rows)
        _dependencies.store = self.table.store()
        self.at, self.provider.answer = at, answer
        self.step_functions = StepFunctions()
        _step_functions._client = self.step_functions  # type: ignore[assignment]
        self.queues.sent.clear()
        self.functions.sent.clear()
        self.pages.events.clear()

    def now(self) -> datetime:
        return self.at

    def calls(self) -> Calls:
        return Calls(Ledger(self.table, "table", _dependencies.store))


class _NoTime:
    """A clock that advances a minute per reading, so no reader waits."""

    def __init__(self) -> None:
        self._now = 0.0

    def monotonic(self) -> float:
        self._now += 60
        return self._now


@contextmanager
def staged() -> Iterator[Stage]:
    """Put the handlers on a stage without AWS, logs or metrics."""
    stage = Stage()
    level = telemetry.logger.log_level
    environment = {
        "START_DEAD_LETTERS": stage.queues.url,
        "JOURNAL_BUCKET": "journal",
        "CHECKS_DECLARED": json.dumps([{"name": "delivered", "refusals": ["lost"], "wait_seconds": 86_400}]),
        "CHECK_SIGNING_SECRETS": json.dumps({"delivered": os.environ["KYC_SIGNING_SECRET"]}),
    }
    with (
        mock.patch.object(_dependencies, "store", stage.table.store()),
        mock.patch.object(_dependencies, "now", stage.now),
        mock.patch.object(_long_poll, "time", _NoTime()),
        mock.patch.object(_kyc, "ask", stage.provider.ask),
        mock.patch.object(_step_functions, "_client", stage.step_functions),
        mock.patch.object(_queues, "_client", stage.queues),
        mock.patch.object(_functions, "_client", stage.functions),
        mock.patch.object(_topics, "_client", Topics()),
        mock.patch.object(_event_bus, "_client", stage.pages),
        mock.patch.object(_journal, "_client", MemoryS3()),
        mock.patch.object(_outcome_bus, "_client", Bus()),
        mock.patch.object(_secrets._provider, "client", Secrets()),
        mock.patch.object(_secrets._provider, "store", {}),
        mock.patch.dict("os.environ", environment),
        redirect_stdout(io.StringIO()),
    ):
        telemetry.metrics.clear_metrics()
        telemetry.logger.setLevel("CRITICAL")
        try:
            yield stage
        finally:
            telemetry.logger.setLevel(level)


Step = Callable[[Calls, Stage], object]


def _to(method: str, *positional: Any, **named: Any) -> Step:
    return lambda calls, stage: getattr(calls, method)(*positional, **named)


def _opened(account: str, available: int, **extra: Any) -> Step:
    return lambda calls, stage: calls.ledger.open(account, available, **extra)


def _verified(answer: Verdict) -> Step:
    def verify(calls: Calls, stage: Stage) -> None:
        stage.provider.answer = answer
        with suppress(SettlementError):
            calls("VerifyKyc")

    return verify


def _die_after_the_evidence(calls: Calls, stage: Stage) -> None:
    """Stop VerifyKyc between its evidence and the verdict on the row."""
    stage.provider.answer = APPROVED
    with mock.patch.object(_dependencies.store, "update", side_effect=Died), suppress(Died):
        calls("VerifyKyc")


def _answered_beside_a_review(calls: Calls, stage: Stage) -> None:
    """Race two calls of VerifyKyc: one gets a review, the other a verdict."""

    def review() -> None:
        stage.provider.meanwhile = lambda: None
        _verified(IN_REVIEW)(calls, stage)
        stage.provider.answer = APPROVED

    stage.provider.meanwhile = review
    with suppress(SettlementError):
        calls("VerifyKyc")


def _expire(calls: Calls, stage: Stage) -> None:
    stage.at = TIMES[2]
    calls.recover()


def _unwind(calls: Calls, stage: Stage) -> None:
    calls.unwind(calls.begin(error=REJECTED_BY_KYC))


def _waits_for_a_check(calls: Calls, stage: Stage) -> None:
    calls.alter(checks={"delivered", "limits"}, review="check:delivered")


_WAITS = _to("__call__", "AwaitResolution", token="token-1", execution_arn="arn:waits")
STATES: dict[str, tuple[Step, ...]] = {
    "nothing": (),
    "unclaimed": (_to("before", "HoldFunds"),),
    "claimed": (_to("claimed"),),
    "held": (_to("before", "VerifyKyc"),),
    "verified": (_to("before", "ReleaseFunds"),),
    "released": (_to("before", "CollectFee"),),
    "settled": (_to("after", "CollectFee"),),
    **{
        f"{name}, the payer is {kind}": (start, change)
        for name, start in {"unclaimed": _to("before", "HoldFunds"), "claimed": _to("claimed")}.items()
        for kind, change in {
            "poor": _opened("alice", 4_819),
            "in LIMBO": _opened("alice", 10_000, limbo_cases=1),
            "gone": _to("close", "alice"),
        }.items()
    },
    "held, with evidence": (_to("before", "VerifyKyc"), _die_after_the_evidence),
    "verified, the payee is rich": (_to("before", "ReleaseFunds"), _opened("bob", 100_000_000)),
    "verified, the payee is foreign": (_to("before", "ReleaseFunds"), _opened("bob", 0, currency="USD")),
    "compensating, the payee is poor": (_to("reopened", "ReclaimFunds"), _opened("bob", 4_771)),
    "in review": (_to("before", "VerifyKyc"), _verified(IN_REVIEW)),
    "held, with checks": (
        _to("before", "VerifyKyc"),
        lambda calls, stage: calls.alter(checks={"delivered"}),
    ),
    "held, in wait for a check": (_to("before", "VerifyKyc"), _waits_for_a_check),
    "in review, with evidence": (_to("before", "VerifyKyc"), _answered_beside_a_review),
    "decided against the evidence": (
        _to("before", "VerifyKyc"),
        _die_after_the_evidence,
        _to("decided", signed(decision="REJECTED")),
    ),
    "refused by KYC": (_to("before", "VerifyKyc"), _verified(REJECTED)),
    "rejected": (_to("before", "HoldFunds"), _to("__call__", "RejectSettlement", error=REJECTED_BY_KYC)),
    "rejected, claimed": (_to("claimed"), _to("begin", error=REJECTED_BY_KYC)),
    "expired": (_to("before", "ReleaseFunds"), _expire),
    "compensating, held": (_to("before", "VerifyKyc"), _to("begin", error=REJECTED_BY_KYC)),
    "compensating, only claimed": (_to("claimed"), _to("begin", reversal=STALLED_ORDER)),
    "compensating, settled": (_to("reopened", "RefundFee"),),
    "compensating, fee back": (_to("reopened", "ReclaimFunds"),),
    "compensating, release back": (_to("reopened", "VoidHold"),),
    "compensated": (_to("before", "ReleaseFunds"), _unwind),
    **{f"LIMBO at {stuck}": (_to("fall", stuck),) for stuck in LIMBO_AFTER},
    "LIMBO, waiting": (_to("fall"), _WAITS),
    "retried": (_to("fall"), _to("resolve", "retry")),
    "written off": (_to("fall"), _to("resolve", "write-off")),
    "completed": (_to("fall"), _to("resolve", "complete")),
}


@cache
def rows_of(state: str) -> Rows:
    """Return the rows with the key in a state; shared, so never change one in place."""
    with staged() as stage:
        calls = stage.calls()
        for step in STATES[state]:
            step(calls, stage)
        return dict(stage.table.rows)
