"""The names of executions, which never change: an execution of another release has the same name."""

import re
from collections.abc import Callable

import pytest

from settlement.model import executions
from tests.world.templates import PROJECT

KEY = "order-2026-000101"
NAME_LENGTH_MAX = 80
"""The longest name of an execution in Step Functions."""


@pytest.mark.parametrize(
    ("build", "arguments", "expected"),
    [
        (executions.sent, ("5f2e",), "order-2026-000101-5f2e"),
        (executions.resume, (1,), "order-2026-000101-r1"),
        (executions.resume, (12,), "order-2026-000101-r12"),
        (executions.compensate, (0,), "order-2026-000101-compensate-0"),
        (executions.compensate, (3,), "order-2026-000101-compensate-3"),
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


def test_the_settlement_machine_starts_its_compensation_under_the_same_name() -> None:
    definition = (PROJECT / "statemachines/settlement.asl.json").read_text()
    (name,) = re.findall(r"States\.Format\('([^']*)', \$\.settlement\.key, \$\.owner_epoch\)", definition)

    assert name.format(KEY, 3) == executions.compensate(KEY, 3)


def test_no_two_kinds_of_execution_share_a_name() -> None:
    names = [
        executions.resume(KEY, 1),
        executions.compensate(KEY, 1),
        executions.decided(KEY),
        executions.queued(KEY, "1"),
        executions.ordered(KEY, "reverse", "1"),
        executions.ordered(KEY, "resolve", "1"),
    ]

    assert len(set(names)) == len(names)


@pytest.mark.parametrize("length", [16, 64])
def test_the_longest_key_makes_a_valid_name(length: int) -> None:
    key = "k" * length
    names = [
        executions.resume(key, 99_999),  # recovery takes 100 days to count that far
        executions.compensate(key, 9_999),
        executions.decided(key),
        executions.queued(key, "message"),
    ]

    assert max(map(len, names)) <= NAME_LENGTH_MAX
