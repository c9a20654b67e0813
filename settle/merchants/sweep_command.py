from typing import Annotated

import typer

from settle.commands.options import AsJson, Customer, StackName, find
from settle.merchants import sweep_output
from settle.output import console


def sweep(
    merchant: Customer,
    since: Annotated[str | None, typer.Option(help="Only releases posted in this minute or later.")] = None,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Make a merchant's unswept money available. Safe to repeat.

    Exit code 1: a row is unreadable. It is named, and all other rows are swept.

    Example: settle account sweep merchant.shop --since 2026-11-22T06:04
    """
    from settle.merchants import sweep as by_hand

    answer = by_hand.sweep(find(stack), merchant, since)
    sweep_output.swept(answer, as_json)
    console.name_unreadable(answer["unreadable"])
