"""`settle check prove` finds a bug planted into a user's check, and none in the examples."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from settle import cli
from settle.checks import proving, template
from settle.exit_codes import CommandFailed
from settlement.checks import together

EXAMPLES = Path(__file__).parents[3] / "examples/checks"
HEAD = """
import datetime as dt, random, time
from datetime import date, datetime
from time import time as clock
from settlement.checks.check import Approve, Check, Payment, Refuse, Reply, Tools, Wait
calls = []
"""
TAIL = """
CHECK = Check(name="mine", refusals=("no",), ask=ask, wait_seconds=60)
"""
SAME = "gives the same answer for the same token"
DECLARED = "answers as it declares"
RAISES = "raises only if something outside fails"


@pytest.fixture(autouse=True)
def none_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "_stuck", {})


def file_of(folder: Path, body: str, tail: str = TAIL) -> Path:
    file = folder / "mine.py"
    file.write_text(f"{HEAD}def ask(payment, token, tools):\n    {body}\n{tail}")
    return file


@pytest.mark.parametrize("name", ["delivered", "opensanctions", "sanctions"])
def test_each_example_check_keeps_all_promises(name: str) -> None:
    proof = proving.prove(EXAMPLES / f"{name}.py", 200)

    assert (proof.found, proof.seeds) == ([], 200)
    assert proof.waited + proof.approved > 0


@pytest.mark.parametrize(
    ("body", "promise"),
    [
        ("return Approve() if random.random() < 0.5 else Refuse('no')", SAME),
        ("return Approve() if tools.now().day < 25 else Refuse('no')", SAME),
        ("return Refuse('no') if tools.now().hour >= 22 else Approve()", SAME),
        ("return Refuse('no') if tools.now().weekday() == 6 else Approve()", SAME),
        ("return Approve() if datetime.now().hour < 22 else Refuse('no')", RAISES),
        ("return Approve() if dt.datetime.now().hour < 22 else Refuse('no')", RAISES),
        ("return Approve() if dt.date.today().day < 25 else Refuse('no')", RAISES),
        ("return Approve() if date.today().day < 25 else Refuse('no')", RAISES),
        ("return Approve() if time.time() % 2 else Refuse('no')", RAISES),
        ("return Approve() if clock() % 2 else Refuse('no')", RAISES),
        ("calls.append(token); return Approve() if len(calls) < 4 else Refuse('no')", SAME),
        ("calls.append(token); return Approve() if len(calls) < 4 else Wait()", SAME),
        ("return Refuse('not declared')", DECLARED),
        ("return Approve({'at': tools.now()})", DECLARED),
        ("return True", DECLARED),
        ("return Approve({'x': 'y' * 5000})", DECLARED),
        ("return Approve() if payment.payer_name.isupper() else Refuse('no')", RAISES),
        ("tools.http('GET', 'https://example.com'); return Approve()", RAISES),
    ],
)
def test_check_prove_reports_the_seed_that_reveals_a_planted_bug(
    tmp_path: Path, body: str, promise: str
) -> None:
    file = file_of(tmp_path, body)

    found = {one.promise: one for one in proving.prove(file, 100).found}

    assert promise in found
    again = proving.prove(file, 1, found[promise].seed)
    assert promise in {one.promise for one in again.found} or "random" in body


def test_a_check_that_hangs_breaks_its_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proving, "SECONDS_MAX", 0.05)

    (broken,) = proving.prove(file_of(tmp_path, "time.sleep(1)"), 100).found

    assert broken.promise == "answers before its deadline"


def test_a_failing_external_service_breaks_no_promise(tmp_path: Path) -> None:
    body = """reply = tools.http('GET', 'https://example.com')
    if reply.status != 200:
        raise OSError(reply.status)
    return Approve() if reply.body == b"yes" else Refuse('no')"""
    simulated = "def SIMULATED(method, url, headers, body): return Reply(200, b'yes')\n"

    proof = proving.prove(file_of(tmp_path, body, f"{simulated}{TAIL}"), 200)

    assert proof.found == []
    assert proof.unseen == ["wait"]


def test_check_prove_shows_the_seed_and_fails(tmp_path: Path) -> None:
    file = file_of(tmp_path, "return Refuse('other')")

    result = CliRunner().invoke(cli.app, ["check", "prove", str(file), "--seeds", "5"])

    assert result.exit_code != 0
    assert "refuses for a reason that it does not declare" in result.output


@pytest.mark.parametrize("waits", [False, True])
def test_a_check_from_the_template_passes_its_proof_and_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    name = "own-wait" if waits else "own-limit"
    monkeypatch.syspath_prepend(tmp_path)

    file, test = template.write(name, tmp_path, waits=waits)

    assert proving.prove(file, 50).found == []
    assert pytest.main(["-q", "-p", "no:cacheprovider", "-c", "/dev/null", str(test)]) == 0
    with pytest.raises(CommandFailed, match="is there already"):
        template.write(name, tmp_path)


@pytest.mark.parametrize("name", ["", "Own", "kyc", "own_limit", "../x"])
def test_check_new_with_an_invalid_name_writes_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(CommandFailed, match=r"^name: must match"):
        template.write(name, tmp_path)

    assert list(tmp_path.iterdir()) == []


def test_proving_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must be a Python file"):
        proving.prove(tmp_path / "nothing.py", 1)
