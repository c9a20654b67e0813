import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from settle.exit_codes import CommandFailed, Exit
from settle.local import processes, record, state
from settle.local.record import Running
from settle.output.console import note

DEPLOY_SECONDS_MAX = 600

Report = Callable[[str], None]
EMBEDDED = "settlement-saga:embedded"
"""Context key of the embedded AWS's settings, as in `infra/saga.py`."""

_ROLES = ("assumeRoleArn", "assumeRoleExternalId", "cloudFormationExecutionRoleArn", "lookupRole")
_SOURCES = ("app.py", "cdk.json", "infra", "lambdas", "statemachines")


def bootstrap(running: Running) -> None:
    """Bootstrap from a folder without an app, so the CDK synthesises nothing."""
    _cdk(running, state.SCRATCH, "bootstrap", f"aws://{record.ACCOUNT}/{record.REGION}")


def deploy(running: Running, sources: str) -> Running:
    """Deploy the app. Return the embedded AWS's record with the outputs and the digest `sources`."""
    outputs_file = state.SCRATCH / "outputs.json"
    urls = ("-c", f"kyc_url={running.kyc_url}", "-c", f"bank_url={running.bank_url}")
    context = ("-c", "stage=local", *urls)
    app = () if record.IN_CHECKOUT else ("--app", f"{sys.executable} -m {record.CONSTRUCTS}.own")
    output = ("-o", str(state.SCRATCH / "cdk.out"), "--outputs-file", str(outputs_file))
    options = ("--require-approval", "never", *app, *context, *output)
    # CDK's validation takes longer than the rest of a synthesis, and its subject is AWS.
    _cdk(running, record.PROJECT, "deploy", *options, CDK_VALIDATION="false")
    outputs = json.loads(outputs_file.read_text("utf-8"))[record.STACK_NAME]
    return replace(running, sources=sources, outputs=outputs)


def deploy_app(running: Running, app: str, folder: Path) -> dict[str, dict[str, str]]:
    """Deploy a user's app from `folder`; return its stacks' outputs.

    Its sagas take the embedded AWS's settings. CDK's bootstrap roles are left out: they may not use the
    embedded staging bucket. Raises CommandFailed.
    """
    out, outputs_file = state.SCRATCH / "app.out", state.SCRATCH / "app.json"
    place = json.dumps({"python": sys.executable, "kyc_url": running.kyc_url})
    outputs_file.unlink(missing_ok=True)
    shutil.rmtree(out, ignore_errors=True)
    _cdk(running, folder, "synth", "--quiet", "--app", app, "-o", str(out), "-c", f"{EMBEDDED}={place}")
    for file in out.rglob("*.json"):
        file.write_text(json.dumps(_without_roles(json.loads(file.read_text("utf-8")))))
    options = ("--all", "--require-approval", "never", "--app", str(out), "--outputs-file", str(outputs_file))
    _cdk(running, folder, "deploy", *options)
    # The CLI writes no file if no stack has an output.
    found: dict[str, dict[str, str]] = (
        json.loads(outputs_file.read_text("utf-8")) if outputs_file.is_file() else {}
    )
    return found


def _without_roles(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_roles(each) for name, each in value.items() if name not in _ROLES}
    return [_without_roles(each) for each in value] if isinstance(value, list) else value


def digest() -> str:
    hashed = hashlib.sha256(version("settlement-saga").encode())
    for source in _SOURCES:
        path = record.PROJECT / source
        files = sorted(path.rglob("*")) if path.is_dir() else [path]  # a wheel lacks some of them
        for file in files:
            if file.is_file() and "__pycache__" not in file.parts:
                hashed.update(str(file.relative_to(record.PROJECT)).encode() + b"\0" + file.read_bytes())
    return hashed.hexdigest()


def ensure_cdk(report: Report) -> Path:
    """Return the CDK CLI's path. Outside a checkout, install the wheel's pinned versions once.

    Raises CommandFailed.
    """
    folder = record.PROJECT if record.IN_CHECKOUT else state.HOME / "node"
    cdk, pinned = folder / "node_modules" / ".bin" / "cdk", record.PROJECT / "package-lock.json"
    if record.IN_CHECKOUT:
        if not cdk.exists():
            raise CommandFailed(
                Exit.FAILED, f"the CDK CLI is not installed in {record.PROJECT}: run `make setup` there"
            )
        return cdk
    ready, wanted = folder / "ready", hashlib.sha256(pinned.read_bytes()).hexdigest()
    if not (ready.is_file() and ready.read_text() == wanted):
        report("installing the CDK CLI from npm, once")
        folder.mkdir(parents=True, exist_ok=True)
        for file in (pinned, record.PROJECT / "package.json"):
            shutil.copy(file, folder)
        _run(
            ["npm", "ci", "--omit=dev", "--omit=optional", "--no-audit", "--no-fund"],
            folder,
            processes.environment(),
        )
        ready.write_text(wanted)
    return cdk


def synth(app: str, folder: Path, out: Path, *options: str) -> None:
    """Synthesise an app with the user's credentials. Raises CommandFailed."""
    words = [str(ensure_cdk(note)), "synth", "--quiet", "--no-notices", "--app", app, "-o", str(out)]
    _run([*words, *options], folder, os.environ | {"PATH": processes.environment()["PATH"]})


def _cdk(running: Running, folder: Path, command: str, *options: str, **more: str) -> None:
    cdk = ensure_cdk(lambda told: None)
    variables = {"AWS_ENDPOINT_URL": running.endpoint_url, **more}
    processes.stop(processes.CDK)  # a killed command's would write to the same folder
    _run([str(cdk), command, "--no-notices", *options], folder, processes.environment() | variables)


def _run(words: list[str], folder: Path, environment: Mapping[str, str]) -> None:
    command = " ".join((Path(words[0]).name, *words[1:2]))
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        cwd=folder,
        start_new_session=True,
    ) as process:
        try:
            told, _ = process.communicate(timeout=DEPLOY_SECONDS_MAX)
        except subprocess.TimeoutExpired as error:
            _kill_group(process.pid)
            raise CommandFailed(Exit.FAILED, f"{command} took longer than {error.timeout:.0f} s") from error
        except BaseException:  # Ctrl-C too
            _kill_group(process.pid)
            raise
    if process.returncode != 0:
        reasons = re.findall(r"^\w+(?:Error|Exception): .*", told, re.MULTILINE)
        why = " ".join((f"{command} failed:", *reasons[-1:]))
        raise CommandFailed(Exit.FAILED, why, details=told[-2000:])


def _kill_group(leader: int) -> None:
    """Kill the whole process group, because the synthesis would outlive a killed CLI."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
