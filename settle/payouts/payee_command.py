from typing import Annotated

import typer

from settle.commands.options import AsJson, Reason, StackName, find
from settle.exit_codes import CommandFailed, Exit
from settlement.payouts.payout import DESTINATION

app = typer.Typer(no_args_is_help=True, help="Bank accounts that payouts may go to.")


def _checked(name: str) -> str:
    if not DESTINATION.fullmatch(name):
        raise CommandFailed(Exit.USAGE, f"id: must match ^{DESTINATION.pattern}$")
    return name


Id = Annotated[str, typer.Argument(metavar="ID", callback=_checked, help="The payee's id.")]
Account = Annotated[str, typer.Option(help="The customer's account that may pay to it.")]
Iban = Annotated[str, typer.Option(help="The IBAN, with blanks or without.")]
Holder = Annotated[str, typer.Option(help="The name of the bank account's holder.")]


@app.command("add")
def add(
    *,
    name: Id,
    account: Account,
    iban: Iban,
    holder: Holder,
    reason: Reason,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Add a payee's bank account. Safe to repeat. Nothing is paid to it before another person confirms it.

    Example: settle payee add flat-9 --account dora --iban DE89370400440532013000 --holder "Ida" --reason r
    """
    from settle.payouts import payee_orders, payee_output

    given = {"id": name, "account": account, "iban": payee_orders.typed_iban(iban), "holder": holder}
    payee_output.payee(payee_orders.add(find(stack), given | {"reason": reason}), as_json)


@app.command("confirm")
def confirm(
    *,
    name: Id,
    account: Account,
    iban: Iban,
    holder: Holder,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Confirm a bank account that another person has added. Safe to repeat.

    Type all from the payee's own papers. It is payable after the stage's delay.

    Example: settle payee confirm flat-9 --account dora --iban DE89370400440532013000 --holder "Ida"
    """
    from settle import instants
    from settle.payouts import payee_orders, payee_output

    typed = {"id": name, "account": account, "iban": payee_orders.typed_iban(iban), "holder": holder}
    payee_output.payee(payee_orders.confirm(find(stack), typed, instants.now()), as_json)


@app.command("freeze")
def freeze(name: Id, stack: StackName = None, as_json: AsJson = False) -> None:
    """Stop payouts to a bank account, for good. Payouts that are not sent yet become cases.

    Example: settle payee freeze flat-9 --stack settlement-prod
    """
    from settle.payouts import payee_orders, payee_output

    payee_output.payee(payee_orders.freeze(find(stack), name), as_json)


@app.command("show")
def show(name: Id, stack: StackName = None, as_json: AsJson = False) -> None:
    """Show a payee's bank account, and who added, confirmed and froze it.

    Example: settle payee show flat-9 --stack settlement-prod
    """
    from settle import instants
    from settle.payouts import payee, payee_output

    payee_output.payee(payee.show(find(stack), name, instants.now()), as_json)
