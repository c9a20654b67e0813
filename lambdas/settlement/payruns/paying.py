"""Pays a run's lines. A call begins parts, starts their lines, records this, then counts ended lines.

If a call dies, the next one starts its lines again. A key starts once, so concurrent calls only repeat work.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

from settlement.core.ledger import keys
from settlement.core.ledger.keys import Row
from settlement.core.ledger.transaction import AlreadyApplied, Write
from settlement.core.model.errors import InvalidRequest, PayRunRefused, Refusal
from settlement.core.model.stage_config import StageConfig
from settlement.core.model.stored import MalformedRow
from settlement.core.model.timestamps import timestamp
from settlement.core.store import batch
from settlement.core.store.dynamodb import Store
from settlement.payruns import file, outcomes, run, writes
from settlement.payruns.file import DamagedFile, Header, Kind, Line, RunFile
from settlement.payruns.run import Proposal, Run, Status

BATCH = 40
"""Lines of a part. At most one part is still paid after a cancellation."""

Start = Callable[[dict[str, Any], Header, Line, str], None]
"""Starts a line's payment. Takes request, header, line and run.

Raises a Refusal, or an error after which a retry may succeed.
"""

Each = Callable[[Callable[[Line], Exception | None], Iterable[Line]], list[Exception | None]]

OUTLIVED = timedelta(minutes=5)
"""Time after which no call still runs: five times the longest call."""


class NotProven(Exception):
    """The run has no signed proposal with enough approvals, or its file differs from it."""


class Payer:
    """Pays runs. `read_file` takes a digest. `in_time`: whether there is time for another batch."""

    def __init__(  # noqa: PLR0913
        self,
        store: Store,
        config: StageConfig,
        now: Callable[[], datetime],
        *,
        read_file: Callable[[str], bytes],
        start: Start,
        each: Each,
        is_proven: Callable[[Row], bool],
        in_time: Callable[[], bool],
    ) -> None:
        self.store, self.config, self.now = store, config, now
        self.read_file, self.start, self.each = read_file, start, each
        self.is_proven, self.in_time = is_proven, in_time

    def work(self, name: str) -> Run:
        """Continue a run, and return its new state.

        Raises NotProven, MalformedRow, StoreUnavailable, and the failure of a start.
        """
        state = self._state(name)
        if state.status is not Status.RUNNING or not self.in_time():
            return state
        found = self._approved(state)
        while self.in_time():
            if state.started < state.begun:
                self._start(state, found)
                self._commit(writes.started(state))
            elif state.begun < state.last:
                self._commit(writes.begin(state, min(BATCH, state.last - state.begun)))
            else:
                break
            state = self._state(name)
            if state.status is not Status.RUNNING and state.started == state.begun:
                return state
        return self._count(state, found)

    def _state(self, name: str) -> Run:
        row = self.store.read(keys.payrun(name))
        if row is None:
            raise MalformedRow(f"PAYRUN#{name}: it is listed, and has no row")
        return Run.from_row(row)

    def _approved(self, state: Run) -> RunFile:
        """Return the file, if enough persons approved exactly it. Raises NotProven, MalformedRow."""
        partition = keys.payrun_proposed(state.run)["pk"]
        rows = [one for one in self.store.entries(partition, "A", "Q") if self.is_proven(one)]
        proposed = [one for one in rows if one["sk"] == keys.payrun_proposed(state.run)["sk"]]
        if not proposed:
            raise NotProven(f"run: {state.run} has no proposal with a valid signature")
        proposal = Proposal.from_row(proposed[0])
        persons = run.approvers(proposal, (one for one in rows if one["sk"].startswith("APPROVED#")))
        if proposal.run != state.run or len(persons) < proposal.needed:
            raise NotProven(f"run: {state.run} has {len(persons)} of {proposal.needed} approvals")
        try:
            found = file.parse(self.read_file(proposal.digest), proposal.digest)
            if told := run.differs(proposal, found, self.config):
                raise DamagedFile(told)
        except DamagedFile as damaged:
            raise NotProven(f"run: {state.run}: its file: {damaged}") from None
        return found

    def _start(self, state: Run, found: RunFile) -> None:
        lines = found.lines[state.started : state.begun]
        places, left_out = [keys.payrun_line(state.run, line.number) for line in lines], set[str]()
        rows = batch.read(self.store, places, lambda place, _: left_out.add(place["sk"]))
        left_out |= {row["sk"] for row in rows if "refused" in row}
        # Payouts are debited here, all from one row: two at a time would only be in each other's way.
        each = self.each if found.header.kind is Kind.PAYMENTS else _in_turn
        failures = each(
            lambda line: self._failure(state, found.header, line),
            [line for line in lines if keys.payrun_line(state.run, line.number)["sk"] not in left_out],
        )
        for failure in failures:
            if failure is not None:
                raise failure

    def _failure(self, state: Run, header: Header, line: Line) -> Exception | None:
        """Start a line, or record its refusal. Return an error if a later call must start it again."""
        try:
            self.start(file.request_of(state.run, header, line), header, line, state.run)
        except Refusal as refusal:
            if self._is_of_settings(refusal, header, state):
                return refusal
            told = type(refusal).__name__, str(refusal)
            self._commit(writes.refused(state.run, line.number, *told, self.now()))
        except MalformedRow as malformed:
            # The row of a payment is its claim: the line has begun, and its outcome is unreadable.
            return None if header.kind is Kind.PAYMENTS else malformed
        except Exception as failure:
            return failure
        return None

    def _is_of_settings(self, refusal: Refusal, header: Header, state: Run) -> bool:
        """Whether a refusal comes from changed settings, and does not count yet.

        A slower call with the old settings can still claim the payment. So the refusal counts only after a
        cancellation and the time OUTLIVED.
        """
        if header.kind is Kind.PAYOUTS or not isinstance(refusal, InvalidRequest):
            return False
        return state.cut is None or str(state.changed_at) > timestamp(self.now() - OUTLIVED)

    def _count(self, state: Run, found: RunFile) -> Run:
        waiting = found.lines[state.ended : state.started]
        told = outcomes.of_lines(self.store, self.config, state.run, found.header, waiting)
        ended = list(takewhile(lambda one: one.is_final and self.in_time(), told))
        after = counted(state, ended, self.config)
        if after != state:
            self._commit(writes.ended(state, after))
            state = self._state(state.run)
        if state.is_over and state.status is Status.RUNNING:
            self._commit(writes.end(state, self.now()))
            state = self._state(state.run)
        return state

    def _commit(self, write: Write) -> None:
        """Commit, unless another call was first: callers then read the run again."""
        try:
            self.store.transact([write])
        except (AlreadyApplied, PayRunRefused):
            return


def _in_turn(act: Callable[[Line], Exception | None], lines: Iterable[Line]) -> list[Exception | None]:
    return [act(line) for line in lines]


def counted(state: Run, ended: Sequence[outcomes.Outcome], config: StageConfig) -> Run:
    lines, sums = Counter(state.outcomes), Counter(state.sums)
    for one in ended:
        lines[one.status] += 1
        sums[f"{one.status} {one.line.currency}"] += file.minor_units(one.line, config)
    return replace(state, ended=state.ended + len(ended), outcomes=dict(lines), sums=dict(sums))
