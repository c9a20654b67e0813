"""`settle report`."""

from pathlib import Path
from typing import Annotated

import typer

from settle.commands.options import Key, StackName


def report(
    key: Key,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The file; by default KEY.html.")
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Leave out names of persons, reasons and references.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    show: Annotated[bool, typer.Option("--open", help="Show the page in the browser, too.")] = False,
    stack: StackName = None,
) -> None:
    """Write a page about a settlement: one HTML file that needs no server.

    It prints the file's path. A file that is there is kept, unless --force replaces it.

    Example: settle report order-2026-000101 -o case.html --redact --stack settlement-prod
    """
    from settle import instants
    from settle.output.console import print_line
    from settle.output.page import file, render
    from settle.queries import report as on_record
    from settle.stack import find

    path = output or Path(f"{key}.html")
    file.ensure_can_write(path, force)
    told = on_record.describe(find(stack), key, instants.now(), redact=redact)
    file.write(path, render.settlement(told), force)
    print_line(str(path))
    if show:
        typer.launch(str(path.resolve()))
