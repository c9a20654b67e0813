from typing import Any

import pytest

from settle.actions import resolution, reversal
from settle.exit_codes import CommandFailed, Exit
from settle.queries import settlement
from settlement.model.orders import Decision
from settlement.model.settlement import Settlement
from settlement.model.state import SettlementState
from tests.conftest import NOW
from tests.settle.desk import ADA, KEY, REASON, Desk

FORWARD = [
    ("hold", "alice → escrow", "48.20", "48.20"),
    ("verify", "", "", "48.20"),
    ("release", "escrow → bob", "47.72", "0.48"),
    ("fee", "escrow → fees:EUR", "0.48", "0.00"),
]


def timeline(desk: Desk) -> list[tuple[str, str, str, str]]:
    """Each entry's step, what it moved, how much, and the escrow after it."""
    entries = settlement.describe(desk.stack, KEY)["entries"]
    return [(line["step"], line["moved"], line["amount"], line["escrow"]) for line in entries]


def notes(desk: Desk) -> dict[str, str]:
    return {line["step"]: line["note"] for line in settlement.describe(desk.stack, KEY)["entries"]}


def advice(desk: Desk) -> dict[str, Any]:
    retry: dict[str, Any] = settlement.describe(desk.stack, KEY)["retry"]
    return retry


def steps_of(evidence: list[str]) -> list[str]:
    """The steps that the lines of evidence name, after their times."""
    return [line.split(" ")[1].removesuffix(":") for line in evidence]


def test_a_row_gives_back_the_settlement_that_was_claimed(desk: Desk, settlement: Settlement) -> None:
    desk.pay(until="claim")

    found = SettlementState.from_row(desk.row())

    assert found.settlement == settlement
    assert found.request_hash == settlement.request_hash == desk.row()["request_hash"]


def test_an_unclaimed_key_is_not_found(desk: Desk) -> None:
    desk.pay("order-2026-000102")

    with pytest.raises(CommandFailed) as told:
        settlement.describe(desk.stack, KEY)

    assert told.value.code is Exit.NOT_FOUND
    assert str(told.value) == f"key: no request has claimed {KEY} in under-test"


def test_a_settlement_is_told_step_by_step_with_its_escrow(desk: Desk) -> None:
    desk.pay()

    described = settlement.describe(desk.stack, KEY)

    assert timeline(desk) == FORWARD
    times = [line["posted_at"] for line in described["entries"]]
    assert times == sorted(set(times))
    assert (described["status"], described["escrow"], described["replayed"]) == ("SETTLED", "0.00", False)


def test_only_the_settlement_s_own_entries_are_told(desk: Desk) -> None:
    desk.pay()
    desk.pay("order-2026-0001012", amount="1.00", fee="0.00")

    assert timeline(desk) == FORWARD


def test_a_reversal_is_told_after_what_it_reverses(desk: Desk) -> None:
    desk.pay()
    reversal.reverse(desk.stack, KEY, "sent back")

    assert timeline(desk) == [
        *FORWARD,
        ("reverse", "", "", "0.00"),
        ("compensate:fee", "fees:EUR → escrow", "0.48", "0.48"),
        ("compensate:release", "bob → escrow", "47.72", "48.20"),
        ("compensate:hold", "escrow → alice", "48.20", "0.00"),
    ]


def test_the_way_through_limbo_is_told_with_why_and_who(desk: Desk) -> None:
    desk.stuck()
    resolution.resolve(desk.stack, KEY, Decision.WRITE_OFF, REASON)

    assert timeline(desk) == [
        *FORWARD[:3],
        ("compensate:fee", "", "", "0.48"),
        ("limbo:1", "", "", "0.48"),
        ("resolve:1", "losses:EUR → escrow", "47.72", "48.20"),
        ("compensate:hold", "escrow → alice", "48.20", "0.00"),
    ]
    assert notes(desk) == {
        "hold": "",
        "verify": notes(desk)["verify"],
        "release": "",
        "compensate:fee": "reason: nothing to reverse: fee never committed",
        "limbo:1": (
            "error: InsufficientFunds; cause: payee: the account has too little available"
            " to give back what it received"
        ),
        "resolve:1": f"decision: write-off; reason: {REASON}; by: {ADA}",
        "compensate:hold": "",
    }
    assert "reference: " in notes(desk)["verify"]


