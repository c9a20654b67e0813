"""Use the built package as a stranger does: install it elsewhere, and settle in an app of one's own.

For both ends of the dependencies' ranges: the embedded AWS comes up, the apps of `examples/app` are deployed
to it as they are, each of their sagas pays and reverses, and its books are proved.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

PROJECT = Path(__file__).parents[1]
APPS = {"app.py": ["Payments/Saga"], "two.py": ["Payments-north/Saga", "Payments-south/Saga"]}
"""The sagas of each app."""

KEY = "order-2026-000001"
PAYMENT = {"key": KEY, "payer": "alice", "payee": "bob", "amount": "40.00", "currency": "EUR"}
COMMAND_SECONDS_MAX = 1_800
COMPENSATED = 4
"""Exit code of a settlement that ended otherwise than paid."""


class Stranger:
    """A folder with an environment of its own, which knows nothing of the checkout."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._variables = folder, dict[str, str]()

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


def built(folder: Path) -> Path:
    """Return the wheel, made from the source distribution as an index's users get it."""
    build = (
        "import sys; from hatchling.build import build_sdist, build_wheel; "
        "print({'sdist': build_sdist, 'wheel': build_wheel}[sys.argv[1]](sys.argv[2]))"
    )
    source = PROJECT
    for kind in ("sdist", "wheel"):
        if kind == "wheel":
            (archive,) = folder.glob("*.tar.gz")
            with tarfile.open(archive) as packed:
                packed.extractall(folder, filter="data")
            source = folder / archive.name.removesuffix(".tar.gz")
        subprocess.run([sys.executable, "-c", build, kind, str(folder)], cwd=source, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def settles(stranger: Stranger, saga: str) -> None:
    """Pay, reverse and prove."""
    settle = ("settle", "account", "open")
    stranger.run(*settle, "alice", "--currency", "EUR", "--deposit", "100.00", "--stack", saga)
    stranger.run(*settle, "bob", "--currency", "EUR", "--stack", saga)
    (stranger.folder / "payment.json").write_text(json.dumps(PAYMENT))
    paid = stranger.run("settle", "start", "payment.json", "--stack", saga, "--json")
    ensure(json.loads(paid)["status"], "SETTLED")
    stranger.run("settle", "reverse", KEY, "--reason", "goods came back", "--stack", saga)
    found = stranger.run("settle", "status", KEY, "--stack", saga, "--json", exits=COMPENSATED)
    ensure(json.loads(found)["status"], "COMPENSATED")
    proof = json.loads(stranger.run("settle", "reconcile", "--stack", saga, "--json"))
    ensure((proof["conserved"], proof["settlements"]), (True, 1))  # and no other saga's


def ensure(found: object, wanted: object) -> None:
    """Raise SystemExit if something else is found."""
    if found != wanted:
        raise SystemExit(f"found {found}, wanted {wanted}")


def consume(wheel: Path, resolution: str) -> None:
    """Install the wheel with one end of the ranges, and use it."""
    with tempfile.TemporaryDirectory(prefix="stranger-") as folder:
        stranger = Stranger(Path(folder))
        print(f"\n{resolution}: {folder}", flush=True)
        stranger.run(sys.executable, "-m", "venv", "venv")
        uv = str(Path(sys.executable).with_name("uv"))
        stranger.run(
            uv,
            "pip",
            "install",
            "-q",
            "--python",
            "venv/bin/python",
            "--resolution",
            resolution,
            f"{wheel}[local]",
        )
        for app in APPS:
            Path(folder, app).write_text((PROJECT / "examples/app" / app).read_text())
        stranger.run("settle", "local", "up")
        try:
            told = stranger.run("settle", "local", "env").splitlines()
            stranger.use(dict(shlex.split(line)[1].split("=", 1) for line in told))
            for app, sagas in APPS.items():
                stranger.run("settle", "local", "deploy", f"python {app}")
                for saga in sagas:
                    settles(stranger, saga)
        finally:
            stranger.run("settle", "local", "down")


def main() -> None:
    parser = argparse.ArgumentParser(prog="make consume", description=__doc__)
    ends = ["highest", "lowest-direct"]
    parser.add_argument("--resolution", choices=ends, help="only this end of the ranges")
    only = parser.parse_args().resolution
    with tempfile.TemporaryDirectory(prefix="built-") as folder:
        wheel = built(Path(folder))
        for resolution in [only] if only else ends:
            consume(wheel, resolution)
    print("\nthe package is installed, deployed and settles")


if __name__ == "__main__":
    main()
