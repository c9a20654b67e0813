from typing import Annotated

import typer

from settle.commands.options import AsJson
from settle.local import preflight_output


def preflight(
    stage: Annotated[str | None, typer.Option("--stage", help="The stage to deploy, such as prod.")] = None,
    app: Annotated[
        str | None,
        typer.Option("--app", help="Your own CDK app: its command, as for cdk deploy, or cdk.out."),
    ] = None,
    stack: Annotated[
        str | None, typer.Option("--stack", metavar="STACK/SAGA", help="One of the app's several sagas.")
    ] = None,
    context: Annotated[
        list[str] | None,
        typer.Option("-c", "--context", metavar="NAME=VALUE", help="As for cdk deploy: kyc_url=https://…"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check before a deployment whether the account has everything for a stage, or a saga of your app.

    It only reads, and lists the missing steps. It uses your AWS credentials and region.
    Exit code 1: something is missing, or could not be checked.

    Example: settle preflight --app 'python3 app.py'
    """
    from settle.exit_codes import CommandFailed, Exit
    from settle.local import preflight as asked

    if (stage is None) == (app is None) or (stack and not app):
        raise CommandFailed(Exit.USAGE, "preflight: give --stage STAGE, or --app APP for a saga of your own")
    if app is not None:
        found = asked.findings_of_app(app, stack, context or [])
    else:
        found = asked.findings(str(stage), context or [])
    preflight_output.preflight(found, as_json)
    if not all(one["verdict"] == "fine" for one in found):
        raise typer.Exit(Exit.FAILED)
