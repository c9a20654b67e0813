"""The embedded AWS: MiniStack in a process of its own, with the real app deployed to it by the CDK CLI.

What runs is written to `local.json`, and its processes are known by the folder that they work in,
so that the next `up` or `down` cleans up after a crash at any point.
"""

import fcntl
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import boto3
import psutil
import urllib3

from settle.failures import CommandFailed, Exit

PROJECT = Path(__file__).parent.parent
HOME = Path(os.environ.get("SETTLE_HOME") or PROJECT / ".settle").resolve()
"""Where the record of the embedded AWS and all of its files are; tests use one of their own."""

STATE = HOME / "local.json"
SCRATCH = HOME / "embedded"
"""Whatever the running embedded AWS writes; gone with it."""

STACK_NAME = "settlement-local"
REGION = "eu-west-1"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
"""The root of the embedded account. Functions run under their own roles, which are enforced."""

START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 10
DEPLOY_SECONDS_MAX = 600
_PROGRAMS = ("ministack", "awslambdaric", "settle.kyc_simulator")
_SOURCES = ("app.py", "cdk.json", "infra", "lambdas", "statemachines")

_CDK_OPTIONS = ("-o", str(SCRATCH / "cdk.out"), "--no-notices")

Report = Callable[[str], None]


@dataclass(frozen=True)
class Running:
    """The embedded AWS that was started, and what has been deployed to it so far."""

    pid: int
    port: int
    kyc_port: int
    sources: str = ""
    outputs: dict[str, str] = field(default_factory=dict)

    @property
    def endpoint_url(self) -> str:
        """The one address of all its services."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def kyc_url(self) -> str:
        """The address of the simulated KYC provider."""
        return f"http://127.0.0.1:{self.kyc_port}"

    @property
    def webhook_url(self) -> str:
        """Where the provider's webhook is answered; the address in the outputs is AWS's, not ours."""
        host = urlsplit(self.outputs["KycWebhookUrl"]).hostname or ""
        return f"{self.endpoint_url}/_aws/lambda-url/{host.partition('.')[0]}/"

    def describe(self) -> dict[str, object]:
        """What `settle local up --json` prints."""
        return {
            "endpoint_url": self.endpoint_url,
            "region": REGION,
            "kyc_url": self.kyc_url,
            "outputs": self.outputs,
        }


def running() -> Running | None:
    """The embedded AWS if it is up, answers, and has the app deployed; else None."""
    started = _started()
    return started if started and started.outputs and _answers(started) else None


def up(report: Report, port: int | None = None) -> Running:
    """Start the embedded AWS and deploy the app, or find both done. Safe to repeat, and after any crash."""
    with _alone():
        started = _started()
        if started and not (started.outputs and _answers_in_time(started)):
            started = None
        if started and port not in (None, started.port):
            raise CommandFailed(
                Exit.CONFLICT,
                f"port: the embedded AWS is up on {started.port} already; stop it with `settle local down`",
            )
        if started is None:
            _clean_up()
            started = _start(report, port or _free_port())
            report("bootstrapping it for the CDK")
            _cdk(started, "bootstrap")
        sources = _digest()
        if started.sources != sources:
            report(f"deploying {STACK_NAME}")
            outputs_file = SCRATCH / "outputs.json"
            _cdk(started, "deploy", "--require-approval", "never", "--outputs-file", str(outputs_file))
            outputs = json.loads(outputs_file.read_text())[STACK_NAME]
            started = replace(started, sources=sources, outputs=outputs)
            _record(started)
        if not _kyc_runs():
            if _is_taken(started.kyc_port):
                raise CommandFailed(Exit.CONFLICT, f"port: {started.kyc_port} is taken by another process")
            report(f"starting the simulated KYC provider on {started.kyc_url}")
            _start_kyc(started)
        _tell_kyc(started)
        return started


def down() -> bool:
    """Stop the embedded AWS and all that it started; return whether there was anything to stop."""
    with _alone():
        return _clean_up()


def _start(report: Report, port: int) -> Running:
    if _is_taken(port):
        raise CommandFailed(Exit.CONFLICT, f"port: {port} is taken by another process")
    report(f"starting the embedded AWS on 127.0.0.1:{port}")
    SCRATCH.mkdir(parents=True, exist_ok=True)
    environment = _environment() | {
        "AUTH": "true",
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "IOT_MTLS_ENABLED": "0",  # else its MQTT broker listens on every interface
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "MINISTACK_REGION": REGION,
        "TMPDIR": str(SCRATCH),
        "STATE_DIR": str(SCRATCH / "state"),
        "S3_DATA_DIR": str(SCRATCH / "s3"),
    }
    with (SCRATCH / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ministack"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=SCRATCH,
            start_new_session=True,
        )
    started = Running(process.pid, port, _free_port())
    _record(started)
    if not _answers_in_time(started):
        log_tail = (SCRATCH / "log").read_text(errors="replace")[-500:].strip().replace("\n", " | ")
        _clean_up()
        raise CommandFailed(Exit.FAILED, f"the embedded AWS did not start: {log_tail}")
    return started


def _start_kyc(started: Running) -> None:
    """Start the KYC provider that the stage asks."""
    with (SCRATCH / "kyc-log").open("wb") as log:
        subprocess.Popen(
            [sys.executable, "-m", "settle.kyc_simulator", "--port", str(started.kyc_port)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=_environment(),
            cwd=SCRATCH,
            start_new_session=True,
        )
    give_up_at = time.monotonic() + START_SECONDS_MAX
    while not _is_taken(started.kyc_port):
        if time.monotonic() > give_up_at:
            raise CommandFailed(Exit.FAILED, "the simulated KYC provider did not start")
        time.sleep(0.1)


def _kyc_runs() -> bool:
    return any("settle.kyc_simulator" in process.cmdline() for process in _processes())


def _tell_kyc(started: Running) -> None:
    """Let the provider and the stage share their secrets, whatever either was told before."""
    secrets = boto3.client(
        "secretsmanager",
        endpoint_url=started.endpoint_url,
        region_name=REGION,
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
    )

    def read(output: str) -> Any:
        return json.loads(secrets.get_secret_value(SecretId=started.outputs[output])["SecretString"])

    told = {
        "api_keys": [read("KycCredentialsArn")["api_key"]],
        "signing_secret": read("KycSigningArn")["current"],
        "webhook_url": started.webhook_url,
    }
    answer = urllib3.request("PUT", f"{started.kyc_url}/control", json=told)
    if answer.status != 200:
        raise CommandFailed(Exit.FAILED, f"the simulated KYC provider answers with status {answer.status}")


def _cdk(started: Running, command: str, *options: str) -> None:
    cdk = PROJECT / "node_modules" / ".bin" / "cdk"
    if not cdk.exists():
        raise CommandFailed(Exit.FAILED, "the CDK CLI is not installed: run `make setup`")
    try:
        finished = subprocess.run(
            [cdk, command, "-c", "stage=local", "-c", f"kyc_url={started.kyc_url}", *_CDK_OPTIONS, *options],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=_environment() | {"AWS_ENDPOINT_URL": started.endpoint_url},
            cwd=PROJECT,
            timeout=DEPLOY_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(Exit.FAILED, f"cdk {command} took longer than {error.timeout:.0f} s") from error
    if finished.returncode != 0:
        raise CommandFailed(Exit.FAILED, f"cdk {command} failed:\n{finished.stdout[-2000:]}")


def _environment() -> dict[str, str]:
    """The environment with the embedded account's credentials, and nobody else's."""
    foreign = ("AWS_", "POWERTOOLS_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    binaries = Path(sys.executable).parent
    return inherited | {
        **CREDENTIALS,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "PATH": f"{binaries}{os.pathsep}{inherited.get('PATH', os.defpath)}",
    }


def _clean_up() -> bool:
    """Stop every process of the embedded AWS, also those whose parent was killed, and remove its files."""
    doomed = list(_processes())
    for member in doomed:
        _ignoring_the_gone(member.terminate)
    _, alive = psutil.wait_procs(doomed, timeout=STOP_SECONDS_MAX)
    for member in alive:
        _ignoring_the_gone(member.kill)
    psutil.wait_procs(alive, timeout=STOP_SECONDS_MAX)
    STATE.unlink(missing_ok=True)
    shutil.rmtree(SCRATCH, ignore_errors=True)
    return bool(doomed)


def _ignoring_the_gone(signal: Callable[[], None]) -> None:
    with suppress(psutil.NoSuchProcess):
        signal()


def _processes() -> Iterator[psutil.Process]:
    """The embedded AWS and its functions: their programs, at work in its files. Process ids are reused."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            at_work_here = Path(process.cwd()).is_relative_to(SCRATCH)
            if at_work_here and any(program in process.cmdline() for program in _PROGRAMS):
                yield process


