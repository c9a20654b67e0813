from pathlib import Path
from typing import Annotated

import typer

from settle.arguments import check_key
from settle.commands.options import StackName, find
from settle.exit_codes import CommandFailed, Exit

Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
Show = Annotated[bool, typer.Option("--open", help="Also show the page in the browser.")]


def report(
    key: Annotated[str | None, typer.Argument(help="The settlement's idempotency key.")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The file to write; by default KEY.html, queue.html or DAY.html.",
        ),
    ] = None,
    queue: Annotated[
        bool, typer.Option("--queue", help="Report on all settlements in LIMBO and in flight.")
    ] = False,
    day: Annotated[
        str | None,
        typer.Option(
            metavar="DAY",
            help="Report figures of a day (UTC) such as 2026-11-22. Reads the whole table.",
        ),
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Leave out names of persons, reasons and references.")
    ] = False,
    force: Force = False,
    show: Show = False,
    stack: StackName = None,
) -> None:
    """Write a page about a settlement, the queue or a day: one self-contained HTML file.

    Prints the file's path. Only --force replaces an existing file.

    Example: settle report order-2026-000101 -o case.html --redact --stack settlement-prod
    Example: settle report --day 2026-11-22 --stack settlement-prod
    """
    if queue + (key is not None) + (day is not None) != 1:
        raise CommandFailed(Exit.USAGE, "report: give a KEY, --queue or --day")
    if key is None and redact:
        raise CommandFailed(Exit.USAGE, "report: --redact is for a settlement; other pages are for the house")

    from settle import instants
    from settle.reports import day as days
    from settle.reports.page import file, render

    at = instants.now()
    wanted = days.parse(day, at) if day is not None else None
    name = "queue" if key is None else check_key(key)
    path = output or Path(f"{wanted or name}.html")
    file.ensure_can_write(path, force)
    target = find(stack)
    if wanted is not None:
        page = render.day(days.describe(target, wanted, at))
    elif key is None:
        from settle.reports import queue as waiting

        page = render.queue(waiting.describe(target, at))
    else:
        from settle.reports import report as on_record

        page = render.settlement(on_record.describe(target, key, at, redact=redact))
    write(path, page, force, show)


def write(path: Path, page: str, force: bool, show: bool) -> None:
    """Write a page, and print its path. Raises CommandFailed."""
    from settle.output.console import print_line
    from settle.reports.page import file

    file.write(path, page, force)
    print_line(str(path))
    if show:
        typer.launch(str(path.resolve()))
