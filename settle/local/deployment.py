import hashlib
import json
import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from settle.exit_codes import CommandFailed, Exit
from settle.local import processes, record
from settle.local.record import Running

DEPLOY_SECONDS_MAX = 600
_SOURCES = ("app.py", "cdk.json", "infra", "lambdas", "statemachines")


def bootstrap(running: Running) -> None:
    """Prepare the embedded account for the CDK, from a folder without an app to synthesise."""
    _cdk(running, record.SCRATCH, "bootstrap", f"aws://{record.ACCOUNT}/{record.REGION}")


def deploy(running: Running, sources: str) -> Running:
    """Deploy the app; return the record with outputs. `sources` is the app's digest."""
    outputs_file = record.SCRATCH / "outputs.json"
    context = ("-c", "stage=local", "-c", f"kyc_url={running.kyc_url}")
    output = ("-o", str(record.SCRATCH / "cdk.out"), "--outputs-file", str(outputs_file))
    _cdk(running, record.PROJECT, "deploy", "--require-approval", "never", *context, *output)
    outputs = json.loads(outputs_file.read_text("utf-8"))[record.STACK_NAME]
    return replace(running, sources=sources, outputs=outputs)


def digest() -> str:
    """Return a hash of the sources that a deployment depends on."""
    hashed = hashlib.sha256()
    for source in _SOURCES:
        path = record.PROJECT / source
        files = sorted(path.rglob("*")) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                hashed.update(str(file.relative_to(record.PROJECT)).encode() + b"\0" + file.read_bytes())
    return hashed.hexdigest()


def ensure_checkout() -> None:
    """Raise CommandFailed outside a checkout: only a checkout has the app."""
    if not record.in_checkout():
        raise CommandFailed(
            Exit.FAILED,
            f"the app to deploy is in a checkout alone, and {record.PROJECT} is none:"
            " run `make setup` in a clone, then its `.venv/bin/settle`",
        )


def ensure_cdk() -> Path:
    cdk = record.PROJECT / "node_modules" / ".bin" / "cdk"
    if not cdk.exists():
        raise CommandFailed(
            Exit.FAILED, f"the CDK CLI is not installed in {record.PROJECT}: run `make setup` there"
        )
    return cdk


def _cdk(running: Running, folder: Path, command: str, *options: str) -> None:
    with subprocess.Popen(
        [ensure_cdk(), command, "--no-notices", *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=processes.environment() | {"AWS_ENDPOINT_URL": running.endpoint_url},
        cwd=folder,
        start_new_session=True,
    ) as cdk:
        try:
            told, _ = cdk.communicate(timeout=DEPLOY_SECONDS_MAX)
        except subprocess.TimeoutExpired as error:
            _kill_group(cdk.pid)
            raise CommandFailed(
                Exit.FAILED, f"cdk {command} took longer than {error.timeout:.0f} s"
            ) from error
        except BaseException:  # Ctrl-C too
            _kill_group(cdk.pid)
            raise
    if cdk.returncode != 0:
        raise CommandFailed(Exit.FAILED, f"cdk {command} failed:", details=told[-2000:])


def _kill_group(leader: int) -> None:
    """Kill a whole session: the CLI alone would leave the synthesis running."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
