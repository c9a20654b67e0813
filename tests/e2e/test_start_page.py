"""The tutorial `docs/start.md` shows the real output of each of its commands, in their order."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.embedded import COMMAND_SECONDS_MAX, Embedded
from tests.world.templates import PROJECT

pytestmark = pytest.mark.long

VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z"), "<instant>"),
    (re.compile(r"(-(?:reverse|resolve))?-[0-9a-f]{6,12}\b"), "<execution>"),
)
LEFT_OUT = "…"
VARIES = {
    "settle reconcile": {0},
    "settle start - --machine standard": {0, 7},
    "settle start - --queue) & settle events tail --key tutorial-heard-01": {0},
}
"""How commands end whose output varies: the first counts the payments of other tests too, a reviewer may be
there before the outcome of the second is read, and the payment of the third may end before it listens.
"""

ENDS_THE_STAGE = {"settle local down"}


def shown() -> Iterator[tuple[str, list[str]]]:
    """Yield each command of the tutorial with its lines of output."""
    page = (PROJECT / "docs" / "start.md").read_text()
    tour = page.partition("\n## 2. ")[2]  # the first section shows the demo, which a test of its own runs
    for block in re.findall(r"^```console\n(.*?)^```$", tour, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *output = part.splitlines()
            yield command, [line for line in map(stable, output) if line not in ("", LEFT_OUT)]


def stable(line: str) -> str:
    """Return a line without its times and the random part of names; columns may move with them."""
    for pattern, word in VARYING:
        line = pattern.sub(word, line)
    return " ".join(line.split())


def test_each_command_of_the_tutorial_prints_what_the_page_shows(embedded: Embedded, tmp_path: Path) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = [(command, output) for command, output in shown() if command not in ENDS_THE_STAGE]
    assert len(run) > 20

    for command, output in run:
        finished = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=embedded.environment | {"PATH": path, "COLUMNS": "100"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=COMMAND_SECONDS_MAX,
        )
        lines = iter([stable(line) for line in finished.stdout.splitlines()])
        if exits := VARIES.get(command.rpartition(" | ")[2]):
            assert finished.returncode in exits, f"{command}\n{finished.stdout}"
        else:
            assert [line for line in output if line not in lines] == [], f"{command}\n{finished.stdout}"
