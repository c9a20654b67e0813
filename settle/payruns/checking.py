"""Checks a pay run's spreadsheet against the stage before its proposal."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from settle.exit_codes import CommandFailed, Exit
from settle.payruns import on_record
from settle.payruns.on_record import OnRecord
from settle.payruns.sheet import Problem, Sheet
from settle.stack import Stack
from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.model import money
from settlement.core.model.state import AccountState
from settlement.core.model.stored import MalformedRow
from settlement.core.model.timestamps import timestamp
from settlement.core.store import batch
from settlement.payouts.destination import Destination
from settlement.payruns import bucket, file, outcomes
from settlement.payruns.file import Header, Kind, Line, RunFile
from settlement.payruns.run import ENDED, Status

EARLIER = timedelta(days=20)
"""Age up to which an ended run's equal lines are duplicates, unlike the salaries of two months."""

BACK = frozenset({"REJECTED", "COMPENSATED", "RETURNED", outcomes.REFUSED})
"""Outcomes after which the payer has the money: such a line may be paid again."""

Same = tuple[str, str, str, str | None]


@dataclass
class Checked:
    """A checked sheet. `left`: the payer's balance after the run, as decimal text, or None if unknown.

    `differs`: the new lines since the last run of this name, and the lines that are gone.
    """

    file: RunFile
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    left: str | None = None
    differs: tuple[list[Line], list[Line]] | None = None

    @property
    def run(self) -> str:
        return file.run_of(self.digest)

    @cached_property
    def digest(self) -> str:
        return file.digest_of(self.file.content)


def check(stack: Stack, sheet: Sheet, header: Header, at: datetime) -> Checked:
    """Check every line of a sheet. Raises CommandFailed, MalformedRow."""
    checked = Checked(RunFile(header, sheet.lines), list(sheet.problems))
    if len(checked.file.content) > bucket.BYTES_MAX:
        told = f"the run's file would have over {bucket.BYTES_MAX} bytes: split the sheet"
        checked.problems.append(Problem(0, "", told))
    known = None if sheet.problems else on_record.if_there(stack, checked.run)
    if known and (known.state.begun or known.state.status in ENDED):
        checked.notes.append(f"run {checked.run} has exactly these lines, and is {known.state.status}")
        return checked
    earlier = [] if not sheet.lines else _earlier(stack, checked, at)
    for line in sheet.lines:
        if problem := file.problem_of(checked.run, header, line, stack.config):
            checked.problems.append(Problem(line.number, "", problem))
    checked.problems += _payees(stack, header, sheet.lines, at)
    _payer(stack, checked)
    checked.problems += _equal(stack, checked.file, earlier)
    if unknown := sorted({*header.repeats} - {line.number for line in sheet.lines}):
        checked.problems.append(Problem(0, "", f"--repeat: no line {unknown[0]} is there"))
    checked.problems.sort()
    _compare(stack, checked, earlier)
    several = sum(count > 1 for count in Counter(line.payee for line in sheet.lines).values())
    if several:
        checked.notes.append(f"{several} payees have several lines")
    if sheet.left_out:
        checked.notes.append(f"left out: {len(sheet.left_out)} lines")
    return checked


def equal_lines(stack: Stack, run: RunFile, at: datetime) -> list[Problem]:
    """Name a recorded run's lines that are repeated, or that another run has paid or can still pay.

    Raises CommandFailed, MalformedRow.
    """
    checked = Checked(run)
    earlier = _earlier(stack, checked, at)
    return checked.problems + _equal(stack, run, earlier)


def _equal(stack: Stack, run: RunFile, earlier: Sequence[tuple[OnRecord, RunFile]]) -> list[Problem]:
    """Name lines that equal another, except lines that the run repeats on purpose."""
    found = (*_repeated(run.lines), *_paid_before(stack, run, earlier))
    return [one for one in found if one.line not in run.header.repeats]


def _payees(stack: Stack, header: Header, lines: Sequence[Line], at: datetime) -> Iterator[Problem]:
    of_payouts = header.kind is Kind.PAYOUTS
    names = sorted({line.payee for line in lines})
    kinds = (keys.destination, keys.destination_confirmed) if of_payouts else (keys.account,)
    damaged = dict[str, str]()
    wanted = [kind(name) for name in names for kind in kinds]
    rows = batch.read(stack.store, wanted, lambda place, why: damaged.update({keys.subject(place)[1]: why}))
    found = {(row["pk"], row["sk"]): row for row in rows}
    for line in lines:
        own = [found.get((place["pk"], place["sk"])) for place in (kind(line.payee) for kind in kinds)]
        try:
            why = damaged.get(line.payee) or (
                _destination(header, line, own, at) if of_payouts else _account(header, line, own[0])
            )
        except MalformedRow as malformed:
            why = str(malformed)
        if why:
            yield Problem(line.number, "payee", why)


def _account(header: Header, line: Line, row: Row | None) -> str | None:
    if line.payee == header.payer:
        return "is the payer itself"
    if row is None:
        return f"{line.payee} has no account here: open it, or mend the id"
    state = AccountState.from_row(row)
    if state.is_closed or state.is_frozen or state.is_blocked:
        what = "closed" if state.is_closed else "frozen" if state.is_frozen else "blocked by a case of LIMBO"
        return f"{line.payee} is {what}: leave the line out, or settle that first"
    if state.currency != line.currency:
        return f"{line.payee} has {state.currency}: the line must have the same currency"
    return None


