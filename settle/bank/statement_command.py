import re
from typing import Annotated

import typer

from settle.arguments import check_key
from settle.commands.options import AsJson, Reason, StackName, find
from settle.exit_codes import CommandFailed, Exit
from settlement.bank.matching import DAYS

app = typer.Typer(no_args_is_help=True, help="The bank's statements beside the books.")

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


def _shown_digest(text: str | None) -> str | None:
    return None if text is None else _digest(text)


def _digest(text: str) -> str:
    if not _DIGEST.fullmatch(text):
        raise CommandFailed(Exit.USAGE, "digest: must be a SHA-256, as settle statement list prints it")
    return text


Days = Annotated[
    int,
    typer.Option(min=0, max=10, help="Most days between an order and the value date of its line."),
]
ColumnsFile = Annotated[
    str | None,
    typer.Option("--columns", metavar="FILE", help="For CSV files: which column has what (TOML)."),
]
Before = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CURRENCY=AMOUNT", help="Money on the accounts from before the books began. May be repeated."
    ),
]
Currency = Annotated[
    str | None, typer.Option("--currency", help="Compare only this currency; by default all of the stage.")
]


Lately = Annotated[
    str, typer.Option("--since", metavar="WHEN", help="The start (ISO 8601), or an age (12h, 35d).")
]


@app.command("list")
def list_files(since: Lately = "35d", stack: StackName = None, as_json: AsJson = False) -> None:
    """List the recorded statements, by the time at which they were read.

    Example: settle statement list --since 7d --stack settlement-prod
    """
    from settle import instants
    from settle.bank import bank_output, on_record

    at = instants.now()
    bank_output.files(on_record.files(find(stack), instants.parse(since, at), at), as_json)


@app.command("show")
def show(
    digest: Annotated[str, typer.Argument(callback=_digest, help="The SHA-256 of the file.")],
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Show a file's statements, and its lines with their orders.

    Example: settle statement show 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    """
    from settle.bank import bank_output, on_record

    bank_output.file(on_record.file(find(stack), digest), as_json)


@app.command("unmatched")
def unmatched(
    since: Lately = "35d",
    before: Before = None,
    currency: Currency = None,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Compare the bank's recorded lines with the books. Name each difference, with exit code 1.

    Matched lines and orders are not compared again.

    Example: settle statement unmatched --since 7d --stack settlement-prod
    """
    from settle import instants
    from settle.bank import bank_output, comparison
    from settle.output.progress import counting

    found, begin = find(stack), instants.parse(since, instants.now())
    wanted = comparison.wanted(found, DAYS, None, before, currency)
    told = comparison.on_record(found, begin.date().isoformat(), wanted, counting)
    bank_output.comparison(told, as_json)
    if not told["agrees"]:
        raise typer.Exit(Exit.FAILED)


@app.command("propose")
def propose(
    reason: Reason,
    accounts: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN",
            help="How a reference names an account: (?P<account>…) is its id. By default that of the stage.",
        ),
    ] = None,
    since: Lately = "35d",
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Propose deposits for the lines that only the bank has. Safe to repeat. Another person books them.

    A line is left out if its references name no account, or two.

    Example: settle statement propose --accounts 'ACC-(?P<account>[a-z0-9-]+)' --reason "top-ups of today"
    """
    from settle import instants
    from settle.bank import bank_output, booking

    found, begin = find(stack), instants.parse(since, instants.now())
    pattern = booking.pattern_of(found, accounts)
    told = booking.propose(found, begin.date().isoformat(), pattern, reason)
    bank_output.proposals(
        told | {"command": found.command("statement book", "KEY", digest="DIGEST")}, as_json
    )


@app.command("book")
def book(
    key: Annotated[str, typer.Argument(callback=check_key, help="The proposal's key.")],
    digest: Annotated[
        str | None,
        typer.Option(callback=_shown_digest, help="That of the proposal, as shown; without it, it is shown."),
    ] = None,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Book the deposits that another person has proposed. Safe to repeat: each line is booked once.

    Exit code 1: a line is refused. Its account is closed, or it belongs to another order.

    Example: settle statement book bank-9f86d081884c7d659a2feaa0 --stack settlement-prod
    """
    from settle.bank import bank_output, booking

    if digest is None:
        bank_output.proposal(booking.show(find(stack), key), as_json)
        return
    told = booking.book(find(stack), key, digest)
    bank_output.booked(told, as_json)
    if told["refused"]:
        raise typer.Exit(Exit.FAILED)


@app.command("compare")
def compare(
    files: Annotated[list[str], typer.Argument(help="camt.053, camt.054, MT940 or CSV files, in any order.")],
    days: Days = DAYS,
    columns: ColumnsFile = None,
    before: Before = None,
    currency: Currency = None,
    matched: Annotated[bool, typer.Option("--matched", help="Also list each matched line.")] = False,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Compare the bank's statements with the books, to the cent. Name each difference, with exit code 1.

    A line belongs to at most one deposit or withdrawal. Reference, amount, currency, direction and day must
    fit. Statements may overlap. `settle reconcile --statement` also proves the books.

    Example: settle statement compare 2026-11-27.xml --stack settlement-prod
    """
    from settle.bank import bank_output, comparison
    from settle.output.progress import counting

    found = find(stack)
    wanted = comparison.wanted(found, days, columns, before, currency, with_pairs=matched)
    told = comparison.compare(found, files, wanted, counting)
    bank_output.comparison(told, as_json)
    if not told["agrees"]:
        raise typer.Exit(Exit.FAILED)
