"""Comparison of a settlement's evidence with its row, events and proposals."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from settlement.core.ledger.kyc_review import REVIEW
from settlement.core.model import accounts
from settlement.core.model.orders import Decision
from settlement.core.model.status import Status, Step
from settlement.core.model.verdict import CHECK, KycDecision
from settlement.proof import values
from settlement.proof.facts import (
    EventFacts,
    EvidenceFacts,
    ProposalFacts,
    SettlementFacts,
    WaitingFacts,
)

PROPOSALS = ("propose:", "approve:", "withdraw:")


def differences(row: SettlementFacts, evidence: Collection[EvidenceFacts]) -> Iterator[str]:
    facts = {one.step: one for one in evidence}
    yield from _verdict_differs(row, facts)
    yield from _checks_differ(row, facts)
    rare = facts.keys() - {_VERIFY}
    if (
        rare
        or row.waits
        or row.answered
        or row.parts
        or row.resolutions
        or row.resolution
        or row.ordered
        or row.stuck
        or row.since
    ):
        yield from _times_differ(row, facts)
        yield from _cases_differ(row, facts)
        yield from _parts_differ(row, facts)
        yield from _persons_differ(facts)
        if row.ordered != (facts[_REVERSE].content if _REVERSE in facts else None):
            yield "its order to reverse it is not that of its evidence"
    for one in evidence:
        if one.request_hash != row.request_hash:
            yield f"its evidence {one.step} is of another request"


def of_others(
    evidence: Iterable[EvidenceFacts], events: Collection[EventFacts], waiting: WaitingFacts | None
) -> Iterator[str]:
    facts = {one.step: one for one in evidence}
    decided_at = facts[REVIEW].posted_at if REVIEW in facts else None
    at_fault = [one.event for one in events if one.received_at != decided_at]
    if at_fault or len(events) > 1:
        names = at_fault or sorted(one.event for one in events)
        yield f"its evidence does not explain the event {', '.join(names)} of a webhook"
    if waiting and f"{_LIMBO}{waiting.number}" not in facts:
        yield f"an execution waits for the decision on case {waiting.number}, which was never opened"


def of_proposals(evidence: Collection[EvidenceFacts], latest: ProposalFacts | None) -> Iterator[str]:
    """Compare the proposals' evidence with the latest proposal's row. One transaction writes both."""
    proposed = {one.step.removeprefix(_PROPOSE): one for one in evidence if one.step.startswith(_PROPOSE)}
    moves = {one.step for one in evidence if one.step.startswith(PROPOSALS)}
    for move in sorted(moves):
        if move.split(":")[1] not in proposed:
            yield f"its evidence {move} is about a proposal that is not on record"
    newest = max(map(int, proposed), default=0)
    if latest is None:
        if proposed:
            yield f"{newest} proposals are on record, but the row of the latest one is gone or cannot be read"
    elif latest.number != newest:
        yield f"the row of its latest proposal is of number {latest.number}, its evidence of {newest}"
    else:
        said = (latest.approvals, latest.is_withdrawn, latest.is_done)
        approvals = sum(move.startswith(f"approve:{newest}:") for move in moves)
        persons = proposed[str(newest)].persons
        is_done = any(one.persons.split(" ")[0] == persons and one.step not in moves for one in evidence)
        if said != (approvals, f"withdraw:{newest}" in moves, is_done):
            yield f"its proposal {newest} has moved further, or less far, than its row says"


def _verdict_differs(row: SettlementFacts, facts: Mapping[str, EvidenceFacts]) -> Iterator[str]:
    """Compare the verdict with its evidence.

    A webhook writes both at once. The provider's direct answer may leave evidence without a verdict.
    """
    proof = facts.get(REVIEW) or facts.get(_VERIFY)
    said = proof.decision if proof else None
    if row.verdict is not None and said != row.verdict:
        yield f"its verdict is {row.verdict}, its evidence {said}"
    if row.verdict is None and REVIEW in facts:
        yield f"has no verdict, its evidence {said}"
    if (row.verdict == _APPROVED) != (row.verify_at is not None):
        is_committed = "is not" if row.verify_at is None else "is"
        yield f"its verdict is {row.verdict}, but verify {is_committed} committed"


def _checks_differ(row: SettlementFacts, facts: Mapping[str, EvidenceFacts]) -> Iterator[str]:
    """Compare the checks with their evidence. All checks must approve before the provider does."""
    said = {step.removeprefix(CHECK): one.decision for step, one in facts.items() if step.startswith(CHECK)}
    demanded, answered = row.checks.split(), row.answered.split()
    if row.verdict == _APPROVED:
        for name in demanded:
            if said.get(name) != _APPROVED:
                yield f"its verdict is {row.verdict}, but the check {name} has not approved"
    for name in said:
        if name not in demanded:
            yield f"the check {name} has answered, but was never demanded"
    for name in answered:
        if name not in said:
            yield f"the check {name} has answered, but has no evidence"
    if row.waits > len(answered):
        yield f"has waited for {row.waits} checks, of which {len(answered)} have answered"


def _times_differ(row: SettlementFacts, facts: Mapping[str, EvidenceFacts]) -> Iterator[str]:
    review, order = facts.get(REVIEW), facts.get(_REVERSE)
    if review and row.verify_at not in (None, review.posted_at):
        yield f"verify committed at {row.verify_at}, its evidence is of {review.posted_at}"
    for at in (row.fee_reversed_at, row.release_reversed_at, row.hold_reversed_at):
        if order and at and values.is_long_before(at, order.posted_at):
            yield f"a step was reversed at {at}, but the order to reverse it is of {order.posted_at}"
    proof = order or review
    ended = {one.posted_at for step, one in facts.items() if row.waits and step.startswith(CHECK)}
    since = {proof.posted_at} if proof else {None, *ended}  # None while in review
    if row.resolution is None and row.since not in since:
        yield f"is in flight since {row.since}, its evidence is of another time"


def _cases_differ(row: SettlementFacts, facts: Mapping[str, EvidenceFacts]) -> Iterator[str]:
    closed = {step for step in facts if step.startswith(_RESOLVE)}
    if not _are_numbered(closed, _RESOLVE, row.resolutions):
        yield f"has {row.resolutions} closed cases, its evidence {sorted(closed)}"
    opened = {step for step in facts if step.startswith(_LIMBO)}
    if not _are_numbered(opened, _LIMBO, row.resolutions + (row.status == Status.LIMBO)):
        yield f"has {row.resolutions} closed cases and is {row.status}, its evidence {sorted(opened)}"
    latest = facts.get(f"{_RESOLVE}{row.resolutions}")
    if row.resolution != (latest.decision if latest else None):
        yield f"its latest decision is {row.resolution}, its evidence has another"
    elif row.resolved != (latest.content if latest else None):
        yield "its latest decision is not that of its evidence"
    yield from _covered_differs(row, facts)
    stuck = facts.get(f"{_LIMBO}{row.resolutions + 1}")
    if row.stuck != (stuck.content if stuck else None):
        yield "its case of LIMBO is not that of its evidence"
    for step in sorted(opened):
        case, decision = facts[step], facts.get(f"{_RESOLVE}{step.removeprefix(_LIMBO)}")
        if case.account not in (row.payer, row.payee, accounts.fees(row.currency)):
            yield f"its evidence {step} is of another account"
        if decision and decision.account != case.account:
            yield f"its evidence {decision.step} is of another account than {step}"


def _covered_differs(row: SettlementFacts, facts: Mapping[str, EvidenceFacts]) -> Iterator[str]:
    written_off = (one for one in facts.values() if one.decision == Decision.WRITE_OFF)
    covered = " ".join(sorted({_RELEASE if one.account == row.payee else _FEE for one in written_off}))
    if row.covered != (covered or None):
        yield f"the losses have covered {row.covered}, by its evidence {covered or None}"


def _parts_differ(row: SettlementFacts, facts: Mapping[str, EvidenceFacts]) -> Iterator[str]:
    parts = {step: one for step, one in facts.items() if step.startswith(_PART)}
    if not _are_numbered(parts, _PART, row.parts):
        yield f"has {row.parts} reversals in part, its evidence {sorted(parts)}"
    total = sum(one.amount or 0 for one in parts.values())
    if row.reversed_in_part != total:
        yield f"has reversed {row.reversed_in_part} in part, its evidence {total} (minor units)"
    for step, one in sorted(parts.items()):
        if row.fee_at and values.is_long_before(one.posted_at, row.fee_at):
            yield f"its evidence {step} is of {one.posted_at}, but it settled at {row.fee_at}"


def _persons_differ(facts: Mapping[str, EvidenceFacts]) -> Iterator[str]:
    """Find the proposal behind each decision. Proposals' rows are unsigned, so they could be forged."""
    for step, one in facts.items():
        is_decision = step == _REVERSE or step.startswith((_RESOLVE, _PART))
        if one.persons and is_decision and not _is_agreed(one, facts):
            yield f"its evidence {step} names persons whose proposal or approval is not on record"


