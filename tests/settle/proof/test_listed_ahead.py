import json

import pytest

from infra import kyc_config
from settle.exit_codes import Exit
from settlement.proof import table_scan
from tests.settle.conftest import Command
from tests.settle.desk import Desk
from tests.settle.proof.test_segments import stack  # noqa: F401
from tests.world.constants import KEY

FAR = "2036-11-20T12:00:00.000Z"
NAMED = f"SETTLEMENT#{KEY}: recovery's next look is at {FAR}"


@pytest.fixture
def hidden(desk: Desk) -> Desk:
    desk.pay(until="hold")
    desk.alter(deadline_at=FAR, gsi1sk=FAR)
    return desk


@pytest.mark.parametrize("segments", ["1", "2"])
def test_a_held_payment_listed_ahead_is_named(
    hidden: Desk,
    command: Command,
    stack: object,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    segments: str,
) -> None:
    monkeypatch.setattr("settle.stack.find", lambda name: stack)

    code, out, _ = command("reconcile", "--segments", segments)
    as_json = json.loads(command("reconcile", "--segments", segments, "--json")[1])

    assert (code, f"LISTED AHEAD {NAMED}" in out.splitlines()) == (Exit.FINE, True)
    assert (as_json["conserved"], as_json["listed_ahead"]) == (True, [NAMED])


def test_a_review_on_the_row_hides_no_payment_listed_ahead(hidden: Desk, command: Command) -> None:
    hidden.alter(review="ver_1", in_flight_since=FAR)

    assert json.loads(command("reconcile", "--json")[1])["listed_ahead"] == [NAMED]


def test_the_longest_allowed_review_is_not_listed_ahead() -> None:
    longest = kyc_config._BOUNDS["review_seconds"][1]

    assert table_scan.REVIEW_LISTED_AHEAD_MAX.total_seconds() == longest + 3600
