import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from settle.settlements.machines import Machine
from settle.settlements.start import Ended, start
from settlement.core.ledger import keys
from tests.e2e.embedded import Embedded, at_once, new_request, paid_once

pytestmark = pytest.mark.long

STEPS = {"HoldFunds": "hold", "VerifyKyc": "verify", "ReleaseFunds": "release", "CollectFee": "fee"}
AT_ONCE = 16


@pytest.fixture
def settlement(embedded: Embedded) -> dict[str, Any]:
    """An unclaimed settlement, in the form in which states pass it on."""
    return new_request(embedded, fee="0.48")


def persistently(embedded: Embedded, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Call like a machine: retry if the busy table does not answer in time."""
    answers: list[dict[str, Any]] = []

    def is_served() -> bool:
        answers.append(call())
        return answers[-1].get("errorType") != "StoreUnavailable"

    embedded.wait_for(is_served)
    return answers[-1]


def test_64_identical_concurrent_starts_have_one_effect(
    embedded: Embedded, settlement: dict[str, Any]
) -> None:
    stack = embedded.sharing_one_client
    request, other = json.dumps(settlement), json.dumps(settlement | {"amount": "84.20"})
    key = settlement["key"]

    def after_the_claim(machine: Machine) -> Ended:
        embedded.wait_for(lambda: embedded.stack.store.read(keys.settlement(key)) is not None)
        return start(stack, machine, other)

    identical = [partial(start, stack, machine, request) for _ in range(32) for machine in Machine]
    *ended, refused_express, refused_standard = at_once(
        [*identical, *(partial(after_the_claim, machine) for machine in Machine)]
    )

    def is_settled() -> bool:
        """Recover the settlement, whose driver a busy table may have stalled; return whether it settled."""
        embedded.recover(key)
        return bool(embedded.settlement(key)["status"] == "SETTLED")

    embedded.wait_for(is_settled)
    assert len({one.execution for one in ended}) == 64
    told = [one for one in ended if one.outcome is not None]
    assert {one.error for one in ended if one not in told} <= {"SettlementStalled"}
    reports = [(one.outcome["status"], one.outcome["replayed"]) for one in told]
    assert reports.count(("SETTLED", False)) <= 1
    assert {*reports} <= {("SETTLED", False), ("SETTLED", True), ("PROCESSING", True)}
    assert [one.error for one in (refused_express, refused_standard)] == ["IdempotencyConflict"] * 2
    assert embedded.entries(key) == sorted(STEPS.values())
    assert paid_once(embedded, settlement)
    row = embedded.settlement(key)
    assert (row["status"], row["escrow"], row["amount"]) == ("SETTLED", 0, 4820)
    assert [one.execution for one in told if not one.outcome["replayed"]] in ([row["owner"]], [])

    with embedded.writes_nothing():
        again = [start(embedded.stack, machine, request).outcome for machine in Machine]
    assert [(one or {})["replayed"] for one in again] == [True] * 2


def test_a_key_claimed_concurrently_has_one_owner(embedded: Embedded, settlement: dict[str, Any]) -> None:
    claims = [
        partial(embedded.invoke, "HoldFunds", settlement, execution=f"execution-{n}") for n in range(AT_ONCE)
    ]

    results = at_once([partial(persistently, embedded, each) for each in claims])

    (owner,) = (number for number, result in enumerate(results) if "owner_epoch" in result)
    others = [result["errorType"] for number, result in enumerate(results) if number != owner]
    assert others == ["AlreadyClaimed"] * (AT_ONCE - 1)
    assert embedded.settlement(settlement["key"])["owner"] == f"execution-{owner}"
    assert embedded.entries(settlement["key"]) == ["hold"]


def test_a_step_called_concurrently_posts_one_entry(embedded: Embedded, settlement: dict[str, Any]) -> None:
    claimed_at, held = None, []

    for state in STEPS:
        call = partial(embedded.invoke, state, settlement, claimed_at=claimed_at)
        results = at_once([partial(persistently, embedded, call)] * AT_ONCE)

        assert [result for result in results if "errorType" in result] == []
        for result in results:
            result.pop("nonce", None)  # each answer has its own
        assert len({json.dumps(result, sort_keys=True) for result in results}) == 1
        claimed_at = claimed_at or results[0]["claimed_at"]
        held.append(embedded.available(settlement["payer"]))

    assert held == ["51.80"] * 4
    assert paid_once(embedded, settlement)
    assert embedded.entries(settlement["key"]) == sorted(STEPS.values())
