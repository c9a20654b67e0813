"""Use the built package as a stranger does: install it, upgrade it, and settle in an app of one's own.

An older wheel's saga is updated with payments in flight, and the demo runs. Then, for both ends of the
dependencies' ranges, the apps of `examples/app` are deployed unchanged to the embedded AWS. Each saga pays
and reverses, and its books are proved.
"""

import argparse
import re
import shlex
import shutil
import tempfile
import time
import tomllib
from collections import Counter
from pathlib import Path

from tools.dist import build
from tools.stranger import PROJECT, Stranger, ensure
from tools.upgrade import Unfinished, older

APPS = {"app.py": ["Payments/Saga"], "two.py": ["Payments-north/Saga", "Payments-south/Saga"]}
"""The sagas of each app."""

COMPENSATED = 4
"""Exit code of a settlement that ended unpaid."""


def settles(stranger: Stranger, saga: str, key: str, settlements: int) -> None:
    """Pay, reverse, and prove that the saga has exactly `settlements` settlements."""
    settle = ("settle", "account", "open")
    stranger.run(*settle, "alice", "--currency", "EUR", "--deposit", "1000.00", "--stack", saga)
    stranger.run(*settle, "bob", "--currency", "EUR", "--stack", saga)
    ensure(stranger.pay(saga, key=key)["status"], "SETTLED")
    stranger.run("settle", "reverse", key, "--reason", "goods came back", "--stack", saga)
    found = stranger.told("status", key, "--stack", saga, exits=COMPENSATED)
    ensure(found["status"], "COMPENSATED")
    proof = stranger.told("reconcile", "--stack", saga)
    ensure((proof["conserved"], proof["settlements"]), (True, settlements))


def lowest() -> str:
    """Return the lowest versions of the command's and the construct's dependencies, as constraints."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    declared = (*project["dependencies"], *project["optional-dependencies"]["cdk"])
    return "\n".join(re.sub(r">=([^,]+).*", r"==\1", one) for one in declared)


def consume(wheel: Path, folder: Path) -> None:
    """Update an older wheel to the newest versions, then use the lowest ones on the same sagas.

    The embedded AWS needs one version of botocore. So the lowest versions have an environment without it.
    """
    newest, oldest = Stranger(folder / "newest"), Stranger(folder / "lowest")
    newest.install(f"{older(folder)}[local]")
    oldest.install(f"{wheel}[cdk]", lowest())
    newest.run("settle", "local", "up")
    try:
        told = newest.run("settle", "local", "env").splitlines()
        addresses = dict(shlex.split(line)[1].split("=", 1) for line in told)
        newest.use(addresses)
        oldest.use(addresses)
        deploy(newest, newest, "app.py")
        unfinished = Unfinished(newest, addresses)
        newest.install(f"{wheel}[local]")
        tested(newest)
        with unfinished.paying():
            newest.run("settle", "local", "up")
            deploy(newest, newest, "app.py")
        settlements = Counter({"Payments/Saga": unfinished.end()})
        newest.run("settle", "demo")
        for stranger in (newest, oldest):
            for app, sagas in APPS.items():
                deploy(newest, stranger, app)
                for saga in sagas:
                    settlements[saga] += 1
                    key = f"order-2026-{stranger.folder.name}-1"
                    settles(stranger, saga, key, settlements[saga])
    finally:
        newest.run("settle", "local", "down")


def tested(stranger: Stranger) -> None:
    """Run the example app's own tests, as a team would."""
    shutil.copytree(PROJECT / "examples/app", stranger.folder / "app")
    stranger.add("pytest")
    stranger.run("pytest", "-q", "app")


def deploy(by: Stranger, of: Stranger, app: str) -> None:
    """Deploy an example app with `by`'s command and `of`'s version of the construct."""
    python = of.folder / "venv/bin/python"
    by.run("settle", "local", "deploy", f"{python} {PROJECT / 'examples/app' / app}")


def main() -> None:
    argparse.ArgumentParser(prog="make consume", description=__doc__).parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="stranger-") as folder:
        consume(build(Path(folder)), Path(folder))
    print(f"\nthe package is installed, upgraded, deployed and settles: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