def _is_agreed(decision: EvidenceFacts, facts: Mapping[str, EvidenceFacts]) -> bool:
    """Whether a recorded proposal, neither withdrawn nor too old, has all approvals but the last."""
    proposer, *others = decision.persons.split(" ")
    for step, one in facts.items():
        number = step.removeprefix(_PROPOSE)
        if number == step or one.persons != proposer:
            continue
        approvals = [facts.get(f"approve:{number}:{count}") for count in range(1, len(others) + 1)]
        if [approval.persons if approval else None for approval in approvals] == others:
            is_old = values.is_long_before(one.posted_at, decision.posted_at)
            return f"withdraw:{number}" not in facts and not is_old
    return False


def _are_numbered(steps: Collection[str], prefix: str, length: int) -> bool:
    """Whether the steps are numbered from 1 to `length`, which may be forged and huge."""
    return len(steps) == length and {*steps} == {f"{prefix}{number}" for number in range(1, length + 1)}


_RELEASE, _FEE = Step.RELEASE.value, Step.FEE.value
_VERIFY, _REVERSE, _RESOLVE, _LIMBO = Step.VERIFY.value, "reverse", "resolve:", "limbo:"
_PART, _PROPOSE = "reverse-part:", "propose:"
_APPROVED = KycDecision.APPROVED.value
