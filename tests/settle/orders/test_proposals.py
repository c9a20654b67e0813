import shlex
from typing import Any

import pytest

from settle.exit_codes import Exit
from settle.orders import limbo, resolution
from settle.orders import proposing as proposal
from settle.settlements import settlement
from settlement.core.ledger import keys
from settlement.core.model.orders import Decision
from tests.settle.conftest import Command, failing
from tests.settle.desk import ADA, GRACE, REASON, Desk
from tests.world.constants import KEY

WRITE_OFF = Decision.WRITE_OFF


pytestmark = pytest.mark.usefixtures("two_persons")


@pytest.fixture
def proposed(desk: Desk) -> dict[str, Any]:
    """Ada's proposal to write a case off; Grace gives the next order."""
    desk.stuck()
    shown = proposal.propose(desk.stack, KEY, WRITE_OFF, REASON)
    desk.door.by = GRACE
    return shown


def refused(code: Exit, told: str, command: object, *given: object) -> None:
    with failing(code, told):
        command(*given)  # type: ignore[operator]


def test_one_person_proposes_and_another_approves_with_the_outcome_shown(desk: Desk) -> None:
    desk.stuck()
    refused(Exit.CONFLICT, "needs 2 persons", resolution.resolve, desk.stack, KEY, WRITE_OFF, REASON)

    proposed = proposal.propose(desk.stack, KEY, WRITE_OFF, REASON)
    shown = limbo.show(desk.stack, KEY)["proposal"]

    assert shown == settlement.describe(desk.stack, KEY)["proposal"]
    assert (shown["proposed_by"], shown["decision"], shown["approvals"]) == (ADA, "write-off", "0 of 1")
    assert (
        proposed["command"]
        == shown["command"]
        == (
            f"settle limbo approve {KEY} write-off --case 1 --amount 47.72 --digest {shown['digest']}"
            " --stack under-test"
        )
    )
    refused(Exit.CONFLICT, "takes part in it", proposal.approve, desk.stack, KEY, shown)
    desk.door.by = GRACE
    outcome = proposal.approve(desk.stack, KEY, shown)

    assert outcome["status"] == "COMPENSATED"
    assert (desk.entry("resolve:1")["by"], desk.entry("resolve:1")["approved_by"]) == (ADA, GRACE)
    assert proposal.approve(desk.stack, KEY, shown) == outcome


@pytest.mark.parametrize(
    ("option", "other"), [("--case", "2"), ("--amount", "47.00"), ("--digest", "0" * 64)]
)
def test_the_printed_command_approves_only_what_was_shown(
    desk: Desk, command: Command, proposed: dict[str, Any], option: str, other: str
) -> None:
    printed = shlex.split(proposed["command"])[1:]
    altered = printed.copy()
    altered[altered.index(option) + 1] = other
    with desk.writes_nothing():
        code, _, error = command(*altered)

    assert (code, f"ProposalRefused: {option[2:]}: " in " ".join(error.split())) == (Exit.CONFLICT, True)
    code, _, error = command(*printed)
    assert (code, error, desk.row()["status"]) == (Exit.FINE, "", "COMPENSATED")


def test_a_proposal_with_an_equal_digest_prefix_is_not_approved(desk: Desk, command: Command) -> None:
    """Reasons whose digests begin alike are found within minutes, so a prefix proves nothing."""
    desk.stuck()
    printed = proposal.propose(desk.stack, KEY, WRITE_OFF, "1.00")["command"]
    words = shlex.split(printed)[1:]
    digest = words[words.index("--digest") + 1]
    desk.alter(keys.proposal(KEY), seen=digest[:12] + "0" * 52, reason="47.00")
    desk.door.by = GRACE

    code, _, error = command(*words)

    assert (code, "it is not that of the latest" in " ".join(error.split())) == (Exit.CONFLICT, True)
    assert desk.door.given[-1][1]["digest"] == digest


def test_limbo_show_prints_the_proposal_and_its_approval_command(
    command: Command, proposed: dict[str, Any]
) -> None:
    code, text, _ = command("limbo", "show", KEY)

    told = (
        f"proposed by {ADA}: write-off: {REASON}\n"
        f"  approvals: 0 of 1, until {proposed['valid_until']}\n"
        f"  {proposed['command']}\n"
    )
    assert (code, told in text) == (Exit.FINE, True), text


@pytest.mark.parametrize("digits", [0, 12, 63])
def test_a_shortened_digest_is_refused(desk: Desk, proposed: dict[str, Any], digits: int) -> None:
    cut = proposed | {"digest": proposed["digest"][:digits]}
    for move in (proposal.approve, proposal.withdraw):
        refused(Exit.USAGE, "digest: must be the proposal's, of 64", move, desk.stack, KEY, cut)


def test_a_withdrawn_proposal_is_no_longer_shown(desk: Desk, proposed: dict[str, Any]) -> None:
    desk.door.by = ADA

    proposal.withdraw(desk.stack, KEY, proposed)

    assert "proposal" not in limbo.show(desk.stack, KEY)
    desk.door.by = GRACE
    refused(Exit.CONFLICT, "it is WITHDRAWN", proposal.approve, desk.stack, KEY, proposed)
