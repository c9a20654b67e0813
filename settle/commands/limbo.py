"""`settle limbo`: list, show, resolve, propose, approve, withdraw."""

from typing import Annotated

import typer

from settle.commands.options import AsJson, Key, Reason, StackName
from settle.exit_codes import Exit
from settlement.model.orders import Decision
from settlement.model.status import Status

Digest = Annotated[
    str, typer.Option(help="The proposal's digest, of which `settle limbo show` prints the first digits.")
]

app = typer.Typer(no_args_is_help=True, help="Settlements that wait for a person's decision.")


@app.command("list")
def list_open(stack: StackName = None, as_json: AsJson = False) -> None:
    """List every settlement that waits for a decision, the oldest first.

    Example: settle limbo list --stack settlement-prod
    """
    from settle.output import tables
    from settle.queries import limbo
    from settle.stack import find

    cases, _ = limbo.open_cases(find(stack))
    tables.cases(cases, as_json)


@app.command("show")
def show(key: Key, stack: StackName = None, as_json: AsJson = False) -> None:
    """Show the stuck step, its cause, and the effect of each decision.

    Example: settle limbo show order-2026-000101 --stack settlement-prod
    """
    from settle.output import tables
    from settle.queries import limbo
    from settle.stack import find

    tables.case(limbo.show(find(stack), key), as_json)


@app.command("resolve")
def resolve(
    key: Key,
    decision: Decision,
    reason: Reason,
    case: Annotated[int | None, typer.Option(help="The number of the case; by default the latest.")] = None,
    break_glass: Annotated[
        bool, typer.Option("--break-glass", help="Decide alone what needs more persons; pages everybody.")
    ] = False,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Decide: retry, write-off or complete. Safe to repeat.

    Exit code 0: it is done. 5: the settlement is stuck again, as another case.

    Example: settle limbo resolve order-2026-000101 retry --reason "paid back"
    """
    from settle.actions import proposal, resolution
    from settle.output import console
    from settle.stack import find

    decide = proposal.break_glass if break_glass else resolution.resolve
    result = decide(find(stack), key, decision, reason, case)
    console.print_record(result, as_json)
    raise typer.Exit(Exit.LIMBO if result["status"] == Status.LIMBO else Exit.FINE)


@app.command("propose")
def propose(
    key: Key,
    decision: Decision,
    reason: Reason,
    case: Annotated[int | None, typer.Option(help="The number of the case; by default the latest.")] = None,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Propose a decision that needs more than one person. Safe to repeat.

    Another person approves it with the command that this one prints, within 24 hours.

    Example: settle limbo propose order-2026-000101 write-off --reason "the payee is insolvent"
    """
    from settle.actions import proposal
    from settle.output import console
    from settle.stack import find

    console.print_record(proposal.propose(find(stack), key, decision, reason, case), as_json)


@app.command("approve")
def approve(key: Key, digest: Digest, stack: StackName = None, as_json: AsJson = False) -> None:
    """Approve what another person has proposed, a reversal too. Safe to repeat.

    Exit code 0: it is done, or waits for one more person. 5: the settlement is stuck again.

    Example: settle limbo approve order-2026-000101 --digest 2c26b46b68ff
    """
    from settle.actions import proposal
    from settle.output import console
    from settle.stack import find

    result = proposal.approve(find(stack), key, digest)
    console.print_record(result, as_json)
    raise typer.Exit(Exit.LIMBO if result.get("status") == Status.LIMBO else Exit.FINE)


@app.command("withdraw")
def withdraw(key: Key, digest: Digest, stack: StackName = None, as_json: AsJson = False) -> None:
    """Withdraw a proposal: yours, or that of another person. Safe to repeat.

    Example: settle limbo withdraw order-2026-000101 --digest 2c26b46b68ff
    """
    from settle.actions import proposal
    from settle.output import console
    from settle.stack import find

    console.print_record(proposal.withdraw(find(stack), key, digest), as_json)
