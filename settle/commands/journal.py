"""`settle journal`: the sealed journal."""

import typer

from settle.commands.options import AsJson, StackName

app = typer.Typer(no_args_is_help=True, help="The sealed journal: the copy that no function can change.")


@app.callback()
def journal() -> None:
    """The sealed journal: the copy that no function can change."""


@app.command("fill")
def fill(stack: StackName = None, as_json: AsJson = False) -> None:
    """Copy what the sealed journal lacks from the table: what the stream has lost, or what is older than it.

    It takes the rows as they are: prove them first. Safe to repeat.

    Example: settle journal fill --stack settlement-prod
    """
    from settle.actions.fill_journal import fill
    from settle.output import tables
    from settle.stack import find

    tables.filled(fill(find(stack)), as_json)
