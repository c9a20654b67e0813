from typing import Annotated

import typer

from settle.commands.options import AsJson, Key, Reason, StackName, find
from settle.exit_codes import CommandFailed, Exit
from settle.output import console
from settlement.core.model.status import Status

Amount = Annotated[
    str | None,
    typer.Option("--amount", help="Give back this part of the released amount, instead of everything."),
]
Part = Annotated[
    int | None,
    typer.Option(
        "--part", help="The number of the part, to repeat it; by default the next one, which is shown."
    ),
]
Propose = Annotated[
    bool, typer.Option("--propose", help="Propose the reversal, for another person to approve.")
]
BreakGlass = Annotated[
    bool,
    typer.Option(
        "--break-glass", help="Decide alone although the decision needs more persons; pages everybody."
    ),
]


def reverse(
    *,
    key: Key,
    reason: Reason,
    amount: Amount = None,
    part: Part = None,
    propose: Propose = False,
    break_glass: BreakGlass = False,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Give the payer everything back, the fee included, or an amount. Safe to repeat.

    Everything goes back of a settled or stalled payment. An amount goes back of a settled payment, in parts
    up to the released amount; the fee stays. To repeat a part, give its number. Without a number, a part is
    refused if an earlier one has the same amount and reason.

    Exit code 0: the payer has the money back. 5: the reversal is stuck, in LIMBO.

    Example: settle reverse order-2026-000101 --reason "goods came back"
    Example: settle reverse order-2026-000101 --amount 5.00 --reason "one came back"
    Example: settle reverse order-2026-000101 --amount 5.00 --propose --reason "one came back"
    """
    from settle.orders import partial_reversal, reversal
    from settle.orders import proposing as proposal

    if part is not None and amount is None:
        raise CommandFailed(Exit.USAGE, "part: is the number of a part, which has an --amount")
    target = find(stack)
    if amount is not None:
        number = partial_reversal.next_part(target, key, amount, reason) if part is None else part
        console.note(f"{key}: this is part {number}; to repeat it: --part {number}")
        order = partial_reversal.reverse_part
        if propose or break_glass:
            order = partial_reversal.propose if propose else partial_reversal.break_glass
        console.print_record(order(target, key, amount, reason, number), as_json)
        return
    if propose:
        console.print_record(proposal.propose(target, key, None, reason), as_json)
        return
    if break_glass:
        proposal.break_glass(target, key, None, reason)
    result = reversal.reverse(target, key, reason)
    if not reversal.is_on_record(target, key, reason):
        console.note(f"{key}: its reversal had begun before; your reason is not on record")
    console.print_record(result, as_json)
    raise typer.Exit(Exit.LIMBO if result["status"] == Status.LIMBO else Exit.FINE)
