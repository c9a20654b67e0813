from settlement.payruns import writes
from tests.unit.payruns.rows import ADA, APPROVED, BEA, BEGUN, PROPOSAL, PROPOSED, RUNNING
from tests.world.environment import NOW

WRITES = {
    "TakeOrder": [
        *writes.propose(PROPOSAL, ADA),
        *writes.approve(PROPOSED, PROPOSAL, BEA, NOW),
        *writes.resume(APPROVED, PROPOSAL, ADA, NOW),
        *writes.pause(RUNNING, PROPOSAL, ADA, NOW),
        *writes.cancel(BEGUN, PROPOSAL, ADA, NOW),
    ]
}
