"""`settle start`."""

from typing import Annotated

import typer

from settle.commands.options import AsJson, StackName
from settle.machines import Machine
from settle.request_file import read_requests


def start(
    file: Annotated[str, typer.Argument(help="A request, or one on each line; - reads standard input.")],
    machine: Annotated[Machine, typer.Option(help="The machine that runs it.")] = Machine.EXPRESS,
    stack: StackName = None,
    as_json: AsJson = False,
) -> None:
    """Settle the requests of a file, one after the other, and wait for each.

    Every line is checked to be JSON before the first is sent.
    The exit code is the gravest answer's. 7: still in flight; wait for it with `settle wait KEY`.

    Example: settle start payments.jsonl --stack settlement-prod
    """
    requests = read_requests(file)

    from settle.actions.start import start as start_one
    from settle.actions.start import start_code
    from settle.output import tables
    from settle.stack import find

    target, codes = find(stack), []
    for request in requests:
        ended = start_one(target, machine, request)
        tables.started(ended.describe(), as_json)
        codes.append(start_code(ended))
    raise typer.Exit(max(codes, key=lambda code: code.gravity))
