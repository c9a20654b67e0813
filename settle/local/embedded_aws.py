"""The embedded AWS: a MiniStack process with the real app deployed to it."""

import shutil
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

from settle.exit_codes import CommandFailed, Exit
from settle.local import (
    bank_provider,
    deployment,
    kyc_provider,
    ports,
    postgresql,
    presence,
    processes,
    record,
    state,
)
from settle.local.endings import undoable
from settle.local.lock import locked
from settle.local.record import Running

START_SECONDS_MAX = 180

Report = Callable[[str], None]


def up(report: Report, port: int | None = None, *, ledger: bool = False) -> Running:
    """Start the embedded AWS and deploy the app, unless done. Safe to repeat after any crash.

    `ledger` adds a PostgreSQL with finance's books. A failure, Ctrl-C or SIGTERM stops all that this call
    started. Raises CommandFailed.
    """
    with locked(), undoable(), ExitStack() as unless_done:
        started = presence.started()
        if started and not (started.outputs and presence.answers_in_time(started, START_SECONDS_MAX)):
            started = None
        if started and port not in (None, started.port):
            raise CommandFailed(
                Exit.CONFLICT,
                f"port: the embedded AWS is up on {started.port} already; stop it with `settle local down`",
            )
        if started is None:
            _clean_up()
            unless_done.callback(_clean_up)
            started = _start(report, port or ports.free_port())
        started = _with_ports(started)
        if not kyc_provider.runs():
            _ensure_free(started.kyc_port, "run `settle local down`, then `settle local up`")
            unless_done.callback(processes.stop, processes.KYC_SIMULATOR)
            report(f"starting the simulated KYC provider on {started.kyc_url}")
            kyc_provider.start(started)
        if not bank_provider.runs():
            _ensure_free(started.bank_port, "run `settle local down`, then `settle local up`")
            unless_done.callback(processes.stop, processes.BANK_SIMULATOR)
            report(f"starting the simulated bank on {started.bank_url}")
            bank_provider.start(started)
        sources = deployment.digest()
        if started.sources != sources:
            report(f"deploying {record.STACK_NAME}")
            started = deployment.deploy(started, sources)
            state.write(started)
        kyc_provider.share_secrets(started)
        bank_provider.share_secrets(started)
        if ledger and not postgresql.runs():
            unless_done.callback(processes.stop, processes.POSTGRESQL, processes.FOLLOWER)
            report("starting PostgreSQL, for finance's books")
            started = postgresql.start(started)
        unless_done.pop_all()
        return started


def down() -> bool:
    """Stop the embedded AWS; return whether anything ran."""
    with locked():
        return _clean_up()


def _start(report: Report, port: int) -> Running:
    _ensure_free(port, "give another one by --port")
    deployment.ensure_cdk(report)
    report(f"starting the embedded AWS on 127.0.0.1:{port}")
    state.SCRATCH.mkdir(parents=True, exist_ok=True)
    variables = {
        "AUTH": "true",
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "IOT_MTLS_ENABLED": "0",  # else its MQTT broker listens on every interface
        "LAMBDA_WARM_TTL_SECONDS": "20",  # a burst leaves processes of 50 MB each, for 300 s by default
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "MINISTACK_REGION": record.REGION,
        "TMPDIR": str(state.SCRATCH),
        "STATE_DIR": str(state.SCRATCH / "state"),
        "S3_DATA_DIR": str(state.SCRATCH / "s3"),
    }
    pid = processes.start("ministack", log="log", variables=variables)
    started = Running(pid, port, kyc_port=0)
    state.write(started)
    if not presence.answers_in_time(started, START_SECONDS_MAX):
        log_tail = (state.SCRATCH / "log").read_text(errors="replace")[-500:].strip().replace("\n", " | ")
        raise CommandFailed(Exit.FAILED, f"the embedded AWS did not start: {log_tail}")
    report("bootstrapping it for the CDK")
    deployment.bootstrap(started)
    return started


def _with_ports(started: Running) -> Running:
    """Draw the simulators' unrecorded ports."""
    kyc_port, bank_port = ports.free_ports(2)
    drawn = replace(
        started,
        kyc_port=started.kyc_port or kyc_port,
        bank_port=started.bank_port or bank_port,  # an earlier release had no bank
    )
    state.write(drawn)
    return drawn


def _ensure_free(port: int, remedy: str) -> None:
    if ports.is_taken(port):
        raise CommandFailed(Exit.CONFLICT, f"port: {port} is taken by another process; {remedy}")


def _clean_up() -> bool:
    stopped = processes.stop()
    state.STATE.unlink(missing_ok=True)
    shutil.rmtree(state.SCRATCH, ignore_errors=True)
    return stopped
