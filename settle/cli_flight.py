"""The commands about settlements in motion: what there is, what it does, and having one driven on."""

from contextlib import suppress
from typing import Annotated

import typer

from settle import instants, limbo, listing, recovering, show, show_live, watch
from settle.failures import CommandFailed, Exit
from settle.stack import find

app = typer.Typer()
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
StackName = Annotated[
    str | None, typer.Option("--stack", help="A deployed stack on AWS; by default the embedded one.")
]


@app.command("list")
def list_settlements(
    in_flight: Annotated[
        bool, typer.Option("--in-flight", help="What has yet to end; what is due for recovery first.")
    ] = False,
    in_limbo: Annotated[
        bool, typer.Option("--limbo", help="What waits for a decision; the oldest first.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="What was claimed since an instant (ISO 8601) or an age (90m, 2h, 3d); the oldest first."
            " No index lists these: it reads the whole table.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Show so many at most.")] = 100,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """List settlements: in flight, in LIMBO, or claimed since some time."""
    at = instants.now()
    if in_flight + in_limbo + (since is not None) != 1:
        raise CommandFailed(Exit.USAGE, "list: give one of --in-flight, --limbo and --since WHEN")
    begin = instants.parse(since, at) if since is not None else None
    target = find(stack)
    if in_limbo:
        cases, more = limbo.first_open(target, limit)
        show.cases(cases, as_json)
    elif begin:
        found = listing.claimed_since(target, begin, limit)
        show_live.claimed([listing.describe_claimed(target, row) for row in found.rows], at, as_json)
        more = found.more
    else:
        found = listing.in_flight(target, limit)
        show_live.in_flight([listing.describe_in_flight(target, row) for row in found.rows], at, as_json)
        more = found.more
    if more:
        show.note(f"there are more than these {limit}; see more of them with --limit")


@app.command("watch")
def watch_settlements(
    every: Annotated[int, typer.Option(min=1, metavar="SECONDS", help="Look again so often.")] = 2,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Watch what is in flight, what is overdue, what is in LIMBO, and the KYC provider's circuit.

    Ends with Ctrl-C. A look that fails is shown, and the next one is taken.
    """
    target = find(stack)
    if once:
        show_live.pictures([watch.look(target, instants.now())], as_json)
        return
    with suppress(KeyboardInterrupt):
        show_live.pictures(watch.pictures(target, every), as_json)


@app.command("recover")
def recover(key: str, stack: StackName = None, as_json: AsJson = False) -> None:
    """Have a settlement that stopped moving taken on now, as the schedule would. Safe to repeat."""
    result, why_not = recovering.recover(find(stack), key)
    show.record(result, as_json)
    if why_not:
        show.note(why_not)
    raise typer.Exit(recovering.recover_code(result))
