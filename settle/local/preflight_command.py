from typing import Annotated

import typer

from settle.commands.options import AsJson
from settle.local import preflight_output


def preflight(
    stage: Annotated[str, typer.Option("--stage", help="The stage to deploy, such as prod.")],
    context: Annotated[
        list[str] | None,
        typer.Option("-c", "--context", metavar="NAME=VALUE", help="As for cdk deploy: kyc_url=https://…"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check before a deployment whether the account has everything for the stage.

    It only reads, and lists the missing steps. Run it in a checkout, with your AWS credentials and region.
    Exit code 1: something is missing, or could not be checked.

    Example: settle preflight --stage dev -c kyc_url=https://kyc.example.com
    """
    from settle.exit_codes import Exit
    from settle.local import preflight as asked

    found = asked.findings(stage, context or [])
    preflight_output.preflight(found, as_json)
    if not all(one["verdict"] == "fine" for one in found):
        raise typer.Exit(Exit.FAILED)
