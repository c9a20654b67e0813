"""The embedded AWS's processes, known by program and folder, because process ids are reused."""

import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from settle.local import record, state

STOP_SECONDS_MAX = 10
KYC_SIMULATOR, BANK_SIMULATOR = "settle.local.kyc_simulator", "settle.local.bank_simulator"
POSTGRESQL, FOLLOWER = "postgres", "follow"
"""The server of finance's books, and the `settle ledger` subcommand that fills them."""

CDK = "cdk"
"""The CDK CLI, which outlives a killed `settle`. Its folder is the app's, but its arguments name SCRATCH."""

_PROGRAMS = ("ministack", "awslambdaric", KYC_SIMULATOR, BANK_SIMULATOR, POSTGRESQL, FOLLOWER, CDK)


def environment() -> dict[str, str]:
    """Return our environment, with the embedded account's credentials."""
    foreign = ("AWS_", "POWERTOOLS_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    binaries = Path(sys.executable).parent
    return inherited | {
        **record.CREDENTIALS,
        "AWS_REGION": record.REGION,
        "AWS_DEFAULT_REGION": record.REGION,
        "PATH": f"{binaries}{os.pathsep}{inherited.get('PATH', os.defpath)}",
    }


def start(module: str, *arguments: str, log: str, variables: Mapping[str, str] | None = None) -> int:
    """Start a Python module in SCRATCH that outlives this command; return its id."""
    with (state.SCRATCH / log).open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment() | dict(variables or {}),
            cwd=state.SCRATCH,
            start_new_session=True,
        )
    return process.pid


def has_ended(pid: int) -> bool:
    """Return whether a process that we started has exited.

    Uses only the id: a new process may lack the command line that `ours` needs.
    """
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def ours(programs: Collection[str] = _PROGRAMS) -> Iterator[psutil.Process]:
    """Yield the programs' processes, and CDK's children, which also work in the app's folder."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            parts, folder = process.cmdline(), process.cwd()
            names = {Path(part).name for part in parts}
            if CDK in programs and CDK in names and any(map(_is_here, (folder, *parts))):
                yield from (process, *process.children(recursive=True))
            elif _is_here(folder) and not {*parts, *(Path(part).name for part in parts[:1])}.isdisjoint(
                programs
            ):
                yield process


def _is_here(path: str) -> bool:
    return Path(path).is_relative_to(state.SCRATCH)


def run(program: str) -> bool:
    return any(ours({program}))


def stop(*programs: str) -> bool:
    """Stop the processes of `programs`, or all, even orphans; return whether any ran."""
    doomed = {*ours(programs or _PROGRAMS)}
    for process in doomed:
        _ignoring_the_gone(process.terminate)
    _, alive = psutil.wait_procs(doomed, timeout=STOP_SECONDS_MAX)
    for process in alive:
        _ignoring_the_gone(process.kill)
    psutil.wait_procs(alive, timeout=STOP_SECONDS_MAX)
    return bool(doomed)


def _ignoring_the_gone(signal: Callable[[], None]) -> None:
    with suppress(psutil.NoSuchProcess):
        signal()
