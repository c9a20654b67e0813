import typer

from settle.commands.options import AsJson, StackName, find
from settle.exit_codes import Exit
from settle.orders.completion import StuckKey


def status(key: StuckKey, stack: StackName = None, as_json: AsJson = False) -> None:
    """Show a settlement: state, executions, journal, and whether a retry is safe.

    Example: settle status order-2026-000101 --stack settlement-prod
    """
    from settle.settlements import settlement, settlement_output

    result = settlement.describe(find(stack), key)
    settlement_output.settlement(result, as_json)
    raise typer.Exit(Exit.of_status(result["status"]))
