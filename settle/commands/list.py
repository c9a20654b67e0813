"""`settle list`."""

from typing import Annotated

import typer

from settle import instants
from settle.commands.options import AsJson, StackName
from settle.exit_codes import CommandFailed, Exit


def list_settlements(
    in_flight: Annotated[
        bool, typer.Option("--in-flight", help="Not finished yet; what is due for recovery first.")
    ] = False,
    in_limbo: Annotated[
        bool, typer.Option("--limbo", help="Waiting for a decision; the oldest first.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="Claimed since an instant (ISO 8601) or an age (90m, 2h, 3d); the oldest first."
            " No index lists these: it reads the whole table.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Show so many at most.")] = 100,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """List settlements: in flight, in LIMBO, or claimed since some time.

    Example: settle list --in-flight --limit 20 --stack settlement-prod
    """
    at = instants.now()
    if in_flight + in_limbo + (since is not None) != 1:
        raise CommandFailed(Exit.USAGE, "list: give one of --in-flight, --limbo and --since WHEN")
    begin = instants.parse(since, at) if since is not None else None

    from settle.output import console, live, tables
    from settle.queries import in_flight as flights
    from settle.queries import limbo
    from settle.stack import find

    target = find(stack)
    if in_limbo:
        states, more = limbo.open_states(target, limit)
        tables.cases(limbo.with_proposals(target, states), as_json)
    elif begin:
        found = flights.claimed_since(target, begin, limit)
        live.claimed([flights.describe_claimed(target, row) for row in found.rows], at, as_json)
        more = found.more
    else:
        found = flights.in_flight(target, limit)
        live.in_flight([flights.describe_in_flight(target, row) for row in found.rows], at, as_json)
        more = found.more
    if more:
        console.note(f"there are more than these {limit}; see more of them with --limit")
