"""For any input, the command exits with a documented code and a reason."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from settle import cli
from settle.exit_codes import Exit
from tests.fuzz.command import Ended, Line, commanded, draw, run
from tests.fuzz.mutation import Bytes
from tests.fuzz.stage import STATES, Stage

LINES = 2_400


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with commanded() as stage:
        yield stage


def check(line: Line, ended: Ended) -> None:
    assert ended.code in list(Exit)
    assert "Traceback" not in ended.err
    assert ended.out or ended.err, "it printed nothing"
    # With several requests, the gravest answer sets the code; others may have settled.
    one_answer = line.arguments[:1] != ("start",) or (ended.err.count("\n") <= 1 and ended.started <= 1)
    if ended.code in (Exit.USAGE, Exit.NOT_FOUND) and one_answer:
        assert ended.committed == 0


def test_a_non_utf_8_argument_is_a_usage_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # no request is sent
    monkeypatch.setattr(sys, "argv", ["settle", "status", "order-2026-000101", "--stack", "\udcff"])

    with pytest.raises(SystemExit) as end:
        cli.main()

    captured = capsys.readouterr()
    assert (end.value.code, captured.out, captured.err.count("\n")) == (Exit.USAGE, "", 1)


@pytest.mark.long
def test_a_hostile_command_line_gets_a_documented_code_without_traceback(
    stage: Stage, tmp_path: Path
) -> None:
    ends, chance = Counter[Exit](), Random(1)
    for _ in range(LINES):
        line = draw(Bytes(chance.randbytes(64)), list(STATES))
        try:
            ended = run(stage, line, str(tmp_path / "requests.json"))
            check(line, ended)
        except Exception as fault:
            raise AssertionError(f"{type(fault).__name__}: {fault}; keep {line!r}") from fault
        ends[ended.code] += 1

    assert ends.total() >= LINES
    assert ends.keys() == set(Exit), f"a code was never seen: {ends}"
