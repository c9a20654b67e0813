from typing import Annotated

import typer

from settle.bank.statement_command import Before, ColumnsFile, Currency, Days
from settle.commands.options import Against, AsJson, Head, StackName, find
from settle.exit_codes import CommandFailed, Exit
from settle.proof import reconcile_output
from settlement.bank.matching import DAYS

Segments = Annotated[
    int,
    typer.Option(min=1, max=64, help="Processes that read the table, for a large table on several CPUs."),
]

Signatures = Annotated[
    bool,
    typer.Option(help="Check the rows' signatures. This needs permission to read the stage's row keys."),
]


def reconcile(
    stack: StackName = None,
    as_json: AsJson = False,
    against: Against = None,
    head: Head = None,
    statement: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Also compare with a statement of the bank. May be repeated."),
    ] = None,
    days: Days = DAYS,
    columns: ColumnsFile = None,
    before: Before = None,
    currency: Currency = None,
    segments: Segments = 1,
    signatures: Signatures = True,
) -> None:
    """Prove from the rows alone that no money was lost or made. Exit code 1: a named row is at fault.

    Reads the whole table. UNPROVEN also has exit code 1: the table moved, throttled, or has rows of a newer
    version.

    Only a sealed journal reveals some faults, such as a settlement deleted with all its rows. Only the bank's
    statement shows that money came and went as booked.

    Example: settle reconcile --stack settlement-prod --against stack --json
    """
    from settle.bank import comparison
    from settle.journal import sealed
    from settle.output.progress import counting
    from settle.proof import books

    found = find(stack)
    if not statement and (columns or before or currency):
        raise CommandFailed(Exit.USAGE, "statement: --columns, --before and --currency need --statement")
    wanted = comparison.wanted(found, days, columns, before, currency)
    # First: a file that cannot be read ends the command before the long proof.
    bank = comparison.compare(found, statement, wanted, counting) if statement else None
    proof = books.prove(found, segments, signatures=signatures, counting=counting)
    if against:
        proof["sealed_journal"] = sealed.compare(found, against, head)
    if bank:
        proof["bank"] = bank
    reconcile_output.findings(proof, as_json, stack)
    others = [proof[name]["agrees"] for name in ("sealed_journal", "bank") if name in proof]
    if not (proof["conserved"] and all(others)):
        raise typer.Exit(Exit.FAILED)
