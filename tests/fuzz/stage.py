"""The real handlers on a table in memory, with one settlement's key in any of its states."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

from tests.conftest import NOW, Ledger  # first: it makes the functions' environment

from handlers import _step_functions, _kyc, _dead_letters, _dependencies, _secrets  # isort: skip
from settlement.adapters import telemetry
from settlement.model.errors import SettlementError
from tests.fuzz.table import Rows, Table
from tests.handlers.calls import LIMBO_AFTER, REJECTED_BY_KYC, REVERSALS, Calls
from tests.handlers.stand_ins import Queues, Secrets, Starts
from tests.support.kyc import APPROVED, IN_REVIEW, REJECTED, Provider

FILES = sorted((Path(_dependencies.__file__).parent).glob("[a-z]*.py"))
HANDLERS: dict[str, Callable[[Any, Any], Any]] = {
    file.stem: import_module(f"handlers.{file.stem}").handler for file in FILES
}
"""Every function, by the name of its file."""

TIMES = (NOW, NOW + timedelta(seconds=40), NOW + timedelta(hours=2), NOW + timedelta(days=2))
ANSWERS = (APPROVED, REJECTED, IN_REVIEW)
_EXECUTION_INPUT_BYTES_MAX = 262_144


class Machines(Starts):
    """Step Functions, with AWS's limits for a name and an input."""

    def start_execution(self, *, stateMachineArn: str, name: str, input: str) -> None:  # noqa: A002, N803
        assert 0 < len(name) <= 80
        assert name.isascii()
        assert len(input.encode()) <= _EXECUTION_INPUT_BYTES_MAX
        super().start_execution(stateMachineArn=stateMachineArn, name=name, input=input)


class DeadLetters(Queues):
    """SQS, which refuses an attribute that is empty, too long or not fit for XML."""

    def send_message(self, *, QueueUrl: str, MessageBody: str, MessageAttributes: Any) -> None:  # noqa: N803
        for attribute in MessageAttributes.values():
            text = attribute["StringValue"]
            assert 0 < len(text.encode()) <= 8_192
            assert text.isprintable()
        super().send_message(QueueUrl=QueueUrl, MessageBody=MessageBody, MessageAttributes=MessageAttributes)


@dataclass
class Stage:
    """The world of the handlers. `at` is the time, `provider` the KYC provider, `table` the one table."""

    table: Table = field(default_factory=Table)
    provider: Provider = field(default_factory=Provider)
    starts: Machines = field(default_factory=Machines)
    queues: DeadLetters = field(default_factory=DeadLetters)
    at: datetime = NOW

    def set(self, rows: Rows, at: datetime, answer: Any) -> None:
        """Start again with these rows, at this time, and with this answer of the provider."""
        self.table = Table(rows)
        _dependencies.store = self.table.store()
        self.at, self.provider.answer = at, answer
        self.starts.made.clear()
        self.queues.sent.clear()

    def now(self) -> datetime:
        return self.at

    def calls(self) -> Calls:
        """Return the handlers by the names of their states, as their tests call them."""
        named = {"".join(map(str.title, name.split("_"))): handler for name, handler in HANDLERS.items()}
        return Calls(Ledger(self.table, "table", _dependencies.store), named)


