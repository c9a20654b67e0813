"""`settle reconcile`, cut off during a second look, names the row and exits with 1."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import pytest

from settle.exit_codes import Exit
from settle.output import progress
from settle.proof import segments
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.proof import CutOff
from settlement.proof.watch import looking_again
from tests.settle.conftest import Command
from tests.settle.desk import Desk
from tests.world.constants import KEY

WHY = "no time is left"


@pytest.fixture
def wrong(desk: Desk) -> Desk:
    """A settled payment with a wrong escrow, and a payer with a wrong balance: accounts are judged last."""
    desk.pay()
    desk.alter(escrow=5)
    desk.alter(keys.account("alice"), available=1)
    return desk


def cut_off(phase: str, done: int) -> None:
    """Cut off only the second look at an account."""
    if phase == looking_again("ACCOUNT"):
        raise CutOff(WHY)


def test_the_command_names_the_unproven_account_and_earlier_faults(
    wrong: Desk, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def counting(estimates: object) -> Iterator[Any]:
        yield cut_off

    monkeypatch.setattr(progress, "counting", counting)

    code, out, _ = command("reconcile")

    assert code == Exit.FAILED
    lines = out.splitlines()
    assert any(line.startswith(f"FAULT SETTLEMENT#{KEY}: ") for line in lines)
    assert f"UNPROVEN ACCOUNT#alice: its second look was cut off: {WHY}" in lines
    assert not any("FAULT ACCOUNT#alice" in line for line in lines)
    assert any(line.startswith("UNPROVEN the table: cut off after ") for line in lines)


def test_second_looks_by_several_processes_have_the_same_watch(wrong: Desk) -> None:
    server = wrong.ledger.client.meta.endpoint_url
    stack = Stack("under-test", wrong.stack.outputs, boto3.Session(), server)

    findings = segments.check(stack, 2, cut_off)

    named = [one.partition(":")[0] for one in findings.unproven]
    assert (named, findings.cut_off) == (["ACCOUNT#alice", "the table"], WHY)
    assert {one.partition(":")[0] for one in findings.faults} == {f"SETTLEMENT#{KEY}"}
