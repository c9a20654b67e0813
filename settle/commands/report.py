"""`settle report`."""

from pathlib import Path
from typing import Annotated

import typer

from settle.commands.options import StackName, check_key
from settle.exit_codes import CommandFailed, Exit


def report(
    key: Annotated[str | None, typer.Argument(help="The settlement's idempotency key.")] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="The file; by default KEY.html, or queue.html."),
    ] = None,
    queue: Annotated[
        bool, typer.Option("--queue", help="Report on all of LIMBO and in flight, instead of one settlement.")
    ] = False,
    redact: Annotated[
        bool, typer.Option("--redact", help="Leave out names of persons, reasons and references.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    show: Annotated[bool, typer.Option("--open", help="Show the page in the browser, too.")] = False,
    stack: StackName = None,
) -> None:
    """Write a page about a settlement, or about the queue: one HTML file that needs no server.

    It prints the file's path. A file that is there is kept, unless --force replaces it.

    Example: settle report order-2026-000101 -o case.html --redact --stack settlement-prod
    """
    if queue == (key is not None):
        raise CommandFailed(Exit.USAGE, "report: give a KEY, or --queue")
    if queue and redact:
        raise CommandFailed(Exit.USAGE, "report: --redact is for a settlement; the queue is for the house")
    name = "queue" if key is None else check_key(key)
    path = output or Path(f"{name}.html")

    from settle import instants
    from settle.output.console import print_line
    from settle.output.page import file, render
    from settle.stack import find

    file.ensure_can_write(path, force)
    target, at = find(stack), instants.now()
    if key is None:
        from settle.queries import queue as waiting

        page = render.queue(waiting.describe(target, at))
    else:
        from settle.queries import report as on_record

        page = render.settlement(on_record.describe(target, key, at, redact=redact))
    file.write(path, page, force)
    print_line(str(path))
    if show:
        typer.launch(str(path.resolve()))
