import typer

from settle.commands.options import AsJson
from settle.exit_codes import Exit
from settle.local import needs_extra


def demo(as_json: AsJson = False) -> None:
    """Deploy to the embedded AWS, settle the examples, undo a stuck one, outlast an outage, and reconcile."""
    with needs_extra("settle demo"):
        from settle.local.demo import report, tour
    from settle.output.progress import progress

    with progress() as tell:
        shown, is_well = tour.run(tell)
    report.demo(shown, as_json)
    if not is_well:
        raise typer.Exit(Exit.FAILED)
