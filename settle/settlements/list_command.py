from typing import Annotated

import typer

from settle import instants
from settle.commands.options import AsCsv, AsJson, AsSheet, StackName, find, is_csv
from settle.exit_codes import CommandFailed, Exit
from settle.output import console, sheet


def list_settlements(
    in_flight: Annotated[
        bool, typer.Option("--in-flight", help="Unfinished settlements, soonest due for recovery first.")
    ] = False,
    in_limbo: Annotated[
        bool, typer.Option("--limbo", help="Settlements that wait for a decision, oldest first.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Claimed since an instant (ISO 8601) or an age (90m, 2h, 3d), oldest first."
            " Reads the whole table, since no index lists them.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum settlements to show.")] = 100,
    as_csv: AsCsv = False,
    as_sheet: AsSheet = False,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """List settlements: in flight, in LIMBO, or claimed since some time.

    Exit code 1: rows are unreadable. They are named.

    Example: settle list --in-flight --limit 20 --stack settlement-prod
    """
    at = instants.now()
    if in_flight + in_limbo + (since is not None) != 1:
        raise CommandFailed(Exit.USAGE, "list: give one of --in-flight, --limbo and --since WHEN")
    begin = instants.parse(since, at) if since is not None else None

    in_csv = is_csv(as_csv, as_sheet, as_json)

    from settle.orders import limbo, limbo_output
    from settle.output import live
    from settle.settlements import in_flight as flights

    target = find(stack)
    if in_limbo:
        open_cases = limbo.open_states(target, limit)
        lines, fields, more = limbo.lines(target, open_cases), limbo.FIELDS, open_cases.more
    elif begin:
        found = flights.claimed_since(target, begin, limit)
        lines = flights.claimed_lines(target, found)
        fields, more = flights.CLAIMED, found.more
    else:
        found = flights.in_flight(target, limit)
        lines = flights.in_flight_lines(target, found)
        fields, more = flights.IN_FLIGHT, found.more
    if in_csv:
        sheet.show([lines], fields, guarded=as_sheet)
    elif in_limbo:
        limbo_output.cases(lines, as_json)
    elif begin:
        live.claimed(lines, at, as_json)
    else:
        live.in_flight(lines, at, as_json)
    if more:
        console.note(f"there are more than these {limit}; see more of them with --limit")
    console.name_unreadable(lines)
