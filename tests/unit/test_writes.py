from collections.abc import Callable
from dataclasses import dataclass

import pytest

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, Write
from settlement.core.model.orders import Decision
from settlement.core.model.status import REVERSIBLE, Status, Step
from tests.unit import vectors
from tests.unit.conditions import admits, asked
from tests.unit.every_row import AFTER, states_met_by
from tests.unit.states import found
from tests.unit.vectors import CASES, EXECUTION, LISTED, ORDERS, SETTLEMENT, VERDICT, VERDICTS
from tests.world.rooms import is_there, needs

VECTORS = {vector.name: vector for module in vectors.BUILDERS.values() for vector in module}
"""Builders' calls by name. Tests build the writes, because mutants are not active at import."""

REPLAYED = "AlreadyApplied"
CONFLICT = f"IdempotencyConflict: key: {SETTLEMENT.key} was claimed by a request with other content"
MOVED_ON = "StepFenced: recover: the settlement has moved on"

Told = Callable[[str, Row], str]
"""A function that returns the refusal of a row of the write's own request, given the step's name."""


def committed(row: Row) -> set[Step]:
    return {step for step in Step if f"{step}_at" in row}


def undone(row: Row) -> set[Step]:
    return {step for step in REVERSIBLE if f"{step}_reversed_at" in row}


def before(step: Step) -> set[Step]:
    return set(list(Step)[: list(Step).index(step)])


def in_time(row: Row) -> bool:
    return row["deadline_at"] == AFTER and "expired_at" not in row


def is_due(step: Step, row: Row) -> bool:
    return step in committed(row) - undone(row)


def awaits_verdict(row: Row) -> bool:
    return committed(row) == {Step.HOLD} and "verdict" not in row and in_time(row)


# The refusals


def fenced(step: str, row: Row) -> str:
    steps = ", ".join(sorted(committed(row)))
    return f"StepFenced: {step}: the settlement is {row['status']} with steps [{steps}] committed"


def late_or_fenced(step: str, row: Row) -> str:
    """Return the refusal of a forward step: only the next one of a processing settlement can be late.

    Lateness depends on the row alone, and a fee is never late.
    """
    decided = step == Step.VERIFY and "verdict" in row  # a rejection is a verdict, but commits no step
    is_next = row["status"] is Status.PROCESSING and committed(row) == before(Step(step)) and not decided
    if is_next and step != Step.FEE and not in_time(row):
        return f"DeadlineExceeded: {step}: the settlement's deadline was {row['deadline_at']}"
    return fenced(step, row)


def reversed_or_fenced(step: str, row: Row) -> str:
    return f"{fenced(step, row)} and [{', '.join(sorted(undone(row)))}] reversed"


def advanced(step: str, row: Row) -> str:
    """Return a step's refusal. A committed step is replayed in any status: the slot is its record."""
    if Step(step) in committed(row):
        return REPLAYED
    is_next = row["status"] is Status.PROCESSING and committed(row) == before(Step(step))
    if step == Step.RELEASE and is_next and row["escrow"] != row["amount"]:
        return f"StepFenced: {step}: the escrow holds something else than was held"
    return late_or_fenced(step, row)


def undone_mismatched_or_fenced(step: str, row: Row) -> str:
    """Return a reversal's refusal: a mismatch waits for a person; a fence makes the machine look again.

    Reversed and written-off steps are replayed, because no money is left to take.
    """
    if Step(step.partition(":")[2]) in undone(row):
        return REPLAYED
    due = [each for each in REVERSIBLE if is_due(each, row)]
    if row["status"] is Status.COMPENSATING and due == [Step(step.partition(":")[2])]:
        return f"EscrowMismatch: {step}: the escrow holds something else than was held"
    return reversed_or_fenced(step, row)


def finished_or_fenced(step: str, row: Row) -> str:
    return REPLAYED if row["status"] is Status.COMPENSATED else reversed_or_fenced(step, row)


def replayed(step: str, row: Row) -> str:
    return REPLAYED


def rejected(step: str, row: Row) -> str:
    return REPLAYED if row["status"] is Status.REJECTED else fenced(step, row)


def in_review(row: Row) -> bool:
    return row["status"] is Status.PROCESSING and "review" in row


def decided_or_not_the_providers(step: str, row: Row) -> str:
    """Return a verdict's refusal. In a review it is a retry, because a fence would reverse the payment.

    The first verdict on record is kept and returned.
    """
    if "verdict" in row:
        return REPLAYED
    if in_review(row):
        return "KycUnavailable: kyc: another call was told meanwhile that the payment is in review"
    return late_or_fenced(step, row)


def decided_or_in_review(step: str, row: Row) -> str:
    return REPLAYED if "verdict" in row or in_review(row) else late_or_fenced(step, row)


