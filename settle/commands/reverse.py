"""`settle reverse`."""

import typer

from settle.commands.options import AsJson, Key, Reason, StackName
from settle.exit_codes import Exit
from settlement.model.status import Status


def reverse(key: Key, reason: Reason, stack: StackName = None, as_json: AsJson = False) -> None:
    """Give the payer everything back, the fee included. Safe to repeat.

    For a settled payment, or a stalled one.
    Exit code 0: the payer has everything back. 5: the reversal is stuck, and the settlement is in LIMBO.

    Example: settle reverse order-2026-000101 --reason "goods came back"
    """
    from settle.actions import reversal
    from settle.output import console
    from settle.stack import find

    target = find(stack)
    result = reversal.reverse(target, key, reason)
    if not reversal.is_on_record(target, key, reason):
        console.note(f"{key}: its reversal had begun before; your reason is not on record")
    console.print_record(result, as_json)
    raise typer.Exit(Exit.LIMBO if result["status"] == Status.LIMBO else Exit.FINE)
