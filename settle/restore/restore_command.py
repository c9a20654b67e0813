from typing import Annotated

import typer

from settle import instants
from settle.commands.options import AsJson, StackName, find
from settle.restore import restore_output as shown

app = typer.Typer(no_args_is_help=True, help="A restored table, before the stage settles on it.")


@app.callback()
def restore() -> None:
    """A restored table, before the stage settles on it."""


@app.command("plan")
def plan(
    table: Annotated[str, typer.Option(metavar="NAME", help="The restored table.")],
    at: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN", help="The restored instant (ISO 8601), if the table does not record it."
        ),
    ] = None,
    source: Annotated[
        str, typer.Option("--from", help="The sealed journal: stack, s3://BUCKET/PREFIX or a directory.")
    ] = "stack",
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """List the tasks before the stage may settle on a restored table. Exit code 1: some are left.

    It names the table's faults and the settlements that would resume automatically. From the sealed journal,
    it names the payments since the restored instant. It proves the table's books, and writes nothing.

    Example: settle restore plan --table settlement-prod-restored --stack settlement-prod
    """
    now = instants.now()
    instant = None if at is None else instants.parse(at, now, "at")

    from settle.exit_codes import Exit
    from settle.output.progress import counting
    from settle.restore import restored

    told = restored.plan(find(stack), table, source, instant, now, counting)
    shown.plan(told, as_json)
    if not told["ready"]:
        raise typer.Exit(Exit.FAILED)
