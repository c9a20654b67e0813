import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from settle.local import record
from tests.settle.conftest import Ended

Settle = Callable[..., Ended]

NEEDING_A_STACK = [
    ("local", "status"),
    ("local", "env"),
    ("account", "open", "alice", "--currency", "EUR"),
    ("account", "show", "alice"),
    ("status", "order-2026-000101"),
    ("wait", "order-2026-000101"),
    ("reconcile",),
    ("limbo", "list"),
    ("limbo", "show", "order-2026-000101"),
    ("limbo", "resolve", "order-2026-000101", "retry", "--reason", "paid in"),
    ("reverse", "order-2026-000101", "--reason", "sent back"),
    ("kyc", "status"),
    ("list", "--in-flight"),
    ("list", "--limbo"),
    ("list", "--since", "2h"),
    ("watch",),
    ("watch", "--once"),
    ("recover", "order-2026-000101"),
]


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("command", NEEDING_A_STACK, ids=" ".join)
def test_without_an_embedded_aws_a_command_says_in_one_line_how_to_start_one(
    settle: Settle, command: tuple[str, ...], options: tuple[str, ...]
) -> None:
    code, out, err = settle(*command, *(options if command != ("local", "env") else ()))

    assert code == 3
    assert out == ""
    assert err.startswith("settle: ")
    assert "`settle local up`" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("name", ["-", "request.json"], ids=["standard input", "file"])
def test_without_an_embedded_aws_a_good_request_is_not_started(
    settle: Settle, home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("{}"))
    (home / "request.json").write_text("{}")

    code, out, err = settle("start", name if name == "-" else str(home / name))

    assert (code, out, len(err.splitlines())) == (3, "", 1)
    assert "`settle local up`" in err


def test_down_without_an_embedded_aws_has_nothing_to_stop(settle: Settle) -> None:
    assert settle("local", "down", "--json") == (0, '{"stopped": false}\n', "")


@pytest.mark.parametrize(
    "command",
    [
        ("--nonsense",),
        ("nonsense",),
        ("start",),
        ("start", "request.json", "--machine", "turing"),
        ("start", "request.json", "--nonsense"),
        ("status",),
        ("status", "order-2026-000101", "order-2026-000102"),
        ("wait",),
        ("wait", "order-2026-000101", "--timeout", "-1"),
        ("wait", "order-2026-000101", "--timeout", "soon"),
        ("local", "env", "--nonsense"),
        ("account", "open", "alice"),
        ("account", "close", "alice"),
        ("local", "up", "--port", "many"),
        ("reconcile", "--nonsense"),
        ("limbo", "nonsense"),
        ("limbo", "list", "order-2026-000101"),
        ("limbo", "show"),
        ("limbo", "resolve", "order-2026-000101", "retry"),
        ("limbo", "resolve", "order-2026-000101", "--reason", "paid in"),
        ("limbo", "resolve", "order-2026-000101", "forget", "--reason", "paid in"),
        ("limbo", "resolve", "order-2026-000101", "write_off", "--reason", "paid in"),
        ("reverse", "order-2026-000101"),
        ("reverse", "--reason", "sent back"),
        ("kyc", "nonsense"),
        ("kyc", "status", "order-2026-000101"),
        ("list", "--nonsense"),
        ("list", "--since"),
        ("list", "--in-flight", "--limit", "0"),
        ("list", "--in-flight", "--limit", "many"),
        ("watch", "--every", "0"),
        ("watch", "--every", "0.5"),
        ("recover",),
        ("recover", "order-2026-000101", "order-2026-000102"),
    ],
    ids=" ".join,
)
def test_what_the_command_does_not_know_is_a_usage_error(settle: Settle, command: tuple[str, ...]) -> None:
    code, out, err = settle(*command)

    assert code == 2
    assert out == ""
    assert "Error" in err


@pytest.mark.parametrize(
    "which",
    [
        (),
        ("--in-flight", "--limbo"),
        ("--limbo", "--since", "1h"),
        ("--in-flight", "--since", "1h"),
        ("--in-flight", "--limbo", "--since", "1h"),
    ],
    ids=" ".join,
)
def test_not_exactly_one_list_is_a_usage_error_in_one_line(settle: Settle, which: tuple[str, ...]) -> None:
    assert settle("list", *which) == (
        2,
        "",
        "settle: list: give one of --in-flight, --limbo and --since WHEN\n",
    )


@pytest.mark.parametrize("when", ["", "soon", "2026-11-20", "9999-01-01T00:00:00Z"])
def test_a_bad_since_is_a_usage_error_in_one_line(settle: Settle, when: str) -> None:
    code, out, err = settle("list", "--since", when)

    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert err.startswith("settle: since: ")


