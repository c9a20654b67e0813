"""The stage's checks, in VerifyKyc. All must approve before the KYC provider is asked."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from handlers import _dependencies
from handlers.checks import _record
from settlement.checks import answers, of_stage, together, waits
from settlement.checks.check import Check, Payment, token_of
from settlement.checks.circuit import Circuits
from settlement.checks.of_stage import Installed
from settlement.checks.together import TooLate
from settlement.checks.tools import CheckTools
from settlement.core.ledger.keys import Row
from settlement.core.model.errors import CheckRefused, CheckUnavailable, InReview, StepFenced
from settlement.core.model.settlement import Settlement
from settlement.core.model.state import SettlementState
from settlement.core.model.stored import MalformedRow
from settlement.core.telemetry import count, logger, note

SECONDS_MAX = 3.0
"""The deadline of all checks together."""

RESERVED_SECONDS = 1.5
"""Time kept to record the answers. If none is left for the KYC provider, the next try asks it."""

_circuits = Circuits()

of_stage.installed()  # imports the checks' code with this module


def ensure_approved(settlement: Settlement, state: SettlementState, context: Any) -> None:
    """Return once all demanded checks have approved. A check is asked until its first answer is recorded.

    - Raises InReview while a check waits.
    - Raises CheckRefused for the first refusal in the stage's order.
    - Raises CheckUnavailable for a check that gives no valid answer, or that the stage lacks.
    """
    installed = {name: one for name, one in of_stage.installed().items() if name in state.checks}
    if name := waits.waited_for(state):
        _end_if_answered(settlement, installed[name].check if name in installed else None)
        raise _waiting(settlement, name)
    demanded = [*installed, *sorted(state.checks - installed.keys())]
    evidence = {name: found for name in demanded if (found := _on_record(settlement, name))}
    _raise_refusal(demanded, evidence)
    waiting, faults = list[Check](), list[CheckUnavailable]()
    unanswered = [name for name in demanded if name not in evidence]
    for name, answer in _answers(settlement, state, installed, unanswered, context).items():
        if isinstance(answer, CheckUnavailable):
            faults.append(answer)
        elif answer is None:
            waiting.append(installed[name].check)
        else:
            evidence[name] = answer
    note("checks", {name: str(found.get("decision")) for name, found in evidence.items()})
    _raise_refusal(demanded, evidence)
    if faults:
        raise faults[0]
    if waiting:
        _wait(settlement, state, waiting, context)


def _answers(
    settlement: Settlement,
    state: SettlementState,
    installed: Mapping[str, Installed],
    names: Sequence[str],
    context: Any,
) -> dict[str, Row | CheckUnavailable | None]:
    """Ask checks at once. Return each check's evidence or fault. None: the check waits."""
    now, found = _dependencies.now(), dict[str, Row | CheckUnavailable | None]()
    for name in names:
        if name not in installed:
            found[name] = CheckUnavailable(f"check {name}: this stage has none")
        elif _circuits.is_open(name, now):
            found[name] = answers.broken(installed[name].check, "is not asked: its last calls failed")
    asked = {name: installed[name] for name in names if name not in found}
    for name, answer in _ask(settlement, asked, context).items():
        found[name] = _judged(settlement, state, installed[name].check, answer)
    return found


def _judged(
    settlement: Settlement, state: SettlementState, check: Check, answer: object
) -> Row | CheckUnavailable | None:
    try:
        evidence = _recorded(settlement, state, check, answer)
    except CheckUnavailable as fault:
        _circuits.note(check.name, _dependencies.now(), failed=True)
        count(answers.metric_of(check.name, "unavailable"))
        return fault
    _circuits.note(check.name, _dependencies.now(), failed=False)
    if evidence and evidence.get("decision") == answers.APPROVED:  # the record counts a refusal
        count(answers.metric_of(check.name, "approved"))
    return evidence


def _recorded(settlement: Settlement, state: SettlementState, check: Check, answer: object) -> Row | None:
    if isinstance(answer, BaseException):
        raise _fault(check, answer)
    content = answers.content_of(check, answer, "ask")
    if content is None:
        return None
    if content["decision"] == answers.REFUSED:
        return _record.record(state, check, content, _dependencies.now())
    return _dependencies.store.put(waits.evidence(settlement, check, content, _dependencies.now()))


def _on_record(settlement: Settlement, name: str) -> Row | None:
    return _dependencies.store.evidence(settlement.key, answers.step_of(name))


def _raise_refusal(demanded: Sequence[str], evidence: Mapping[str, Row]) -> None:
    for name in demanded:
        decision = evidence[name].get("decision") if name in evidence else answers.APPROVED
        if decision == answers.REFUSED:
            raise CheckRefused(f"check {name}: {evidence[name].get('reason')}")
        if decision != answers.APPROVED:
            raise MalformedRow(f"{name}: its evidence has no decision of a check")


def _ask(settlement: Settlement, asked: Mapping[str, Installed], context: Any) -> dict[str, Any]:
    if not asked:
        return {}
    seconds = min(SECONDS_MAX, context.get_remaining_time_in_millis() / 1000 - RESERVED_SECONDS)
    if seconds <= 0:
        raise CheckUnavailable("check: not asked, as too little of the call's time is left")
    shared = ("key", "payer", "payee", "amount", "currency", "fee", "payer_name", "payee_name", "reference")
    payment = Payment(
        **{name: getattr(settlement, name) for name in shared}, metadata=dict(settlement.metadata or {})
    )
    calls = {}
    for name, one in asked.items():
        tools = CheckTools(_dependencies.now, seconds, one.secret_ids)
        calls[name] = partial(one.check.ask, payment, token_of(settlement.key, name), tools)
    return together.ask(calls, seconds)


def _fault(check: Check, error: BaseException) -> CheckUnavailable:
    """Name only the error's class: its text may hold anything."""
    logger.warning("check", check=check.name, error=type(error).__name__)
    why = str(error) if isinstance(error, TooLate) else f"fails with {type(error).__name__}"
    return answers.broken(check, why)


def _wait(settlement: Settlement, state: SettlementState, checks: list[Check], context: Any) -> None:
    """Make the payment wait for the check whose time ends first, and raise InReview.

    If a callback has answered meanwhile, continue with its answer. Recovery's next run expires an overdue
    wait.
    """
    now, store = _dependencies.now(), _dependencies.store
    check = min(checks, key=lambda one: waits.ends_at(one, state))
    until = waits.ends_at(check, state)
    try:
        begun = store.update(waits.begin(settlement, check, [one.name for one in checks], until, now))
    except StepFenced:
        found = store.settlement(settlement.key)
        if not (found and any(_on_record(settlement, one.name) for one in checks)):
            raise
        ensure_approved(settlement, found, context)
        return
    name = waits.waited_for(begun) or check.name
    if name == check.name:
        _end_if_answered(settlement, check)
    count("CheckWaits")
    count(answers.metric_of(name, "waits"))
    raise _waiting(settlement, name)


def _end_if_answered(settlement: Settlement, check: Check | None) -> None:
    if check and (found := _on_record(settlement, check.name)):
        now, store = _dependencies.now(), _dependencies.store
        since, config = found["posted_at"], _dependencies.config
        store.update(waits.end(settlement, check, check.name, since=since, now=now, config=config))


def _waiting(settlement: Settlement, name: str) -> InReview:
    gone = "" if name in of_stage.installed() else ", which this stage no longer has: it ends at its deadline"
    return InReview(f"check {name}: {settlement.key} waits for its callback{gone}")
