import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from settle import __main__, cli
from settle.local import state
from tests.settle.conftest import Command, raising
from tests.world.rooms import there

NEEDING_A_STACK = [
    ("local", "status"),
    ("local", "env"),
    ("start", "-"),
    ("account", "open", "alice", "--currency", "EUR"),
    ("account", "show", "alice"),
    *there("merchants", ("account", "sweep", "merchant.shop")),
    ("status", "order-2026-000101"),
    ("wait", "order-2026-000101"),
    ("reconcile",),
    ("limbo", "list"),
    ("limbo", "show", "order-2026-000101"),
    ("limbo", "resolve", "order-2026-000101", "retry", "--reason", "paid in"),
    ("limbo", "approve", "write-off", "--all-of", "InsufficientFunds"),
    ("reverse", "order-2026-000101", "--reason", "sent back"),
    ("kyc", "status"),
    ("kyc", "probe"),
    ("list", "--in-flight"),
    ("watch",),
    ("recover", "order-2026-000101"),
    ("payout", "start", "-"),
    ("payout", "status", "payout-2026-000101"),
    ("payout", "list"),
    ("payout", "propose", "payout-2026-000101", "ask", "--reason", "r"),
    ("payee", "show", "flat-9"),
]


@pytest.mark.parametrize("command", NEEDING_A_STACK, ids=" ".join)
def test_without_an_embedded_aws_the_error_names_the_up_command(
    settle: Command, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    for options in ((), ("--json",)) if command != ("local", "env") else ((),):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{}")))
        code, out, err = settle(*command, *options)

        assert (code, out, len(err.splitlines())) == (3, "", 1)
        assert err.startswith("settle: ")
        assert "`settle local up`" in err


def test_down_without_an_embedded_aws_has_nothing_to_stop(settle: Command) -> None:
    assert settle("local", "down", "--json") == (0, '{"stopped": false}\n', "")


@pytest.mark.parametrize(
    "command",
    [
        ("nonsense",),
        ("start",),
        ("start", "request.json", "--machine", "turing"),
        ("status",),
        ("wait",),
        ("wait", "order-2026-000101", "--timeout", "-1"),
        ("account", "open", "alice"),
        ("account", "close", "alice"),
        *(("local", "up", "--port", port) for port in ("-1", "65536")),
        ("limbo", "show"),
        ("limbo", "resolve", "order-2026-000101", "retry"),
        ("limbo", "resolve", "order-2026-000101", "--reason", "paid in"),
        ("limbo", "resolve", "order-2026-000101", "forget", "--reason", "paid in"),
        ("limbo", "resolve", "order-2026-000101", "write_off", "--reason", "paid in"),
        ("reverse", "order-2026-000101"),
        ("reverse", "--reason", "sent back"),
        ("list", "--in-flight", "--limit", "0"),
        ("watch", "--every", "0"),
        ("recover",),
        ("payout", "propose", "payout-2026-000101", "perhaps", "--reason", "r"),
        ("payout", "approve", "payout-2026-000101", "paid"),
        ("payout", "list", "--limit", "0"),
        ("payee", "add", "flat-9", "--account", "dora"),
    ],
    ids=" ".join,
)
def test_a_missing_or_impossible_argument_is_a_usage_error(settle: Command, command: tuple[str, ...]) -> None:
    code, out, err = settle(*command)

    assert (code, out, "Error" in err) == (2, "", True)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ((), ("start", "status", "demo")),
        (("start",), ("--machine", "--json", "--stack")),
        (("local", "up"), ("--port",)),
        (("account", "open"), ("--currency", "--deposit")),
        (("limbo", "resolve"), ("key", "retry", "write-off", "complete", "--reason", "--json", "--stack")),
        (("limbo", "approve"), ("DECISION", "--account", "--all-of", "--seen", "--digest")),
        (("status",), ("key", "--json", "--stack", "Example:")),
        (("wait",), ("key", "--timeout", "SECONDS", "7", "--json", "--stack", "Example:")),
        (("local", "env"), ("Example:", "settle local env")),
        (("list",), ("--in-flight", "--limbo", "--since", "whole table", "--limit", "--json", "--stack")),
        (("watch",), ("--every", "--once", "Ctrl-C", "--json", "--stack")),
        (("explain",), ("error", "--json", "Example:")),
        (("report",), ("KEY", "--output", "--queue", "--redact", "--force", "--open", "--stack", "Example:")),
    ],
    ids=str,
)
def test_each_commands_help_explains_its_arguments(
    settle: Command, command: tuple[str, ...], words: tuple[str, ...]
) -> None:
    code, out, err = settle(*command, "--help")

    assert (code, err, "Usage: settle" in out) == (0, "", True)
    assert [word for word in words if word not in out] == []