@pytest.mark.parametrize("port", ["-1", "65536", "70000"])
def test_a_port_that_there_is_not_is_a_usage_error(settle: Settle, port: str) -> None:
    code, _, err = settle("local", "up", "--port", port)

    assert code == 2
    assert "port" in err


@pytest.mark.parametrize(
    "command",
    [(), ("local",), ("local", "up"), ("account",), ("account", "open"), ("start",), ("status",), ("demo",)],
    ids=" ".join,
)
def test_each_command_explains_itself(settle: Settle, command: tuple[str, ...]) -> None:
    code, out, err = settle(*command, "--help")

    assert (code, err) == (0, "")
    assert "Usage: settle" in out


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("limbo",), ("list", "show", "resolve")),
        (("limbo", "list"), ("--json", "--stack")),
        (("limbo", "show"), ("key", "--json", "--stack")),
        (("limbo", "resolve"), ("key", "retry", "write-off", "complete", "--reason", "--json", "--stack")),
        (("reverse",), ("key", "--reason", "--json", "--stack")),
        (("kyc",), ("status",)),
        (("kyc", "status"), ("--json", "--stack")),
        (("status",), ("key", "--json", "--stack", "Example:")),
        (("wait",), ("key", "--timeout", "SECONDS", "7", "--json", "--stack", "Example:")),
        (("local", "env"), ("Example:", "settle local env")),
        (("list",), ("--in-flight", "--limbo", "--since", "whole table", "--limit", "--json", "--stack")),
        (("watch",), ("--every", "--once", "Ctrl-C", "--json", "--stack")),
        (("recover",), ("key", "--json", "--stack")),
    ],
    ids=str,
)
def test_each_command_of_the_person_on_call_explains_what_it_takes(
    settle: Settle, command: tuple[str, ...], words: tuple[str, ...]
) -> None:
    code, out, err = settle(*command, "--help")

    assert (code, err) == (0, "")
    assert [word for word in words if word not in out] == []


def _missing(path: Path) -> None:
    pass


def _empty(path: Path) -> None:
    path.touch()


def _blank(path: Path) -> None:
    path.write_text(" \n\n")


def _binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)))


def _directory(path: Path) -> None:
    path.mkdir()


def _too_deep(path: Path) -> None:
    path.write_text("[" * 100_000)


def _half_good(path: Path) -> None:
    path.write_text('{"key": "order-2026-000101"}\nnonsense\n')


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (_missing, "file: "),
        (_empty, "file: "),
        (_blank, "file: "),
        (_binary, "file: "),
        (_directory, "file: "),
        (_too_deep, "line 1: request: must be JSON: "),
        (_half_good, "line 2: request: must be JSON: "),
    ],
)
def test_a_file_that_holds_no_request_is_a_usage_error_in_one_line(
    settle: Settle, home: Path, make: Callable[[Path], None], what: str
) -> None:
    file = home / "request.json"
    make(file)

    code, out, err = settle("start", str(file))

    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert err.startswith(f"settle: {what}")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00"], ids=["empty", "binary"])
def test_standard_input_that_holds_no_request_is_a_usage_error_in_one_line(
    settle: Settle, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", errors="strict")
    monkeypatch.setattr(sys, "stdin", stdin)

    code, out, err = settle("start", "-")

    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert err.startswith("settle: file: ")


@pytest.mark.parametrize(
    "command",
    [("local", "status"), ("local", "up"), ("local", "down"), ("status", "order-2026-000101")],
    ids=" ".join,
)
def test_a_home_that_cannot_be_one_is_told_in_one_line(
    settle: Settle, home: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    (home / "a-file").touch()
    monkeypatch.setattr(record, "HOME", home / "a-file")
    monkeypatch.setattr(record, "STATE", home / "a-file" / "local.json")
    monkeypatch.setattr(record, "SCRATCH", home / "a-file" / "embedded")

    code, out, err = settle(*command)

    assert code in (1, 2, 3)
    assert (out, len(err.splitlines())) == ("", 1)
    assert err.startswith("settle: ")


def test_the_installed_command_ends_with_the_code_and_the_line(tmp_path: Path) -> None:
    finished = subprocess.run(
        [Path(sys.executable).parent / "settle", "status", "order-2026-000101"],
        env=os.environ | {"SETTLE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (finished.returncode, finished.stdout) == (3, "")
    assert finished.stderr == (
        "settle: no stack: start the embedded AWS with `settle local up`, or pass --stack NAME\n"
    )
