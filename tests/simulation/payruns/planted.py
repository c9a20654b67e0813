"""Lists bugs, planted one at a time into the pay runs' functions, which the lives must find."""

from collections.abc import Iterator
from dataclasses import dataclass

from handlers.payruns import _orders, pay_lines
from settlement.payruns import file, outcomes, paying, run, writes
from tests.simulation.payouts import planted as payouts
from tests.simulation.payouts.planted import planted
from tests.simulation.payruns.lives import SCRIPTS, Deviation, Life, Script, singles


@dataclass(frozen=True)
class Bug(payouts.Bug):
    """A bug to plant. `kinds`: the deviations that find it; empty if any can."""

    kinds: tuple[str, ...] = ()


_COUNTED_ONCE = (
    writes,
    "keys.payrun_approved(run.run, caller.person)",
    "keys.payrun_approved(run.run, caller.by)",
)
_READ_ONCE = (
    _orders,
    "if store.read(keys.payrun_approved(run, caller.person)) is None:",
    "if True:",
)
_EVERYWHERE = 'Condition("attribute_not_exists(nothing)")'
PAYS, BATCHES, CANCELLED, SPOILT, PAUSED, PAYOUTS, ONE = (script.name for script in SCRIPTS)

BUGS = (
    # 1: a line's key has one content, and each line is paid at most once
    Bug("1: two lines have one key", (PAYS,), ((file, "{number:06}", "{number // 4:06}"),)),
    Bug(
        "1: a key has the time of its start",
        (PAYS,),
        (
            (
                paying,
                "file.request_of(state.run, header, line)",
                "file.request_of(str(self.now()), header, line)",
            ),
        ),
    ),
    Bug(
        "1: a line's payer and payee are exchanged",
        (PAYS,),
        (
            (
                file,
                'parties = {"payer": header.payer, "payee": line.payee}',
                'parties = {"payer": line.payee, "payee": header.payer}',
            ),
        ),
    ),
    # 2: nothing starts before the needed approvals of distinct persons
    Bug(
        "2: who proposes approves",
        (ONE,),
        (
            (run, "return approved - {person_of(proposal.by)}", "return approved"),
            (_orders, "if person_of(one.by) == caller.person:", "if False:"),
        ),
    ),
    Bug(
        "2: one person in two roles is two",
        (ONE,),
        (_COUNTED_ONCE, _READ_ONCE, (run, 'person_of(str(row.get("by")))', 'str(row.get("by"))')),
    ),
    Bug("2: a row counts more approvals than it has", (ONE,), (_COUNTED_ONCE, _READ_ONCE)),
    Bug(
        "2: one approval is enough",
        (ONE,),
        (
            (writes, "approvals >= one.needed", "approvals >= 1"),
            (paying, "len(persons) < proposal.needed", "len(persons) < 1"),
        ),
    ),
    Bug(
        "2: an approved run needs no order",
        (PAYS,),
        ((writes, "Status.APPROVED if approvals", "Status.RUNNING if approvals"),),
    ),
    Bug(
        "2: an order is recorded of the proposer",
        (BATCHES,),
        (
            (
                writes,
                '"by": caller.by,\n        "posted_at": after.changed_at',
                '"by": one.by,\n        "posted_at": after.changed_at',
            ),
        ),
    ),
    Bug(
        "2: who pauses a run is not recorded",
        (BATCHES,),
        (
            (
                writes,
                'return _move(run, after), _ordered("pause", after, one, caller)',
                "return (_move(run, after),)",
            ),
        ),
    ),
    # 3: after a cancellation nothing begins beyond the cut, and while it is paused, nothing begins
    Bug(
        "3: a cancellation stops no batch",
        (PAYS,),
        ((writes, "_RUNNING, _NOT_CUT, _still", "_RUNNING, _still"),),
        kinds=("cancel",),
    ),
    Bug(
        "3: a cancellation cuts lines that began meanwhile",
        (CANCELLED,),
        ((writes, '_move(run, after, _still(run, "begun"))', "_move(run, after)"),),
        kinds=("second worker",),
    ),
    Bug(
        "3: a pause stops no batch",
        (BATCHES,),
        ((writes, "_RUNNING, _NOT_CUT", "_NOT_CUT"),),
        kinds=("pause",),
    ),
    Bug(
        "3: a worker forgets the cut",
        (CANCELLED,),
        ((writes, "_RUNNING, _NOT_CUT, _still", "_RUNNING, _still"),),
        {(run.Run, "last"): property(lambda one: one.lines)},
    ),
    Bug(
        "3: a worker starts lines that have not begun",
        (PAYS,),
        (
            (
                paying,
                "found.lines[state.started : state.begun]",
                "found.lines[state.started : state.begun + 1]",
            ),
        ),
    ),
    Bug(
        "3: a cancelled run runs on when it is resumed",
        (CANCELLED, PAUSED),
        (
            (
                writes,
                "status=status, cut=run.begun)",
                "status=Status.PAUSED if run.begun else status, cut=None if run.begun else 0)",
            ),
        ),
    ),
    # 4: counts never contradict
    Bug(
        "4: two workers begin the same lines twice",
        (PAYS,),
        ((writes, '_RUNNING, _NOT_CUT, _still(run, "begun")', "_RUNNING, _NOT_CUT"),),
        kinds=("second worker",),
    ),
    Bug(
        "4: a late worker counts lines again",
        (PAYS,),
        ((writes, 'told, _still(run, "ended"))', 'told, _still(run, "name"))'),),
    ),
    Bug(
        "4: a late worker's starts are counted back",
        (PAYS, BATCHES),
        (
            (
                writes,
                '{"started": run.begun}, _still(run, "started"), _still(run, "begun"))',
                '{"started": run.begun}, _still(run, "name"))',
            ),
        ),
    ),
    Bug(
        "4: a line that has not ended is left out",
        (PAYS,),
        ((paying, "list(takewhile(", "list(filter("),),
    ),
    Bug(
        "4: progress counts as a change of status",
        (PAYS,),
        ((writes, "{**run.to_row(), **told}", '{**run.to_row(), **told, "sequence": run.sequence + 1}'),),
    ),
    Bug(
        "4: a proposal of the same file begins anew",
        (PAYS,),
        (
            (
                writes,
                "return put(row, on_failure=meaning), put(run.to_row(), on_failure=meaning)",
                f"return put(row, meaning, {_EVERYWHERE}), put(run.to_row(), meaning, {_EVERYWHERE})",
            ),
        ),
    ),
    # 5: each line at most once, and a refused line never
    Bug(
        "5: a reservation has no row of its line",
        (PAYOUTS,),
        ((pay_lines, "reserve(payout, (beside,))", "reserve(payout, ())"),),
    ),
    Bug(
        "5: a taken line is refused, too",
        (PAYOUTS,),
        (
            (
                writes,
                '"posted_at": timestamp(now)}\n    return put(row, on_failure=AlreadyApplied)',
                f'"posted_at": timestamp(now)}}\n    return put(row, AlreadyApplied, {_EVERYWHERE})',
            ),
        ),
        kinds=("money",),
    ),
    # 6: at the end each line has its outcome, and sums are those of the rows
    Bug(
        "6: a run ends when its lines are started",
        (PAYS,),
        constants={(run.Run, "is_over"): property(lambda one: one.started == one.last)},
    ),
    Bug(
        "6: lines that a dead worker began are left",
        (PAYS,),
        ((paying, "self._start(state, found)", "pass"),),
    ),
    Bug(
        "6: a refusal is not recorded",
        (PAYS,),
        ((paying, "self._commit(writes.refused(state.run, line.number, *told, self.now()))", "pass"),),
    ),
    Bug(
        "6: a refusal of settings is recorded at once",
        (SPOILT,),
        ((paying, "return state.cut is None or str(", "return False and str("),),
    ),
    Bug(
        "6: a refusal of settings is recorded at the cancellation",
        (SPOILT,),
        ((paying, "timestamp(self.now() - OUTLIVED)", "timestamp(self.now())"),),
    ),
    Bug(
        "6: an unknown start is a refusal",
        (PAYS,),
        ((paying, "except Refusal as refusal:", "except Exception as refusal:"),),
    ),
    Bug(
        "6: an amount is counted as another",
        (PAYS,),
        ((paying, "+= file.minor_units(one.line, config)", "+= 1"),),
    ),
    Bug(
        "6: limbo is an outcome",
        (PAYS,),
        constants={(outcomes, "FINAL"): outcomes.FINAL | {"LIMBO"}},
    ),
    Bug(
        "6: a payment under way is an outcome",
        (PAYS,),
        constants={(outcomes, "FINAL"): outcomes.FINAL | {"PROCESSING"}},
    ),
    Bug(
        "6: a cancelled run is finished",
        (CANCELLED,),
        ((writes, "Status.FINISHED if run.cut is None else Status.CANCELLED", "Status.FINISHED"),),
    ),
    Bug(
        "6: another's payment is the line's",
        (PAYS,),
        ((outcomes, "steps.verify_same_request(parse_request(request, config), state)", "pass"),),
    ),
    Bug(
        "6: a cancelled run never ends",
        (CANCELLED,),
        (
            (
                paying,
                "if state.is_over and state.status",
                "if state.cut is None and state.is_over and state.status",
            ),
        ),
    ),
)
PARTS = 23


def first_fault(bug: Bug) -> tuple[tuple[Deviation, ...], str] | None:
    scripts = [script for script in SCRIPTS if script.name in bug.scripts]
    with planted(bug):
        try:
            for life in _lives(bug, scripts):
                if life.broken:
                    return life.deviations, life.broken[0]
        except Exception as error:
            return (), f"{type(error).__name__}: {error}"
    return None


def _lives(bug: Bug, scripts: list[Script]) -> Iterator[Life]:
    for part in range(PARTS):
        for script in scripts:
            yield from singles(script, PARTS, part, bug.kinds)
