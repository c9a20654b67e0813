from contextlib import suppress
from datetime import datetime

from handlers import _dependencies
from settlement.checks import answers, waits
from settlement.checks.check import Declared
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied
from settlement.core.model.errors import SettlementNotFound, StepFenced, StoreUnavailable
from settlement.core.model.state import SettlementState
from settlement.core.model.status import Status, Step
from settlement.core.model.timestamps import timestamp
from settlement.core.telemetry import count

TRIES_MAX = 5


def record(state: SettlementState, check: Declared, content: dict[str, str], now: datetime) -> Row:
    """Record a callback's decision or a refusal, if none is recorded. Return the evidence.

    The answer ends a wait for this check. A refusal also ends a wait for another check. One transaction
    writes evidence and row, so no wait begins after the answer. If a wait begins or ends meanwhile, the
    transaction is built again. Raises StepFenced, and StoreUnavailable after some tries.
    """
    settlement, store, config = state.settlement, _dependencies.store, _dependencies.config
    for _ in range(TRIES_MAX):
        found, awaited = store.evidence(settlement.key, answers.step_of(check.name)), waits.waited_for(state)
        if found:
            if awaited == check.name:
                since = found["posted_at"]
                store.update(waits.end(settlement, check, awaited, since=since, now=now, config=config))
            return found
        _ensure_open(state, check)
        if awaited and (awaited == check.name or content["decision"] == answers.REFUSED):
            row = waits.end(settlement, check, awaited, since=timestamp(now), now=now, config=config)
        else:
            row = waits.keep(settlement, check, awaited)
        with suppress(AlreadyApplied):
            store.transact((waits.evidence(settlement, check, content, now), row))
            count(answers.metric_of(check.name, content["decision"].lower()))
        state = store.settlement(settlement.key) or state
    raise StoreUnavailable(f"{settlement.key}: its row has changed during each of {TRIES_MAX} tries")


def _ensure_open(state: SettlementState, check: Declared) -> None:
    if check.name not in state.checks:
        raise SettlementNotFound("token: its settlement does not demand this check")
    is_open = state.status is Status.PROCESSING and Step.HOLD in state.steps and state.verdict is None
    if not is_open:
        raise StepFenced.at("check", state.status, state.steps)
