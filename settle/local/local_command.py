import shlex
from typing import Annotated

import typer

from settle.commands.options import AsJson
from settle.exit_codes import CommandFailed, Exit
from settle.local import needs_extra
from settle.local.record import Running
from settle.output import console

app = typer.Typer(no_args_is_help=True, help="The embedded local AWS.")


@app.command("up")
def up(
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="The port to listen on; by default a free one.")
    ] = None,
    ledger: Annotated[
        bool, typer.Option("--ledger", help="Also run a PostgreSQL with finance's books.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start the embedded AWS and deploy the app to it, unless both are done. Safe to repeat.

    Example: settle local up --ledger
    """
    with needs_extra("settle local up"):
        from settle.local import embedded_aws
    from settle.output.progress import progress

    with progress() as report:
        running = embedded_aws.up(report, port, ledger=ledger)
    console.print_record(running.describe(), as_json)


@app.command("deploy")
def deploy(
    app: Annotated[str, typer.Argument(help="The command that runs your CDK app, as for cdk deploy --app.")],
    as_json: AsJson = False,
) -> None:
    """Deploy your own CDK app to the embedded AWS, from this folder; its sagas run there as they are.

    Example: settle local deploy 'python3 app.py'
    """
    with needs_extra("settle local deploy"):
        from settle.local import deployment, kyc_provider
        from settle.local.lock import locked
    from pathlib import Path

    from settle.stack import sagas_of

    running = _running("settle local deploy")
    with locked():
        stacks = deployment.deploy_app(running, app, Path.cwd())
        kyc_provider.share_secrets(running)
    found = ((stack, saga) for stack, outputs in stacks.items() for saga in sagas_of(outputs))
    sagas = [f"{stack}/{saga}" if saga else stack for stack, saga in found]
    if not sagas:
        raise CommandFailed(Exit.NOT_FOUND, f"app: {app} is deployed, and has no saga")
    console.print_record({"stacks": sorted(stacks), "sagas": sorted(sagas)}, as_json)


@app.command("down")
def down(as_json: AsJson = False) -> None:
    """Stop the embedded AWS and remove everything on it."""
    with needs_extra("settle local down"):
        from settle.local import embedded_aws

    console.print_record({"stopped": embedded_aws.down()}, as_json)


@app.command("status")
def status(as_json: AsJson = False) -> None:
    """Show the addresses of the embedded AWS."""
    console.print_record(_running("settle local status").describe(), as_json)


@app.command("env")
def env() -> None:
    """Print shell variables that point AWS's tools and the examples to the embedded AWS.

    Example: eval "$(settle local env)"
    """
    for name, value in _running("settle local env").variables().items():
        print(f"export {name}={shlex.quote(value)}")


def _running(command: str) -> Running:
    with needs_extra(command):
        from settle.local import presence

    running = presence.running()
    if running is None:
        raise CommandFailed(Exit.NOT_FOUND, presence.absence())
    return running
