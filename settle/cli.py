"""The `settle` command: its subcommands, and the end of each."""

import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from typing import Annotated, NoReturn

import typer

from settle.commands import account, events, journal, kyc, ledger, limbo, local, migrate, restore
from settle.commands.acceptance import acceptance
from settle.commands.audit import audit
from settle.commands.console import console
from settle.commands.demo import demo
from settle.commands.explain import explain
from settle.commands.list import list_settlements
from settle.commands.permissions import permissions
from settle.commands.preflight import preflight
from settle.commands.reconcile import reconcile
from settle.commands.recover import recover
from settle.commands.report import report
from settle.commands.reverse import reverse
from settle.commands.start import start
from settle.commands.status import status
from settle.commands.wait import wait
from settle.commands.watch import watch
from settle.commands.words import Command
from settle.exit_codes import CommandFailed, Exit
from settle.output.console import escape_unknown
from settle.output.printable import is_printable, printable
from settlement.model.errors import SettlementError
from settlement.model.stored import MalformedRow

EPILOG = """\
Exit codes:
  0 fine      1 failed    2 usage     3 not found
  4 rejected or compensated           5 LIMBO
  6 conflict  7 still in flight

Examples:
  settle start payments.jsonl --stack settlement-prod
  settle status order-2026-000101 --stack settlement-prod
  settle wait order-2026-000101 --timeout 60 --json
  settle limbo show order-2026-000101 --stack settlement-prod

Shell completion, keys of LIMBO too: settle --install-completion, then a new shell.
"""

app = typer.Typer(
    no_args_is_help=True, pretty_exceptions_enable=False, help="Operate the settlement saga.", epilog=EPILOG
)
_COMMANDS: dict[str, Callable[..., None]] = {
    "start": start,
    "status": status,
    "wait": wait,
    "list": list_settlements,
    "watch": watch,
    "recover": recover,
    "reverse": reverse,
    "reconcile": reconcile,
    "audit": audit,
    "report": report,
    "console": console,
    "explain": explain,
    "permissions": permissions,
    "preflight": preflight,
    "acceptance": acceptance,
    "demo": demo,
}
_GROUPS = {
    "account": account.app,
    "limbo": limbo.app,
    "events": events.app,
    "journal": journal.app,
    "ledger": ledger.app,
    "restore": restore.app,
    "migrate": migrate.app,
    "kyc": kyc.app,
    "local": local.app,
}
for _name, _command in _COMMANDS.items():
    app.command(_name)(_command)
for _name, _group in _GROUPS.items():
    app.add_typer(_group, name=_name)
for _typer in (app, *_GROUPS.values()):
    for _registered in _typer.registered_commands:
        _registered.cls = Command


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"settle {version('settlement-saga')}")
        raise typer.Exit


@app.callback()
def settle(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Operate the settlement saga."""


def main() -> None:
    """Run the command; a failure is one line on standard error and the exit code that `Exit` gives it."""
    escape_unknown()
    if not all(map(_is_utf8, sys.argv)):
        _end(Exit.USAGE, "arguments: must be UTF-8")
    if not all(map(is_printable, sys.argv[1:])):
        _end(Exit.USAGE, "arguments: must have no control characters")
    try:
        app(prog_name="settle")
    except CommandFailed as failure:
        _end(failure.code, str(failure), failure.details)
    except (SettlementError, MalformedRow, OSError) as failure:
        _end(Exit.FAILED, f"{type(failure).__name__}: {failure}")
    except Exception as failure:
        if not _is_of_aws(failure):
            raise
        _end(Exit.FAILED, f"{type(failure).__name__}: {failure}")


def _is_utf8(argument: str) -> bool:
    """Return whether an argument is text: Python has its other bytes as half surrogate pairs."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_of_aws(failure: Exception) -> bool:
    """Return whether boto3 has raised a failure: an error that AWS answers with, or no answer."""
    from botocore.exceptions import BotoCoreError, ClientError

    return isinstance(failure, ClientError | BotoCoreError)


def _end(code: Exit, message: str, details: str = "") -> NoReturn:
    with suppress(OSError):
        print(f"settle: {printable(message)}", file=sys.stderr)
        for line in details.splitlines():
            print(printable(line), file=sys.stderr)
    sys.exit(code)
