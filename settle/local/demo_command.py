from enum import StrEnum
from typing import Annotated

import typer

from settle.commands.options import AsJson
from settle.exit_codes import Exit
from settle.local import needs_extra


class Tour(StrEnum):
    SAGA = "saga"
    BANK = "bank"


def demo(
    tour: Annotated[Tour, typer.Argument(help="saga: payments; bank: payouts.")] = Tour.SAGA,
    as_json: AsJson = False,
) -> None:
    """Deploy to the embedded AWS, settle the examples, undo a stuck one, outlast an outage, and reconcile.

    With `bank`, make nine payouts at a bank that loses answers, fails, forgets and returns.
    """
    with needs_extra("settle demo"):
        from settle.local.demo import bank, report
        from settle.local.demo import tour as saga
    from settle.output.progress import progress

    run, show = (bank.run, report.bank) if tour is Tour.BANK else (saga.run, report.demo)
    with progress() as tell:
        shown, is_well = run(tell)
    show(shown, as_json)
    if not is_well:
        raise typer.Exit(Exit.FAILED)