def decided_or_of_another_verification(decision: str) -> Told:
    def told(step: str, row: Row) -> str:
        if "verdict" not in row:
            return of_another_verification(step, row)
        if row["verdict"] == decision:
            return REPLAYED
        return f"IdempotencyConflict: decision: {row['verdict']} is on record, for good"

    return told


def of_another_verification(step: str, row: Row) -> str:
    if in_review(row) and row["review"] != VERDICT.reference:
        return "StepFenced: reference: the settlement waits for another verification"
    return late_or_fenced(step, row)


def not_resolvable(step: str, row: Row) -> str:
    if row["status"] is Status.LIMBO:
        return "ResolutionRefused: resolution: the settlement has moved on since it was looked at"
    return f"StepFenced: {step}: the settlement is {row['status']}, not in LIMBO"


def not_as_expected(expected: Status) -> Told:
    def told(step: str, row: Row) -> str:
        if row["status"] is expected and parts_of(row):
            return f"NotReversible: {step}: {parts_of(row)} parts were reversed: reverse the rest in part"
        completed = row["status"] is Status.SETTLED and "resolution" in row
        found = f"{row['status']}{' and was completed out of LIMBO' if completed else ''}"
        return f"NotReversible: {step}: it was to be {expected}, but the settlement is {found}"

    return told


def parts_of(row: Row) -> int:
    parts: int = row["reversals_in_part"] if "reversals_in_part" in row else row.get("parts", 0)
    return parts


def not_reversible_in_part(part: int) -> Told:
    def told(step: str, row: Row) -> str:
        if row["status"] is not Status.SETTLED or "resolution" in row:
            completed = " and was completed out of LIMBO" if "resolution" in row else ""
            found = f"{row['status']}{completed}"
            return f"NotReversible: {step}: a part needs a SETTLED settlement, and it is {found}"
        if parts_of(row) != part - 1:
            return f"PartRefused: part: the next one is number {parts_of(row) + 1}"
        return "PartRefused: amount: is more than what is left of what was released"

    return told


BY_NAME = ("", ".by-name")
"""Vector variants of a reversal in part: it writes either layout and accepts both."""


def moved_on(step: str, row: Row) -> str:
    return MOVED_ON


def not_cancellable(step: str, row: Row) -> str:
    return f"NotCancellable: cancel: {_advice(row)}"


def not_as_seen(step: str, row: Row) -> str:
    if row["sequence"] != 1:
        return "SequenceChanged: If-Match: the sequence is 2, and not 1: read the outcome again"
    return not_cancellable(step, row)


def _advice(row: Row) -> str:
    is_paid, reversing = Step.RELEASE in committed(row), "a person's order reverses it"
    match row["status"]:
        case Status.PROCESSING if "review" in row or not committed(row):
            return "the payment has moved on meanwhile: send the same call again"
        case Status.PROCESSING if not is_paid:
            return (
                "the hold has committed, and the payment is not in review: wait for its outcome;"
                f" once it is SETTLED, {reversing}"
            )
        case Status.PROCESSING:
            told = f"the payee is paid; once it is SETTLED, {reversing}"
        case Status.SETTLED:
            told = f"it is too late to cancel; {reversing.removesuffix('it')}what has not been given back"
        case Status.COMPENSATING:
            told = "it is being reversed already; wait for its outcome"
        case Status.LIMBO:
            told = "its reversal is stuck, and a person decides; wait for its outcome"
        case Status.COMPENSATED:
            told = "the payer has everything back already, so that nothing is to be done"
        case _:
            told = "nothing was ever held, so that nothing is to be done"
    return f"the payment is {row['status']}: {told}"


# The rules


@dataclass(frozen=True)
class Rule:
    """Says when a write commits: on rows of its own request, in this status, that meet `and_if`.

    `step` is the subject of its refusals. A takeover ignores the request: `any_request`.
    """

    status: Status
    step: str
    told: Told
    and_if: Callable[[Row], bool] = lambda row: True
    any_request: bool = False


def forward(step: Step) -> Rule:
    """Return a step's rule. A fee has no deadline, and a release needs the whole amount in escrow."""
    return Rule(
        Status.PROCESSING,
        step,
        advanced,
        lambda row: (
            committed(row) == before(step)
            and (step is Step.FEE or in_time(row))
            and (step is not Step.RELEASE or row["escrow"] == row["amount"])
        ),
    )


def reversing(step: Step) -> Rule:
    """Return a reversal's rule. A void needs the whole amount in escrow and the fee given back."""
    return Rule(
        Status.COMPENSATING,
        step.reversal,
        undone_mismatched_or_fenced,
        lambda row: (
            is_due(step, row)
            and (step is not Step.HOLD or (row["escrow"] == SETTLEMENT.amount and not is_due(Step.FEE, row)))
        ),
    )


