"""Use the built package as a stranger does: install it elsewhere, and settle in an app of one's own.

For both ends of the dependencies' ranges: the embedded AWS comes up, the apps of `examples/app` are deployed
to it as they are, each of their sagas pays and reverses, and its books are proved.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Mapping
from pathlib import Path

from tools.dist import build

PROJECT = Path(__file__).parents[1]
APPS = {"app.py": ["Payments/Saga"], "two.py": ["Payments-north/Saga", "Payments-south/Saga"]}
"""The sagas of each app."""

PAYMENT = {"payer": "alice", "payee": "bob", "amount": "40.00", "currency": "EUR"}
COMMAND_SECONDS_MAX = 1_800
COMPENSATED = 4
"""Exit code of a settlement that ended otherwise than paid."""


class Stranger:
    """A folder with an environment of its own, which knows nothing of the checkout."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self._variables = folder, dict[str, str]()

    def install(self, wheel: str, constraints: str = "") -> None:
        """Install a wheel with an extra into the folder's environment."""
        self.run(sys.executable, "-m", "venv", "venv")
        (self.folder / "constraints.txt").write_text(constraints)
        uv = str(Path(sys.executable).with_name("uv"))
        options = ("-q", "--python", "venv/bin/python", "--constraint", "constraints.txt")
        self.run(uv, "pip", "install", *options, wheel)

    def run(self, *words: str, exits: int = 0) -> str:
        """Run a command; return its output. Raises SystemExit, after showing it, if it exits otherwise."""
        known = ("PYTHON", "VIRTUAL_ENV", "AWS_", "SETTLE_", "POWERTOOLS_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(known)}
        ours = str(PROJECT / ".venv")
        path = [one for one in os.environ["PATH"].split(os.pathsep) if not one.startswith(ours)]
        environment["PATH"] = os.pathsep.join((str(self.folder / "venv/bin"), *path))
        environment["XDG_STATE_HOME"] = str(self.folder / "state")
        began = time.monotonic()
        ran = subprocess.run(
            words,
            cwd=self.folder,
            env=environment | self._variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS_MAX,
        )
        print(f"{time.monotonic() - began:5.0f} s  {shlex.join(words)}", flush=True)
        if ran.returncode != exits:
            print(ran.stdout)
            raise SystemExit(f"exit code {ran.returncode}: {shlex.join(words)}")
        return ran.stdout

    def use(self, variables: Mapping[str, str]) -> None:
        """Take variables into the shell."""
        self._variables |= variables


def settles(stranger: Stranger, saga: str, key: str, settlements: int) -> None:
    """Pay, reverse, and prove that the saga has so many settlements, and no others."""
    settle = ("settle", "account", "open")
    stranger.run(*settle, "alice", "--currency", "EUR", "--deposit", "100.00", "--stack", saga)
    stranger.run(*settle, "bob", "--currency", "EUR", "--stack", saga)
    (stranger.folder / "payment.json").write_text(json.dumps(PAYMENT | {"key": key}))
    paid = stranger.run("settle", "start", "payment.json", "--stack", saga, "--json")
    ensure(json.loads(paid)["status"], "SETTLED")
    stranger.run("settle", "reverse", key, "--reason", "goods came back", "--stack", saga)
    found = stranger.run("settle", "status", key, "--stack", saga, "--json", exits=COMPENSATED)
    ensure(json.loads(found)["status"], "COMPENSATED")
    proof = json.loads(stranger.run("settle", "reconcile", "--stack", saga, "--json"))
    ensure((proof["conserved"], proof["settlements"]), (True, settlements))


def ensure(found: object, wanted: object) -> None:
    """Raise SystemExit if something else is found."""
    if found != wanted:
        raise SystemExit(f"found {found}, wanted {wanted}")


def lowest() -> str:
    """Return the lower ends of the ranges of the command and the construct, as constraints."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    declared = (*project["dependencies"], *project["optional-dependencies"]["cdk"])
    return "\n".join(re.sub(r">=([^,]+).*", r"==\1", one) for one in declared)


def consume(wheel: Path, folder: Path) -> None:
    """Use the newest versions with the embedded AWS, then the lowest ones on the same sagas.

    The embedded AWS needs one version of botocore, so the lowest ones have an environment without it.
    """
    newest, oldest = Stranger(folder / "newest"), Stranger(folder / "lowest")
    newest.install(f"{wheel}[local]")
    oldest.install(f"{wheel}[cdk]", lowest())
    newest.run("settle", "local", "up")
    try:
        told = newest.run("settle", "local", "env").splitlines()
        addresses = dict(shlex.split(line)[1].split("=", 1) for line in told)
        for number, stranger in enumerate((newest, oldest), start=1):
            stranger.use(addresses)
            for app, sagas in APPS.items():
                python = stranger.folder / "venv/bin/python"
                newest.run("settle", "local", "deploy", f"{python} {PROJECT / 'examples/app' / app}")
                for saga in sagas:
                    settles(stranger, saga, f"order-2026-00000{number}", number)
    finally:
        newest.run("settle", "local", "down")


def main() -> None:
    argparse.ArgumentParser(prog="make consume", description=__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="stranger-") as folder:
        consume(build(Path(folder)), Path(folder))
    print("\nthe package is installed, deployed and settles")


if __name__ == "__main__":
    main()
