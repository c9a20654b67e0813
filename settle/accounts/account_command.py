from collections.abc import Callable
from typing import Annotated

import typer

from settle.accounts import account_output
from settle.arguments import check_key
from settle.commands.options import (
    Account,
    Archive,
    AsCsv,
    AsJson,
    AsSheet,
    Customer,
    Reason,
    StackName,
    find,
    is_csv,
)
from settle.output import console, sheet
from settlement.accounts.order import OrderKind

app = typer.Typer(no_args_is_help=True, help="Accounts.")

_Currency = Annotated[str, typer.Option(help="ISO 4217 code, or an asset of the stage.")]
_Amount = Annotated[str, typer.Argument(help="A decimal string.")]
_Reference = Annotated[str, typer.Option(help="The bank's or your own name of the movement.")]
_OrderKey = Annotated[
    str | None,
    typer.Option(
        "--key",
        callback=lambda key: None if key is None else check_key(key),
        help="The order's idempotency key, to repeat the order; by default a new one, which is printed.",
    ),
]


@app.command("open")
def open_account(
    account: Customer,
    currency: _Currency,
    deposit: Annotated[str, typer.Option(help="First deposit, a decimal string.")] = "0",
    reason: Annotated[str | None, typer.Option(help="The reason; goes on record.")] = None,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Open a customer's account with a first deposit. Safe to repeat.

    Example: settle account open dora --currency EUR --deposit 100.00
    """
    from settle.accounts import accounts

    why = accounts.OPENS if reason is None else reason
    opened = accounts.open_account(find(stack), account, currency, deposit, reason=why)
    account_output.account(opened, as_json)


def _moving(order: OrderKind) -> Callable[..., None]:
    def give(
        account: Customer,
        amount: _Amount,
        currency: _Currency,
        reference: _Reference,
        reason: Reason,
        key: _OrderKey = None,
        stack: StackName = None,
        as_json: AsJson = False,
    ) -> None:
        moved = {"amount": amount, "currency": currency, "reference": reference}
        _give(order, account, reason, key, stack, as_json=as_json, **moved)

    return give


def _plain(order: OrderKind) -> Callable[..., None]:
    def give(
        account: Customer,
        reason: Reason,
        key: _OrderKey = None,
        stack: StackName = None,
        as_json: AsJson = False,
    ) -> None:
        _give(order, account, reason, key, stack, as_json=as_json)

    return give


_MOVING = {
    OrderKind.DEPOSIT: """Move money from outside into an account. Safe to repeat with the same key.

    Example: settle account deposit dora 50.00 --currency EUR --reference bank-0001 --reason "top-up"
    """,
    OrderKind.WITHDRAW: """Move money from an account to the outside. Safe to repeat with the same key.

    Example: settle account withdraw dora 50.00 --currency EUR --reference bank-0002 --reason "payout"
    """,
}
_PLAIN = {
    OrderKind.FREEZE: """Stop an account from paying. It may still receive, and give back in a reversal.

    Example: settle account freeze dora --reason "reported as stolen"
    """,
    OrderKind.UNFREEZE: """End the freeze of an account.

    Example: settle account unfreeze dora --reason "the owner has called"
    """,
    OrderKind.CLOSE: """
    Close an empty account for good. A reversal may still credit it, and a withdrawal empty it again.

    Example: settle account close dora --reason "the customer has left"
    """,
}
for _order, _help in _MOVING.items():
    app.command(_order, help=_help)(_moving(_order))
for _order, _help in _PLAIN.items():
    app.command(_order, help=_help)(_plain(_order))


@app.command("show")
def show(
    account: Account,
    archive: Archive = None,
    references: Annotated[
        bool,
        typer.Option(help="Show each payment's reference, or the bank's line, at a row read for each."),
    ] = True,
    as_csv: AsCsv = False,
    as_sheet: AsSheet = False,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Show an account's balance and statement. Fees are on `fees:<CURRENCY>`.

    `sum` is the running total by entry time. The order of the commits may differ. --archive adds expired
    entries. Exit code 1: an entry is unreadable. It is named and left out of the sums.

    Example: settle account show fees:EUR --stack settlement-prod
    """
    in_csv = is_csv(as_csv, as_sheet, as_json)

    from settle.accounts import statement

    shown = statement.show(find(stack), account, archive, with_references=references)
    if in_csv:
        lines = (one | {"currency": shown["currency"]} for one in shown["entries"])
        sheet.show([lines], statement.FIELDS, statement.NUMBERS, guarded=as_sheet)
    else:
        account_output.account(shown, as_json)
    console.name_unreadable(shown.get("unreadable", ()))


def _give(
    order: OrderKind,
    account: str,
    reason: str,
    key: str | None,
    stack: str | None,
    *,
    as_json: bool,
    **moved: str,
) -> None:
    from settle.accounts import accounts

    target = find(stack)
    if key is None:
        key = accounts.mint(order)
        console.note(f"{order}: its key is {key}; to repeat this very order, add --key {key}")
    answer = accounts.give(target, order, key=key, account=account, reason=reason, **moved)
    account_output.account_order(answer, as_json)
