"""`settle reconcile`."""

import typer

from settle.commands.options import Against, AsJson, Head, StackName
from settle.exit_codes import Exit


def reconcile(
    stack: StackName = None, as_json: AsJson = False, against: Against = None, head: Head = None
) -> None:
    """Prove from the rows alone that no money was lost or made; exit 1 and name the row otherwise.

    What the rows alone cannot show, such as a settlement that is deleted whole, a sealed journal does.

    Example: settle reconcile --stack settlement-prod --against stack --json
    """
    from settle.output import tables
    from settle.queries import sealed
    from settle.stack import find
    from settlement.adapters import table_scan

    found = find(stack)
    proof = table_scan.proof(found.store, found.config.currencies)
    if against:
        proof["sealed_journal"] = sealed.compare(found, against, head)
    tables.findings(proof, as_json)
    if not proof["conserved"] or (against and not proof["sealed_journal"]["agrees"]):
        raise typer.Exit(Exit.FAILED)
