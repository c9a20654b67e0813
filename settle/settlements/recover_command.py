import typer

from settle.commands.options import AsJson, Key, StackName, find
from settle.output import console


def recover(key: Key, stack: StackName = None, as_json: AsJson = False) -> None:
    """Continue a stalled settlement now; recovery's schedule does it within minutes. Safe to repeat.

    A settlement is stalled if it is in flight and no execution runs it.

    Exit code 0: a new execution continues it. 7: it has an execution, or is in review.

    Example: settle recover order-2026-000101 --stack settlement-prod
    """
    from settle.settlements import recovery

    result, why_not = recovery.recover(find(stack), key)
    console.print_record(result, as_json)
    if why_not:
        console.note(why_not)
    raise typer.Exit(recovery.recover_code(result))
