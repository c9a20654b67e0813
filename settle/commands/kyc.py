"""`settle kyc`: status."""

import typer

from settle.commands.options import AsJson, StackName

app = typer.Typer(no_args_is_help=True, help="The KYC provider.")


@app.command("status")
def status(stack: StackName = None, as_json: AsJson = False) -> None:
    """Show the circuit around the KYC provider: its state, its failures, its last probe.

    Example: settle kyc status --stack settlement-prod
    """
    from settle.output import console
    from settle.queries import circuit
    from settle.stack import find

    console.print_record(circuit.status(find(stack)), as_json)
