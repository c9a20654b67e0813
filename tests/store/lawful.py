"""Judges whether a commit is lawful, from its rows before and after."""

from collections.abc import Mapping

from settlement.core.ledger.keys import Row
from settlement.core.model.orders import Decision
from settlement.core.model.status import FINISHED, REVERSIBLE, TRANSITIONS, Status, Step
from settlement.core.store.wire import from_wire
from tests.world.memory_dynamodb import Changes


def assert_lawful(changes: Changes) -> None:
    """Check that a commit deletes nothing, rewrites no entry and follows the table of transitions."""
    told = [(from_wire(before or {}), from_wire(after or {})) for before, after in changes]
    entered: dict[str, Row] = {}  # by their steps: a decision that moves money has evidence and entry
    for _, after in told:
        if "step" in after:
            entered[after["step"]] = entered.get(after["step"], {}) | after
    for before, after in told:
        if after["sk"] == "SETTLEMENT":
            assert_leads_on(before, after, entered)
            assert_slots(before, after, entered)
            assert_verdict(before, after, entered)
        elif after["sk"] == "WAITING":
            assert before.get("case", 0) <= after["case"], "forgets who waits for a later case"
        else:
            assert not before or after["sk"] == "BALANCE", f"written twice: {after}"


def assert_leads_on(before: Row, after: Row, entered: Mapping[str, Row]) -> None:
    """Check a settlement's status change in a commit that has `entered` these steps."""
    if not before:
        assert after["status"] in (Status.PROCESSING, Status.REJECTED)
        return
    was, is_now = Status(str(before["status"])), Status(str(after["status"]))
    assert was is is_now or is_now in TRANSITIONS[was], f"{was} became {is_now}"
    assert was is is_now or was is not Status.LIMBO or any(step.startswith("resolve:") for step in entered)
    assert was is not is_now or was not in FINISHED or after == before, "changed a finished settlement"
    assert was is Status.PROCESSING or not entered.keys() & set(Step), f"{entered} behind the fence"
    assert was is Status.COMPENSATING or not any(step.startswith("compensate:") for step in entered)
    for counted in ("owner_epoch", "resolutions"):
        assert 0 <= after.get(counted, 0) - before.get(counted, 0) <= 1


def assert_slots(before: Row, after: Row, entered: Mapping[str, Row]) -> None:
    """Check that each slot is written once, in one commit with its entry and with the same time."""
    slots = {step.slot: step.value for step in Step} | {
        step.reversal_slot: step.reversal for step in REVERSIBLE
    }
    gained = {}
    for slot, step in slots.items():
        assert slot not in before or after.get(slot) == before[slot], f"{slot} was written twice"
        if slot in after and slot not in before and step != Step.VERIFY:
            gained[step] = after[slot]
    moved = {step: row["posted_at"] for step, row in entered.items() if "debit" in row}
    if any(row.get("decision") == Decision.WRITE_OFF for row in entered.values()):
        ((covered, at),) = gained.items()  # the write-off's entry is in the place of the reversal's
        assert covered.startswith("compensate:")
        assert list(moved.values()) == [at]
    elif any(row.get("decision") == Decision.COMPLETE for row in entered.values()):
        assert (len(moved), gained) == (1, {})
    else:
        assert moved == gained


def assert_verdict(before: Row, after: Row, entered: Mapping[str, Row]) -> None:
    """Check that a verdict is written once, and a webhook's in one commit with its evidence."""
    verdict = after.get("verdict")
    assert before.get("verdict") in (None, verdict), "another verdict"
    if "review" in entered:
        assert "verdict" not in before, "a webhook's evidence of no verdict"
        assert verdict == entered["review"]["decision"]
