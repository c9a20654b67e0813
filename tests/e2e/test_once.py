import json
import time
from collections.abc import Callable
from functools import partial
from itertools import takewhile
from typing import Any

import pytest

from settle.actions.start import Ended, start
from settle.machines import Machine
from tests.e2e.embedded import Embedded, at_once, new_account, new_key

STEPS = {"HoldFunds": "hold", "VerifyKyc": "verify", "ReleaseFunds": "release", "CollectFee": "fee"}
STEP_SECONDS_MAX = 60


@pytest.fixture
def settlement(embedded: Embedded) -> dict[str, str]:
    """Alice, who has 100.00 EUR, pays Bob, who has nothing: not claimed yet, in the form states pass on."""
    return {
        "key": new_key("once"),
        "payer": new_account(embedded, "alice", "100.00"),
        "payee": new_account(embedded, "bob"),
        "amount": "48.20",
        "currency": "EUR",
        "fee": "0.48",
    }


def claim(embedded: Embedded, settlement: dict[str, str]) -> dict[str, Any]:
    claimed = embedded.invoke("ClaimKey", settlement)
    assert claimed["replayed"] is False
    return claimed


def invoke(
    embedded: Embedded, state: str, settlement: dict[str, str], claimed: dict[str, Any]
) -> dict[str, Any]:
    return embedded.invoke(
        state,
        settlement,
        claimed_at=claimed["claimed_at"],
        error={"Error": "InsufficientFunds", "Cause": "a direct call"},
    )


