"""A handler's file, state, placeholder, function and grants share a name."""

import re
from collections import Counter

import pytest

from infra import grants, rooms
from tests.statemachines.definitions import (
    CALLED,
    DEFINITIONS,
    EVENTS,
    INVOCATIONS,
    LAMBDA,
    PUTS,
    START,
    STARTS,
    TOKEN,
    WAITS,
    leaves,
    task,
)
from tests.world.rooms import there

STATES = {name for _, name in INVOCATIONS}

OTHER_PLACEHOLDERS = {
    "settlement": ["StartCompensation", "Compensation"],
    "compensation": ["EventBus", "EventBus"],
}
"""Placeholders besides functions, one per occurrence."""


def test_every_handler_is_a_granted_state_or_has_another_trigger() -> None:
    """Other triggers: a webhook, the clock, a queue, a person or a stream."""
    assert grants.STATES.keys() == STATES
    assert rooms.HANDLERS.keys() - STATES == {
        *("KycDecided", "RecoverStalled", "SealJournal"),
        *("TakeOrder", "ReadSettlements", "ReconcileBooks", "SendPage", "PublishEvents"),
        *there("doors", "StartSettlements", "AcceptSettlements", "CancelSettlement"),
        *there("merchants", "SweepMerchants"),
    }


def test_each_task_calls_a_function_bus_or_machine() -> None:
    assert {name for _, name in PUTS} == {"PageOnCall", "AnnounceResolution"}
    assert STARTS == [("settlement", "Compensate")]
    assert WAITS == [("compensation", "AwaitResolution")]
    assert set(CALLED.values()) == {LAMBDA, TOKEN, EVENTS, START}


@pytest.mark.parametrize("machine", DEFINITIONS)
def test_each_task_calls_the_function_named_like_it(machine: str) -> None:
    functions = [name for owner, name in INVOCATIONS if owner == machine]
    texts = [str(value) for _, value in leaves(DEFINITIONS[machine])]
    placeholders = [name for text in texts for name in re.findall(r"\$\{(.*?)\}", text)]

    assert Counter(placeholders) == Counter(functions + OTHER_PLACEHOLDERS[machine])
    for name in functions:
        assert task(machine, name)["Parameters"]["FunctionName"] == f"${{{name}}}"
