"""Execution names never change: the next release must find the same execution."""

import re
from collections.abc import Callable

import pytest

from settlement.core.model import executions
from tests.world.constants import NONCE
from tests.world.templates import PROJECT

KEY = "order-2026-000101"
NAME_LENGTH_MAX = 80


@pytest.mark.parametrize(
    ("build", "arguments", "expected"),
    [
        (executions.sent, ("5f2e",), "order-2026-000101-5f2e"),
        (executions.resume, (1, NONCE), "order-2026-000101-r1-00c0ffee"),
        (executions.resume, (12, NONCE), "order-2026-000101-r12-00c0ffee"),
        (executions.compensate, (0, NONCE), "order-2026-000101-c0-00c0ffee"),
        (executions.compensate, (3, NONCE), "order-2026-000101-c3-00c0ffee"),
        (executions.decided, (), "order-2026-000101-decided"),
        (executions.ordered, ("reverse", "5f2e"), "order-2026-000101-reverse-5f2e"),
        (executions.ordered, ("resolve", "5f2e"), "order-2026-000101-resolve-5f2e"),
        (executions.queued, ("{}",), "order-2026-000101-44136fa355b3"),  # of the SHA-256 of its body
        (executions.queued, ("\u00e4",), "order-2026-000101-33e6d73fee82"),
    ],
)
def test_the_name_of_an_execution_never_changes(
    build: Callable[..., str], arguments: tuple[object, ...], expected: str
) -> None:
    assert build(KEY, *arguments) == expected


def test_machine_and_code_give_a_compensation_the_same_name() -> None:
    definition = (PROJECT / "statemachines/settlement.asl.json").read_text()
    (name,) = re.findall(
        r"States\.Format\('([^']*)', \$\.settlement\.key, \$\.owner_epoch, \$\.nonce\)", definition
    )

    assert name.format(KEY, 3, NONCE) == executions.compensate(KEY, 3, NONCE)


@pytest.mark.parametrize("length", [16, 64])
def test_the_longest_key_makes_a_valid_name(length: int) -> None:
    key = "k" * length
    names = [
        executions.resume(key, 99_999, NONCE),  # recovery takes 1,000 days to count that far
        executions.compensate(key, 99_999, NONCE),
        executions.decided(key),
        executions.queued(key, "message"),
    ]

    assert max(map(len, names)) <= NAME_LENGTH_MAX
