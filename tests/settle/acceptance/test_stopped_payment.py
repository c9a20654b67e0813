from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from settle.acceptance import trouble
from tests.settle.conftest import raising
from tests.world.step_functions import client_error

SETTLED = SimpleNamespace(status="SETTLED", owner_epoch=0)


def stopped(code: str) -> bool:
    """Return whether recovery settled a payment whose stop is refused with an error code."""
    client = SimpleNamespace(
        start_execution=lambda **call: {"executionArn": call["name"]},
        stop_execution=raising(client_error("StopExecution", code)),
    )
    run: Any = SimpleNamespace(
        id="r",
        stack=SimpleNamespace(
            client=lambda name: client,
            outputs={"SettlementStandardArn": "machine"},
            store=SimpleNamespace(settlement=lambda key: SETTLED),
        ),
        stopped_at=None,
        wait_for=lambda what, ask: ask(),
        at_rest=lambda key: SETTLED,
    )
    return trouble._stopped(run, {"key": "k"})[1]


def test_a_payment_that_ended_before_its_stop_is_not_recovered() -> None:
    assert stopped("ValidationException") is False


def test_a_stop_that_is_denied_ends_the_check() -> None:
    with pytest.raises(ClientError, match="AccessDenied"):
        stopped("AccessDenied")
