"""Shared arguments and options, checked before any look-up."""

from typing import TYPE_CHECKING, Annotated

import typer

from settle.arguments import check_account, check_customer, check_key
from settle.exit_codes import CommandFailed, Exit
from settle.placeholder import refuse_placeholder

if TYPE_CHECKING:
    from settle.stack import Stack


def find(stack: str | None) -> "Stack":
    """Return the stack that `--stack` names. The late import of boto3 keeps `--help` quick."""
    from settle import stack as stacks

    return stacks.find(stack)


def is_csv(as_csv: bool, as_sheet: bool, as_json: bool = False) -> bool:
    if as_csv + as_sheet + as_json > 1:
        raise CommandFailed(Exit.USAGE, "csv: give one of --csv, --spreadsheet and --json")
    return as_csv or as_sheet


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
Since = Annotated[str, typer.Option(metavar="WHEN", help="The start (ISO 8601), or an age (90m, 2h, 30d).")]
Until = Annotated[
    str | None,
    typer.Option(metavar="WHEN", help="The end, exclusive (ISO 8601), or an age; by default now."),
]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV with unchanged fields, for programs.")]
AsSheet = Annotated[
    bool,
    typer.Option("--spreadsheet", help="Print CSV for a spreadsheet, with ' before a text like a formula."),
]
StackName = Annotated[
    str | None, typer.Option("--stack", help="A deployed stack on AWS; by default the embedded one.")
]
Key = Annotated[str, typer.Argument(callback=check_key, help="The settlement's idempotency key.")]
Customer = Annotated[str, typer.Argument(callback=check_customer, help="The id of a customer's account.")]
Account = Annotated[
    str,
    typer.Argument(
        callback=check_account, help="The id of an account, such as fees:EUR for the fees in EUR."
    ),
]
Reason = Annotated[
    str, typer.Option(callback=refuse_placeholder, help="The reason; goes on record with your AWS identity.")
]
Against = Annotated[
    str | None,
    typer.Option(
        "--against",
        help="Also compare with the sealed journal: stack, s3://BUCKET/PREFIX or a directory with a copy.",
    ),
]
Archive = Annotated[
    str | None,
    typer.Option(
        "--archive",
        help="Add expired entries from the sealed journal: stack, s3://BUCKET/PREFIX or a directory.",
    ),
]
Head = Annotated[
    str | None, typer.Option("--head", help="The digest of an earlier seal, which the journal must have.")
]
