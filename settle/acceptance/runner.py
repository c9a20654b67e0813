from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from settle.acceptance.checks import BOOKS, BOOKS_ROWS, CHECKS
from settle.acceptance.limit import Overdue, at_most
from settle.acceptance.run import Run
from settle.acceptance.throttling import Throttled, quota_of_error, remedy
from settle.acceptance.verdict import Check, NotApplicable, Refuted, Result, Verdict
from settle.exit_codes import CommandFailed, message_of
from settle.order import ApprovalRequired, DoorForbidden
from settle.output.progress import counting
from settle.proof import books as proofs
from settle.stack import Stack

_DENIED = ("AccessDenied", "AccessDeniedException", "AuthorizationError", "AuthorizationErrorException")

GIVE_BACK_SECONDS_MAX = 600
"""Time limit for returning the money. A dead API must not delay the report."""

BOOKS_SECONDS_MAX = 3600
"""Time limit of the proof, which reads the whole table."""

_PROOFS_MAX = 3
"""As in `deployed.py`."""


@dataclass
class Report:
    run: str
    stack: str
    results: list[Result] = field(default_factory=list)
    figures: list[dict[str, Any]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    interrupted: bool = False

    @property
    def passed(self) -> bool:
        books_hold = any(one.check == BOOKS and one.verdict is Verdict.PROVEN for one in self.results)
        unproven = (one.verdict is Verdict.THROTTLED for one in self.results)
        return books_hold and not self.interrupted and not self.refuted and not any(unproven)

    @property
    def refuted(self) -> list[str]:
        return [one.check for one in self.results if one.verdict is Verdict.REFUTED]


def prove(stack: Stack, checks: Sequence[Check], tell: Callable[[str], None]) -> Report:
    """Run all checks, despite failures; give the money back, and prove the books. Ctrl-C still cleans up."""
    run = Run(stack)
    report = Report(run.id, stack.name, figures=run.figures)
    tell(f"run {run.id}: its accounts begin with acceptance-{run.id}-")
    try:
        for number, check in enumerate(checks, start=1):
            tell(f"{number} of {len(checks)}: {check.name}")
            report.results.append(judge(check, run))
    except KeyboardInterrupt:
        report.interrupted = True
    tell("the money goes back")
    in_flight: list[str] = []
    try:
        in_flight += run.in_flight()
        report.left = [*in_flight, *_give_back(run)]
        tell("the proof of the books")
        books = Check(BOOKS, lambda run: _books(run, in_flight), BOOKS_ROWS, BOOKS_SECONDS_MAX)
        report.results.append(judge(books, run))
    except KeyboardInterrupt:
        report.interrupted = True
        report.left += [f"what accounts acceptance-{run.id}-… still have: it was cut off twice"]
    return report


def judge(check: Check, run: Run) -> Result:
    """Run a check, and return its result. An unexpected exception refutes it.

    A denial or a throttle by AWS refutes nothing.
    """
    try:
        with at_most(check.seconds_max):
            verdict, evidence = Verdict.PROVEN, check.prove(run)
    except Overdue:
        verdict = Verdict.REFUTED
        evidence = f"has not ended after {check.seconds_max:g} s: it waited for {run.waits_for}"
    except NotApplicable as reason:
        verdict, evidence = Verdict.NOT_APPLICABLE, str(reason)
    except ApprovalRequired as refused:
        verdict, evidence = Verdict.NOT_APPLICABLE, f"the stage wants more persons: {refused}"
    except DoorForbidden as refused:
        verdict, evidence = Verdict.NOT_PERMITTED, str(refused)
    except Throttled as met:
        verdict, evidence = Verdict.THROTTLED, _with_remedy(str(met), met.quotas, check, run)
    except Refuted as found:
        verdict, evidence = Verdict.REFUTED, str(found)
    except Exception as failure:
        verdict, evidence = _of_failure(failure, check, run)
    return Result(check.name, verdict, " ".join(evidence.split()), check.rows)


def _of_failure(failure: Exception, check: Check, run: Run) -> tuple[Verdict, str]:
    # A CommandFailed has AWS's error as its cause.
    evidence = message_of(failure)
    quota = quota_of_error(failure) or quota_of_error(failure.__cause__)
    if quota is not None:
        return Verdict.THROTTLED, _with_remedy(evidence, [quota], check, run)
    denied = isinstance(failure, ClientError) and failure.response["Error"]["Code"] in _DENIED
    return Verdict.NOT_PERMITTED if denied else Verdict.REFUTED, evidence


def _with_remedy(evidence: str, quotas: Sequence[str], check: Check, run: Run) -> str:
    only = check.name if any(check.name == one.name for one in CHECKS) else None
    books = run.stack.command("reconcile")
    again = books if check.name == BOOKS else run.stack.command("acceptance", only=only)
    return f"{evidence}; {remedy(quotas, again)}"


def _give_back(run: Run) -> list[str]:
    left: list[str] = []
    try:
        with at_most(GIVE_BACK_SECONDS_MAX):
            for one in run.give_back():
                left.append(one)
    except Overdue:
        left.append(f"the rest, after {GIVE_BACK_SECONDS_MAX} s: it waited for {run.waits_for}")
    return left


def _books(run: Run, in_flight: list[str]) -> str:
    run.waits_for = "the proof of the whole table"
    for _ in range(_PROOFS_MAX):
        proof = _proof(run.stack)
        if proof["conserved"] or proof["faults"]:
            break
    if not proof["conserved"]:
        found = proof["faults"] or proof["unproven"]
        kind = "faults" if proof["faults"] else "rows unproven"
        raise Refuted(f"{len(found)} {kind}: {found[0]}")
    if in_flight:
        raise Refuted(f"left in flight: {', '.join(in_flight)}")
    judged = "with" if proof["signatures"] else "without"
    counts = ", ".join(f"{proof[name]} {name}" for name in ("accounts", "settlements", "entries"))
    return f"conserved, {judged} signatures: {counts}"


def _proof(stack: Stack) -> dict[str, Any]:
    try:
        stack.row_keys  # noqa: B018 - asks for the permission to read them
    except CommandFailed:
        return proofs.prove(stack, signatures=False, counting=counting)
    return proofs.prove(stack, counting=counting)
