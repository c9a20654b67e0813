from collections.abc import Callable
from typing import Any

import pytest

from settlement.core.ledger import forward
from settlement.core.model.settlement import Settlement
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.stored import MalformedRow
from settlement.core.policy import steps
from tests.store.failures.scripted import ANSWERED, Call, wire
from tests.world.environment import NOW
from tests.world.openings import opening
from tests.world.saga import ALICE


@pytest.mark.parametrize(
    "corrupt",
    [{"available": {"N": "0.5"}}, {"available": {"N": "1e-3"}}, {"failure": {"M": {"deep": {"N": "48.20"}}}}],
)
def test_a_row_with_a_non_integer_number_is_malformed(
    scripted: Any, read: Call, corrupt: dict[str, Any]
) -> None:
    sender, _ = scripted(ANSWERED | {"Item": wire(ALICE) | corrupt})

    with pytest.raises(MalformedRow, match=r"^ACCOUNT: .* every number in the table is an integer$"):
        read(sender)


@pytest.mark.parametrize("amount", [48.2, 4820.0, float("inf")])
def test_a_float_in_any_write_is_refused_before_sending(
    scripted: Any, config: StageConfig, settlement: Settlement, amount: Any
) -> None:
    sender, client = scripted()
    broken = Settlement(
        key="order-2026-000101", payer="alice", payee="bob", amount=amount, currency="EUR", fee=48
    )
    opened = [*opening("alice", 1, "EUR", NOW), *opening("bob", amount, "EUR", NOW)]
    sends: list[Callable[[], Any]] = [
        lambda: sender.transact(opened),
        lambda: sender.commit(steps.hold(broken, NOW)),
        lambda: sender.transact(steps.claim_and_hold(broken, "execution-1", NOW, config).writes),
        lambda: sender.commit(steps.release(broken, config, NOW)),
        lambda: sender.update(steps.hold(broken, NOW).settlement),
        lambda: sender.update(forward.reject(settlement, {"cause": amount}, NOW)),
    ]

    for send in sends:
        with pytest.raises(TypeError, match=r"[Ff]loat"):
            send()
    with pytest.raises(MalformedRow, match=r"amount is no int$"):
        sender.claim(forward.claim(broken, "execution-1", NOW, config))

    assert client.sent == []
