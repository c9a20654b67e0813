import signal
from contextlib import suppress
from datetime import UTC, datetime
from types import ModuleType
from typing import Annotated

import typer

from settle.books import ledger_output
from settle.commands.options import AsJson, StackName, find
from settle.exit_codes import Exit
from settle.local import needs_extra

app = typer.Typer(no_args_is_help=True, help="The books in PostgreSQL, for finance: a copy of the journal.")

Url = Annotated[
    str,
    typer.Option(
        envvar="LEDGER_URL", help="The PostgreSQL: postgresql://user@host/database.", show_default=False
    ),
]
From = Annotated[
    str, typer.Option("--from", help="The sealed journal: stack, s3://BUCKET/PREFIX or a directory.")
]


def _reach() -> ModuleType:
    with needs_extra("ledger", "ledger"):
        from settle.books import reach
    return reach


@app.callback()
def ledger() -> None:
    """The books in PostgreSQL."""


@app.command("migrate")
def migrate(url: Url, stack: StackName = None) -> None:
    """Bring the schema up to date, and add the stage's currencies. Safe to repeat.

    --url stack migrates the stack's own Aurora. It also sets the projector's password from its secret.

    Example: settle ledger migrate --stack settlement-prod
    """
    from settle.output.console import print_line

    _reach().migrate(url, find(stack))
    print_line("the schema is up to date")


@app.command("project")
def project(url: Url, source: From = "stack", stack: StackName = None, as_json: AsJson = False) -> None:
    """Copy the sealed journal's new entries into the books. Safe to repeat, even concurrently.

    Exit code 1: an object does not match its name, and is left out.

    Example: settle ledger project --stack settlement-prod
    """
    done = _reach().project(url, find(stack), source)
    ledger_output.projected(done, as_json)
    if done["unreadable"]:
        raise typer.Exit(Exit.FAILED)


@app.command("follow")
def follow(
    url: Url,
    every: Annotated[int, typer.Option(min=1, metavar="SECONDS", help="Pause between two rounds.")] = 60,
    source: From = "stack",
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Project in rounds. Show each round, and the books' delay, on a line.

    Ends with Ctrl-C. An outage of PostgreSQL is reported, and the next round catches up.

    Example: settle ledger follow --stack settlement-prod
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a supervisor's signal acts like Ctrl-C
    with suppress(KeyboardInterrupt):
        for one in _reach().follow(url, find(stack), source, every):
            ledger_output.followed(one, as_json)


@app.command("verify")
def verify(url: Url, stack: StackName = None, as_json: AsJson = False) -> None:
    """Compare the books with the table by day and currency, then row by row.

    Exit code 1: a difference, or lines put aside. Entries of the last 15 minutes may be on their way.

    Example: settle ledger verify --stack settlement-prod
    """
    verdict = _reach().verify(url, find(stack), datetime.now(UTC))
    ledger_output.verified(verdict, as_json)
    if not verdict["agrees"]:
        raise typer.Exit(Exit.FAILED)


@app.command("rebuild")
def rebuild(url: Url, source: From = "stack", stack: StackName = None, as_json: AsJson = False) -> None:
    """Rebuild the books in an empty database, and print their digest. Equal books have equal digests.

    Example: settle ledger rebuild --url postgresql://finance@db/rebuilt --stack settlement-prod
    """
    done = _reach().rebuild(url, find(stack), source)
    ledger_output.projected(done, as_json)
    if done["unreadable"]:
        raise typer.Exit(Exit.FAILED)


@app.command("close")
def close(
    month: Annotated[str, typer.Argument(metavar="MONTH", help="A month that is over, such as 2026-10.")],
    url: Url,
    stack: StackName = None,
    despite_put_aside: Annotated[
        bool, typer.Option("--despite-put-aside", help="Close the month even if lines were put aside.")
    ] = False,
) -> None:
    """Close a month and all earlier ones. A late entry is booked on arrival.

    Refused within 15 minutes of the month's end, and while the books lack objects of the sealed journal. Also
    refused while lines are put aside: they may belong to the month.

    Example: settle ledger close 2026-10 --stack settlement-prod
    """
    from settle.output.console import print_line

    new = _reach().close(url, find(stack), month, datetime.now(UTC), despite_put_aside=despite_put_aside)
    print_line(f"{month} is closed" if new else f"{month} was closed before")


@app.command("put-aside")
def put_aside(url: Url, as_json: AsJson = False) -> None:
    """Show the journal lines that the books lack, with the reasons.

    Example: settle ledger put-aside --json
    """
    ledger_output.put_aside(_reach().put_aside(url), as_json)
