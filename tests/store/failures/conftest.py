"""A store over a scripted client, and each way to call DynamoDB."""

from collections.abc import Callable

import pytest

from settlement.core.ledger import entries, forward, keys
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.status import Step
from settlement.core.policy import compensation, steps
from settlement.core.store.dynamodb import Store
from tests.store.failures.scripted import Call, Scripted
from tests.world.environment import NOW
from tests.world.provider import APPROVED
from tests.world.saga import ORDER


@pytest.fixture
def pauses() -> list[int]:
    return []


@pytest.fixture
def scripted(pauses: list[int]) -> Callable[..., tuple[Store, Scripted]]:
    def make(*answers: object) -> tuple[Store, Scripted]:
        client = Scripted(*answers)
        return Store(client, "t", pause=pauses.append), client

    return make


@pytest.fixture
def hold(settlement: Settlement) -> Call:
    return lambda of: of.commit(steps.hold(settlement, NOW))


@pytest.fixture
def claim_and_hold(settlement: Settlement, config: StageConfig) -> Call:
    return lambda of: of.transact(steps.claim_and_hold(settlement, "execution-1", NOW, config).writes)


@pytest.fixture
def order(settlement: Settlement, config: StageConfig) -> Call:
    return lambda of: of.commit(compensation.reverse_on_order(settlement, ORDER, NOW, config))


@pytest.fixture
def claim(settlement: Settlement, config: StageConfig) -> Call:
    return lambda of: of.claim(forward.claim(settlement, "execution-1", NOW, config))


@pytest.fixture
def reject(settlement: Settlement) -> Call:
    return lambda of: of.update(forward.reject(settlement, {"step": "hold", "error": "x", "cause": ""}, NOW))


@pytest.fixture
def put(settlement: Settlement) -> Call:
    return lambda of: of.put(entries.evidence(settlement, Step.VERIFY, APPROVED.evidence(), NOW))


@pytest.fixture
def read() -> Call:
    return lambda of: of.read(keys.account("alice"))


@pytest.fixture(params=["claim_and_hold", "hold", "order", "claim", "reject", "put", "read"])
def call(request: pytest.FixtureRequest) -> Call:
    made: Call = request.getfixturevalue(request.param)
    return made


@pytest.fixture(params=["claim", "reject", "put"])
def single(request: pytest.FixtureRequest) -> Call:
    made: Call = request.getfixturevalue(request.param)
    return made
