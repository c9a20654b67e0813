from settlement.payruns import writes
from tests.unit.payruns.rows import ADA, APPROVED, BEA, BEGUN, PROPOSAL, PROPOSED, RUNNING
from tests.world.environment import NOW

WRITES = {
    "TakeOrder": [
        *writes.propose(PROPOSAL, ADA),
        *writes.approve(PROPOSED, PROPOSAL, BEA, NOW),
        *writes.resume(APPROVED, NOW),
        *writes.pause(RUNNING, NOW),
        *writes.cancel(BEGUN, NOW),
    ]
}
