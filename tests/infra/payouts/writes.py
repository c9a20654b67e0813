from settlement.payouts import decision, destination
from settlement.payouts.decision import Decision, Verdict
from settlement.payouts.payout import Status
from tests.unit.payouts.rows import ADA, ADDED, BEA, GIVEN, LIMITS, STATES
from tests.world.environment import NOW

_CASE = STATES[Status.LIMBO]
_VERDICT = Decision(
    key=_CASE.key, case=_CASE.cases, digest=_CASE.digest, verdict=Verdict.NOT_PAID, reason="the bank's mail"
)
_PROPOSED = decision.propose(_CASE, _VERDICT, ADA, NOW)

WRITES = {
    "TakeOrder": [
        destination.add(GIVEN, ADA, NOW),
        destination.confirm(ADDED, GIVEN, BEA, LIMITS.rest, NOW),
        *destination.freeze(ADDED.id, BEA, NOW),
        _PROPOSED,
        decision.approve(_CASE, _VERDICT, _PROPOSED.parameters["Item"], BEA, NOW),
    ]
}
