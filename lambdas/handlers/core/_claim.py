from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from handlers import _dependencies
from handlers.core import _payee
from settlement.core.ledger import forward
from settlement.core.ledger.transaction import AlreadyApplied
from settlement.core.model import executions
from settlement.core.model.errors import InvalidRequest, StoreUnavailable
from settlement.core.model.request import Request
from settlement.core.model.settlement import Settlement
from settlement.core.model.state import SettlementState
from settlement.core.model.timestamps import timestamp
from settlement.core.policy import steps
from settlement.core.telemetry import count


def claim(request: Request, execution: str) -> tuple[Settlement, SettlementState]:
    """Claim the key for `execution`, or find the earlier claim.

    Raises IdempotencyConflict. Raises InvalidRequest if a new claim breaks the stage's rules.
    """

    def take(settlement: Settlement, now: datetime) -> SettlementState:
        return _dependencies.store.claim(forward.claim(settlement, execution, now, _dependencies.config))

    return _claim(request, execution, take)


def claim_and_hold(request: Request, execution: str) -> tuple[Settlement, SettlementState]:
    """Claim and hold in one transaction, or find the earlier claim.

    Raises the parties' refusals, which leave the key unclaimed. If a party's row is too busy or the table
    does not answer, only the key is claimed and StoreUnavailable is raised. Recovery resumes this claim.
    """

    def take(settlement: Settlement, now: datetime) -> SettlementState:
        # A read is cheaper than a transaction that its claim would refuse.
        follows = executions.follows_claim(settlement.key, execution)
        if follows and (claimed := _dependencies.store.settlement(settlement.key)):
            return claimed
        transaction = steps.claim_and_hold(settlement, execution, now, _dependencies.config)
        try:
            if refusal := _payee.refusal(settlement):
                if earlier_claim := _dependencies.store.settlement(settlement.key):  # it may hold already
                    return earlier_claim
                raise refusal
            _dependencies.store.transact(transaction.writes)
        except AlreadyApplied as earlier:  # a claim, which may have no hold yet
            found: SettlementState = earlier.found
            return found
        except StoreUnavailable:
            with suppress(StoreUnavailable):
                _dependencies.store.claim(forward.claim(settlement, execution, now, _dependencies.config))
            raise
        return SettlementState.from_row(transaction.gate.parameters["Item"])

    return _claim(request, execution, take)


def _claim(
    request: Request, execution: str, take: Callable[[Settlement, datetime], SettlementState]
) -> tuple[Settlement, SettlementState]:
    now, config = _dependencies.now(), _dependencies.config
    if problems := request.claim_problems(config):
        claimed = _earlier_claim(request, problems)
    else:
        claimed = take(steps.settlement_for(request, config), now)
    settlement = steps.verify_same_request(request, claimed)
    if steps.is_replay(claimed, execution):
        count("IdempotencyReplay")
    elif claimed.owner_epoch:
        count("ClaimTakenOver")
    else:
        count("Claimed" if claimed.claimed_at == timestamp(now) else "ClaimRepeated")
    return settlement, claimed


def _earlier_claim(request: Request, problems: list[str]) -> SettlementState:
    """Return the earlier claim, which the stage's rules do not bind. Raises InvalidRequest without one."""
    claimed = _dependencies.store.settlement(request.key)
    if claimed is None:
        raise InvalidRequest("; ".join(problems))
    return claimed
