from typing import Annotated

import typer

from settle import instants
from settle.commands.options import AsCsv, AsJson, AsSheet, Since, StackName, Until, find, is_csv
from settle.journal import journal_output
from settle.orders import orders_output as orders
from settle.output import sheet

app = typer.Typer(no_args_is_help=True, help="The sealed journal: the copy that no function can change.")


@app.callback()
def journal() -> None:
    """The sealed journal: the copy that no function can change."""


@app.command("fill")
def fill(stack: StackName = None, as_json: AsJson = False) -> None:
    """Copy rows that the sealed journal lacks: lost by the stream, or older than the journal.

    Copies rows as they are, so prove them first. Safe to repeat.

    Example: settle journal fill --stack settlement-prod
    """
    from settle.journal.fill_journal import fill

    journal_output.filled(fill(find(stack)), as_json)


@app.command("entries")
def entries(
    since: Since,
    until: Until = None,
    source: Annotated[
        str, typer.Option("--from", help="The sealed journal: stack, s3://BUCKET/PREFIX or a directory.")
    ] = "stack",
    as_csv: AsCsv = False,
    as_sheet: AsSheet = False,
    stack: StackName = None,
) -> None:
    """Export the entries of all accounts, each once, one JSON object a line. Reads no table row.

    They come in sealing order: nearly by time, two to five minutes later.

    Example: settle journal entries --since 2026-11-01T00:00:00Z --csv --stack settlement-prod
    """
    begin, end = instants.between(since, until, instants.now())
    in_csv = is_csv(as_csv, as_sheet)

    from settle.journal import journal as on_record

    pages = on_record.entries(find(stack), source, begin, end)
    if in_csv:
        sheet.show(pages, on_record.FIELDS, guarded=as_sheet)
    else:
        orders.as_json(pages, "no entry was sealed in this time")
