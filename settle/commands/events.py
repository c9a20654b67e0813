"""`settle events`: replay."""

from typing import Annotated

import typer

from settle import instants
from settle.commands.options import StackName
from settle.exit_codes import CommandFailed, Exit

app = typer.Typer(no_args_is_help=True, help="The outcome events, which tell other services of settlements.")


@app.command("replay")
def replay(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY]...", help="The settlements to tell of.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="All that may have changed since an instant (ISO 8601) or an age (90m, 2h, 3d)."
            " It reads the whole table.",
        ),
    ] = None,
    in_limbo: Annotated[bool, typer.Option("--limbo", help="All that are in LIMBO.")] = False,
    stack: StackName = None,
) -> None:
    """Tell the readers of events of settlements again, as they are now. Safe to repeat.

    A reader who knows a settlement's latest event drops the second one: it has the same number.

    Example: settle events replay --since 2h --stack settlement-prod
    """
    if bool(keys) + in_limbo + (since is not None) != 1:
        raise CommandFailed(Exit.USAGE, "events replay: give keys, or one of --since WHEN and --limbo")
    begin = instants.parse(since, instants.now()) if since is not None else None

    from settle.actions import replay
    from settle.output import console
    from settle.queries import in_flight, limbo
    from settle.stack import find

    target = find(stack)
    if begin:
        keys = in_flight.changed_since(target, begin)
    elif in_limbo:
        keys = [state.key for state in limbo.open_states(target)[0]]
    told, untold = 0, False
    for answer in replay.replay(target, keys or []):
        told += len(answer["told"])
        for key, reason in answer["untold"].items():
            console.note(f"{key}: not told: {reason}")
            untold = True
    console.note(f"{told} settlements told")
    if untold:
        raise typer.Exit(Exit.FAILED)
