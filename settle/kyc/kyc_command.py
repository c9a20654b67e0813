import typer

from settle.commands.options import AsJson, StackName, find
from settle.output import console

app = typer.Typer(no_args_is_help=True, help="The KYC provider.")


@app.command("status")
def status(stack: StackName = None, as_json: AsJson = False) -> None:
    """Show the KYC provider's circuit: its state, failures and last probe.

    Example: settle kyc status --stack settlement-prod
    """
    from settle.kyc import circuit

    console.print_record(circuit.status(find(stack)), as_json)


@app.command("probe")
def probe(stack: StackName = None, as_json: AsJson = False) -> None:
    """Ask now whether the KYC provider is back, and show the circuit. Safe to repeat.

    The circuit does the same every 30 seconds while payments come.

    Example: settle kyc probe --stack settlement-prod
    """
    from settle.kyc import probe

    shown, following = probe.probe(find(stack))
    console.print_record(shown, as_json)
    if following:
        console.note(following)
