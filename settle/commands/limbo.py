"""`settle limbo`: list, show, resolve."""

from typing import Annotated

import typer

from settle.commands.options import AsJson, Key, Reason, StackName
from settle.exit_codes import Exit
from settlement.model.orders import Decision
from settlement.model.status import Status

app = typer.Typer(no_args_is_help=True, help="Settlements that wait for a person's decision.")


@app.command("list")
def list_open(stack: StackName = None, as_json: AsJson = False) -> None:
    """List every settlement that waits for a decision, the oldest first.

    Example: settle limbo list --stack settlement-prod
    """
    from settle.output import tables
    from settle.queries import limbo
    from settle.stack import find

    cases, _ = limbo.open_cases(find(stack))
    tables.cases(cases, as_json)


@app.command("show")
def show(key: Key, stack: StackName = None, as_json: AsJson = False) -> None:
    """Show the stuck step, its cause, and the effect of each decision.

    Example: settle limbo show order-2026-000101 --stack settlement-prod
    """
    from settle.output import tables
    from settle.queries import limbo
    from settle.stack import find

    tables.case(limbo.show(find(stack), key), as_json)


@app.command("resolve")
def resolve(
    key: Key,
    decision: Decision,
    reason: Reason,
    case: Annotated[int | None, typer.Option(help="The number of the case; by default the latest.")] = None,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Decide: retry, write-off or complete. Safe to repeat.

    Exit code 0: it is done. 5: the settlement is stuck again, as another case.

    Example: settle limbo resolve order-2026-000101 retry --reason "paid back"
    """
    from settle.actions import resolution
    from settle.output import console
    from settle.stack import find

    result = resolution.resolve(find(stack), key, decision, reason, case)
    console.print_record(result, as_json)
    raise typer.Exit(Exit.LIMBO if result["status"] == Status.LIMBO else Exit.FINE)