def _started() -> Running | None:
    try:
        started = Running(**json.loads(STATE.read_text()))
    except (FileNotFoundError, ValueError, TypeError, OverflowError):
        return None
    return started if any(process.pid == started.pid for process in _processes()) else None


def _record(started: Running) -> None:
    unfinished = STATE.with_suffix(".new")
    unfinished.write_text(json.dumps(asdict(started)))
    unfinished.replace(STATE)


def _answers(started: Running) -> bool:
    try:
        with urllib.request.urlopen(f"{started.endpoint_url}/_ministack/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _answers_in_time(started: Running) -> bool:
    """Whether it answers, at once or after the while that a start or much work may take."""
    give_up_at = time.monotonic() + START_SECONDS_MAX
    while not _answers(started):
        if time.monotonic() > give_up_at or _started() is None:
            return False
        time.sleep(0.1)
    return True


def _digest() -> str:
    """A hash of all that a deployment depends on: the app is deployed again once it changes."""
    digest = hashlib.sha256()
    for source in _SOURCES:
        path = PROJECT / source
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(str(file.relative_to(PROJECT)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def _alone() -> Iterator[None]:
    """Keep a second `up` or `down` waiting until this one is done; a crash lets it go."""
    HOME.mkdir(parents=True, exist_ok=True)
    give_up_at = time.monotonic() + DEPLOY_SECONDS_MAX
    with (HOME / "lock").open("w") as lock:
        while not _locked(lock):
            if time.monotonic() > give_up_at:
                raise CommandFailed(
                    Exit.CONFLICT, f"another `settle local` has held {HOME / 'lock'} for too long"
                )
            time.sleep(0.1)
        yield


def _locked(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
