from typing import Annotated

import typer

from settle.commands.options import AsJson, StackName, find
from settle.exit_codes import Exit

app = typer.Typer(no_args_is_help=True, help="The bank's statements beside the books.")

DAYS = 3
"""A weekend, and the bank's own zone."""

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
    """Compare the bank's statements with the books, to the cent; exit 1 and name what differs otherwise.

    A line belongs to at most one deposit or withdrawal: by a reference, amount, currency, direction and day.
    Statements may overlap. `settle reconcile --statement` proves the books beside it.

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
