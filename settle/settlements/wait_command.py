from typing import Annotated

import typer

from settle.commands.options import AsJson, Key, StackName, find
from settle.exit_codes import Exit
from settle.output import console

SECONDS = 600


def wait(
    key: Key,
    timeout: Annotated[int, typer.Option(min=0, metavar="SECONDS", help="Maximum time to wait.")] = SECONDS,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Wait until a settlement is finished or in LIMBO. Then show it as `settle status` does.

    Exit codes are as for `settle status`. 7: still in flight after the time-out. 3, at once: no request has
    claimed the key.

    Example: settle wait order-2026-000101 --timeout 60 --json
    """
    from settle.settlements import settlement, settlement_output
    from settle.settlements.follow import follow, is_at_rest

    target = find(stack)
    if not is_at_rest(follow(target, key, is_at_rest, timeout)):
        console.note(f"{key} is still in flight after {timeout} s")
    result = settlement.describe(target, key)
    settlement_output.settlement(result, as_json)
    raise typer.Exit(Exit.of_status(result["status"]))
