"""The tutorial `docs/start.md` and the README's demo, run and compared with their output.

`UPDATE_GOLDEN=1` writes the output into both.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from settle.exit_codes import Exit
from tests.e2e.embedded import COMMAND_SECONDS_MAX, Embedded, embedded_aws
from tests.world.templates import PROJECT
from tests.world.tutorial import Shown, difference, rewritten, shown, stable

pytestmark = pytest.mark.long

README, PAGE = PROJECT / "README.md", PROJECT / "docs" / "start.md"
DEMO = "make demo"
HEARD = "claimed|held|verified|released|settled|snapshot"
VARIES = {
    "settle start - --machine standard": ({0, 7}, r"[a-z_]+( .+)?|…"),
    "settle start - --queue) & settle events tail --key tutorial-heard-01": (
        {0},
        rf"tutorial-heard-01: sent to the start queue"
        rf"|<instant>  tutorial-heard-01  \d  ({HEARD}) +[A-Z]+ +1\.00 EUR",
    ),
}
"""Exit codes and line patterns of commands with varying output.

A reviewer may decide before the first outcome is read; events come in any order.
"""

OVERTAKEN = '"key": "tutorial-refused-1"'
"""The payment whose reversal may end before Express answers."""


@pytest.fixture(scope="module")
def reader() -> Iterator[Embedded]:
    """A separate stage, because the page's last command ends it, and its proof counts the demo's payments."""
    with embedded_aws() as own:
        yield own


def run(command: str, reader: Embedded, folder: Path) -> tuple[int, list[str]]:
    """Run a command of the page, after the installation."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    finished = subprocess.run(
        ["bash", "-c", "settle demo" if command == DEMO else command],
        cwd=folder,
        env=reader.environment | {"PATH": path, "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=COMMAND_SECONDS_MAX,
    )
    return finished.returncode, finished.stdout.splitlines()


def differs(each: Shown, code: int, real: list[str]) -> str:
    if OVERTAKEN in each.command and code == Exit.REFUSED:
        real = [re.sub(r"^(escrow +)0\.00$", r"\g<1>5.00", line) for line in real]
        real = [re.sub(r"^(status +)COMPENSATED$", r"\g<1>COMPENSATING", line) for line in real]
    if varies := VARIES.get(each.command.rpartition(" | ")[2]):
        exits, form = varies
        assert code in exits, real
        return "\n".join(line for line in [*each.lines, *real] if not re.fullmatch(form, stable(line)))
    return difference(each.lines, real)


def test_the_tutorial_shows_the_output_of_each_command(reader: Embedded, tmp_path: Path) -> None:
    expected = shown(PAGE.read_text())
    assert len(expected) > 20
    (of_the_readme,) = shown(README.read_text())
    outputs, wrong = [], []

    for each in expected:
        code, real = run(each.command, reader, tmp_path)
        if each.command == DEMO:
            wrong.append(differs(of_the_readme, code, real))
            demo = real
            real = [*takewhile(lambda line: not line.startswith("["), each.lines), *real]
        wrong.append(differs(each, code, real))
        outputs.append(each.lines if each.command.rpartition(" | ")[2] in VARIES else real)
    if os.environ.get("UPDATE_GOLDEN") and not os.environ.get("CI"):
        PAGE.write_text(rewritten(PAGE.read_text(), outputs))
        README.write_text(rewritten(README.read_text(), [demo]))

    assert [found for found in wrong if found] == []
