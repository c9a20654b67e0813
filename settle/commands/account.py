"""`settle account`: open, show, sweep."""

from typing import Annotated

import typer

from settle.commands.options import Account, AsJson, Customer, StackName

app = typer.Typer(no_args_is_help=True, help="Accounts.")


@app.command("open")
def open_account(
    account: Customer,
    currency: Annotated[str, typer.Option(help="ISO 4217 code, or an asset of the stage.")],
    deposit: Annotated[str, typer.Option(help="First deposit, a decimal string.")] = "0",
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Open a customer's account with a first deposit. Safe to repeat.

    Example: settle account open dora --currency EUR --deposit 100.00
    """
    from settle.actions import accounts
    from settle.output import tables
    from settle.stack import find

    tables.account(accounts.open_account(find(stack), account, currency, deposit), as_json)


@app.command("show")
def show(account: Account, stack: StackName = None, as_json: AsJson = False) -> None:
    """Show an account's balance and statement; fees are on `fees:<CURRENCY>`.

    `sum` adds up the entries in the order of their times, which is not always the order of their commits.

    Example: settle account show fees:EUR --stack settlement-prod
    """
    from settle.output import tables
    from settle.queries import statement
    from settle.stack import find

    tables.account(statement.show(find(stack), account), as_json)


@app.command("sweep")
def sweep(
    merchant: Customer,
    since: Annotated[str | None, typer.Option(help="Only what was posted from this minute on.")] = None,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Make available what a merchant has received and no sweep has reached. Safe to repeat.

    Example: settle account sweep merchant.shop --since 2026-11-22T06:04
    """
    from settle.actions import sweep as by_hand
    from settle.output import tables
    from settle.stack import find

    tables.swept(by_hand.sweep(find(stack), merchant, since), as_json)
