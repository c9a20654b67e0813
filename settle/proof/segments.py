"""Reconciliation by several processes. Each reads a segment, and one judges.

    process 1: its part of the table ──▶ its spool ──▶ sorted ─┐
    process 2: its part of the table ──▶ its spool ──▶ sorted ─┼──▶ judged here
                       …                                       ┘

Reading and spooling take five sixths of a single process's time. A settlement's rows are in several segments,
so the judge reads all spools, through pipes. A process that dies early ends the command.
"""

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.stack import Place, Stack
from settlement.proof import UNKNOWN, CutOff, Findings, Stage, Watch, table_scan
from settlement.proof.pages import Part
from settlement.proof.proof import collect, judge
from settlement.proof.spool import Spool
from settlement.proof.watch import READING

BATCH = 2000
"""Facts sent per request. The number limits the memory for each kind."""

END_SECONDS = 5
"""Time for a process to end before it is killed."""


def check(stack: Stack, segments: int, watch: Watch, stage: Stage = UNKNOWN) -> Findings:
    """Prove the table. Raises CommandFailed if a process fails or dies."""
    findings, began = Findings(), datetime.now(UTC)
    with ExitStack() as running, findings.unless_cut_off():
        parts = [Part(number, segments) for number in range(segments)]
        readers = [running.enter_context(Reader(stack.place, part, stage)) for part in parts]
        _await(readers, watch)
        for reader in readers:
            findings.add(reader.findings)
        for reader in readers:
            if reader.cut_off:
                raise reader.cut_off
        look = partial(table_scan.look, stack.store, began=began, watch=watch)
        judge(readers, findings, look, watch, stage.retention)
    return findings


@dataclass(frozen=True)
class _Report:
    """A segment's findings, incomplete if `cut_off` is set."""

    found: dict[str, Any]
    cut_off: CutOff | None


@dataclass(frozen=True)
class _Failure:
    message: str


@dataclass
class Reader:
    place: Place
    part: Part
    stage: Stage
    rows: int = 0
    findings: Findings = field(default_factory=Findings)
    cut_off: CutOff | None = None
    is_done: bool = False

    def __enter__(self) -> "Reader":
        context = multiprocessing.get_context("spawn")  # a fork would share threads' locks and connections
        self.connection, other = context.Pipe()
        arguments = (other, self.place, self.part, self.stage)
        self.process: BaseProcess = context.Process(target=read, args=arguments, daemon=True)
        self.process.start()
        other.close()
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()  # the process ends when it next sends or receives
        self.process.join(END_SECONDS)
        self.process.kill()
        self.process.join()

    def receive(self) -> Any:
        name = f"segment {self.part.number + 1} of {self.part.of}"
        try:
            message = self.connection.recv()
        except (EOFError, OSError):
            self.process.join(END_SECONDS)
            why = f"its process has died with exit code {self.process.exitcode}"
        else:
            if not isinstance(message, _Failure):
                return message
            why = message.message
        raise CommandFailed(Exit.FAILED, f"reconcile: nothing is proven: {name}: {why}")

    def await_next(self) -> None:
        message = self.receive()
        if isinstance(message, _Report):
            self.findings, self.cut_off, self.is_done = Findings(**message.found), message.cut_off, True
            self.rows = self.findings.rows
        else:
            self.rows = message

    def facts(self, kind: type[Any]) -> Iterator[Any]:
        is_last = False
        while not is_last:
            with suppress(OSError):  # receive() reports a dead process
                self.connection.send(kind)
            answer = self.receive()
            if isinstance(answer, CutOff):
                raise answer
            batch, is_last = answer
            yield from batch


def _await(readers: Sequence[Reader], watch: Watch) -> None:
    by_connection: dict[Any, Reader] = {reader.connection: reader for reader in readers}
    while waiting := [reader.connection for reader in readers if not reader.is_done]:
        for ready in wait(waiting):
            by_connection[ready].await_next()
        watch(READING, sum(reader.rows for reader in readers))


def read(connection: Connection, place: Place, part: Part, stage: Stage) -> None:
    """Read the segment in this process. Report findings, and send facts on request."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command ends this process
    with suppress(*_COMMAND_ENDED):
        try:
            _work(connection, place, part, stage)
        except _COMMAND_ENDED:
            raise
        except Exception as failure:  # the command prints it, in one line
            connection.send(_Failure(f"{type(failure).__name__}: {failure}"))


def _work(connection: Connection, place: Place, part: Part, stage: Stage) -> None:
    findings, cut_off = Findings(), None
    with Spool() as own:
        try:
            all_rows = table_scan.rows(place.store(), part)
            collect(all_rows, own, findings, lambda phase, done: connection.send(done), stage)
        except CutOff as reason:
            cut_off = reason
        found = {name: value for name, value in vars(findings).items() if name != "totals"}
        connection.send(_Report(found, cut_off))
        begun: dict[type[Any], Iterator[Any]] = {}
        while True:
            kind = connection.recv()
            if kind not in begun:
                begun[kind] = own.facts(kind)
            try:
                batch = list(islice(begun[kind], BATCH))
                connection.send((batch, len(batch) < BATCH))
            except CutOff as reason:
                connection.send(reason)


_COMMAND_ENDED = (EOFError, BrokenPipeError, ConnectionResetError)
