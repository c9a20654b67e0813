from contextlib import suppress
from typing import Annotated

import typer

from settle.commands.options import AsJson, StackName, find


def watch(
    every: Annotated[int, typer.Option(min=1, metavar="SECONDS", help="Time between two looks.")] = 2,
    once: Annotated[bool, typer.Option("--once", help="Look once, then end.")] = False,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Watch settlements in flight, overdue and in LIMBO, and the KYC provider's circuit.

    Ends with Ctrl-C. A failed look is shown, and the watch continues.

    Example: settle watch --stack settlement-prod
    """
    from settle import instants
    from settle.output import live
    from settle.settlements import snapshot

    target = find(stack)
    if once:
        live.snapshots([snapshot.look(target, instants.now())], as_json)
        return
    with suppress(KeyboardInterrupt):
        live.snapshots(snapshot.snapshots(target, every), as_json)
