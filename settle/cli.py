import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from typing import Annotated, NoReturn

import typer

from settle.acceptance.acceptance_command import acceptance
from settle.accounts import account_command
from settle.bank import statement_command
from settle.books import ledger_command
from settle.checks import check_command
from settle.commands.words import Command
from settle.console.console_command import console
from settle.events import events_command
from settle.exit_codes import CommandFailed, Exit
from settle.journal import journal_command
from settle.kyc import kyc_command
from settle.local import local_command
from settle.local.demo_command import demo
from settle.local.preflight_command import preflight
from settle.merchants.sweep_command import sweep
from settle.migrations import migrate_command
from settle.orders import limbo_command
from settle.orders.audit_command import audit
from settle.orders.reverse_command import reverse
from settle.output.console import escape_unknown
from settle.output.printable import is_printable, printable
from settle.payouts import payee_command, payout_command
from settle.payruns import payrun_command
from settle.permissions.permissions_command import permissions
from settle.proof.reconcile_command import reconcile
from settle.reports.report_command import report
from settle.restore import restore_command
from settle.settlements.explain_command import explain
from settle.settlements.list_command import list_settlements
from settle.settlements.recover_command import recover
from settle.settlements.start_command import start
from settle.settlements.status_command import status
from settle.settlements.wait_command import wait
from settle.settlements.watch_command import watch
from settlement.core.model.errors import SettlementError
from settlement.core.model.stored import MalformedRow

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
    "account": account_command.app,
    "limbo": limbo_command.app,
    "events": events_command.app,
    "journal": journal_command.app,
    "ledger": ledger_command.app,
    "statement": statement_command.app,
    "payout": payout_command.app,
    "payee": payee_command.app,
    "payrun": payrun_command.app,
    "restore": restore_command.app,
    "migrate": migrate_command.app,
    "kyc": kyc_command.app,
    "check": check_command.app,
    "local": local_command.app,
}
account_command.app.command("sweep")(sweep)
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


@cache
def command() -> Callable[..., None]:
    """Return the whole tree of commands. It takes 40 ms to make."""
    return typer.main.get_command(app)


def main() -> None:
    """Run `settle`. A failure prints one line on standard error and ends with an `Exit` code."""
    escape_unknown()
    if not all(map(_is_utf8, sys.argv)):
        _end(Exit.USAGE, "arguments: must be UTF-8")
    if not all(map(is_printable, sys.argv[1:])):
        _end(Exit.USAGE, "arguments: must have no control characters")
    try:
        command()(prog_name="settle")
    except CommandFailed as failure:
        _end(failure.code, str(failure), failure.details)
    except (SettlementError, MalformedRow, OSError) as failure:
        _end(Exit.FAILED, f"{type(failure).__name__}: {failure}")
    except Exception as failure:
        if not _is_of_aws(failure):
            raise
        _end(Exit.FAILED, f"{type(failure).__name__}: {failure}")


def _is_utf8(argument: str) -> bool:
    """Return whether an argument was UTF-8. Python decodes others to half surrogates."""
    try:
        argument.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_of_aws(failure: Exception) -> bool:
    from botocore.exceptions import BotoCoreError, ClientError

    return isinstance(failure, ClientError | BotoCoreError)


def _end(code: Exit, message: str, details: str = "") -> NoReturn:
    with suppress(OSError):
        print(f"settle: {printable(message)}", file=sys.stderr)
        for line in details.splitlines():
            print(printable(line), file=sys.stderr)
    sys.exit(code)