def _destination(header: Header, line: Line, rows: Sequence[Row | None], at: datetime) -> str | None:
    first, second = rows
    if first is None:
        return f"{line.payee} is no bank account on record: add it by `settle payee add`"
    found = Destination.from_rows(first, second)
    if found.account != header.payer:
        return f"{line.payee} is a bank account of another customer"
    if found.frozen_at is not None:
        return f"{line.payee} is frozen"
    if found.payable_from is None:
        return f"{line.payee} is not confirmed by a second person"
    if timestamp(at) < found.payable_from:
        return f"{line.payee} may be paid from {found.payable_from}"
    return None


def _payer(stack: Stack, checked: Checked) -> None:
    header = checked.file.header
    state = stack.store.account(header.payer)
    if state is None:
        checked.problems.append(Problem(0, "", f"the payer {header.payer} has no account here"))
        return
    if state.is_closed or state.is_frozen or state.is_blocked:
        checked.problems.append(Problem(0, "", f"the payer {header.payer} is closed, frozen or blocked"))
    for line in checked.file.lines:
        if line.currency != state.currency:
            checked.problems.append(Problem(line.number, "currency", f"the payer has {state.currency} alone"))
    try:
        left = state.available - checked.file.sums(stack.config).get(state.currency, 0)
    except file.DamagedFile:  # a problem of its line says so
        return
    checked.left = f"{money.render(left, state.exponent(stack.config))} {state.currency}"
    if left < 0:
        checked.problems.append(
            Problem(0, "", f"the payer would have {checked.left}: pay in first, or leave lines out")
        )


def _same(line: Line) -> Same:
    whole, _, decimals = line.amount.partition(".")
    return line.payee, f"{whole}.{decimals.rstrip('0')}", line.currency, line.reference


def _repeated(lines: Sequence[Line]) -> Iterator[Problem]:
    first = dict[Same, int]()
    for line in lines:
        before = first.setdefault(_same(line), line.number)
        if before != line.number:
            told = f"is equal to line {before}: leave one out, give it a reference, or pass --repeat"
            yield Problem(line.number, "", told)


def _earlier(stack: Stack, checked: Checked, at: datetime) -> list[tuple[OnRecord, RunFile]]:
    """Return the payer's open and lately ended runs with their files, the latest first.

    Older runs are included if they have the same name or are the parent.
    """
    header, since = checked.file.header, timestamp(at - EARLIER)
    found, unreadable = list[tuple[OnRecord, RunFile]](), dict[str, str]()
    for one in on_record.every(stack, unreadable):
        proposal, state = one.proposal, one.state
        is_near = state.status not in ENDED or (state.changed_at or proposal.posted_at) >= since
        is_near = is_near or proposal.name == header.name or state.run == header.parent
        is_own = proposal.payer == header.payer and proposal.kind is header.kind
        if state.run == checked.run or not (is_own and is_near):
            continue
        try:
            found.append((one, on_record.file_of(stack, proposal)))
        except CommandFailed:
            if state.cut != 0:  # a run that was cancelled before it began has paid nothing
                raise
    checked.problems += [
        Problem(0, "", f"an earlier run cannot be read, so equal lines may be missed: {why}")
        for run, why in unreadable.items()
        if on_record.may_be_of(stack, run, header.payer)
    ]
    if header.parent and not any(one.state.run == header.parent for one, _ in found):
        raise CommandFailed(Exit.NOT_FOUND, f"parent: {header.payer} has no run {header.parent} of this kind")
    return found


def _paid_before(
    stack: Stack, run: RunFile, earlier: Sequence[tuple[OnRecord, RunFile]]
) -> Iterator[Problem]:
    wanted: Mapping[Same, list[Line]] = _by_content(run.lines)
    for one, its in earlier:
        equal = [line for line in its.lines if _same(line) in wanted]
        ended = one.state.status is Status.CANCELLED
        for told in outcomes.of_lines(stack.store, stack.config, one.state.run, its.header, equal):
            if told.status in BACK or (ended and told.status == outcomes.NOT_BEGUN):
                continue
            for line in wanted[_same(told.line)]:
                text = f"equals line {told.line.number} of run {one.proposal.name} ({told.status})"
                cancel = "cancel that run, " if told.status == outcomes.NOT_BEGUN else ""
                yield Problem(
                    line.number,
                    "",
                    f"{text}: {cancel}leave it out, or pass --repeat if it is another payment",
                )


def _by_content(lines: Sequence[Line]) -> dict[Same, list[Line]]:
    found = dict[Same, list[Line]]()
    for line in lines:
        found.setdefault(_same(line), []).append(line)
    return found


def _compare(stack: Stack, checked: Checked, earlier: Sequence[tuple[OnRecord, RunFile]]) -> None:
    last = next((its for one, its in earlier if one.proposal.name == checked.file.header.name), None)
    if last is None:
        return
    own, before = _by_content(checked.file.lines), _by_content(last.lines)
    new = [line for same, lines in own.items() if same not in before for line in lines]
    gone = [line for same, lines in before.items() if same not in own for line in lines]
    checked.differs = new, gone
    checked.notes.append(f"unlike the last run of this name: {len(new)} lines are new, {len(gone)} are gone")
