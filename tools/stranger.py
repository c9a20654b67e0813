"""Plays a person with the package but no checkout, in a folder with its own environment."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[1]
COMMAND_SECONDS_MAX = 1_800


class Stranger:
    """Runs commands in a folder that is isolated from the checkout."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self._variables = folder, dict[str, str]()
        self.run(sys.executable, "-m", "venv", "venv")

    def install(self, wheel: str, constraints: str = "") -> None:
        """Install a wheel with an extra, in place of an earlier one."""
        (self.folder / "constraints.txt").write_text(constraints)
        self.add("--constraint", "constraints.txt", "--reinstall-package", "settlement-saga", wheel)

    def add(self, *words: str) -> None:
        uv = str(Path(sys.executable).with_name("uv"))
        self.run(uv, "pip", "install", "-q", "--python", "venv/bin/python", *words)

    def run(self, *words: str, exits: int = 0) -> str:
        """Run a command; return its output. Unless it exits with `exits`, print it and raise SystemExit."""
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

    def told(self, *words: str, exits: int = 0) -> Any:
        """Run a command of `settle`; return its JSON."""
        return json.loads(self.run("settle", *words, "--json", exits=exits))

    def pay(self, saga: str, exits: int = 0, **request: str) -> Any:
        """Start a payment of 40.00 EUR, unless the request says otherwise; return its outcome."""
        (self.folder / "payment.json").write_text(json.dumps(PAYMENT | request))
        return self.told("start", "payment.json", "--stack", saga, exits=exits)

    def use(self, variables: Mapping[str, str]) -> None:
        """Set environment variables for later commands."""
        self._variables |= variables


PAYMENT = {"payer": "alice", "payee": "bob", "amount": "40.00", "currency": "EUR"}


def ensure(found: object, wanted: object) -> None:
    """Raise SystemExit unless both values are equal."""
    if found != wanted:
        raise SystemExit(f"found {found}, wanted {wanted}")
