from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from settle.commands.options import AsJson
from settle.exit_codes import Exit
from settle.local import needs_extra


class Tour(StrEnum):
    SAGA = "saga"
    BANK = "bank"
    PAYRUN = "payrun"


def demo(
    tour: Annotated[
        Tour, typer.Argument(help="saga: payments; bank: payouts; payrun: a file of payments.")
    ] = Tour.SAGA,
    as_json: AsJson = False,
) -> None:
    """Deploy to the embedded AWS, settle the examples, undo a stuck one, outlast an outage, and reconcile.

    With `bank`, make nine payouts at a bank that loses answers, fails, forgets and returns. With `payrun`,
    pay a file of a thousand lines, while its function is killed five times.
    """
    with needs_extra("settle demo"):
        from settle.local.demo import bank, payrun, report
        from settle.local.demo import tour as saga
    from settle.output.progress import progress

    tours: dict[Tour, tuple[Callable[..., Any], Callable[..., None]]] = {
        Tour.SAGA: (saga.run, report.demo),
        Tour.BANK: (bank.run, report.bank),
        Tour.PAYRUN: (payrun.run, report.payrun),
    }
    run, show = tours[tour]
    with progress() as tell:
        shown, is_well = run(tell)
    show(shown, as_json)
    if not is_well:
        raise typer.Exit(Exit.FAILED)
