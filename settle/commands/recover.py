"""`settle recover`."""

import typer

from settle.commands.options import AsJson, Key, StackName


def recover(key: Key, stack: StackName = None, as_json: AsJson = False) -> None:
    """Have recovery take over a stalled settlement now, as the schedule would. Safe to repeat.

    Exit code 0: it has started an execution. 7: it has not, as the settlement is in flight by itself.

    Example: settle recover order-2026-000101 --stack settlement-prod
    """
    from settle.actions import recovery
    from settle.output import console
    from settle.stack import find

    result, why_not = recovery.recover(find(stack), key)
    console.print_record(result, as_json)
    if why_not:
        console.note(why_not)
    raise typer.Exit(recovery.recover_code(result))