ONE_LIST = "list: give one of --in-flight, --limbo and --since WHEN"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), ONE_LIST),
        (("--in-flight", "--limbo"), ONE_LIST),
        (("--limbo", "--since", "1h"), ONE_LIST),
        *((("--since", when), "since: ") for when in ("", "soon", "2026-11-20", "9999-01-01T00:00:00Z")),
    ],
)
def test_a_list_needs_exactly_one_valid_choice(
    settle: Command, arguments: tuple[str, ...], message: str
) -> None:
    code, out, err = settle("list", *arguments)

    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert err.startswith(f"settle: {message}")


@pytest.mark.parametrize("is_file", [True, False], ids=["file", "standard input"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "file: "),
        (b" \n\n", "file: "),
        (bytes(range(256)), "file: "),
        (b"[" * 100_000, "line 1: request: must be nested at most 100 levels deep; nothing was sent"),
        (b'{"key": "a", "key": "b"}\n{}', "line 1: request: must have each field once, and has key twice"),
        (b'{"key": "a",\n "key": "b"}\n', "line 1: request: must have each field once, and has key twice"),
        (b"\xef\xbb\xbf{}", "line 1: request: must begin without a byte order mark"),
        (b'{}\n{"a": NaN}', "line 2: request: must be JSON, which has no NaN"),
        (b'{"key": "order-2026-000101"}\nnonsense\n', "line 2: request: must be JSON: "),
    ],
    ids=["empty", "blank", "binary", "deep", "twice", "twice on lines", "a mark", "NaN", "half good"],
)
def test_a_file_without_a_request_is_a_usage_error(
    settle: Command, home: Path, monkeypatch: pytest.MonkeyPatch, is_file: bool, content: bytes, message: str
) -> None:
    file = home / "request.json"
    file.write_bytes(content)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content), encoding="utf-8"))

    code, out, err = settle("start", str(file) if is_file else "-")

    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert err.startswith(f"settle: {message}")


def test_a_missing_file_or_a_directory_is_a_usage_error(settle: Command, home: Path) -> None:
    for path, why in ((home, "Is a directory"), (home / "missing", "No such file or directory")):
        message = f"settle: file: {path} cannot be read: {why}\n"
        assert settle("start", str(path)) == (2, "", message)


@pytest.mark.parametrize(
    "command",
    [("local", "status"), ("local", "up"), ("local", "down"), ("status", "order-2026-000101")],
    ids=" ".join,
)
def test_an_impossible_home_is_reported_in_one_line(
    settle: Command, home: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    (home / "a-file").touch()
    monkeypatch.setattr(state, "HOME", home / "a-file")
    monkeypatch.setattr(state, "STATE", home / "a-file" / "local.json")
    monkeypatch.setattr(state, "SCRATCH", home / "a-file" / "embedded")

    code, out, err = settle(*command)

    assert code in (1, 2, 3)
    assert (out, len(err.splitlines())) == ("", 1)
    assert err.startswith("settle: ")
    assert err.endswith("; name a folder of yours by SETTLE_HOME\n")


def test_the_installed_command_exits_with_its_code_and_error_line(tmp_path: Path) -> None:
    finished = subprocess.run(
        [Path(sys.executable).parent / "settle", "status", "order-2026-000101"],
        env=os.environ | {"SETTLE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (finished.returncode, finished.stdout) == (3, "")
    assert finished.stderr == (
        "settle: no stack: pass --stack NAME; the embedded AWS is not running;"
        " start it with `settle local up`\n"
    )


def test_ctrl_c_outside_a_command_ends_it_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Typer handles a running command; this covers the rest, such as module loading."""

    monkeypatch.setattr(cli, "main", raising(KeyboardInterrupt))

    with pytest.raises(SystemExit) as end:
        __main__.main()

    assert (end.value.code, capsys.readouterr()) == (__main__.INTERRUPTED, ("", ""))
