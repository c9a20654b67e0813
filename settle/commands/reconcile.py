"""`settle reconcile`."""

import typer

from settle.commands.options import AsJson, StackName
from settle.exit_codes import Exit


def reconcile(stack: StackName = None, as_json: AsJson = False) -> None:
    """Prove from the rows alone that no money was lost or made; exit 1 and name the row otherwise.

    Example: settle reconcile --stack settlement-prod --json
    """
    from settle.output import tables
    from settle.stack import find
    from settlement.adapters import table_scan

    found = find(stack)
    proof = table_scan.proof(found.store, found.config.currencies)
    tables.findings(proof, as_json)
    if not proof["conserved"]:
        raise typer.Exit(Exit.FAILED)
