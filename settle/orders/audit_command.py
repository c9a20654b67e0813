from collections.abc import Iterator
from typing import Annotated

import typer

from settle import instants
from settle.commands.options import AsCsv, AsJson, AsSheet, Since, StackName, Until, find, is_csv
from settle.exit_codes import CommandFailed, Exit
from settle.orders import orders_output as orders
from settle.output import console, sheet


def audit(
    since: Since,
    until: Until = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="PERSON",
            help="Only orders that this person gave or approved: a session's name, or a part of the ARN.",
        ),
    ] = None,
    as_csv: AsCsv = False,
    as_sheet: AsSheet = False,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """List people's orders, with approvers, requests and reasons.

    With --json, one object a line. Orders of the last seconds may be missing.

    Exit code 1: rows are unreadable. They are named, even with --by.

    Example: settle audit --since 30d --by olga --csv --stack settlement-prod
    """
    begin, end = instants.between(since, until, instants.now())
    in_csv = is_csv(as_csv, as_sheet, as_json)
    if by is not None and not by.strip():
        raise CommandFailed(Exit.USAGE, "by: must be a person's name, or a part of an ARN")

    from settle.orders import audit as on_record
    from settle.settlements import aside

    unreadable = list[dict[str, str]]()

    def read() -> Iterator[list[dict[str, str]]]:
        for page in on_record.pages(find(stack), begin, end, by):
            unreadable.extend(aside.of(page))
            yield page

    pages = read()
    if in_csv:
        sheet.show(pages, on_record.FIELDS, guarded=as_sheet)
    elif as_json:
        orders.as_json(pages)
    else:
        orders.as_table(pages)
    console.name_unreadable(unreadable)