@contextmanager
def staged() -> Iterator[Stage]:
    """Put the handlers on a stage: no AWS, no log, no metrics."""
    stage = Stage()
    level = telemetry.logger.log_level
    environment = {"START_DEAD_LETTERS": stage.queues.url}
    with (
        mock.patch.object(_dependencies, "store", stage.table.store()),
        mock.patch.object(_dependencies, "now", stage.now),
        mock.patch.object(_kyc, "ask", stage.provider.ask),
        mock.patch.object(_step_functions, "_client", stage.starts),
        mock.patch.object(_dead_letters, "_client", stage.queues),
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


def _in_review(calls: Calls, stage: Stage) -> None:
    calls.before("VerifyKyc")
    stage.provider.answer = IN_REVIEW
    calls("VerifyKyc")


def _refused_by_kyc(calls: Calls, stage: Stage) -> None:
    calls.before("VerifyKyc")
    stage.provider.answer = REJECTED
    with suppress(SettlementError):
        calls("VerifyKyc")


def _expired(calls: Calls, stage: Stage) -> None:
    calls.before("ReleaseFunds")
    stage.at = TIMES[2]
    calls.recover()


def _with(before: str, account: str, available: int, **extra: Any) -> Callable[[Calls, Stage], None]:
    """Return a function that brings the settlement before a state, with another balance of one party."""

    def reach(calls: Calls, stage: Stage) -> None:
        if before in REVERSALS:
            calls.reopened(before)
        else:
            calls.before(before)
        calls.ledger.open(account, available, **extra)

    return reach


def _without(before: str, account: str) -> Callable[[Calls, Stage], None]:
    def reach(calls: Calls, stage: Stage) -> None:
        calls.before(before)
        calls.close(account)

    return reach


def _fallen(stuck: str) -> Callable[[Calls, Stage], None]:
    def reach(calls: Calls, stage: Stage) -> None:
        calls.fall(stuck)

    return reach


def _waiting(calls: Calls, stage: Stage) -> None:
    calls.fall("release")
    calls("AwaitResolution", execution="compensation-1", token="token-1", execution_arn="arn:waits")


def _resolved(decision: str) -> Callable[[Calls, Stage], None]:
    def reach(calls: Calls, stage: Stage) -> None:
        calls.fall("release")
        calls.resolve(decision)

    return reach


def _compensated(calls: Calls, stage: Stage) -> None:
    calls.before("ReleaseFunds")
    calls.unwind(calls.begin(error=REJECTED_BY_KYC))


def _rejected(calls: Calls, stage: Stage) -> None:
    calls.before("HoldFunds")
    calls("RejectSettlement", error=REJECTED_BY_KYC)


STATES: dict[str, Callable[[Calls, Stage], Any]] = {
    "nothing": lambda calls, stage: None,
    "unclaimed": lambda calls, stage: calls.before("ClaimKey"),
    "claimed": lambda calls, stage: calls.before("HoldFunds"),
    "held": lambda calls, stage: calls.before("VerifyKyc"),
    "verified": lambda calls, stage: calls.before("ReleaseFunds"),
    "released": lambda calls, stage: calls.before("CollectFee"),
    "settled": lambda calls, stage: calls.after("CollectFee"),
    "claimed, the payer is poor": _with("HoldFunds", "alice", 4_819),
    "claimed, the payer is in LIMBO": _with("HoldFunds", "alice", 10_000, limbo_keys={"order-2026-000001"}),
    "claimed, the payer is gone": _without("HoldFunds", "alice"),
    "verified, the payee is rich": _with("ReleaseFunds", "bob", 100_000_000),
    "verified, the payee is foreign": _with("ReleaseFunds", "bob", 0, currency="USD"),
    "compensating, the payee is poor": _with("ReclaimFunds", "bob", 4_771),
    "in review": _in_review,
    "refused by KYC": _refused_by_kyc,
    "rejected": _rejected,
    "expired": _expired,
    "compensating, held": lambda calls, stage: (
        calls.before("VerifyKyc"),
        calls.begin(error=REJECTED_BY_KYC),
    ),
    "compensating, settled": lambda calls, stage: calls.reopened("RefundFee"),
    "compensating, fee back": lambda calls, stage: calls.reopened("ReclaimFunds"),
    "compensating, release back": lambda calls, stage: calls.reopened("VoidHold"),
    "compensated": _compensated,
    **{f"LIMBO at {stuck}": _fallen(stuck) for stuck in LIMBO_AFTER},
    "LIMBO, waiting": _waiting,
    "retried": _resolved("retry"),
    "written off": _resolved("write-off"),
    "completed": _resolved("complete"),
}
"""The functions that bring the key into each of its states."""


@cache
def rows_of(state: str) -> Rows:
    """Return the table's rows with the key in a state. They are shared: no table may change one in place."""
    with staged() as stage:
        STATES[state](stage.calls(), stage)
        return dict(stage.table.rows)
