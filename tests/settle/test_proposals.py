"""`settle limbo propose`, `approve`, `withdraw`: what needs two persons, from the page to its end."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from handlers import _dependencies
from settle.actions import proposal, resolution
from settle.exit_codes import CommandFailed, Exit
from settle.queries import limbo, settlement
from settle.queries import proposal as proposals
from settlement.model.orders import Decision
from tests.settle.conftest import Command
from tests.settle.desk import ADA, GRACE, REASON, Desk
from tests.world.constants import KEY
from tests.world.environment import NOW

WRITE_OFF = Decision.WRITE_OFF


@pytest.fixture(autouse=True)
def _two_persons(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    config = replace(_dependencies.config, approvals={"write-off": 2, "reverse": 2})
    monkeypatch.setattr(_dependencies, "config", config)
    monkeypatch.setattr(proposals, "datetime", SimpleNamespace(now=lambda zone: NOW))


def refused(code: Exit, told: str, command: object, *given: object) -> None:
    with pytest.raises(CommandFailed, match=told) as failed:
        command(*given)  # type: ignore[operator]
    assert failed.value.code == code


def test_one_proposes_another_approves_and_the_outcome_is_told(desk: Desk) -> None:
    desk.stuck()
    refused(Exit.CONFLICT, "needs 2 persons", resolution.resolve, desk.stack, KEY, WRITE_OFF, REASON)

    proposed = proposal.propose(desk.stack, KEY, WRITE_OFF, REASON)
    shown = limbo.show(desk.stack, KEY)["proposal"]

    assert shown == settlement.describe(desk.stack, KEY)["proposal"]
    assert (shown["proposed_by"], shown["decision"], shown["approvals"]) == (ADA, "write-off", "0 of 1")
    command = f"settle limbo approve {KEY} --digest {shown['digest']} --stack under-test"
    assert proposed["command"] == shown["command"] == command
    refused(Exit.CONFLICT, "takes part in it", proposal.approve, desk.stack, KEY, shown["digest"])
    desk.door.by = GRACE
    outcome = proposal.approve(desk.stack, KEY, shown["digest"])

    assert outcome["status"] == "COMPENSATED"
    assert (desk.entry("resolve:1")["by"], desk.entry("resolve:1")["approved_by"]) == (ADA, GRACE)
    assert proposal.approve(desk.stack, KEY, shown["digest"]) == outcome


def test_a_case_is_shown_with_its_proposal_and_the_command_that_approves_it(
    desk: Desk, command: Command
) -> None:
    desk.stuck()
    proposed = proposal.propose(desk.stack, KEY, WRITE_OFF, REASON)

    code, text, _ = command("limbo", "show", KEY)

    told = (
        f"proposed by {ADA}: write-off: {REASON}\n"
        f"  approvals: 0 of 1, until {proposed['valid_until']}\n"
        f"  {proposed['command']}\n"
    )
    assert (code, told in text) == (Exit.FINE, True), text


@pytest.mark.parametrize("digest", ["", "abc", "0" * 12, "0" * 64])
def test_a_digest_that_was_not_shown_is_refused_before_anything_is_sent(desk: Desk, digest: str) -> None:
    desk.stuck()
    proposal.propose(desk.stack, KEY, WRITE_OFF, REASON)
    sent = len(desk.door.given)

    refused(Exit.CONFLICT, "digest: that of the latest", proposal.approve, desk.stack, KEY, digest)

    assert len(desk.door.given) == sent


def test_what_is_withdrawn_is_shown_no_more(desk: Desk) -> None:
    desk.stuck()
    digest = proposal.propose(desk.stack, KEY, WRITE_OFF, REASON)["digest"]

    proposal.withdraw(desk.stack, KEY, digest)

    assert "proposal" not in limbo.show(desk.stack, KEY)
    desk.door.by = GRACE
    refused(Exit.CONFLICT, "it is WITHDRAWN", proposal.approve, desk.stack, KEY, digest)


def test_nothing_proposed_is_nothing_to_approve(desk: Desk) -> None:
    desk.stuck()

    refused(Exit.CONFLICT, "nothing is proposed", proposal.approve, desk.stack, KEY, "0" * 12)
