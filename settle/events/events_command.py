import signal
import time
from contextlib import suppress
from typing import Annotated

import typer

from settle import instants
from settle.commands.options import AsJson, StackName, find
from settle.exit_codes import CommandFailed, Exit
from settle.output import console

app = typer.Typer(
    no_args_is_help=True, help="The outcome events, which report settlements to other services."
)


@app.command("tail")
def tail(
    key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="Show only this settlement, until its status is final or LIMBO."),
    ] = None,
    timeout: Annotated[
        int | None, typer.Option(min=1, metavar="SECONDS", help="End after this time.")
    ] = None,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Show outcome events as they come, one a line. With --json, show them as the bus delivers them.

    With --key, the first line is a snapshot of an existing settlement. Ends with Ctrl-C. Creates a rule on
    the outcome bus and a queue, and removes both at its end.

    Example: settle events tail --key order-2026-000101 --stack settlement-prod
    """
    from settle.events.tail import hearing
    from settle.output import live

    end = None if timeout is None else time.monotonic() + timeout
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that it removes its rule and queue
    with suppress(KeyboardInterrupt), hearing(find(stack), key) as events:
        for event in events:
            if event:
                live.event(event, as_json)
                if key and event["data"]["status"] not in ("PROCESSING", "COMPENSATING"):
                    return
            elif end is not None and time.monotonic() >= end:
                return


@app.command("replay")
def replay(
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY]...", help="The idempotency keys of the settlements.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help="All settlements that may have changed since an instant (ISO 8601) or an age"
            " (90m, 2h, 3d). Reads the whole table.",
        ),
    ] = None,
    in_limbo: Annotated[bool, typer.Option("--limbo", help="All settlements in LIMBO.")] = False,
    stack: StackName = None,
) -> None:
    """Publish settlements again to readers of events, as they are now. Safe to repeat.

    A reader that has the latest event drops the repeat: both have the same number.

    Example: settle events replay --since 2h --stack settlement-prod
    """
    if bool(keys) + in_limbo + (since is not None) != 1:
        raise CommandFailed(Exit.USAGE, "events replay: give keys, or one of --since WHEN and --limbo")
    begin = instants.parse(since, instants.now()) if since is not None else None

    from settle.events import replay
    from settle.orders import limbo
    from settle.settlements import in_flight

    target = find(stack)
    if begin:
        keys = in_flight.changed_since(target, begin)
    elif in_limbo:
        keys = [one["key"] for one in limbo.open_cases(target)[0]]
    told, untold = 0, False
    for answer in replay.replay(target, keys or []):
        told += len(answer["told"])
        for key, reason in answer["untold"].items():
            console.note(f"{key}: not told: {reason}")
            untold = True
    console.note(f"{told} settlements told")
    if untold:
        raise typer.Exit(Exit.FAILED)
