from typing import Annotated

import typer

from settle.commands.options import AsCsv, AsJson, AsSheet, Reason, StackName, find, is_csv
from settle.exit_codes import CommandFailed, Exit
from settle.orders import many_command as many
from settle.orders.completion import StuckKey
from settle.orders.many_command import KeyAndDecision, KeyAndProposed, OfAccount, OfError, Seen
from settle.output import console, sheet
from settlement.core.model.status import Status

Case = Annotated[
    int | None,
    typer.Option(help="The number of the shown case; required for each case after the first."),
]
Digest = Annotated[
    str | None,
    typer.Option(help="For one proposal: its digest as shown, all 64 digits."),
]
ShownCase = Annotated[int | None, typer.Option(help="For one proposal: the number of the shown case.")]
ShownPart = Annotated[int | None, typer.Option(help="For one proposal: the number of the shown part.")]
ShownAmount = Annotated[str | None, typer.Option(help="For one proposal: the shown amount.")]

app = typer.Typer(no_args_is_help=True, help="Settlements that wait for a person's decision.")


@app.command("list")
def list_open(
    account: OfAccount = None,
    error: OfError = None,
    as_csv: AsCsv = False,
    as_sheet: AsSheet = False,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """List the settlements that wait for a decision, oldest first, with their proposals.

    Exit code 1: rows are unreadable. They are named.

    Example: settle limbo list --stack settlement-prod
    Example: settle limbo list --account merchant.shop-9 --all-of InsufficientFunds
    """
    in_csv = is_csv(as_csv, as_sheet, as_json)

    from settle.orders import limbo, limbo_output

    target = find(stack)
    lines = limbo.lines(target, limbo.chosen(target, limbo.Which(account, error)))
    if in_csv:
        sheet.show([lines], limbo.FIELDS, guarded=as_sheet)
    else:
        limbo_output.cases(lines, as_json)
    console.name_unreadable(lines)


@app.command("show")
def show(key: StuckKey, stack: StackName = None, as_json: AsJson = False) -> None:
    """Show the stuck step, its cause, and the effect of each decision.

    Example: settle limbo show order-2026-000101 --stack settlement-prod
    """
    from settle.orders import limbo, limbo_output

    limbo_output.case(limbo.show(find(stack), key), as_json)


@app.command("resolve")
def resolve(
    *,
    words: KeyAndDecision,
    reason: Reason,
    account: OfAccount = None,
    error: OfError = None,
    seen: Seen = None,
    case: Case = None,
    break_glass: Annotated[
        bool,
        typer.Option(
            "--break-glass", help="Decide alone although the decision needs more persons; pages everybody."
        ),
    ] = False,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Decide: retry, write-off or complete. Safe to repeat.

    With --account or --all-of, it decides many cases. The dry run prints the command with --seen. That
    command decides exactly the shown cases.

    Exit code 0: done. 5: stuck again, as another case. For many cases: the gravest.

    Example: settle limbo resolve order-2026-000101 retry --reason "paid back"
    Example: settle limbo resolve write-off --account merchant.shop-9 --reason "it is insolvent"
    """
    if many.is_of_many(account, error, seen=seen, case=case, break_glass=break_glass):
        decision = many.decision_alone(words)
        many.order("resolve", decision, (account, error), seen, stack, as_json=as_json, reason=reason)
    key, decision = many.key_and_decision(words)

    from settle.orders import proposing as proposal
    from settle.orders import resolution

    decide = proposal.break_glass if break_glass else resolution.resolve
    result = decide(find(stack), key, decision, reason, case)
    console.print_record(result, as_json)
    raise typer.Exit(Exit.LIMBO if result["status"] == Status.LIMBO else Exit.FINE)


@app.command("propose")
def propose(
    *,
    words: KeyAndDecision,
    reason: Reason,
    account: OfAccount = None,
    error: OfError = None,
    seen: Seen = None,
    case: Case = None,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Propose a decision that needs more than one person. Safe to repeat.

    Another person approves it within 24 hours, with the printed command.

    With --account or --all-of, it proposes for many cases, as in `settle limbo resolve`.

    Example: settle limbo propose order-2026-000101 write-off --reason "the payee is insolvent"
    Example: settle limbo propose write-off --account merchant.shop-9 --reason "it is insolvent"
    """
    if many.is_of_many(account, error, seen=seen, case=case):
        decision = many.decision_alone(words)
        many.order("propose", decision, (account, error), seen, stack, as_json=as_json, reason=reason)
    key, decision = many.key_and_decision(words)

    from settle.orders import proposing as proposal

    console.print_record(proposal.propose(find(stack), key, decision, reason, case), as_json)


@app.command("approve")
def approve(
    *,
    words: KeyAndProposed,
    case: ShownCase = None,
    part: ShownPart = None,
    amount: ShownAmount = None,
    digest: Digest = None,
    account: OfAccount = None,
    error: OfError = None,
    seen: Seen = None,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Approve another person's proposal, of a decision or a reversal. Safe to repeat.

    Paste the command that `settle limbo show` or `settle status` prints: the stage compares all its values.

    With --account or --all-of, it approves every open proposal of a decision. The dry run prints the command
    with --seen. That command approves exactly the shown proposals.

    Exit code 0: done, or one more person must approve. 5: stuck again.

    Example: settle limbo approve order-2026-000101 write-off --case 1 --amount 47.72 --digest $DIGEST
    Example: settle limbo approve write-off --account merchant.shop-9
    """
    of_one = {"case": case, "part": part, "amount": amount, "digest": digest}
    if many.is_of_many(account, error, seen=seen, **of_one):
        many.order("approve", many.decision_alone(words), (account, error), seen, stack, as_json=as_json)
    key, decision = many.key_and_proposed(words)

    from settle.orders import proposing as proposal

    shown = {name: value for name, value in of_one.items() if value is not None}
    result = proposal.approve(find(stack), key, {"decision": decision, **shown})
    console.print_record(result, as_json)
    raise typer.Exit(Exit.LIMBO if result.get("status") == Status.LIMBO else Exit.FINE)


@app.command("withdraw")
def withdraw(
    *,
    words: KeyAndProposed,
    digest: Digest = None,
    account: OfAccount = None,
    error: OfError = None,
    seen: Seen = None,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Withdraw a proposal, yours or another person's. Safe to repeat.

    With --account or --all-of, it withdraws every open proposal of a decision, as in `settle limbo approve`.

    Example: settle limbo withdraw order-2026-000101 write-off --digest $DIGEST
    Example: settle limbo withdraw write-off --account merchant.shop-9
    """
    if many.is_of_many(account, error, seen=seen, digest=digest):
        many.order("withdraw", many.decision_alone(words), (account, error), seen, stack, as_json=as_json)
    key, decision = many.key_and_proposed(words)
    if digest is None:
        raise CommandFailed(Exit.USAGE, "digest: missing; or give a decision, and --account or --all-of")

    from settle.orders import proposing as proposal

    console.print_record(
        proposal.withdraw(find(stack), key, {"decision": decision, "digest": digest}), as_json
    )