def persistently(embedded: Embedded, call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Call as a machine does: again where the table does not answer in time, as it may not to 32 at once."""
    answers: list[dict[str, Any]] = []

    def is_served() -> bool:
        answers.append(call())
        return answers[-1].get("errorType") != "StoreUnavailable"

    embedded.wait_for(is_served)
    return answers[-1]


def commit(embedded: Embedded, settlement: dict[str, str], claimed: dict[str, Any], *states: str) -> None:
    for state in states:
        assert "errorType" not in invoke(embedded, state, settlement, claimed)


def test_64_identical_concurrent_starts_have_one_effect(
    embedded: Embedded, settlement: dict[str, str]
) -> None:
    stack = embedded.sharing_one_client
    request, other = json.dumps(settlement), json.dumps(settlement | {"amount": "84.20"})
    key = settlement["key"]

    def after_the_claim(machine: Machine) -> Ended:
        """Ask for other content while the storm is on, but not before the key is taken."""
        give_up_at = time.monotonic() + STEP_SECONDS_MAX
        while embedded.stack.store.read({"pk": f"SETTLEMENT#{key}", "sk": "SETTLEMENT"}) is None:
            assert time.monotonic() < give_up_at, "no request has claimed the key"
        return start(stack, machine, other)

    identical = [partial(start, stack, machine, request) for _ in range(32) for machine in Machine]
    *ended, refused_express, refused_standard = at_once(
        [*identical, *(partial(after_the_claim, machine) for machine in Machine)]
    )

    assert [(one.error, one.message) for one in ended if one.outcome is None] == []
    assert len({one.execution for one in ended}) == 64
    reports = [(one.outcome["status"], one.outcome["replayed"]) for one in ended]
    assert reports.count(("SETTLED", False)) == 1
    assert {report for report in reports if report != ("SETTLED", False)} <= {
        ("SETTLED", True),
        ("PROCESSING", True),
    }
    assert [one.error for one in (refused_express, refused_standard)] == ["IdempotencyConflict"] * 2

    assert sorted(embedded.entries(key)) == sorted(f"{key}:{step}" for step in STEPS.values())
    assert embedded.available(settlement["payer"]) == "51.80"
    assert embedded.available(settlement["payee"]) == "47.72"
    row = embedded.settlement(key)
    assert (row["status"], row["escrow"], row["amount"]) == ("SETTLED", 0, 4820)
    (driver,) = (one.execution for one in ended if not one.outcome["replayed"])
    assert row["owner"] == driver


def test_the_same_key_again_much_later_has_no_effect(embedded: Embedded, settlement: dict[str, str]) -> None:
    first = start(embedded.stack, Machine.EXPRESS, json.dumps(settlement))
    before = embedded.rows()

    again = [start(embedded.stack, machine, json.dumps(settlement)) for machine in Machine]

    assert first.outcome is not None
    assert [one.outcome for one in again] == [first.outcome | {"replayed": True}] * 2
    assert embedded.rows() == before


@pytest.mark.parametrize(
    ("committed", "fenced"),
    [
        ([], ["VerifyKyc", "ReleaseFunds", "CollectFee"]),
        (["HoldFunds"], ["ReleaseFunds", "CollectFee", "RejectSettlement"]),
        (["HoldFunds", "VerifyKyc"], ["CollectFee", "RejectSettlement"]),
        (["HoldFunds", "VerifyKyc", "ReleaseFunds"], ["RejectSettlement"]),
        (["HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee"], ["RejectSettlement"]),
        (["RejectSettlement"], ["HoldFunds", "VerifyKyc", "ReleaseFunds", "CollectFee"]),
    ],
    ids=["claimed", "held", "verified", "released", "settled", "rejected"],
)
def test_a_step_out_of_its_order_is_fenced_and_changes_nothing(
    embedded: Embedded, settlement: dict[str, str], committed: list[str], fenced: list[str]
) -> None:
    claimed = claim(embedded, settlement)
    commit(embedded, settlement, claimed, *committed)
    before = embedded.rows()

    refusals = {state: invoke(embedded, state, settlement, claimed).get("errorType") for state in fenced}

    assert refusals == dict.fromkeys(fenced, "StepFenced")
    assert embedded.rows() == before


@pytest.mark.parametrize("state", [*STEPS, "RejectSettlement", "ReportOutcome"])
def test_a_step_of_an_unclaimed_key_is_fenced(
    embedded: Embedded, settlement: dict[str, str], state: str
) -> None:
    before = embedded.rows()

    refusal = embedded.invoke(
        state,
        settlement,
        claimed_at="2026-11-20T12:00:00.000Z",
        error={"Error": "E", "Cause": "c"},
        replayed=True,
    )

    assert refusal["errorType"] == "StepFenced"
    assert refusal["errorMessage"].endswith(f"the key {settlement['key']} was never claimed")
    assert embedded.rows() == before


@pytest.mark.parametrize("state", [*STEPS, "RejectSettlement"])
def test_a_step_with_other_content_than_was_claimed_is_refused(
    embedded: Embedded, settlement: dict[str, str], state: str
) -> None:
    committed_before = [] if state == "RejectSettlement" else STEPS
    claimed = claim(embedded, settlement)
    commit(embedded, settlement, claimed, *takewhile(lambda step: step != state, committed_before))
    before = embedded.rows()

    refusal = invoke(embedded, state, settlement | {"amount": "84.20"}, claimed)

    assert refusal["errorType"] == "IdempotencyConflict"
    assert embedded.rows() == before


def test_a_step_called_32_times_at_once_posts_one_entry(
    embedded: Embedded, settlement: dict[str, str]
) -> None:
    claimed = claim(embedded, settlement)
    key = settlement["key"]
    balances = {}

    for state in STEPS:
        call = partial(invoke, embedded, state, settlement, claimed)
        results = at_once([partial(persistently, embedded, call)] * 32)

        assert [result for result in results if "errorType" in result] == []
        assert len({json.dumps(result, sort_keys=True) for result in results}) == 1
        balances[state] = [embedded.available(settlement[party]) for party in ("payer", "payee")]

    assert balances == {
        "HoldFunds": ["51.80", "0.00"],
        "VerifyKyc": ["51.80", "0.00"],
        "ReleaseFunds": ["51.80", "47.72"],
        "CollectFee": ["51.80", "47.72"],
    }
    assert sorted(embedded.entries(key)) == sorted(f"{key}:{step}" for step in STEPS.values())
    row = embedded.settlement(key)
    assert (row["status"], row["escrow"], row["steps"]) == ("SETTLED", 0, set(STEPS.values()))


def test_a_key_claimed_32_times_at_once_has_one_owner(embedded: Embedded, settlement: dict[str, str]) -> None:
    claims = [partial(embedded.invoke, "ClaimKey", settlement, execution=f"execution-{n}") for n in range(32)]

    results = at_once([partial(persistently, embedded, each) for each in claims])

    assert [result["replayed"] for result in results].count(False) == 1
    owner = f"execution-{[result['replayed'] for result in results].index(False)}"
    assert embedded.settlement(settlement["key"])["owner"] == owner
