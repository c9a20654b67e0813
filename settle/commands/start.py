"""`settle start`."""

from typing import Annotated

import typer

from settle.commands.options import AsJson, StackName
from settle.exit_codes import Exit
from settle.machines import Machine
from settle.request_file import read_requests


def start(
    file: Annotated[str, typer.Argument(help="A request, or one on each line; - reads standard input.")],
    machine: Annotated[Machine, typer.Option(help="The machine that runs it.")] = Machine.EXPRESS,
    queue: Annotated[
        bool, typer.Option("--queue", help="Send them to the start queue, and wait for none.")
    ] = False,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Settle the requests of a file, one after the other, and wait for each.

    Every line is checked to be JSON before the first is sent.
    The exit code is the gravest answer's. 7: still in flight, as with --queue; wait for it with `settle wait
    KEY`, or hear of it with `settle events tail --key KEY`.

    Example: settle start payments.jsonl --stack settlement-prod
    """
    requests = read_requests(file)

    from settle.actions.start import send, start_code
    from settle.actions.start import start as start_one
    from settle.output import console, tables
    from settle.stack import find

    target, codes = find(stack), []
    if queue:
        for request in requests:
            console.note(f"{send(target, request)}: sent to the start queue")
        raise typer.Exit(Exit.IN_FLIGHT)
    for request in requests:
        ended = start_one(target, machine, request)
        tables.started(ended.describe(), as_json)
        codes.append(start_code(ended))
    raise typer.Exit(max(codes, key=lambda code: code.gravity))