def entering(step: Step, number: int) -> Rule:
    return Rule(
        Status.COMPENSATING,
        "limbo",
        reversed_or_fenced,
        lambda row: row.get("resolutions") == number - 1 and step not in undone(row),
    )


def leaving(decision: Decision, step: Step) -> Rule:
    covered = {Decision.RETRY: None, Decision.WRITE_OFF: step, Decision.COMPLETE: Step.RELEASE}[decision]
    case = CASES[step]
    return Rule(
        Status.LIMBO,
        "resolve",
        not_resolvable,
        lambda row: (
            (row.get("resolutions"), row["escrow"]) == (case.number - 1, case.escrow)
            and (covered is None or is_due(covered, row))
        ),
    )


def taking_over(status: Status, and_if: Callable[[Row], bool] = lambda row: True) -> Rule:
    return Rule(
        status,
        "recover",
        moved_on,
        lambda row: (row["owner_epoch"], row["gsi1sk"]) == (0, LISTED) and and_if(row),
        any_request=True,
    )


def unreleased(row: Row) -> bool:
    return Step.RELEASE not in committed(row)


PROCESSING, COMPENSATING, LIMBO = Status.PROCESSING, Status.COMPENSATING, Status.LIMBO
RULES: dict[str, Rule] = {
    **{f"forward.advance.{step}": forward(step) for step in Step},
    "forward.reject": Rule(PROCESSING, "reject", rejected, lambda row: not committed(row)),
    "forward.reject.owned": Rule(
        PROCESSING, "reject", rejected, lambda row: not committed(row) and row["owner"] == EXECUTION
    ),
    "reversal.begin": Rule(PROCESSING, "compensate", replayed),
    "reversal.begin.owned": Rule(
        PROCESSING,
        "compensate",
        replayed,
        lambda row: row["owner"] == EXECUTION and "review" not in row and unreleased(row),
    ),
    "reversal.assign_owner": Rule(COMPENSATING, "compensate", replayed),
    **{
        f"reversal.begin_on_order.{expected.lower()}": Rule(
            expected,
            "reverse",
            not_as_expected(expected),
            lambda row: "resolution" not in row and not parts_of(row),
        )
        for expected in ORDERS
    },
    **{
        f"parts.count.first{variant}": Rule(
            Status.SETTLED,
            "reverse",
            not_reversible_in_part(1),
            lambda row: "resolution" not in row and not parts_of(row),
        )
        for variant in BY_NAME
    },
    **{
        f"parts.count.later{variant}": Rule(
            Status.SETTLED,
            "reverse",
            not_reversible_in_part(2),
            lambda row: (
                "resolution" not in row and parts_of(row) == 1 and row["reversed_in_part"] <= 4_772 - 1_000
            ),
        )
        for variant in BY_NAME
    },
    **{f"reversal.reverse_step.{step}": reversing(step) for step in REVERSIBLE},
    "reversal.finish_unheld": Rule(
        COMPENSATING, "compensate:hold", finished_or_fenced, lambda row: not committed(row)
    ),
    **{f"limbo.enter.{step}": entering(step, case.number) for step, case in CASES.items()},
    "limbo.enter.fee.done": Rule(
        COMPENSATING, "limbo", reversed_or_fenced, lambda row: row.get("resolutions") == 0
    ),
    **{
        f"limbo.leave.{decision}.{step}": leaving(decision, step)
        for decision in Decision
        for step in CASES
        if f"limbo.leave.{decision}.{step}" in VECTORS
    },
    **{
        f"kyc_review.record_verdict.{variant}": Rule(
            PROCESSING,
            "verify",
            decided_or_not_the_providers,
            lambda row: awaits_verdict(row) and "review" not in row,
        )
        for variant in VERDICTS
    },
    "kyc_review.begin_review": Rule(
        PROCESSING, "verify", decided_or_in_review, lambda row: awaits_verdict(row) and "review" not in row
    ),
    **{
        f"kyc_review.end_review.{variant}": Rule(
            PROCESSING,
            "verify",
            decided_or_of_another_verification(
                VECTORS[f"kyc_review.end_review.{variant}"].arguments[1].decision
            ),
            lambda row: awaits_verdict(row) and row.get("review") in (None, VERDICT.reference),
        )
        for variant in (*VERDICTS, "approved.deadline")
    },
    **dict.fromkeys(
        (f"recovery.take_over.processing{situation}" for situation in ("", ".released")),
        taking_over(PROCESSING, lambda row: "review" not in row),
    ),
    "recovery.take_over.processing.missed": taking_over(
        PROCESSING, lambda row: "review" not in row and unreleased(row)
    ),
    "takeover.take_over.processing.overdue": taking_over(
        PROCESSING, lambda row: row["deadline_at"] != AFTER and unreleased(row)
    ),
    "takeover.take_over.compensating": taking_over(COMPENSATING),
    "recovery.take_over.limbo": taking_over(LIMBO),
}
if is_there("doors"):
    RULES |= {
        "cancellation.before_hold": Rule(
            PROCESSING, "cancel", not_cancellable, lambda row: not committed(row)
        ),
        "cancellation.before_hold.seen": Rule(
            PROCESSING, "cancel", not_as_seen, lambda row: not committed(row) and row["sequence"] == 1
        ),
        "cancellation.in_review": Rule(PROCESSING, "cancel", not_cancellable, lambda row: "review" in row),
        "cancellation.in_review.seen": Rule(
            PROCESSING, "cancel", not_as_seen, lambda row: "review" in row and row["sequence"] == 1
        ),
    }