@pytest.mark.parametrize("until", ["hold", "fee"])
def test_entries_of_one_millisecond_are_told_in_the_order_of_their_steps(desk: Desk, until: str) -> None:
    """Clocks differ between functions: an escrow that seems to be overdrawn alarms its reader."""
    desk.pay(until=until)
    for step, *_ in FORWARD:
        if entry := desk.entry(step):
            desk.ledger.put(entry | {"posted_at": NOW.isoformat()})

    assert timeline(desk) == (FORWARD if until == "fee" else FORWARD[:1])


def claimed(desk: Desk) -> None:
    desk.pay(until="claim")


def held(desk: Desk) -> None:
    desk.pay(until="hold")


def settled(desk: Desk) -> None:
    desk.pay()


def rejected(desk: Desk) -> None:
    desk.pay(until="claim")
    desk.ledger.put(desk.row() | {"status": "REJECTED"})


def half_reversed(desk: Desk) -> None:
    desk.machines.detached = True
    desk.compensate(desk.pay(until="release"))
    desk.machines.machines.executions[0].run(until="VoidHold")


def compensated(desk: Desk) -> None:
    desk.compensate(desk.pay(until="release"))


def stuck(desk: Desk) -> None:
    desk.stuck()


def completed(desk: Desk) -> None:
    desk.stuck()
    resolution.resolve(desk.stack, KEY, Decision.COMPLETE, REASON)


def written_off(desk: Desk) -> None:
    desk.stuck()
    resolution.resolve(desk.stack, KEY, Decision.WRITE_OFF, REASON)


MOVED = ["hold", "release"]


@pytest.mark.parametrize(
    ("make", "status", "new_key", "evidence"),
    [
        (held, "PROCESSING", "NOT safe: it may still go through: the escrow has 48.20 EUR", ["hold"]),
        (
            settled,
            "SETTLED",
            "NOT safe: the payee has been paid, and would be paid twice",
            ["release", "fee"],
        ),
        (
            half_reversed,
            "COMPENSATING",
            "NOT safe: its reversal is not finished: the escrow has 48.20 EUR",
            [*MOVED, "compensate:release"],
        ),
        (compensated, "COMPENSATED", "safe: the payer is refunded in full", ["hold", "compensate:hold"]),
        (written_off, "COMPENSATED", "safe: the payer is refunded in full", ["hold", "compensate:hold"]),
        (
            stuck,
            "LIMBO",
            "NOT safe: it waits for a person's decision: the escrow has 0.48 EUR; see `settle limbo show`",
            MOVED,
        ),
        (completed, "SETTLED", "NOT safe: the payee has been paid, and would be paid twice", ["release"]),
    ],
)
def test_the_advice_follows_from_the_status_and_names_the_entries_that_prove_it(
    desk: Desk, make: Any, status: str, new_key: str, evidence: list[str]
) -> None:
    make(desk)

    found = advice(desk)

    assert found["same_key"] == f"safe: it answers {status} again and moves nothing"
    assert found["new_key"] == new_key
    assert found["new_key_safe"] is new_key.startswith("safe")
    assert steps_of(found["evidence"]) == evidence


@pytest.mark.parametrize(
    ("make", "new_key"),
    [
        (claimed, "NOT safe: it may still go through: the escrow has 0.00 EUR"),
        (rejected, "safe: nothing was ever held"),
    ],
)
def test_where_no_money_has_moved_the_evidence_says_so(desk: Desk, make: Any, new_key: str) -> None:
    make(desk)

    found = advice(desk)

    assert (found["new_key"], found["evidence"]) == (new_key, ["no journal entry moves money"])


def test_a_line_of_evidence_says_when_which_step_moved_how_much(desk: Desk) -> None:
    desk.pay(until="hold")
    entry = desk.entry("hold")
    assert entry is not None

    assert advice(desk)["evidence"] == [f"{entry['posted_at']} hold: alice → escrow 48.20"]


def test_what_was_reversed_before_anything_was_held_has_evidence_that_can_be_read(desk: Desk) -> None:
    desk.compensate(desk.pay(until="claim"))

    found = advice(desk)

    assert (desk.row()["status"], found["new_key_safe"]) == ("COMPENSATED", True)
    assert not [line for line in found["evidence"] if line.endswith(":")]