"""Rule of each update that requires one status."""

PUT_BACK = ["recovery.give_back", "recovery.postpone", "takeover.look_again"]
"""Writes that only move a settlement in flight within the index."""


@needs("doors")
@pytest.mark.parametrize("name", [name for name in RULES if name.startswith("cancellation.")] or [""])
def test_a_repeated_cancellation_is_replayed_whatever_sequence_its_caller_saw(name: str) -> None:
    write = built(name)
    made = {"sequence": 3, "reversed_for": {"error": "Cancelled"}, "status": Status.COMPENSATED}

    answers = {
        told(write.on_failure(found(row | made))) for row, _ in states_met_by(write) if admits(write, row)
    }

    assert answers == {REPLAYED}


def test_every_update_of_a_settlements_row_has_its_rule() -> None:
    updates = {name for name, write in vectors.settlement_writes().items() if write.action == "Update"}

    assert RULES.keys() | set(PUT_BACK) == updates & VECTORS.keys()


def commits(name: str, row: Row) -> bool:
    if name in PUT_BACK:
        return row.get("gsi1sk") == LISTED and row["gsi1pk"] != keys.LIMBO
    rule = RULES[name]
    return is_ours(name, row) and row["status"] is rule.status and rule.and_if(row)


def is_ours(name: str, row: Row) -> bool:
    return RULES[name].any_request or bool(row["request_hash"] == VECTORS[name].arguments[0].request_hash)


def refusal(name: str, row: Row | None) -> str:
    if name in PUT_BACK or RULES[name].any_request:
        return MOVED_ON
    step, key = RULES[name].step, VECTORS[name].arguments[0].key
    if row is None:
        error = "NotReversible" if "on_order" in name else "StepFenced"
        return f"{error}: {step}: the key {key} was never claimed"
    return RULES[name].told(step, row) if is_ours(name, row) else CONFLICT.replace(SETTLEMENT.key, key)


@pytest.mark.parametrize("name", RULES)
def test_a_write_commits_exactly_by_its_rule_and_explains_refusals(name: str) -> None:
    write, met = built(name), {True: 0, False: 0}

    admitting = asked(write)
    for row, state in states_met_by(write):
        expected = commits(name, row)
        assert admitting(row) == expected, row
        met[expected] += 1
        if not expected and row["escrow"] == 0:  # on which no refusal depends
            refused = write.on_failure(state)
            assert told(refused) == refusal(name, row), row
            assert not isinstance(refused, AlreadyApplied) or refused.found is state
            if is_ours(name, row) and not RULES[name].any_request:
                assert getattr(refused, "status", row["status"]) is row["status"]

    assert all(met.values())


@pytest.mark.parametrize("name", [*RULES, *PUT_BACK])
def test_an_update_of_an_unclaimed_key_creates_no_row(name: str) -> None:
    write = built(name)

    assert not admits(write, None)
    assert told(write.on_failure(None)) == refusal(name, None)


@pytest.mark.parametrize("name", PUT_BACK)
def test_any_settlement_in_flight_can_be_put_back_as_due(name: str) -> None:
    """The status may be unknown, but not LIMBO, where the sort key is the start of the case."""
    write = built(name)

    admitted = [row for row, _ in states_met_by(write) if admits(write, row)]

    assert {row["status"] for row in admitted} == {Status.PROCESSING, Status.COMPENSATING}
    assert {row["gsi1sk"] for row in admitted} == {LISTED}
    assert admits(write, admitted[0] | {"status": "unknown"})
    assert not admits(write, admitted[0] | {"gsi1pk": "LIMBO"})
    assert told(write.on_failure(found(admitted[0]))) == MOVED_ON


def built(name: str) -> Write:
    return vectors.only_write(VECTORS[name].build())


def told(refusal: Exception) -> str:
    if isinstance(refusal, AlreadyApplied):
        return REPLAYED
    return f"{type(refusal).__name__}: {refusal}"
